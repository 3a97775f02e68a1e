//! Checks of the facilities that training needs of a device besides arithmetic: flags, memory and its statistics, marks
//! for profilers, operators, times.
#![expect(
    clippy::disallowed_methods,
    reason = "the time of a product determines how many keep the device busy"
)]

use std::time::Instant;

use orchestrate::architecture::Op;
use orchestrate::job::Device;
use orchestrate::protocol::{FailureKind, IterationClock, NVTX_RANGE, OperatorSample};
use tch::{Kind, Tensor};

use super::comparison::Comparison;
use super::session::{Found, Halt};
use super::times::Times;
use super::training::{Lab, open, training};
use crate::failure::WorkerError;
use crate::request::Request;
use crate::shim::{self, CopyStream, EffectiveFlags, Flags, Profile};
use crate::stretch::Stretch;

/// Side of the matrices that the first kernels multiply.
const SIDE: i64 = 16;

/// Batches that are copied on a separate stream, and the numbers in each: their sums are exact in single precision.
const BATCHES: i64 = 8;
const NUMBERS: i64 = 1 << 20;

/// The numbers in a batch whose copy takes a while: 64 MiB. Two of four turns use memory again.
const MANY: i64 = 1 << 24;
const TURNS: i64 = 4;

/// Side of the matrices whose products keep the device busy meanwhile.
const BUSY: i64 = 2048;

/// The seconds that they take behind each batch: far more than the host needs to submit the next copies.
const BUSY_S: f64 = 0.02;

/// The most products behind a batch.
const MOST_PRODUCTS: u32 = 200;

/// The bytes by which memory statistics are made to rise.
const PIECE: i64 = 64 << 20;

/// Bytes that no device has and no processor can address: 512 PiB, where the widest address space for programs is an
/// eighth of that. So it is refused immediately, whatever the kernel overcommits, and no memory is touched.
const BEYOND_ALL: i64 = 1 << 59;

/// Iterations in a window: more than events are buffered (512), so that some are read while the device works.
const ITERATIONS: u32 = 600;

/// Iterations that warm up and show how long the others will take.
const FIRST: u32 = 10;

/// A network of few layers, so its iterations are short.
const SHORT: &str = "--arch squeezenet1_1 --input-size 32 --classes 10 --batch-size 2";

/// Products and sums of small whole numbers, which are exact in every arithmetic.
pub(super) fn first_kernels(lab: &mut Lab) -> Found {
    let device = lab.device.tch();
    let ones = Tensor::f_ones([SIDE, SIDE], (Kind::Float, device))?;
    let product = ones.f_matmul(&ones)?;
    let sum = product.f_sum(Kind::Float)?.f_double_value(&[])?;
    let back =
        Tensor::f_arange(SIDE, (Kind::Float, tch::Device::Cpu))?.f_to(device)?.f_to(tch::Device::Cpu)?;
    let there_and_back: Vec<f32> = Vec::try_from(back)?;
    let unchanged = there_and_back.iter().zip(0_u8..).all(|(found, sent)| *found == f32::from(sent));
    Ok(vec![
        Comparison::equal("sum of a matrix product", sum, (SIDE * SIDE * SIDE) as f64),
        Comparison::equal("numbers that were copied there and back are unchanged", unchanged, true),
    ])
}

/// Sets all combinations of libtorch's flags and reads them back.
pub(super) fn flags(_: &mut Lab) -> Found {
    let mut compared = Vec::new();
    // The last one turns all of them off.
    for bits in (0..8).rev() {
        let [tf32, deterministic, cudnn_benchmark] = [1, 2, 4].map(|bit| bits & bit > 0);
        let flags = Flags { tf32, deterministic, cudnn_benchmark };
        flags.set()?;
        let found = EffectiveFlags::get()?;
        compared.push(Comparison::equal(&format!("{flags:?} is read back"), found.flags == flags, true));
        let rounds = "CUDA rounds to TF32 by the newer flags";
        compared.push(Comparison::equal(rounds, found.rounds(true), tf32));
        compared.push(Comparison::equal("the processor rounds", found.rounds(false), false));
    }
    Ok(compared)
}

/// Copies numbers through page-locked memory.
pub(super) fn pinned_memory(lab: &mut Lab) -> Found {
    let device = lab.cuda("page-locked memory is used with CUDA only")?;
    let sent = Tensor::f_randn([1 << 20], (Kind::Float, tch::Device::Cpu))?;
    let (pinned, is_pinned) = shim::pin(&sent)?;
    let there = pinned.f_to_device_(device, Kind::Float, true, false)?;
    // It is copied back into other memory; the pinned memory may be freed once the copy is submitted.
    drop(pinned);
    let unchanged = there.f_to(tch::Device::Cpu)? == sent;
    Ok(vec![
        Comparison::equal("memory is page-locked", is_pinned, true),
        Comparison::equal("numbers that were copied through it are unchanged", unchanged, true),
    ])
}

