//! Matrix products of random numbers. With regular numbers, multipliers switch less and draw less power, so a GPU at
//! its power limit would run faster than with real data.

#![expect(clippy::disallowed_methods, reason = "a worker measures time")]

use std::collections::BTreeMap;
use std::time::Instant;

use orchestrate::job::Device;
use orchestrate::protocol::{GemmSample, Layout, Operands};
use tch::{Kind, Tensor};

use super::super::device::OpenDevice;
use super::super::failure::WorkerError;
use super::super::shim::{EffectiveFlags, Flags};
use super::clock::Watch;
use super::print::print_progress;
use super::search::{self, Bench, Shape, TIMINGS_OF_A_TRIAL, Trial};
use super::timing::{self, Timings};

/// The products to time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    /// The type of the numbers in the matrices.
    pub(super) operands: Operands,
    /// The precision in which products are added up.
    pub(super) accumulate: &'static str,
    /// Whether the hardware has no instruction for these operands.
    pub(super) emulated: bool,
    /// Seconds.
    pub(super) budget_s: f64,
}

/// Times products and keeps every sample.
///
/// # Errors
/// Errors of libtorch, which might be unable to multiply such operands on this device.
pub(super) fn measure(
    device: &OpenDevice,
    wanted: Wanted,
    free_memory: u64,
    watch: &mut Watch,
) -> Result<Vec<GemmSample>, WorkerError> {
    set_flags(device, wanted.operands)?;
    tch::manual_seed(0);
    let sizes = search::sizes(free_memory, element_bytes(wanted.operands));
    let mut products =
        Products { device, operands: wanted.operands, began: Instant::now(), matrices: BTreeMap::new() };
    products.warm_up(sizes[0])?;
    products.began = Instant::now();
    let trials = search::search(&sizes, wanted.budget_s, &mut products)?;
    for index in search::finalists(&trials) {
        let Trial { shape, timings } = &trials[index];
        products.watch(*shape, timings.calls, watch)?;
    }
    Ok(trials.into_iter().map(|trial| sample(wanted, trial)).collect())
}

/// Sets libtorch's flags for these operands.
///
/// # Errors
/// Errors of libtorch, or libtorch reads back others.
pub(super) fn set_flags(device: &OpenDevice, operands: Operands) -> Result<(), WorkerError> {
    let on_cuda = matches!(device.device, Device::Cuda(_));
    // If cuDNN may try its algorithms, the best timing is that of the fastest algorithm.
    let flags = Flags { tf32: operands == Operands::Tf32, deterministic: false, cudnn_benchmark: on_cuda };
    flags.set()?;
    if EffectiveFlags::get()?.rounds(on_cuda) != flags.tf32 {
        let reason = format!("{operands} cannot be set: libtorch reads its flags back differently");
        return Err(WorkerError::Torch(reason));
    }
    Ok(())
}

fn sample(wanted: Wanted, trial: Trial) -> GemmSample {
    let Trial { shape, timings } = trial;
    GemmSample {
        precision: wanted.operands.precision(),
        operands: Some(wanted.operands),
        accumulate: Some(wanted.accumulate.to_owned()),
        emulated: wanted.emulated,
        layout: Some(shape.layout),
        size: shape.size,
        products: Some(timings.calls),
        flops_per_s: timings.seconds.iter().map(|seconds| shape.flops() / seconds).collect(),
    }
}

/// The type of such numbers in libtorch.
pub(super) fn kind(operands: Operands) -> Kind {
    match operands {
        Operands::Fp32 | Operands::Tf32 => Kind::Float,
        Operands::Bf16 => Kind::BFloat16,
        Operands::Fp16 => Kind::Half,
    }
}

/// Bytes of one such number.
pub(super) fn element_bytes(operands: Operands) -> u64 {
    match operands {
        Operands::Fp32 | Operands::Tf32 => 4,
        Operands::Bf16 | Operands::Fp16 => 2,
    }
}

/// The products on a device. The matrices of each size are made once.
struct Products<'a> {
    device: &'a OpenDevice,
    operands: Operands,
    began: Instant,
    matrices: BTreeMap<u64, Matrices>,
}

/// Two matrices of normally distributed numbers, and room for their product.
struct Matrices {
    left: Tensor,
    right: Tensor,
    product: Tensor,
}

