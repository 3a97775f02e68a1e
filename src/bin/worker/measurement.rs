//! What was effectively trained and measured, in the terms of the protocol.

use orchestrate::job::{DataSource, Device, Optimizer, PARAMETERS, Parameter, Precision};
use orchestrate::protocol::{
    Details, Effective, MEASUREMENT_SCHEMA, PROFILES_OPERATORS, SampleUnit, Setting, Settings,
    WireMeasurement,
};
use tch::{Kind, TchError, Tensor};

use super::arguments::Training;
use super::batches::Loading;
use super::device::OpenDevice;
use super::model::Products;
use super::parameters::Parameters;
use super::process;
use super::shim::{self, EffectiveFlags, Half, PeakMemory};
use super::stretch::Iterations;

/// The arithmetic of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arithmetic {
    /// The type of the network's output.
    pub(crate) output: Kind,
    /// The type of autocast, read from libtorch behind the last layer; `None` if it was off.
    pub(crate) autocast: Option<Half>,
    /// The implementation of bfloat16 products on the processor; `None` for other arithmetics and devices.
    pub(crate) products: Option<Products>,
}

/// The sizes of what goes through a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shapes {
    /// Images in the batch.
    pub(crate) batch: u32,
    /// Height of the images, in pixels.
    pub(crate) input_size: u32,
    /// Numbers per image from the last layer.
    pub(crate) classes: u32,
}

impl Shapes {
    /// The sizes of a forward pass from `images` (batch × 3 × height × width) to `output` (batch × classes).
    ///
    /// # Errors
    /// Either tensor has other dimensions.
    pub(crate) fn of(images: &Tensor, output: &Tensor) -> Result<Self, TchError> {
        let (batch, _, height, _) = images.size4()?;
        let (_, classes) = output.size2()?;
        let [batch, input_size, classes] =
            [batch, height, classes].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        Ok(Shapes { batch, input_size, classes })
    }
}

/// Everything read back after the window.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The device that it ran on.
    pub(crate) device: OpenDevice,
    /// The network's name.
    pub(crate) model: &'static str,
    /// The requested arithmetic.
    pub(crate) requested: Precision,
    /// The arithmetic of the last forward pass.
    pub(crate) arithmetic: Arithmetic,
    /// The sizes of the last forward pass.
    pub(crate) shapes: Shapes,
    /// The seed of libtorch's generator.
    pub(crate) seed: u64,
    /// Whether an NVTX range marked the window.
    pub(crate) has_range: bool,
    /// Iterations before the window.
    pub(crate) warmup: usize,
    /// libtorch's global flags.
    pub(crate) flags: EffectiveFlags,
    /// Whether all feature maps and weights were in NHWC order.
    pub(crate) channels_last: bool,
    /// Compute threads.
    pub(crate) threads: u32,
    /// Elements of all trainable tensors.
    pub(crate) parameters: usize,
    /// Iterations per optimizer step. `None` if the end cut the only step short, so that its full length is unknown.
    pub(crate) grad_accum_steps: Option<u32>,
    /// The optimizer's rule.
    pub(crate) optimizer: Optimizer,
    /// The optimizer and its constants, as a phrase.
    pub(crate) optimizer_settings: String,
    /// The loss scale after the window, if there is one.
    pub(crate) loss_scale: Option<f64>,
    /// Where the images came from.
    pub(crate) source: DataSource,
    /// How they were loaded; `None` for synthetic data.
    pub(crate) loading: Option<Loading>,
    /// Length of the window, in seconds.
    pub(crate) elapsed_s: f64,
    /// Start of the window, in seconds since the Unix epoch.
    pub(crate) started_at: Option<f64>,
    /// Seconds from the start of the process to the first step.
    pub(crate) first_step_s: Option<f64>,
    /// The accelerator's peak memory inside the window.
    pub(crate) peak_memory: PeakMemory,
    /// How often this process was preempted within the window.
    pub(crate) involuntary_switches: Option<u64>,
    /// The loss of the very first step.
    pub(crate) first_loss: Option<f64>,
    /// The window's iterations.
    pub(crate) iterations: Iterations,
}