/// Copies batches on a separate stream and adds each up. A sum is wrong if the copy is too late, after
/// the sum, or too early, before the sum of the batch whose memory it overwrites.
///
/// - For the former, a large batch is added up right behind its copy, on an idle device.
/// - For the latter, the device is kept busy before each sum, so that all copies are submitted before the first one.
///   All batches are in page-locked memory by then: to lock it takes long.
pub(super) fn copy_stream(lab: &mut Lab) -> Found {
    let device = lab.cuda("copies have a separate stream with CUDA only")?;
    let batch = |numbers: i64, value: i64| -> Result<(Tensor, Tensor), WorkerError> {
        let images = Tensor::f_full([numbers], value, (Kind::Float, tch::Device::Cpu))?;
        let labels = Tensor::f_full([1], value, (Kind::Int64, tch::Device::Cpu))?;
        Ok((shim::pin(&images)?.0, shim::pin(&labels)?.0))
    };
    let large = (1..=TURNS).map(|turn| batch(MANY, turn)).collect::<Result<Vec<_>, _>>()?;
    let batches = (0..BATCHES).map(|number| batch(NUMBERS, number)).collect::<Result<Vec<_>, _>>()?;
    let matrix = Tensor::f_ones([BUSY, BUSY], (Kind::Float, device))?;
    let products = products_in(lab, &matrix, BUSY_S)?;

    let mut copies = CopyStream::new()?;
    let mut late = Vec::new();
    for (images, labels) in &large {
        lab.device.synchronize()?;
        let ((there, _), _) = copies.copy(images, labels)?;
        late.push(there.f_sum(Kind::Float)?);
    }
    let mut copies = CopyStream::new()?;
    let (mut sums, mut were_aside) = (Vec::new(), true);
    for (images, labels) in &batches {
        let ((there, label), is_aside) = copies.copy(images, labels)?;
        were_aside &= is_aside;
        for _ in 0..products {
            drop(matrix.f_matmul(&matrix)?);
        }
        sums.push((there.f_sum(Kind::Float)?, label.f_sum(Kind::Int64)?));
    }
    let mut compared =
        vec![Comparison::equal("the stream is another than that of the training", were_aside, true)];
    for (turn, sum) in (1..).zip(late) {
        let what = format!("sum of a large batch, turn {turn}");
        compared.push(Comparison::equal(&what, sum.f_double_value(&[])?, (turn * MANY) as f64));
    }
    for (number, (sum, label)) in (0..).zip(sums) {
        let what = |what: &str| format!("{what} of batch {}", number + 1);
        compared.push(Comparison::equal(&what("sum"), sum.f_double_value(&[])?, (number * NUMBERS) as f64));
        compared.push(Comparison::equal(&what("label"), label.f_double_value(&[])?, number as f64));
    }
    Ok(compared)
}

/// The number of products of `matrix` with itself that take `seconds` on the device of `lab`.
fn products_in(lab: &Lab, matrix: &Tensor, seconds: f64) -> Result<u32, WorkerError> {
    let mut one = f64::INFINITY;
    // The first one also loads libraries.
    for _ in 0..3 {
        lab.device.synchronize()?;
        let began = Instant::now();
        drop(matrix.f_matmul(matrix)?);
        lab.device.synchronize()?;
        one = one.min(began.elapsed().as_secs_f64());
    }
    Ok(((seconds / one).ceil() as u32).clamp(1, MOST_PRODUCTS))
}

/// Lets the most memory that is used rise, and resets it.
pub(super) fn peak_memory(lab: &mut Lab) -> Found {
    if lab.device.device == Device::Cpu {
        return Err(Halt::Unsupported("libtorch counts the memory of accelerators only".to_owned()));
    }
    let device = lab.device.tch();
    let small = Tensor::f_zeros([1], (Kind::Uint8, device))?;
    lab.device.synchronize()?;
    let counted = shim::reset_peak_memory();
    let before = shim::peak_memory(counted);
    let piece = Tensor::f_zeros([PIECE], (Kind::Uint8, device))?;
    lab.device.synchronize()?;
    let with_piece = shim::peak_memory(counted);
    drop(piece);
    let mut compared = vec![Comparison::at_least(
        "bytes held while a piece is",
        with_piece.held.map_or(f64::NAN, |bytes| bytes as f64),
        PIECE as f64,
    )];
    // MPS does not count maxima.
    if lab.device.device != Device::Mps {
        let bytes = |bytes: Option<u64>| bytes.map_or(f64::NAN, |bytes| bytes as f64);
        let again = shim::reset_peak_memory();
        let after = shim::peak_memory(again);
        compared.push(Comparison::equal("the maximum can be reset", counted && again, true));
        let rise = bytes(with_piece.taken) - bytes(before.taken);
        compared.push(Comparison::at_least("bytes by which the maximum rose", rise, PIECE as f64));
        compared.push(Comparison::at_most("bytes after the reset", bytes(after.taken), bytes(before.taken)));
    }
    drop(small);
    Ok(compared)
}

