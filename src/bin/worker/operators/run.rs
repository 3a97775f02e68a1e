//! Runs the profiled iterations.

#![expect(clippy::disallowed_methods, reason = "a worker measures time")]

use std::time::Instant;

use orchestrate::job::Device;
use orchestrate::protocol::OperatorProfile;

use super::super::failure::{self, WorkerError};
use super::super::shim::{Clock, ReadyProfiler};
use super::super::stretch::Stretch;
use super::super::train::Trainer;
use super::profile::{Iterations, profile};
use super::recording::Recording;

impl Trainer {
    /// Trains for `asked` iterations, rounded up to whole optimizer steps, and profiles them. A failure is only a
    /// warning, because the measurement is valid without a profile.
    pub(crate) fn profile(&mut self, asked: u32) -> Option<OperatorProfile> {
        let profiled = self.try_profile(asked);
        profiled
            .inspect_err(|error| {
                eprintln!("warning: operators are not profiled: {}", failure::one_line(error));
            })
            .ok()
    }

    /// As [`Trainer::profile`].
    ///
    /// # Errors
    /// Errors of the data or of libtorch, or nothing was recorded.
    pub(crate) fn try_profile(&mut self, asked: u32) -> Result<OperatorProfile, WorkerError> {
        let clock = match self.device.device {
            Device::Cpu => Clock::Host,
            Device::Cuda(_) => Clock::Kernels,
            Device::Mps => Clock::Waits,
        };
        let (mut recording, mut iterations) = self.record_operators(clock, asked)?;
        if clock == Clock::Kernels && recording.kernels.is_empty() {
            if iterations.are_replays {
                let lack = "CUPTI recorded no kernels, and a CUDA graph has no operators".to_owned();
                return Err(WorkerError::Torch(lack));
            }
            (recording, iterations) = self.record_operators(Clock::Events, asked)?;
        }
        if recording.operators.is_empty() {
            return Err(WorkerError::Torch("libtorch's profiler recorded nothing".to_owned()));
        }
        Ok(profile(&recording, &iterations))
    }

    /// Records the operators of `asked` iterations, with the device synchronised on both sides.
    fn record_operators(&mut self, clock: Clock, asked: u32) -> Result<(Recording, Iterations), WorkerError> {
        let count = asked.next_multiple_of(self.accumulate());
        let profiler = ReadyProfiler::new(clock)?;
        // CUPTI is slow in the first iteration.
        self.train_for(self.accumulate())?;
        self.device.synchronize()?;
        let profiler = profiler.begin()?;
        let start = Instant::now();
        let trained = self.marked(|trainer| trainer.train_for(count))?;
        self.device.synchronize()?;
        let elapsed_s = start.elapsed().as_secs_f64();
        let recording = Recording::parse(&profiler.end()?)?;
        let trained = trained.read()?;
        let (data_wait_s, are_replays) = (trained.data_wait_s(), trained.are_replays() == Some(true));
        Ok((recording, Iterations { clock, count, elapsed_s, data_wait_s, are_replays }))
    }

    fn train_for(&mut self, count: u32) -> Result<Stretch, WorkerError> {
        let stretch = Stretch::begin(&self.device, false);
        self.iterate(count, stretch, |_, _| ())
    }
}
