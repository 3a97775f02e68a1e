//! The rate of multiply-adds on registers: the ceiling of a processor's arithmetic units, which no program can exceed
//! with these instructions. A matrix product comes near it, but also loads and stores.

#[cfg(target_arch = "aarch64")]
mod arm;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::hint::black_box;

use orchestrate::protocol::InstructionSample;

#[cfg(target_arch = "aarch64")]
use arm::kernels;
#[cfg(target_arch = "x86_64")]
use x86::kernels;

use super::crew::Crew;
use super::print::print_progress;
use kernel::{Factors, Kernel, Sums};

/// There are no kernels for other processors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn kernels() -> Vec<Kernel> {
    Vec::new()
}

/// Times every kernel that the processor can run, for `budget_s` seconds each.
pub(super) fn measure(crew: &Crew, budget_s: f64) -> Vec<InstructionSample> {
    kernels().iter().map(|kernel| sample(crew, kernel, budget_s)).collect()
}

/// Adds the samples of a further call of [`measure`].
pub(super) fn add(samples: &mut Vec<InstructionSample>, again: Vec<InstructionSample>) {
    for new in again {
        let is_same = |it: &&mut InstructionSample| (it.operands, &it.isa) == (new.operands, &new.isa);
        match samples.iter_mut().find(is_same) {
            Some(sample) => {
                sample.passes = sample.passes.max(new.passes);
                sample.flops_per_s.extend(new.flops_per_s);
            }
            None => samples.push(new),
        }
    }
}

fn sample(crew: &Crew, kernel: &Kernel, budget_s: f64) -> InstructionSample {
    let factors = Factors::random(kernel.operands);
    let timings = crew.time(budget_s, &|_, passes| repeat(kernel, passes, &factors));
    let flops = kernel.flops_per_pass as f64 * crew.threads() as f64;
    let sample = InstructionSample {
        precision: kernel.operands.precision(),
        operands: kernel.operands,
        isa: kernel.isa.to_owned(),
        threads: u32::try_from(crew.threads()).unwrap_or(u32::MAX),
        passes: timings.calls,
        flops_per_s: timings.seconds.iter().map(|seconds| flops / seconds).collect(),
    };
    let best = sample.flops_per_s.iter().copied().fold(0.0, f64::max);
    print_progress(&format!("{} {} on registers: {:.1} GFLOP/s", kernel.operands, kernel.isa, best / 1e9));
    sample
}

/// Runs the kernel on this thread.
fn repeat(kernel: &Kernel, passes: u32, factors: &Factors) {
    let mut sums = Sums::all(16.0);
    // SAFETY: `kernels` returns only those whose instructions the processor has, and rounds have at least one pass.
    unsafe { (kernel.run)(u64::from(passes.max(1)), factors, &mut sums) };
    debug_assert!(sums.are_normal(), "{}", kernel.isa);
    black_box(&sums);
}

#[cfg(test)]
mod tests {
    use orchestrate::protocol::Operands;

    use super::*;

    /// With factors of 1, each multiplication and its addition raise one sum by 1, whatever the instruction. So the
    /// sums count the operations.
    #[test]
    fn kernels_execute_the_declared_number_of_operations() {
        let all = kernels();
        assert!(all.iter().any(|kernel| kernel.operands == Operands::Fp32));
        for kernel in all {
            for passes in [1, 7, 100] {
                let mut sums = Sums::all(0.0);
                // SAFETY: the processor has the instructions.
                unsafe { (kernel.run)(passes, &Factors::ones(kernel.operands), &mut sums) };
                assert_eq!(2.0 * sums.total(), (passes * kernel.flops_per_pass) as f64, "{}", kernel.isa);
            }
        }
    }

    #[test]
    fn sums_stay_normal() {
        for kernel in kernels() {
            let (factors, mut sums) = (Factors::random(kernel.operands), Sums::all(16.0));
            // SAFETY: the processor has the instructions.
            unsafe { (kernel.run)(100_000, &factors, &mut sums) };
            assert!(sums.are_normal(), "{}", kernel.isa);
        }
    }

    #[test]
    fn rates_of_two_measurements_are_in_one_sample() {
        let mut samples = Vec::new();
        let crew = Crew::of(1);
        add(&mut samples, measure(&crew, 0.0));
        let before: Vec<usize> = samples.iter().map(|sample| sample.flops_per_s.len()).collect();
        add(&mut samples, measure(&crew, 0.0));
        assert_eq!(samples.len(), kernels().len());
        for (sample, before) in samples.iter().zip(before) {
            assert!(sample.flops_per_s.len() > before, "{}", sample.isa);
        }
    }

    #[test]
    fn every_kernel_has_a_sample_of_all_threads() {
        let samples = measure(&Crew::of(2), 0.0);
        assert_eq!(samples.len(), kernels().len());
        for sample in samples {
            assert_eq!(sample.threads, 2);
            assert!(sample.flops_per_s.len() >= 3 && sample.flops_per_s.iter().all(|rate| *rate > 0.0));
        }
    }
}
