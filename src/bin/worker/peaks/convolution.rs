//! Convolutions of random numbers: the layers of residual networks, forward. The rate of the best one is nearer to
//! the attainable rate of training than that of a matrix product.

#![expect(clippy::disallowed_methods, reason = "a worker measures time")]

use std::fmt;
use std::time::Instant;

use orchestrate::job::Device;
use orchestrate::protocol::{ConvolutionSample, MemoryFormat, Operands};
use tch::{Kind, TchError, Tensor, no_grad_guard};

use super::super::device::OpenDevice;
use super::super::failure::WorkerError;
use super::super::model::in_format;
use super::gemm::{self, Wanted};
use super::print::print_progress;
use super::timing::{self, Timings};

/// Input channels, output channels, size of the image, and size of the kernel: of the stages of ResNet-50.
const LAYERS: [(u32, u32, u32, u32); 5] =
    [(64, 64, 56, 3), (128, 128, 28, 3), (256, 256, 14, 3), (256, 64, 56, 1), (1024, 256, 14, 1)];

/// Images on a processor.
const BATCH: u32 = 16;

/// Images on an accelerator, which is faster and needs more of them to be busy.
const ACCELERATOR_BATCH: u32 = 128;

/// All tensors of a layer together take at most one part in this many of the free memory.
const SHARE_OF_FREE_MEMORY: u64 = 4;

/// Timings of each convolution in the first turn.
const FIRST_TIMINGS: usize = 2;

/// The number of convolutions that are timed repeatedly at the end.
const FINALISTS: usize = 2;

/// The most timings of one convolution: more would not improve the result.
const MOST_TIMINGS: usize = 30;

/// A convolution with stride 1 that keeps rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layer {
    batch: u32,
    input_channels: u32,
    output_channels: u32,
    size: u32,
    kernel: u32,
    format: MemoryFormat,
}

impl Layer {
    /// Two operations for each weight at each place of the output. At the edges, products with the zeros around the
    /// image count as well, as in the counts of whole networks.
    fn flops(self) -> f64 {
        let weights = self.input_channels * self.output_channels * self.kernel * self.kernel;
        2.0 * f64::from(self.batch) * f64::from(self.size).powi(2) * f64::from(weights)
    }

    /// Numbers of its input, weights and output.
    fn numbers(self) -> u64 {
        let [batch, input, output, size, kernel] =
            [self.batch, self.input_channels, self.output_channels, self.size, self.kernel].map(u64::from);
        batch * (input + output) * size * size + input * output * kernel * kernel
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layer { batch, input_channels, output_channels, size, kernel, format } = self;
        write!(f, "convolution {kernel} × {kernel} from {input_channels} to {output_channels} channels of ")?;
        write!(f, "{size} × {size}, {batch} images, {format}")
    }
}

/// A layer and its timings: seconds per convolution.
#[derive(Clone, Debug, PartialEq)]
struct Trial {
    layer: Layer,
    seconds: Vec<f64>,
}

/// A layer with its tensors.
struct Convolution {
    layer: Layer,
    images: Tensor,
    weights: Tensor,
}

impl Convolution {
    fn random(layer: Layer, operands: Operands, device: tch::Device) -> Result<Self, TchError> {
        let Layer { batch, input_channels, output_channels, size, kernel, format } = layer;
        let random = |shape: [u32; 4]| {
            let numbers = Tensor::f_randn(shape.map(i64::from), (Kind::Float, device))?;
            in_format(&numbers.f_to_kind(gemm::kind(operands))?, format == MemoryFormat::ChannelsLast)
        };
        Ok(Convolution {
            layer,
            images: random([batch, input_channels, size, size])?,
            weights: random([output_channels, input_channels, kernel, kernel])?,
        })
    }

    fn forward(&self) -> Result<Tensor, TchError> {
        let around = i64::from(self.layer.kernel / 2);
        let _no_grad = no_grad_guard();
        self.images.f_conv2d(&self.weights, None::<Tensor>, [1, 1], [around, around], [1, 1], 1)
    }

    /// Times it `least` times, and then for as long as `budget_s` allows.
    fn time(&self, device: &OpenDevice, least: usize, budget_s: f64) -> Result<Timings, WorkerError> {
        let mut work = || self.forward().map(drop).map_err(WorkerError::from);
        timing::time(device, least, MOST_TIMINGS, budget_s, &mut work)
    }
}

/// Times every layer in both memory formats, as far as `budget_s` seconds allow, and then the fastest ones for half as
/// long.
///
/// # Errors
/// Errors of libtorch, which might have no such convolution on this device.
pub(super) fn measure(
    device: &OpenDevice,
    wanted: Wanted,
    free_memory: u64,
    budget_s: f64,
) -> Result<Vec<ConvolutionSample>, WorkerError> {
    gemm::set_flags(device, wanted.operands)?;
    tch::manual_seed(0);
    let free_numbers = free_memory / SHARE_OF_FREE_MEMORY / gemm::element_bytes(wanted.operands);
    let mut trials = sweep(device, wanted, &layers(device.device, free_numbers), budget_s)?;
    for index in fastest(&trials) {
        let Trial { layer, seconds } = &mut trials[index];
        let convolution = Convolution::random(*layer, wanted.operands, device.tch())?;
        seconds.extend(convolution.time(device, 1, 0.5 * budget_s / FINALISTS as f64)?.seconds);
    }
    if let Some(Trial { layer, seconds }) = fastest(&trials).first().map(|index| &trials[*index]) {
        let best = layer.flops() / least(seconds);
        print_progress(&format!("{} {layer}: {:.1} GFLOP/s", wanted.operands, best / 1e9));
    }
    Ok(trials.into_iter().map(|trial| sample(wanted.operands, trial)).collect())
}

