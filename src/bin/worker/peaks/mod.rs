//! `worker peaks`: measures the ceilings of a device. Prints [`MeasuredPeaks`] as JSON on standard output: raw samples,
//! from which the reader takes the best and computes the spread. Progress goes to standard error.
//!
//! | module | what it is |
//! |---|---|
//! | [`arithmetic`] | the operands that a device multiplies in hardware |
//! | [`search`] | which products are timed, and how often: sizes, layouts, finalists |
//! | [`gemm`] | the products: matrices of random numbers on the device |
//! | [`convolution`] | the convolutions: images and kernels of random numbers on the device |
//! | [`instructions`] | multiply-adds on the registers of a processor |
//! | [`memory`] | passes over the memory and the caches of a processor |
//! | [`stream`] | copy and triad of an accelerator, and the size of the arrays |
//! | [`timing`] | seconds of work, with the device synchronised on both sides |
//! | [`crew`] | threads that work at the same time |
//! | [`caches`] | the caches of the processors |
//! | [`host`] | memory and clocks of the machine |
//! | [`clock`] | the clock of the arithmetic units during the measurement |

mod arithmetic;
mod caches;
mod clock;
mod convolution;
mod crew;
mod gemm;
mod host;
mod instructions;
mod memory;
mod print;
mod search;
mod stream;
mod timing;

use orchestrate::job::{Device, Precision};
use orchestrate::protocol::{
    CacheFact, ConvolutionSample, GemmSample, GpuUnits, InstructionSample, LeftOut, MEASUREMENT_SCHEMA,
    MeasuredPeaks, Operands, StreamSample,
};

use super::arguments::Peaks;
use super::device::OpenDevice;
use super::failure::WorkerError;
use super::request;
use super::settings;
use super::shim;
use arithmetic::{Hardware, Support};
use clock::Watch;
use crew::Crew;
use host::Memory;
use stream::Arrays;

/// How long to measure each part, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Effort {
    /// For the products of each kind of operands.
    gemm_s: f64,
    /// For products of operands that the hardware has no instruction for.
    emulated_s: f64,
    /// For the convolutions of each kind of operands.
    convolution_s: f64,
    /// For each instruction set: half of it before the products, half after them.
    instruction_s: f64,
    /// For each stream through the memory.
    stream_s: f64,
    /// For each stream through a cache.
    cache_s: f64,
}

const THOROUGH: Effort = Effort {
    gemm_s: 16.0,
    emulated_s: 4.0,
    convolution_s: 6.0,
    instruction_s: 2.0,
    stream_s: 4.0,
    cache_s: 1.0,
};
const QUICK: Effort = Effort {
    gemm_s: 3.0,
    emulated_s: 1.0,
    convolution_s: 1.0,
    instruction_s: 0.5,
    stream_s: 0.8,
    cache_s: 0.2,
};

/// Measures the ceilings and prints them.
///
/// # Errors
/// [`WorkerError::Unsupported`] if this machine lacks the device. Errors of libtorch.
pub(crate) fn run(peaks: &Peaks) -> Result<(), WorkerError> {
    settings::refuse_rounding()?;
    let device = OpenDevice::open(request::device(&peaks.device)?)?;
    settings::set_threads(peaks.threads);
    let measured = measure(&device, peaks.quick)?;
    println!(
        "{}",
        serde_json::to_string_pretty(&measured).expect("peaks have string keys and no failing serializer")
    );
    Ok(())
}

fn measure(device: &OpenDevice, quick: bool) -> Result<MeasuredPeaks, WorkerError> {
    let effort = if quick { QUICK } else { THOROUGH };
    let on_processor = device.device == Device::Cpu;
    let threads = settings::threads();
    let memory = Memory::probe(device);
    let mut watch = Watch::of(device, threads);
    let without_fp16 = "fp16 is not measured: no job on a CPU computes in it";
    let mut notes = Vec::from_iter(on_processor.then(|| without_fp16.to_owned()));
    let crew = on_processor.then(|| Crew::of(threads));
    // Measured twice: the machine might be disturbed or throttled during one of the measurements.
    let mut instructions: Vec<InstructionSample> = Vec::new();
    let mut time_instructions = || {
        let again = crew.as_ref().map(|crew| instructions::measure(crew, effort.instruction_s / 2.0));
        instructions::add(&mut instructions, again.unwrap_or_default());
    };
    time_instructions();
    let products = all_products(device, memory.free, effort, &mut watch)?;
    time_instructions();
    let arrays = Arrays::fitting(memory);
    notes.extend(arrays.shortfall(memory.cache));
    let caches = caches_of(device);
    let stream = streams(device, crew.as_ref(), arrays, &caches, effort)?;
    let mut versions: std::collections::BTreeMap<_, _> = shim::versions().collect();
    if let Some(driver) = watch.driver() {
        versions.entry("driver".to_owned()).or_insert(driver);
    }
    Ok(MeasuredPeaks {
        schema: MEASUREMENT_SCHEMA,
        device: device.device,
        device_name: device.name.clone(),
        device_uuid: device.uuid.clone(),
        threads: on_processor.then_some(threads),
        quick,
        clocks: watch.clocks(),
        instructions,
        units: units_of(device),
        gemm: products.samples,
        convolutions: products.convolutions,
        stream,
        caches,
        left_out: products.left_out,
        notes,
        versions,
    })
}

/// The streams of a processor by the loops in [`memory`], and those of an accelerator by libtorch's kernels.
fn streams(
    device: &OpenDevice,
    crew: Option<&Crew>,
    arrays: Arrays,
    caches: &[CacheFact],
    effort: Effort,
) -> Result<Vec<StreamSample>, WorkerError> {
    let Some(crew) = crew else { return stream::measure(device, arrays, effort.stream_s) };
    let wanted =
        memory::Wanted { array_bytes: arrays.bytes(), memory_s: effort.stream_s, cache_s: effort.cache_s };
    Ok(memory::measure(crew, caches, wanted))
}

