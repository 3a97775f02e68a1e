//! Consecutive iterations: their times, and their losses while these are still on the device.

use orchestrate::protocol::IterationClock;
use tch::{Kind, Tensor};

use super::device::OpenDevice;
use super::failure::WorkerError;
use super::output::Iteration;
use super::shim::Events;

/// Losses that are gathered into one tensor at a time.
const LOSSES_TOGETHER: usize = 256;

/// Consecutive iterations whose losses are still on the device.
#[derive(Debug)]
pub(crate) struct Stretch {
    clock: IterationClock,
    /// Marks between the iterations, if the device has events.
    events: Option<Events>,
    times: Vec<(f64, f64)>,
    /// Single losses, and those already gathered.
    pending: Vec<Tensor>,
    gathered: Vec<Tensor>,
    copy_s: f64,
    images: u64,
    steps: u64,
    longest_step: u32,
    replays: u64,
}

/// A stretch whose times and losses were read back.
#[derive(Debug)]
pub(crate) struct Iterations {
    /// The iterations, in order.
    pub(crate) all: Vec<Iteration>,
    /// The clock of their seconds.
    pub(crate) clock: IterationClock,
    /// Seconds that the host took to copy batches to the device.
    pub(crate) copy_s: f64,
    /// Images in their batches.
    pub(crate) images: u64,
    /// Optimizer steps among them.
    pub(crate) steps: u64,
    /// The most iterations whose gradients one optimizer step used.
    pub(crate) longest_step: u32,
    /// Iterations that a CUDA graph trained.
    pub(crate) replays: u64,
}

impl Stretch {
    /// Begins a stretch. If it is `timed` and the device has events, its times are those of the device.
    pub(crate) fn begin(device: &OpenDevice, timed: bool) -> Self {
        let on_host = device.device == orchestrate::job::Device::Cpu;
        // Without events, the times are less accurate, and their clock says so. The window is measured all the same.
        let events = if timed && !on_host { Events::begin(device.tch()).ok() } else { None };
        let clock = match events {
            _ if on_host => IterationClock::Host,
            Some(_) => IterationClock::DeviceEvents,
            None => IterationClock::Submission,
        };
        let (times, pending, gathered) = (Vec::new(), Vec::new(), Vec::new());
        let (copy_s, images, steps, longest_step, replays) = (0.0, 0, 0, 0, 0);
        Stretch { clock, events, times, pending, gathered, copy_s, images, steps, longest_step, replays }
    }

    /// Counts the images of a batch.
    pub(crate) fn count_images(&mut self, images: u32) {
        self.images += u64::from(images);
    }

    /// Adds the seconds that the host took to copy a batch to the device.
    pub(crate) fn count_copy(&mut self, seconds: f64) {
        self.copy_s += seconds;
    }

    /// Counts an optimizer step that used the gradients of this many iterations.
    pub(crate) fn count_step(&mut self, iterations: u32) {
        self.steps += 1;
        self.longest_step = self.longest_step.max(iterations);
    }

    /// Counts an iteration that a CUDA graph trains.
    pub(crate) fn count_replay(&mut self) {
        self.replays += 1;
    }

    /// Adds an iteration: its seconds and its wait for data, both by the host's clock, and its loss.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn push(&mut self, elapsed_s: f64, data_wait_s: f64, loss: Tensor) -> Result<(), WorkerError> {
        if self.events.as_mut().is_some_and(|events| events.record().is_err()) {
            self.forget_events();
        }
        self.times.push((elapsed_s, data_wait_s));
        self.pending.push(loss);
        // On an accelerator, each single number takes a block of memory, and reading it back would wait for the device.
        if self.pending.len() == LOSSES_TOGETHER {
            self.gather()?;
        }
        Ok(())
    }

    /// Reads back times and losses. The device must have finished all its work.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn read(mut self) -> Result<Iterations, WorkerError> {
        self.gather()?;
        if let Some(events) = self.events.take() {
            match events.seconds(self.times.len()) {
                Ok(seconds) => {
                    for (time, seconds) in self.times.iter_mut().zip(seconds) {
                        time.0 = seconds;
                    }
                }
                Err(_) => self.forget_events(),
            }
        }
        let mut losses: Vec<f64> = Vec::with_capacity(self.times.len());
        for tensor in &self.gathered {
            let tensor = tensor.f_to_device_(tch::Device::Cpu, Kind::Float, false, false)?;
            losses.extend(Vec::<f32>::try_from(tensor)?.into_iter().map(f64::from));
        }
        let iterations = self.times.into_iter().zip(losses);
        let all = iterations
            .map(|((elapsed_s, data_wait_s), loss)| Iteration { elapsed_s, data_wait_s, loss })
            .collect();
        let Stretch { clock, copy_s, images, steps, longest_step, replays, .. } = self;
        Ok(Iterations { all, clock, copy_s, images, steps, longest_step, replays })
    }

    fn gather(&mut self) -> Result<(), WorkerError> {
        if !self.pending.is_empty() {
            self.gathered.push(Tensor::f_stack(&self.pending, 0)?);
            self.pending.clear();
        }
        Ok(())
    }

    /// Drops the events. The remaining times are the host's, which only cover the submission of the work.
    fn forget_events(&mut self) {
        self.events = None;
        self.clock = IterationClock::Submission;
    }
}

