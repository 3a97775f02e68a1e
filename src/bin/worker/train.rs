//! Training: warm-up, then one synchronised window around all measured iterations.

#![expect(clippy::disallowed_methods, reason = "a worker measures time")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use orchestrate::job::Device;
use orchestrate::protocol::Progress;
use tch::{Kind, Reduction, Tensor};

use super::arguments::Training;
use super::batches::{Batch, Batches};
use super::device::OpenDevice;
use super::failure::WorkerError;
use super::measurement::{Observed, effective_precision};
use super::model::{Layout, Model};
use super::optimizer::Optimizer;
use super::output::{self, Iteration, Reporter};
use super::request::{self, Request};
use super::shim::{self, Autocast, Flags, Half};
use super::{process, settings};

/// The NVTX range around the window; what a profiler is told to look at.
const RANGE: &str = "orchestrate";

/// Losses waiting on the device to be gathered into one tensor.
const LOSSES_TOGETHER: usize = 256;

/// Trains as the command line says and writes the results. `started` is when `main` began.
///
/// # Errors
/// Whatever keeps it from a measurement.
pub(crate) fn run(training: &Training, started: Instant) -> Result<(), WorkerError> {
    settings::prepare_environment(training)?;
    let mut reporter = Reporter::default();
    reporter.tell(Progress::Preparing);
    let request = Request::parse(training)?;
    let device = OpenDevice::open(request.backend)?;
    request::check_device(training, request.precision, device.device, device.capability)?;
    shim::keep_memory();
    settings::set_threads(training.threads);
    settings::set_flags(training, request.precision, device.device)?;
    let mut trainer = Trainer::new(training, &request, device)?;
    let startup_s = process::seconds_since_start(started);
    let warmup = trainer
        .iterate(training.warmup_iters, |done, of| reporter.tell(Progress::Warmup { done, of }))?
        .read()?;
    let window = trainer.measure(training, &mut reporter)?;
    let observed = trainer.observe(&request, startup_s, &warmup, window)?;
    if let Some(path) = &training.iterations_out {
        output::write_iterations(path, &observed.iterations)?;
    }
    output::write_measurement(training.out.as_deref(), &observed.measurement(training))?;
    eprintln!("{}", observed.summary(training));
    Ok(())
}

/// Everything a training step needs.
struct Trainer {
    device: OpenDevice,
    half: Option<Half>,
    model: Model,
    optimizer: Optimizer,
    batches: Batches,
    accumulate: u32,
    /// The kind of the network's output, as the last step saw it.
    output_kind: Kind,
}

/// The measured window, its losses still on the device.
struct Window {
    elapsed_s: f64,
    started_at: Option<f64>,
    stretch: Stretch,
    peak_memory: Option<u64>,
}

impl Trainer {
    /// Makes network, optimizer and data ready.
    fn new(training: &Training, request: &Request, device: OpenDevice) -> Result<Self, WorkerError> {
        // What the command line takes is at most i64::MAX.
        tch::manual_seed(i64::try_from(training.seed).unwrap_or(i64::MAX));
        let half = request::half(request.precision, device.device);
        let mut model = Model::new(&request.network, device.tch(), training.channels_last)?;
        if let Some(file) = &training.weights {
            model.load_weights(file)?;
        }
        let optimizer = Optimizer::new(model.parameters(), half == Some(Half::Float16))?;
        let batches = Batches::open(training, &device)?;
        let accumulate = training.grad_accum_steps;
        Ok(Trainer { device, half, model, optimizer, batches, accumulate, output_kind: Kind::Float })
    }

    /// Trains for `count` iterations. The last one always ends with an optimizer step, so that gradients never reach
    /// from the warm-up into the window.
    fn iterate(&mut self, count: u32, mut tell: impl FnMut(u32, u32)) -> Result<Stretch, WorkerError> {
        let mut stretch = Stretch::default();
        for done in 1..=count {
            let start = Instant::now();
            let batch = self.batches.next()?;
            let data_wait_s = start.elapsed().as_secs_f64();
            let loss = self.forward_backward(&batch)?;
            if done % self.accumulate == 0 || done == count {
                self.optimizer.step()?;
            }
            self.batches.recycle(batch);
            tell(done, count);
            stretch.push(start.elapsed().as_secs_f64(), data_wait_s, loss)?;
        }
        Ok(stretch)
    }