/// The data caches of a processor, or the last level of a GPU.
fn caches_of(device: &OpenDevice) -> Vec<CacheFact> {
    match device.device {
        Device::Cpu => caches::usable(),
        Device::Cuda(_) => {
            shim::cuda_cache().map(|bytes| CacheFact { level: 2, bytes, instances: 1 }).into_iter().collect()
        }
        Device::Mps => Vec::new(),
    }
}

/// The arithmetic units of an NVIDIA GPU.
fn units_of(device: &OpenDevice) -> Option<GpuUnits> {
    let capability = device.capability?;
    let capability = (u32::try_from(capability.0).ok()?, u32::try_from(capability.1).ok()?);
    Some(GpuUnits { multiprocessors: shim::cuda_multiprocessors()?, capability })
}

/// The samples of all operands, and the precisions without samples.
#[derive(Debug, Default)]
struct Products {
    samples: Vec<GemmSample>,
    convolutions: Vec<ConvolutionSample>,
    left_out: Vec<LeftOut>,
}

fn all_products(
    device: &OpenDevice,
    free_memory: u64,
    effort: Effort,
    watch: &mut Watch,
) -> Result<Products, WorkerError> {
    let hardware = Hardware::probe(device);
    let mut found = Products::default();
    let on_processor = device.device == Device::Cpu;
    for operands in [Operands::Fp32, Operands::Tf32, Operands::Bf16, Operands::Fp16] {
        let (budget_s, accumulate, emulated) = match hardware.support(operands) {
            Support::Native { accumulate } => (effort.gemm_s, accumulate, None),
            Support::Emulated { reason } => (effort.emulated_s, "fp32", Some(reason)),
            Support::Absent { reason } => {
                found.left_out.extend(left_out(operands, on_processor, reason));
                continue;
            }
        };
        let wanted = gemm::Wanted { operands, accumulate, emulated: emulated.is_some(), budget_s };
        match gemm::measure(device, wanted, free_memory, watch) {
            Ok(samples) => found.samples.extend(samples),
            // libtorch might not support all operands that the hardware has.
            Err(WorkerError::Torch(reason)) if operands != Operands::Fp32 => {
                found.left_out.extend(left_out(
                    operands,
                    on_processor,
                    &format!("libtorch cannot compute it: {reason}"),
                ));
                continue;
            }
            Err(error) => return Err(error),
        }
        if emulated.is_none() {
            found.convolutions.extend(convolutions(device, wanted, free_memory, effort.convolution_s));
        }
        if let Some(reason) = emulated {
            found.left_out.extend(left_out(operands, on_processor, &format!("it is emulated: {reason}")));
        }
    }
    Ok(found)
}

/// The samples of convolutions; none if libtorch has no such convolution, for they only say what is attainable.
fn convolutions(
    device: &OpenDevice,
    wanted: gemm::Wanted,
    free_memory: u64,
    budget_s: f64,
) -> Vec<ConvolutionSample> {
    convolution::measure(device, wanted, free_memory, budget_s).unwrap_or_else(|error| {
        print::print_progress(&format!("{} has no convolutions: {error}", wanted.operands));
        Vec::new()
    })
}

/// The precisions that have no ceiling if `operands` have none. On a CPU, automatic mixed precision computes in bf16.
fn left_out(operands: Operands, on_processor: bool, reason: &str) -> Vec<LeftOut> {
    let precisions: &[Precision] = match operands {
        Operands::Fp32 => &[Precision::Fp32],
        Operands::Tf32 => &[Precision::Tf32],
        Operands::Bf16 if on_processor => &[Precision::Bf16, Precision::Amp],
        Operands::Bf16 => &[Precision::Bf16],
        Operands::Fp16 if on_processor => &[],
        Operands::Fp16 => &[Precision::Amp],
    };
    precisions.iter().map(|&precision| LeftOut { precision, reason: reason.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_processor_mixed_precision_is_left_out_with_bf16() {
        let precisions = |operands, on_processor| -> Vec<Precision> {
            left_out(operands, on_processor, "why").into_iter().map(|left_out| left_out.precision).collect()
        };
        assert_eq!(precisions(Operands::Bf16, true), [Precision::Bf16, Precision::Amp]);
        assert_eq!(precisions(Operands::Fp16, true), []);
        assert_eq!(precisions(Operands::Bf16, false), [Precision::Bf16]);
        assert_eq!(precisions(Operands::Fp16, false), [Precision::Amp]);
    }

    /// All parts together, as small as possible, on the device that every machine has.
    #[test]
    fn a_processor_has_a_ceiling_for_each_precision_or_a_reason() {
        let device = OpenDevice::open(request::Backend::Only(Device::Cpu)).unwrap();
        let effort = Effort {
            gemm_s: 0.0,
            emulated_s: 0.0,
            convolution_s: 0.0,
            instruction_s: 0.0,
            stream_s: 0.0,
            cache_s: 0.0,
        };
        let mut watch = Watch::of(&device, 1);
        let found = all_products(&device, 64 << 20, effort, &mut watch).unwrap();
        for precision in Precision::ALL {
            let has_sample = found.samples.iter().any(|sample| {
                sample.precision == precision && !sample.emulated && !sample.flops_per_s.is_empty()
            });
            let shares = precision == Precision::Amp
                && found.samples.iter().any(|sample| sample.precision == Precision::Bf16 && !sample.emulated);
            let is_left_out = found.left_out.iter().any(|left_out| left_out.precision == precision);
            assert!((has_sample || shares) != is_left_out, "{precision}: {:?}", found.left_out);
        }
    }
}