impl Iterations {
    /// The iterations per optimizer step. `None` if there was one step, of fewer iterations than `asked`: the end cut
    /// it short, so its full length is unknown.
    pub(crate) fn for_each_step(&self, asked: u32) -> Option<u32> {
        let is_cut_short = self.steps == 1 && self.longest_step < asked;
        (!is_cut_short).then_some(self.longest_step)
    }

    /// The first iteration, counted from 0, whose loss is infinite or not a number.
    pub(crate) fn first_non_finite(&self) -> Option<u64> {
        let first = self.all.iter().position(|iteration| !iteration.loss.is_finite())?;
        u64::try_from(first).ok()
    }

    /// Whether a CUDA graph trained all of them; `None` if there are none.
    pub(crate) fn are_replays(&self) -> Option<bool> {
        let count = u64::try_from(self.all.len()).ok().filter(|count| *count > 0)?;
        Some(self.replays == count)
    }

    /// The total wait for data, in seconds.
    pub(crate) fn data_wait_s(&self) -> f64 {
        self.all.iter().map(|iteration| iteration.data_wait_s).sum()
    }
}

#[cfg(test)]
mod tests {
    use orchestrate::job::Device;

    use super::*;

    fn device(device: Device) -> OpenDevice {
        OpenDevice { device, name: "test".into(), uuid: None, capability: None }
    }

    fn push(stretch: &mut Stretch, losses: &[f32]) {
        for loss in losses {
            stretch.push(0.5, 0.125, Tensor::from(*loss)).unwrap();
        }
    }

    #[test]
    fn losses_come_back_in_their_order() {
        let mut stretch = Stretch::begin(&device(Device::Cpu), true);
        let losses: Vec<f32> = (0..600_u16).map(f32::from).collect();
        push(&mut stretch, &losses);
        for iterations in [2, 3, 1] {
            stretch.count_step(iterations);
        }
        stretch.count_images(8);
        stretch.count_images(4);
        stretch.count_copy(0.25);
        stretch.count_copy(0.5);
        let read = stretch.read().unwrap();
        assert_eq!((read.clock, read.all.len()), (IterationClock::Host, 600));
        assert_eq!((read.steps, read.longest_step, read.images), (3, 3, 12));
        assert!(read.all.iter().zip(losses).all(|(iteration, loss)| iteration.loss == f64::from(loss)));
        assert_eq!((read.data_wait_s(), read.copy_s), (75.0, 0.75));
        assert_eq!(read.first_non_finite(), None);
    }

    #[test]
    fn the_end_cuts_a_step_short() {
        let read = |steps: &[u32]| {
            let mut stretch = Stretch::begin(&device(Device::Cpu), true);
            steps.iter().for_each(|iterations| stretch.count_step(*iterations));
            stretch.read().unwrap()
        };
        for (steps, asked, seen) in [
            (&[4, 4, 2][..], 4, Some(4)),
            (&[1, 1, 1], 4, Some(1)),
            (&[4], 4, Some(4)),
            (&[2], 4, None),
            (&[2], 1, Some(2)),
        ] {
            assert_eq!(read(steps).for_each_step(asked), seen, "{steps:?}, {asked} asked for");
        }
    }

    #[test]
    fn the_first_loss_that_is_not_finite_is_found() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut stretch = Stretch::begin(&device(Device::Cpu), true);
            push(&mut stretch, &[6.9, 7.1, bad, f32::NAN]);
            assert_eq!(stretch.read().unwrap().first_non_finite(), Some(2), "{bad}");
        }
    }

    /// Without an accelerator, its events fail, and its times are those of the submission.
    #[test]
    fn a_device_without_events_is_not_called_synchronised() {
        if tch::utils::has_mps() {
            return;
        }
        let accelerator = device(Device::Mps);
        let mut stretch = Stretch::begin(&accelerator, true);
        push(&mut stretch, &[1.0]);
        let read = stretch.read().unwrap();
        assert_eq!(read.clock, IterationClock::Submission);
        assert_eq!(read.all[0].elapsed_s, 0.5);
    }
}
