//! Trains a small network in every precision, memory layout and optimizer, and compares its course with the
//! reference.

use std::time::Instant;

use orchestrate::job::{Device, Optimizer, Precision};

use super::comparison::Comparison;
use super::course::{Course, Scaled};
use super::reference::{References, Start};
use super::session::{Clock, Found, Halt};
use crate::arguments::{Arguments, Training};
use crate::device::{self, OpenDevice};
use crate::model::Rounding;
use crate::recorded::{self, ITERATIONS_BEFORE};
use crate::request::{self, Request};
use crate::settings;
use crate::shim::Half;
use crate::stretch::{Iterations, Stretch};
use crate::train::Trainer;

/// A network with convolutions, batch normalisation and sums of branches, and a batch that is small but gives its last
/// normalisation enough values.
const NETWORK: &str = "--arch resnet18 --input-size 64 --classes 10 --batch-size 8";

/// Iterations that are compared.
const ITERATIONS: usize = 4;

/// Iterations that a CUDA graph trains, after those that precede the recording.
const REPLAYS: usize = 2;

/// The most steps that a loss scale may skip: it starts at 65536 and is 1 after so many halvings.
const MOST_SKIPPED: usize = 16;

/// The device and the shared state of the checks.
pub(super) struct Lab {
    /// The device that is tested.
    pub(super) device: OpenDevice,
    /// The time that is left.
    pub(super) clock: Clock,
    /// When `main` began.
    pub(super) started: Instant,
    /// The expected courses of trainings.
    pub(super) references: References,
}

impl Lab {
    /// The device, if it is a CUDA device.
    ///
    /// # Errors
    /// [`Halt::Unsupported`] for `reason` if it is another one.
    pub(super) fn cuda(&self, reason: &str) -> Result<tch::Device, Halt> {
        match self.device.device {
            Device::Cuda(_) => Ok(self.device.tch()),
            Device::Cpu | Device::Mps => Err(Halt::Unsupported(reason.to_owned())),
        }
    }
}

/// One way to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    precision: Precision,
    channels_last: bool,
    optimizer: Optimizer,
}

impl Way {
    /// All of them.
    pub(super) fn all() -> Vec<Way> {
        let mut ways = Vec::new();
        for precision in Precision::ALL {
            for channels_last in [false, true] {
                for optimizer in [Optimizer::Sgd, Optimizer::AdamW] {
                    ways.push(Way { precision, channels_last, optimizer });
                }
            }
        }
        ways
    }

    /// The name of its check: `training bf16 nhwc adamw`.
    pub(super) fn name(self) -> String {
        let layout = if self.channels_last { "nhwc" } else { "nchw" };
        format!("training {} {layout} {}", self.precision, self.optimizer)
    }

    /// The flags of a training of this kind.
    fn flags(self, device: &OpenDevice) -> String {
        let Way { precision, optimizer, channels_last } = self;
        let layout = if channels_last { " --channels-last" } else { "" };
        let device = device.device;
        format!(
            "{NETWORK} --backend {device} --precision {precision} --optimizer {optimizer} --iters 1{layout}"
        )
    }

    /// Trains in this way, and compares the course.
    ///
    /// # Errors
    /// [`Halt::Unsupported`] if the device cannot train so.
    pub(super) fn check(self, lab: &mut Lab) -> Found {
        let training = training(&self.flags(&lab.device))?;
        let request = Request::parse(&training)?;
        let mut trainer = open(&training, &request, lab)?;
        let found = train(&mut trainer, ITERATIONS, lab.clock)?;
        let window = trainer.measure(&training, |_, _| ())?;
        let observed = trainer.observe(&request, &found.last, window)?;
        let rounding = match request::half(self.precision, lab.device.device) {
            Some(Half::Float16) => Rounding::Float16,
            Some(Half::Bfloat16) => Rounding::Bfloat16,
            None if self.precision == Precision::Tf32 => Rounding::Tf32,
            None => Rounding::Single,
        };
        let expected = lab.references.of(&training, &request, rounding, ITERATIONS, lab.clock)?;
        let course = expected.compare(&found.course).ok_or_else(|| {
            Halt::NotRun("rounding errors alone could hide a mistake, so nothing would be shown".to_owned())
        })?;
        let mut compared = vec![
            Comparison::equal("precision", observed.precision().as_str(), self.precision.as_str()),
            Comparison::equal("channels-last", observed.channels_last, self.channels_last),
            Comparison::equal("optimizer", observed.optimizer.as_str(), self.optimizer.as_str()),
        ];
        if observed.loss_scale.is_some() {
            compared.push(Comparison::at_most("skipped steps", found.skipped as f64, MOST_SKIPPED as f64));
        }
        compared.extend(course);
        Ok(compared)
    }
}

