//! What was really done, as the protocol says it.

use orchestrate::job::{DataSource, Device, Optimizer, PARAMETERS, Precision};
use orchestrate::protocol::{Details, Effective, MEASUREMENT_SCHEMA, Setting, WireMeasurement};
use tch::Kind;

use super::arguments::Training;
use super::batches::Loading;
use super::device::OpenDevice;
use super::process;
use super::shim::{self, EffectiveFlags, Half, PeakMemory};
use super::stretch::Iterations;

/// What a forward pass computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arithmetic {
    /// The kind of the network's output.
    pub(crate) output: Kind,
    /// What autocast computed in, as libtorch had it behind the last layer; `None` if it was off.
    pub(crate) autocast: Option<Half>,
}

/// Everything read back after the window.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Where it ran.
    pub(crate) device: OpenDevice,
    /// The network's name.
    pub(crate) model: &'static str,
    /// The arithmetic asked for.
    pub(crate) requested: Precision,
    /// That of the last forward pass.
    pub(crate) arithmetic: Arithmetic,
    /// libtorch's global flags.
    pub(crate) flags: EffectiveFlags,
    /// Whether all feature maps and weights were in NHWC order.
    pub(crate) channels_last: bool,
    /// Compute threads.
    pub(crate) threads: u32,
    /// Elements of all trainable tensors.
    pub(crate) parameters: usize,
    /// The optimizer's rule.
    pub(crate) optimizer: Optimizer,
    /// The optimizer, as a phrase.
    pub(crate) optimizer_settings: String,
    /// What the loss is multiplied by after the window, if it is.
    pub(crate) loss_scale: Option<f64>,
    /// Where the images came from.
    pub(crate) source: DataSource,
    /// How they were loaded, if they were.
    pub(crate) loading: Option<Loading>,
    /// Seconds of the window.
    pub(crate) elapsed_s: f64,
    /// Seconds since the Unix epoch at the window's start.
    pub(crate) started_at: Option<f64>,
    /// Seconds from the process's start to the first step.
    pub(crate) first_step_s: Option<f64>,
    /// The most bytes of the accelerator's memory within the window.
    pub(crate) peak_memory: PeakMemory,
    /// The loss of the first step of all.
    pub(crate) first_loss: Option<f64>,
    /// The window's iterations.
    pub(crate) iterations: Iterations,
}

/// The precision of which a forward pass gives evidence: half precision if autocast was on and the network's output is of
/// its type. On the processor `amp` and `bf16` are the same arithmetic, and the evidence is for the one asked for.
/// `rounds` is whether libtorch was allowed to round single precision on this device.
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
        let iterations = u32::try_from(self.iterations.all.len()).unwrap_or(u32::MAX);
        WireMeasurement {
            schema: MEASUREMENT_SCHEMA,
            failure: None,
            samples: Some(u64::from(iterations) * u64::from(training.batch_size)),
            elapsed_s: Some(self.elapsed_s),
            // `Trainer::measure` waits for the device on both sides.
            synchronized: Some(true),
            effective: Some(self.effective(training, iterations)),
            details: self.details(),
        }
    }

    fn on_cuda(&self) -> bool {
        matches!(self.device.device, Device::Cuda(_))
    }

    fn precision(&self) -> Precision {
        let rounds = self.flags.rounds(self.on_cuda());
        effective_precision(self.requested, self.device.device, self.arithmetic, rounds)
    }

    fn effective(&self, training: &Training, iterations: u32) -> Effective {
        let settings = PARAMETERS.iter().filter_map(|parameter| {
            Some((parameter.name, self.setting(parameter.name, training, iterations)?))
        });
        Effective {
            device: self.device.device,
            precision: self.precision(),
            batch: training.batch_size,
            model: Some(self.model.to_owned()),
            tf32: Some(self.flags.rounds(self.on_cuda())),
            settings: settings.collect(),
        }
    }

    /// The effective value of the parameter `name`; `None` if it had no effect. `tests/training.rs` fails for a
    /// parameter that has an effect and is not reported.
    fn setting(&self, name: &str, training: &Training, iterations: u32) -> Option<Setting> {
        let flags = self.flags.flags;
        // Without threads that prepare batches, none is prepared ahead.
        let ahead = self.loading.filter(|loading| loading.workers > 0);
        Some(match name {
            "iters" => iterations.into(),
            "warmup" => training.warmup_iters.into(),
            "data" => Setting::from(&self.source),
            "loader_workers" => self.loading?.workers.into(),
            "prefetch_factor" => ahead?.prefetch_factor.into(),
            "pin_memory" => self.loading?.pin_memory.into(),
            "augment" => self.loading?.augment.into(),
            "strict" => self.loading?.strict.into(),
            "channels_last" => self.channels_last.into(),
            "grad_accum_steps" => training.grad_accum_steps.into(),
            "optimizer" => self.optimizer.as_str().into(),
            "nvtx" => training.has_range().into(),
            "deterministic" => flags.deterministic.into(),
            "cudnn_benchmark" => (self.on_cuda() && flags.cudnn_benchmark).into(),
            "threads" => self.threads.into(),
            "seed" => training.seed.into(),
            "input_size" => training.input_size.into(),
            "classes" => training.classes.into(),
            _ => return None,
        })
    }

    fn details(&self) -> Details {
        let capability = self.device.capability;
        let last_loss = self.iterations.all.last().map(|iteration| iteration.loss);
        Details {
            data_wait_s: Some(self.iterations.data_wait_s()),
            first_step_s: self.first_step_s,
            window_started_at: self.started_at,
            first_loss: self.first_loss.filter(|loss| loss.is_finite()),
            last_loss: last_loss.filter(|loss| loss.is_finite()),
            first_non_finite_iteration: self.iterations.first_non_finite(),
            optimizer_steps: Some(self.iterations.steps),
            loss_scale: self.loss_scale,
            iteration_clock: Some(self.iterations.clock),
            autocast: Some(self.arithmetic.autocast.map_or("off", Half::as_str).to_owned()),
            float32: self.flags.float32().collect(),
            parameters: u64::try_from(self.parameters).ok(),
            peak_device_memory_bytes: self.peak_memory.held,
            peak_device_allocated_bytes: self.peak_memory.taken,
            peak_host_memory_bytes: process::peak_host_memory(),
            dataset_images: self.loading.map(|loading| loading.images),
            unreadable_images: self.loading.map(|loading| loading.unreadable),
            device_name: Some(self.device.name.clone()),
            device_uuid: self.device.uuid.clone(),
            compute_capability: capability.map(|(major, minor)| format!("{major}.{minor}")),
            optimizer: Some(self.optimizer_settings.clone()),
            versions: shim::versions().collect(),
        }
    }

    /// One line for a person.
    pub(crate) fn summary(&self, training: &Training) -> String {
        let label = training.label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
        let images = f64::from(training.batch_size) * self.iterations.all.len() as f64;
        format!(
            "{label}{model} {precision} batch {batch} on {device} with {threads} threads: {rate:.2} images/s",
            model = self.model,
            precision = self.precision(),
            batch = training.batch_size,
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
    fn precision_is_what_the_forward_pass_gives_evidence_of() {
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
            let arithmetic = Arithmetic { output, autocast };
            let found = effective_precision(requested, device, arithmetic, rounds);
            assert_eq!(found, effective, "{requested} on {device}: {arithmetic:?} {rounds}");
        }
    }
}