/// The precision that a forward pass proves: half precision if autocast was on and the network's output has its type.
/// On the CPU, `amp` and `bf16` are the same arithmetic, so the requested one counts as proved. `rounds` says whether
/// libtorch was allowed to round single precision on this device.
fn effective_precision(
    requested: Precision,
    device: Device,
    arithmetic: Arithmetic,
    rounds: bool,
) -> Precision {
    match (arithmetic.autocast, arithmetic.output) {
        (Some(Half::Bfloat16), Kind::BFloat16) if device == Device::Cpu && requested == Precision::Amp => {
            Precision::Amp
        }
        (Some(Half::Bfloat16), Kind::BFloat16) => Precision::Bf16,
        (Some(Half::Float16), Kind::Half) => Precision::Amp,
        _ if rounds => Precision::Tf32,
        _ => Precision::Fp32,
    }
}

impl Observed {
    /// The measurement.
    pub(crate) fn measurement(&self, training: &Training) -> WireMeasurement {
        let (settings, repeated) = self.settings(&training.parameters);
        WireMeasurement {
            schema: MEASUREMENT_SCHEMA,
            failure: None,
            samples: Some(self.iterations.images),
            elapsed_s: Some(self.elapsed_s),
            // `Trainer::measure` waits for the device on both sides.
            synchronized: Some(true),
            effective: Some(self.effective(settings).into()),
            unit: Some(SampleUnit::IMAGES),
            metrics: Default::default(),
            ops: None,
            details: Details { repeated: Some(repeated), ..self.details() }.into(),
        }
    }

    fn on_cuda(&self) -> bool {
        matches!(self.device.device, Device::Cuda(_))
    }

    /// The precision that the last forward pass proves.
    pub(crate) fn precision(&self) -> Precision {
        let rounds = self.flags.rounds(self.on_cuda());
        effective_precision(self.requested, self.device.device, self.arithmetic, rounds)
    }

    fn effective(&self, settings: Settings) -> Effective {
        Effective {
            device: self.device.device,
            precision: self.precision(),
            batch: self.shapes.batch,
            model: Some(self.model.to_owned()),
            tf32: Some(self.flags.rounds(self.on_cuda())),
            settings,
        }
    }

    /// The effective value of every parameter that has an effect, and the names of those that are only repeated from
    /// the flags, because nothing shows their effect.
    fn settings(&self, asked: &Parameters) -> (Settings, Vec<String>) {
        let (mut settings, mut repeated) = (Settings::default(), Vec::new());
        for parameter in PARAMETERS.iter().copied().filter(|parameter| asked.has_effect(*parameter)) {
            let name = parameter.name();
            if let Some(setting) = self.read_back(parameter) {
                settings.set(name, setting);
            } else if let Some(value) = asked.value(parameter) {
                settings.set(name, Setting::from(&value));
                repeated.push(name.to_owned());
            }
        }
        (settings, repeated)
    }

    /// The observed value of `parameter`; `None` if it cannot be observed. Requested values are not used here: a value
    /// that only repeats it must be `None`.
    ///
    /// `tests/parameters.rs` compares what is `None` here with what the table calls
    /// [`orchestrate::job::Reported::Repeated`].
    fn read_back(&self, parameter: Parameter) -> Option<Setting> {
        let flags = self.flags.flags;
        Some(match parameter {
            Parameter::Warmup => self.warmup.into(),
            Parameter::Iters => self.iterations.all.len().into(),
            Parameter::Data => Setting::from(&self.source),
            Parameter::LoaderWorkers => self.loading?.threads.into(),
            Parameter::PrefetchFactor => self.loading?.prefetched()?.into(),
            Parameter::PinMemory => self.loading?.pinned.into(),
            Parameter::CopyStream => self.loading?.aside.into(),
            Parameter::Uint8Images => self.loading?.bytes.into(),
            Parameter::Augment => self.loading?.augmented.into(),
            // Only an image that cannot be decoded would show its effect.
            Parameter::Strict => return None,
            Parameter::ChannelsLast => self.channels_last.into(),
            Parameter::GradAccumSteps => self.grad_accum_steps?.into(),
            Parameter::Optimizer => self.optimizer.as_str().into(),
            Parameter::Nvtx => self.has_range.into(),
            Parameter::Deterministic => flags.deterministic.into(),
            Parameter::CudnnBenchmark => (self.on_cuda() && flags.cudnn_benchmark).into(),
            Parameter::CudaGraph => self.iterations.are_replays()?.into(),
            Parameter::Threads => self.threads.into(),
            Parameter::Seed => self.seed.into(),
            Parameter::InputSize => self.shapes.input_size.into(),
            Parameter::Classes => self.shapes.classes.into(),
        })
    }