/// Trains with a recorded step, and compares the course. In a separate thread, because it submits its work to
/// another stream from then on.
pub(super) fn recorded_step(lab: &mut Lab) -> Found {
    lab.cuda("CUDA graphs are CUDA's")?;
    let thread = |lab: &Lab| std::thread::scope(|scope| scope.spawn(|| recorded_course(lab)).join());
    thread(lab).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn recorded_course(lab: &Lab) -> Found {
    let way = Way { precision: Precision::Fp32, channels_last: false, optimizer: Optimizer::Sgd };
    let flags = format!("{} --cuda-graph --warmup-iters {}", way.flags(&lab.device), ITERATIONS_BEFORE + 1);
    let training = training(&flags)?;
    let request = Request::parse(&training)?;
    recorded::prepare(&training)?;
    let mut trainer = open(&training, &request, lab)?;
    let steps = ITERATIONS_BEFORE as usize + REPLAYS;
    let found = train(&mut trainer, steps, lab.clock)?;
    let expected = References::default()
        .of(&training, &request, Rounding::Single, steps, lab.clock)?
        .compare(&found.course);
    let mut compared = vec![Comparison::equal("replays", found.replays as f64, REPLAYS as f64)];
    match expected {
        // A loss and a distance for each step, up to those of the last replay.
        Some(course) if course.len() == 2 * steps => compared.extend(course),
        _ => return Err(Halt::NotRun("rounding errors alone could hide a mistake in a replay".to_owned())),
    }
    Ok(compared)
}

/// The training that `flags` ask for, as on the command line.
pub(super) fn training(flags: &str) -> Result<Training, Halt> {
    let words = std::iter::once("worker").chain(flags.split_whitespace());
    let arguments = Arguments::read(words).map_err(|error| Halt::Failed(error.to_string()))?;
    Ok(arguments.training)
}

/// A trainer on the lab's device, with all flags set.
///
/// # Errors
/// [`Halt::Unsupported`] if the device cannot train so.
pub(super) fn open(training: &Training, request: &Request, lab: &Lab) -> Result<Trainer, Halt> {
    let OpenDevice { device, capability, .. } = lab.device;
    request::check_device(training, request.precision, device, capability)?;
    request::check_layout(training, &request.network, device, device::macos_version())?;
    settings::set_flags(training, request.precision, device)?;
    Ok(Trainer::new(training, request, lab.device.clone(), lab.started)?)
}

/// The result of a training.
struct Trained {
    /// The iterations whose steps were taken.
    course: Course,
    /// Steps that the loss scale skipped.
    skipped: usize,
    /// Iterations that a CUDA graph trained.
    replays: u64,
    /// The last iteration.
    last: Iterations,
}

/// Trains until the optimizer has taken `steps` steps. A step that the loss scale skips leaves all weights as they
/// were, so the next iteration has the same loss, and only one of them counts.
fn train(trainer: &mut Trainer, steps: usize, clock: Clock) -> Result<Trained, Halt> {
    let (mut course, mut skipped, mut replays) = (Course::default(), 0, 0);
    let start = Start::of(trainer.parameters())?;
    loop {
        clock.go_on()?;
        let before = trainer.loss_scale()?;
        let last = trainer.iterate(1, Stretch::begin(&trainer.device, false), |_, _| ())?.read()?;
        replays += last.replays;
        if (Scaled { before, after: trainer.loss_scale()? }).is_skipped() {
            skipped += 1;
        } else {
            course.losses.push(last.all[0].loss);
            course.distances.push(start.distance(trainer.parameters())?);
        }
        if course.losses.len() == steps || skipped > MOST_SKIPPED {
            return Ok(Trained { course, skipped, replays, last });
        }
    }
}