impl Matrices {
    fn random(size: u64, operands: Operands, device: tch::Device) -> Result<Self, WorkerError> {
        let side = i64::try_from(size).expect("sizes are below 2⁶³");
        let kind = kind(operands);
        let random = || Tensor::f_randn([side, side], (Kind::Float, device))?.f_to_kind(kind);
        Ok(Matrices {
            left: random()?,
            right: random()?,
            product: Tensor::f_empty([side, side], (kind, device))?,
        })
    }

    /// Multiplies into the same memory again and again, so that none is allocated.
    fn multiply(&self, layout: Layout) -> Result<(), WorkerError> {
        let Matrices { left, right, product } = self;
        let _ = match layout {
            Layout::NN => left.f_mm_out(product, right)?,
            Layout::NT => left.f_mm_out(product, &right.f_tr()?)?,
            Layout::TN => left.f_tr()?.f_mm_out(product, right)?,
        };
        Ok(())
    }
}

impl Products<'_> {
    fn matrices(&mut self, size: u64) -> Result<&Matrices, WorkerError> {
        if !self.matrices.contains_key(&size) {
            let matrices = Matrices::random(size, self.operands, self.device.tch())?;
            self.matrices.insert(size, matrices);
        }
        Ok(&self.matrices[&size])
    }

    /// Multiplies for some time without keeping the times: the library starts its threads and compiles its code, which
    /// takes longer than several small products.
    fn warm_up(&mut self, size: u64) -> Result<(), WorkerError> {
        let device = self.device;
        let matrices = self.matrices(size)?;
        for layout in Layout::ALL {
            timing::warm_up(device, &mut || matrices.multiply(layout))?;
        }
        Ok(())
    }

    /// Multiplies without timing it, and lets `watch` read the device's clock meanwhile.
    fn watch(&mut self, shape: Shape, calls: u32, watch: &mut Watch) -> Result<(), WorkerError> {
        let device = self.device;
        let matrices = self.matrices(shape.size)?;
        for _ in 0..calls {
            matrices.multiply(shape.layout)?;
        }
        watch.look();
        device.synchronize()
    }
}

impl Bench for Products<'_> {
    fn elapsed_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn first(&mut self, shape: Shape) -> Result<Timings, WorkerError> {
        let (device, operands) = (self.device, self.operands);
        let matrices = self.matrices(shape.size)?;
        let mut work = || matrices.multiply(shape.layout);
        let timings = timing::time(device, TIMINGS_OF_A_TRIAL, TIMINGS_OF_A_TRIAL, 0.0, &mut work)?;
        let trial = Trial { shape, timings };
        let Shape { size, layout } = shape;
        print_progress(&format!("{operands} {layout} {size} × {size}: {:.1} GFLOP/s", trial.best() / 1e9));
        Ok(trial.timings)
    }

    fn again(&mut self, shape: Shape, calls: u32) -> Result<f64, WorkerError> {
        let device = self.device;
        let matrices = self.matrices(shape.size)?;
        timing::once(device, calls, &mut || matrices.multiply(shape.layout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares each layout with its definition, and the rounding of operands with what their digits allow.
    #[test]
    fn products_follow_the_definition_of_their_layout() {
        tch::manual_seed(1);
        for (operands, tolerance) in [(Operands::Fp32, 1e-4), (Operands::Bf16, 0.25)] {
            let matrices = Matrices::random(48, operands, tch::Device::Cpu).unwrap();
            let [left, right] = [&matrices.left, &matrices.right].map(|matrix| matrix.to_kind(Kind::Float));
            assert!(left.std(true).double_value(&[]) > 0.5, "the numbers are random");
            for layout in Layout::ALL {
                matrices.multiply(layout).unwrap();
                let expected = match layout {
                    Layout::NN => left.matmul(&right),
                    Layout::NT => left.matmul(&right.tr()),
                    Layout::TN => left.tr().matmul(&right),
                };
                let difference = (expected - matrices.product.to_kind(Kind::Float)).abs().max();
                assert!(difference.double_value(&[]) < tolerance, "{operands} {layout}: {difference:?}");
            }
        }
    }

    #[test]
    fn rates_are_operations_by_seconds() {
        let shape = Shape { size: 1000, layout: Layout::NT };
        let trial = Trial { shape, timings: Timings { calls: 4, seconds: vec![0.5, 1.0] } };
        let wanted = Wanted { operands: Operands::Fp16, accumulate: "fp32", emulated: false, budget_s: 1.0 };
        let sample = sample(wanted, trial);
        assert_eq!(sample.flops_per_s, [4e9, 2e9]);
        assert_eq!(
            (sample.precision.as_str(), sample.layout, sample.products),
            ("amp", Some(Layout::NT), Some(4))
        );
    }
}
