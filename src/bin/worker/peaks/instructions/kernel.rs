//! A multiply-add kernel, and the numbers that it works on.

use orchestrate::protocol::Operands;

/// 1 KiB: one AMX tile, or up to 16 vectors of which kernels use the first.
#[derive(Clone, Debug, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Block([u32; 256]);

/// The factors of a kernel. A pass adds `left` · `right` to every sum, and then `left` · `opposite`.
#[derive(Clone, Debug, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Factors {
    left: Block,
    right: Block,
    opposite: Block,
}

/// The accumulators, loaded before the first pass and stored after the last one.
#[derive(Clone, Debug, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Sums([f32; 1024]);

/// A loop of independent multiply-adds on registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    /// The instruction set: `avx512f`, …
    pub(super) isa: &'static str,
    /// The number format of the factors. Sums are in single precision.
    pub(super) operands: Operands,
    /// Operations of one pass. A multiplication and an addition are two.
    pub(super) flops_per_pass: u64,
    /// The loop.
    ///
    /// # Safety
    /// The processor must have the instructions, and the number of passes must not be 0.
    pub(super) run: unsafe fn(u64, &Factors, &mut Sums),
}

impl Factors {
    /// Random numbers near 1, of both signs. `opposite` is −`right`, so that sums stay where they are, and are never
    /// denormal, infinite or constant.
    pub(super) fn random(operands: Operands) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let left = Block(std::array::from_fn(|_| number(operands, &mut state)));
        let right = Block(std::array::from_fn(|_| number(operands, &mut state)));
        let opposite = Block(right.0.map(|word| word ^ signs(operands)));
        Factors { left, right, opposite }
    }

    /// All are 1: each multiply-add then adds 1 to its sum.
    #[cfg(test)]
    pub(super) fn ones(operands: Operands) -> Self {
        let one = match operands {
            Operands::Bf16 => 0x3f80_3f80,
            _ => 1.0_f32.to_bits(),
        };
        let [left, right, opposite] = [Block([one; 256]), Block([one; 256]), Block([one; 256])];
        Factors { left, right, opposite }
    }
}

impl Sums {
    /// All are `value`.
    pub(super) fn all(value: f32) -> Self {
        Sums([value; 1024])
    }

    /// All of them together, those that the kernel does not use as well.
    #[cfg(test)]
    pub(super) fn total(&self) -> f64 {
        self.0.iter().copied().map(f64::from).sum()
    }

    /// Whether no sum has overflowed or become denormal.
    pub(super) fn are_normal(&self) -> bool {
        self.0.iter().all(|sum| sum.is_normal())
    }
}

/// The sign bits in a word.
fn signs(operands: Operands) -> u32 {
    match operands {
        // Two numbers share a word.
        Operands::Bf16 => 0x8000_8000,
        _ => 0x8000_0000,
    }
}

/// A word of random numbers whose magnitudes are between 0.5 and 1.
fn number(operands: Operands, state: &mut u64) -> u32 {
    // Knuth's linear congruential generator; the high bits are the better ones.
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let random = (*state >> 32) as u32;
    match operands {
        Operands::Bf16 => random & 0x807f_807f | 0x3f00_3f00,
        _ => random & 0x807f_ffff | 0x3f00_0000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_normal_and_cancel() {
        for operands in [Operands::Fp32, Operands::Bf16] {
            let Factors { left, right, opposite } = Factors::random(operands);
            let numbers = |block: &Block| -> Vec<f32> {
                let halves = |word: u32| match operands {
                    Operands::Bf16 => vec![f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)],
                    _ => vec![f32::from_bits(word)],
                };
                block.0.iter().flat_map(|word| halves(*word)).collect()
            };
            let [left, right, opposite] = [&left, &right, &opposite].map(numbers);
            assert!(left.iter().chain(&right).all(|it| (0.5..1.0).contains(&it.abs())));
            assert!(left.iter().any(|it| *it > 0.0) && left.iter().any(|it| *it < 0.0));
            assert!(right.iter().zip(&opposite).all(|(one, other)| *one == -other));
        }
    }
}