    /// Forward, loss, backward; returns the loss, still on the device.
    fn forward_backward(&mut self, batch: &Batch) -> Result<Tensor, WorkerError> {
        let loss = {
            let _autocast = self.half.map(|half| Autocast::begin(self.device.tch(), half)).transpose()?;
            let output = self.model.forward(batch.images(), true)?;
            self.output_kind = output.f_kind()?;
            output.f_cross_entropy_loss(batch.labels(), None::<Tensor>, Reduction::Mean, -100, 0.0)?
        };
        self.optimizer.backward(&loss, 1.0 / f64::from(self.accumulate))?;
        Ok(loss.f_detach()?)
    }

    /// The window: synchronised, all iterations, synchronised.
    fn measure(&mut self, training: &Training, reporter: &mut Reporter) -> Result<Window, WorkerError> {
        let accelerator = self.device.device != Device::Cpu;
        self.device.synchronize()?;
        let counted = accelerator && shim::reset_peak_memory();
        let range = training.nvtx.then(|| shim::Range::begin(RANGE)).transpose()?;
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs_f64());
        let start = Instant::now();
        let stretch =
            self.iterate(training.iters, |done, of| reporter.tell(Progress::Measure { done, of }))?;
        self.device.synchronize()?;
        let elapsed_s = start.elapsed().as_secs_f64();
        drop(range);
        let peak_memory = counted.then(shim::peak_memory).flatten();
        Ok(Window { elapsed_s, started_at, stretch, peak_memory })
    }

    /// Reads back what was really done.
    fn observe(
        &self,
        request: &Request,
        startup_s: f64,
        warmup: &[Iteration],
        window: Window,
    ) -> Result<Observed, WorkerError> {
        let Window { elapsed_s, started_at, stretch, peak_memory } = window;
        let flags = Flags::get()?;
        let iterations = stretch.read()?;
        Ok(Observed {
            device: self.device.clone(),
            model: request.network.name(),
            precision: effective_precision(request.precision, self.output_kind, flags.tf32),
            flags,
            channels_last: self.model.feature_maps() == Some(Layout::ChannelsLast),
            threads: settings::threads(),
            parameters: self.model.parameters().iter().map(Tensor::numel).sum(),
            optimizer: self.optimizer.describe(),
            source: self.batches.source(),
            loading: self.batches.loading(),
            elapsed_s,
            started_at,
            startup_s,
            peak_memory,
            first_loss: warmup.first().or(iterations.first()).map(|iteration| iteration.loss),
            iterations,
        })
    }
}

/// Consecutive iterations, their losses still on the device.
#[derive(Default)]
struct Stretch {
    times: Vec<(f64, f64)>,
    /// Losses one by one, and those gathered already.
    pending: Vec<Tensor>,
    gathered: Vec<Tensor>,
}

impl Stretch {
    fn push(&mut self, elapsed_s: f64, data_wait_s: f64, loss: Tensor) -> Result<(), WorkerError> {
        self.times.push((elapsed_s, data_wait_s));
        self.pending.push(loss);
        // On an accelerator a lone number takes a block of memory; reading it back would wait for the device.
        if self.pending.len() == LOSSES_TOGETHER {
            self.gather()?;
        }
        Ok(())
    }

    fn gather(&mut self) -> Result<(), WorkerError> {
        if !self.pending.is_empty() {
            self.gathered.push(Tensor::f_stack(&self.pending, 0)?);
            self.pending.clear();
        }
        Ok(())
    }

    /// Reads the losses back.
    fn read(mut self) -> Result<Vec<Iteration>, WorkerError> {
        self.gather()?;
        let mut losses: Vec<f64> = Vec::with_capacity(self.times.len());
        for tensor in &self.gathered {
            let tensor = tensor.f_to_device_(tch::Device::Cpu, Kind::Float, false, false)?;
            losses.extend(Vec::<f32>::try_from(tensor)?.into_iter().map(f64::from));
        }
        let iterations = self.times.into_iter().zip(losses);
        Ok(iterations
            .map(|((elapsed_s, data_wait_s), loss)| Iteration { elapsed_s, data_wait_s, loss })
            .collect())
    }
}
