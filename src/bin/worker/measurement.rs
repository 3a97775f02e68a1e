//! What was really done, as the protocol says it.

use orchestrate::job::{DataSource, Precision};
use orchestrate::protocol::{Details, Effective, MEASUREMENT_SCHEMA, WireMeasurement};
use tch::Kind;

use super::arguments::Training;
use super::batches::Loading;
use super::device::OpenDevice;
use super::output::Iteration;
use super::shim::{self, Flags};

/// Everything read back after the window.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Where it ran.
    pub(crate) device: OpenDevice,
    /// The network's name.
    pub(crate) model: &'static str,
    /// The arithmetic, by [`effective_precision`].
    pub(crate) precision: Precision,
    /// libtorch's global flags.
    pub(crate) flags: Flags,
    /// Whether all feature maps and weights were in NHWC order.
    pub(crate) channels_last: bool,
    /// Compute threads.
    pub(crate) threads: u32,
    /// Elements of all trainable tensors.
    pub(crate) parameters: usize,
    /// The optimizer, as a phrase.
    pub(crate) optimizer: String,
    /// Where the images came from.
    pub(crate) source: DataSource,
    /// How they were loaded, if they were.
    pub(crate) loading: Option<Loading>,
    /// Seconds of the window.
    pub(crate) elapsed_s: f64,
    /// Seconds since the Unix epoch at the window's start.
    pub(crate) started_at: Option<f64>,
    /// Seconds from the process's start to the first step.
    pub(crate) startup_s: f64,
    /// The most bytes the accelerator's allocator held within the window.
    pub(crate) peak_memory: Option<u64>,
    /// The loss of the first step of all.
    pub(crate) first_loss: Option<f64>,
    /// The window's iterations.
    pub(crate) iterations: Vec<Iteration>,
}

/// The arithmetic of which a network's output of this `kind` gives evidence. On the processor `amp` and `bf16` are the
/// same arithmetic, and the evidence is for the one asked for.
pub(crate) fn effective_precision(requested: Precision, kind: Kind, tf32: bool) -> Precision {
    match kind {
        Kind::BFloat16 if requested == Precision::Amp => Precision::Amp,
        Kind::BFloat16 => Precision::Bf16,
        Kind::Half => Precision::Amp,
        _ if tf32 => Precision::Tf32,
        _ => Precision::Fp32,
    }
}

impl Observed {
    /// The measurement.
    pub(crate) fn measurement(&self, training: &Training) -> WireMeasurement {
        let iterations = u32::try_from(self.iterations.len()).unwrap_or(u32::MAX);
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

    fn effective(&self, training: &Training, iterations: u32) -> Effective {
        let cuda = self.device.capability.is_some();
        Effective {
            device: self.device.device,
            precision: self.precision,
            batch: training.batch_size,
            model: Some(self.model.to_owned()),
            tf32: Some(self.flags.tf32),
            iters: Some(iterations),
            warmup: Some(training.warmup_iters),
            data: Some(self.source.clone()),
            loader_workers: self.loading.map(|loading| loading.workers),
            prefetch_factor: self.loading.map(|loading| loading.prefetch_factor),
            pin_memory: self.loading.map(|loading| loading.pin_memory),
            augment: self.loading.map(|loading| loading.augment),
            channels_last: Some(self.channels_last),
            grad_accum_steps: Some(training.grad_accum_steps),
            nvtx: Some(training.nvtx),
            deterministic: Some(self.flags.deterministic),
            cudnn_benchmark: Some(cuda && self.flags.cudnn_benchmark),
            threads: Some(self.threads),
            seed: Some(training.seed),
            input_size: Some(training.input_size),
            classes: Some(training.classes),
        }
    }

    fn details(&self) -> Details {
        Details {
            data_wait_s: Some(self.iterations.iter().map(|iteration| iteration.data_wait_s).sum()),
            startup_s: Some(self.startup_s),
            window_started_at: self.started_at,
            first_loss: self.first_loss.filter(|loss| loss.is_finite()),
            last_loss: self.iterations.last().map(|iteration| iteration.loss).filter(|loss| loss.is_finite()),
            parameters: u64::try_from(self.parameters).ok(),
            peak_device_memory_bytes: self.peak_memory,
            dataset_images: self.loading.map(|loading| loading.images),
            unreadable_images: self.loading.map(|loading| loading.unreadable),
            device_name: Some(self.device.name.clone()),
            device_uuid: self.device.uuid.clone(),
            optimizer: Some(self.optimizer.clone()),
            versions: shim::versions().collect(),
        }
    }

    /// One line for a person.
    pub(crate) fn summary(&self, training: &Training) -> String {
        let label = training.label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
        let images = f64::from(training.batch_size) * self.iterations.len() as f64;
        format!(
            "{label}{model} {precision} batch {batch} on {device} with {threads} threads: {rate:.2} images/s",
            model = self.model,
            precision = self.precision,
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
    fn precision_is_what_the_output_gives_evidence_of() {
        use Precision::{Amp, Bf16, Fp32, Tf32};
        for (requested, kind, tf32, effective) in [
            (Fp32, Kind::Float, false, Fp32),
            (Fp32, Kind::Float, true, Tf32),
            (Tf32, Kind::Float, false, Fp32),
            (Amp, Kind::BFloat16, false, Amp),
            (Amp, Kind::Half, false, Amp),
            (Amp, Kind::Float, false, Fp32),
            (Bf16, Kind::BFloat16, false, Bf16),
            (Bf16, Kind::Float, false, Fp32),
        ] {
            assert_eq!(effective_precision(requested, kind, tf32), effective, "{requested} {kind:?} {tf32}");
        }
    }
}