/// Times each layer for the first time, in turn, and at least one.
fn sweep(
    device: &OpenDevice,
    wanted: Wanted,
    layers: &[Layer],
    budget_s: f64,
) -> Result<Vec<Trial>, WorkerError> {
    let began = Instant::now();
    let mut trials = Vec::new();
    for &layer in layers {
        let convolution = Convolution::random(layer, wanted.operands, device.tch())?;
        let seconds = convolution.time(device, FIRST_TIMINGS, 0.0)?.seconds;
        trials.push(Trial { layer, seconds });
        if began.elapsed().as_secs_f64() > budget_s {
            break;
        }
    }
    Ok(trials)
}

/// The layers with as many images as fit into memory with room for `free_numbers` numbers. Formats alternate, so that
/// both are tried if time is short.
fn layers(device: Device, free_numbers: u64) -> Vec<Layer> {
    let batch = if device == Device::Cpu { BATCH } else { ACCELERATOR_BATCH };
    let layer = |(input_channels, output_channels, size, kernel), format| {
        let all = Layer { batch, input_channels, output_channels, size, kernel, format };
        let batches =
            std::iter::successors(Some(batch), |batch| Some(batch / 2)).take_while(|batch| *batch > 1);
        let mut candidates = batches.map(|batch| Layer { batch, ..all });
        candidates.find(|layer| layer.numbers() <= free_numbers).unwrap_or(Layer { batch: 1, ..all })
    };
    let formats = [MemoryFormat::ChannelsLast, MemoryFormat::Contiguous];
    LAYERS.iter().flat_map(|shape| formats.map(|format| layer(*shape, format))).collect()
}

/// The indices of the fastest trials, the fastest first.
fn fastest(trials: &[Trial]) -> Vec<usize> {
    let rate = |index: &usize| trials[*index].layer.flops() / least(&trials[*index].seconds);
    let mut order: Vec<usize> = (0..trials.len()).collect();
    order.sort_by(|left, right| rate(right).total_cmp(&rate(left)));
    order.truncate(FINALISTS);
    order
}

fn least(seconds: &[f64]) -> f64 {
    seconds.iter().copied().fold(f64::INFINITY, f64::min)
}

fn sample(operands: Operands, trial: Trial) -> ConvolutionSample {
    let Trial { layer, seconds } = trial;
    let Layer { batch, input_channels, output_channels, size, kernel, format } = layer;
    ConvolutionSample {
        precision: operands.precision(),
        operands,
        format,
        batch,
        input_channels,
        output_channels,
        size,
        kernel,
        flops_per_s: seconds.iter().map(|seconds| layer.flops() / seconds).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(batch: u32, format: MemoryFormat) -> Layer {
        Layer { batch, input_channels: 8, output_channels: 4, size: 5, kernel: 3, format }
    }

    #[test]
    fn a_convolution_has_two_operations_for_each_weight_and_place() {
        assert_eq!(layer(2, MemoryFormat::Contiguous).flops(), f64::from(2 * 2 * 5 * 5 * 8 * 4 * 3 * 3));
    }

    #[test]
    fn both_formats_keep_rows_and_columns_and_compute_the_same() {
        let forward = |format| {
            tch::manual_seed(1);
            let layer = layer(2, format);
            let convolution = Convolution::random(layer, Operands::Fp32, tch::Device::Cpu).unwrap();
            convolution.forward().unwrap().contiguous()
        };
        let [one, other] = [MemoryFormat::Contiguous, MemoryFormat::ChannelsLast].map(forward);
        assert_eq!(one.size(), [2, 4, 5, 5]);
        assert!((one - other).abs().max().double_value(&[]) < 1e-4);
    }

    #[test]
    fn tensors_leave_memory_to_others() {
        assert!(layers(Device::Cpu, u64::MAX).iter().all(|layer| layer.batch == BATCH));
        for free in [40_000_000, 2_000_000] {
            let fitting = layers(Device::Cuda(0), free);
            assert_eq!(fitting.len(), 2 * LAYERS.len());
            assert!(fitting.iter().all(|layer| layer.numbers() <= free && layer.batch >= 1), "{fitting:?}");
        }
        assert!(layers(Device::Cpu, 0).iter().all(|layer| layer.batch == 1));
    }

    /// As short as possible, on the device that every machine has.
    #[test]
    fn the_fastest_layers_are_timed_again() {
        use super::super::super::request::Backend;
        let device = OpenDevice::open(Backend::Only(Device::Cpu)).unwrap();
        let wanted = Wanted { operands: Operands::Fp32, accumulate: "fp32", emulated: false, budget_s: 0.0 };
        let samples = measure(&device, wanted, 64 << 20, 0.0).unwrap();
        assert_eq!(samples.len(), 1, "the first layer is measured without any time");
        assert!(samples[0].flops_per_s.len() > FIRST_TIMINGS);
    }
}