    fn details(&self) -> Details {
        let capability = self.device.capability;
        let last_loss = self.iterations.all.last().map(|iteration| iteration.loss);
        Details {
            data_wait_s: Some(self.iterations.data_wait_s()),
            copy_s: Some(self.iterations.copy_s),
            profiles: vec![PROFILES_OPERATORS.to_owned()],
            involuntary_switches: self.involuntary_switches,
            first_step_s: self.first_step_s,
            window_started_at: self.started_at,
            first_loss: self.first_loss.filter(|loss| loss.is_finite()),
            last_loss: last_loss.filter(|loss| loss.is_finite()),
            first_non_finite_iteration: self.iterations.first_non_finite(),
            optimizer_steps: Some(self.iterations.steps),
            loss_scale: self.loss_scale,
            iteration_clock: Some(self.iterations.clock),
            autocast: Some(self.arithmetic.autocast.map_or("off", Half::as_str).to_owned()),
            bf16_products: self.arithmetic.products.map(|products| products.as_str().to_owned()),
            float32: self.flags.float32().collect(),
            parameters: u64::try_from(self.parameters).ok(),
            // orchestrate counts them layer by layer, from the description that this network was built from.
            flops_per_sample: None,
            counted_flops_per_sample: None,
            uncounted_operators: Vec::new(),
            evaluation_share: None,
            peak_device_memory_bytes: self.peak_memory.held,
            peak_device_allocated_bytes: self.peak_memory.taken,
            peak_host_memory_bytes: process::peak_host_memory(),
            dataset_images: self.loading.map(|loading| loading.images),
            unreadable_images: self.loading.map(|loading| loading.unreadable),
            device_name: Some(self.device.name.clone()),
            device_uuid: self.device.uuid.clone(),
            compute_capability: capability.map(|(major, minor)| format!("{major}.{minor}")),
            optimizer: Some(self.optimizer_settings.clone()),
            repeated: None,
            ranks: Vec::new(),
            slowest_rank: None,
            versions: shim::versions().collect(),
        }
    }

    /// A summary for people, on one line.
    pub(crate) fn summary(&self, training: &Training) -> String {
        let label = training.label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
        let images = self.iterations.images as f64;
        format!(
            "{label}{model} {precision} batch {batch} on {device} with {threads} threads: {rate:.2} images/s",
            model = self.model,
            precision = self.precision(),
            batch = self.shapes.batch,
            device = self.device.device,
            threads = self.threads,
            rate = images / self.elapsed_s,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_is_inferred_from_the_forward_pass() {
        use Precision::{Amp, Bf16, Fp32, Tf32};
        let (cpu, cuda) = (Device::Cpu, Device::Cuda(0));
        let (bfloat16, float16) = (Some(Half::Bfloat16), Some(Half::Float16));
        for (requested, device, output, autocast, rounds, effective) in [
            (Fp32, cpu, Kind::Float, None, false, Fp32),
            (Fp32, cuda, Kind::Float, None, true, Tf32),
            (Tf32, cuda, Kind::Float, None, false, Fp32),
            (Tf32, cuda, Kind::Float, None, true, Tf32),
            (Amp, cpu, Kind::BFloat16, bfloat16, false, Amp),
            (Amp, cuda, Kind::BFloat16, bfloat16, false, Bf16),
            (Amp, cuda, Kind::Half, float16, false, Amp),
            (Amp, Device::Mps, Kind::Half, float16, false, Amp),
            (Amp, cuda, Kind::Half, None, false, Fp32),
            (Amp, cuda, Kind::Float, float16, false, Fp32),
            (Bf16, cpu, Kind::BFloat16, bfloat16, false, Bf16),
            (Bf16, cuda, Kind::Float, None, false, Fp32),
        ] {
            let arithmetic = Arithmetic { output, autocast, products: None };
            let found = effective_precision(requested, device, arithmetic, rounds);
            assert_eq!(found, effective, "{requested} on {device}: {arithmetic:?} {rounds}");
        }
    }
}