/// Marks a range for profilers.
pub(super) fn profiler_marks(lab: &mut Lab) -> Found {
    lab.cuda("NVTX ranges and the profiler's start and stop are CUDA's")?;
    let begun = Profile::begin(NVTX_RANGE);
    let begins = begun.is_ok();
    let ends = begun.and_then(Profile::end);
    Ok(vec![
        Comparison::equal("a range begins, and the profiler starts", begins, true),
        Comparison::equal("the range ends, and the profiler stops", ends.is_ok(), true),
    ])
}

/// Asks for far more memory than there is, and then uses the device.
pub(super) fn out_of_memory(lab: &mut Lab) -> Found {
    let asked = Tensor::f_empty([BEYOND_ALL], (Kind::Uint8, lab.device.tch()));
    let error = asked.err().map(WorkerError::from);
    let kind = error.as_ref().and_then(WorkerError::failure).map(|failure| failure.kind);
    let found = match (kind, &error) {
        (Some(FailureKind::OutOfMemory), _) => "out_of_memory".to_owned(),
        (_, Some(error)) => error.to_string(),
        (_, None) => "the memory was given".to_owned(),
    };
    let mut compared = vec![Comparison::equal("the failure", found.as_str(), "out_of_memory")];
    compared.extend(first_kernels(lab)?);
    Ok(compared)
}

/// Profiles an iteration by operator, and looks for the convolutions of its network.
pub(super) fn operators(lab: &mut Lab) -> Found {
    let training = training(&format!("{SHORT} --backend {} --iters 1", lab.device.device))?;
    let request = Request::parse(&training)?;
    let mut trainer = open(&training, &request, lab)?;
    trainer.iterate(1, Stretch::begin(&lab.device, false), |_, _| ())?.read()?;
    let profile = trainer.try_profile(1)?;
    if matches!(lab.device.device, Device::Cuda(_)) && profile.device_busy_s.is_none() {
        return Err(Halt::Unsupported(profile.notes.concat()));
    }
    let layers = request.network.layers().iter().filter(|layer| matches!(layer.op, Op::Conv2d(_))).count();
    let calls = |name: &str| {
        let called = profile.operators.iter().filter(|operator| operator.name == name);
        called.map(|operator| operator.calls).sum::<u64>() as f64
    };
    let seconds: f64 = profile.operators.iter().map(OperatorSample::seconds).sum();
    Ok(vec![
        Comparison::equal("convolutions forward", calls("aten::convolution"), layers as f64),
        Comparison::equal("convolutions backward", calls("aten::convolution_backward"), layers as f64),
        Comparison::at_least("seconds of all operators", seconds, f64::MIN_POSITIVE),
        Comparison::at_most("seconds of all operators", seconds, profile.elapsed_s),
    ])
}

/// Measures a window of many iterations and adds up their times.
pub(super) fn iteration_times(lab: &mut Lab) -> Found {
    let training = training(&format!("{SHORT} --backend {} --iters {ITERATIONS}", lab.device.device))?;
    let request = Request::parse(&training)?;
    let mut trainer = open(&training, &request, lab)?;
    trainer.iterate(1, Stretch::begin(&lab.device, false), |_, _| ())?.read()?;
    let left_s = lab.clock.left_s();
    let warmup = trainer.iterate(FIRST, Stretch::begin(&lab.device, false), |_, _| ())?;
    lab.device.synchronize()?;
    let warmup = warmup.read()?;
    let needed_s = (left_s - lab.clock.left_s()) * f64::from(ITERATIONS / FIRST);
    // Half of the time is left for whatever else the machine does meanwhile.
    if needed_s > lab.clock.left_s() / 2.0 {
        return Err(Halt::NotRun(format!(
            "the time limit is too short: {ITERATIONS} iterations take {needed_s:.0} s: raise --seconds"
        )));
    }
    let window = trainer.measure(&training, |_, _| ())?;
    let observed = trainer.observe(&request, &warmup, window)?;
    let clock =
        if lab.device.device == Device::Cpu { IterationClock::Host } else { IterationClock::DeviceEvents };
    let seconds = observed.iterations.all.iter().map(|iteration| iteration.elapsed_s).collect();
    let times = Times { seconds, window_s: observed.elapsed_s };
    let mut compared = vec![Comparison::equal("clock", observed.iterations.clock.as_str(), clock.as_str())];
    compared.extend(times.compare(ITERATIONS));
    Ok(compared)
}
