//! Operations per cycle of the arithmetic units of NVIDIA GPUs.

use crate::job::Precision;

/// A generation of GPUs: dense operations per cycle of one multiprocessor, 2 per multiply-add.
struct Generation {
    /// Compute capabilities, major and minor number.
    capabilities: &'static [(u32, u32)],
    fp32: u64,
    tf32: Option<u64>,
    bf16: Option<u64>,
    /// fp16 with sums in fp32, as libtorch multiplies in mixed precision.
    fp16: Option<u64>,
    /// Whether cards for games have half the rate of the tensor cores, because their sums are in fp32.
    halved: bool,
}

/// From NVIDIA's architecture whitepapers (Volta, Turing, GA100, GA102, Ada, Hopper, Blackwell): FP32 lanes × 2, and
/// the dense FMA rate of the tensor cores of a multiprocessor × 2. Chips whose rates are not published are left out.
const GENERATIONS: &[Generation] = &[
    Generation {
        capabilities: &[(7, 0)],
        fp32: 128,
        tf32: None,
        bf16: None,
        fp16: Some(1024),
        halved: false,
    },
    Generation { capabilities: &[(7, 5)], fp32: 128, tf32: None, bf16: None, fp16: Some(1024), halved: true },
    Generation {
        capabilities: &[(8, 0)],
        fp32: 128,
        tf32: Some(1024),
        bf16: Some(2048),
        fp16: Some(2048),
        halved: false,
    },
    Generation {
        capabilities: &[(8, 6), (8, 9), (12, 0)],
        fp32: 256,
        tf32: Some(512),
        bf16: Some(1024),
        fp16: Some(1024),
        halved: true,
    },
    Generation {
        capabilities: &[(9, 0)],
        fp32: 256,
        tf32: Some(2048),
        bf16: Some(4096),
        fp16: Some(4096),
        halved: false,
    },
    Generation {
        capabilities: &[(10, 0), (10, 3)],
        fp32: 256,
        tf32: Some(4096),
        bf16: Some(8192),
        fp16: Some(8192),
        halved: false,
    },
];

/// FLOPs per cycle of one multiprocessor of the GPU `name` at `precision`; `None` if the chip is unknown or has no
/// units for it.
pub(super) fn flops_per_cycle(name: &str, capability: (u32, u32), precision: Precision) -> Option<u64> {
    let found = GENERATIONS.iter().find(|it| it.capabilities.contains(&capability))?;
    let by_tensor_cores = |rate: u64| if found.halved && has_half_rate(name) { rate / 2 } else { rate };
    match precision {
        Precision::Fp32 => Some(found.fp32),
        Precision::Tf32 => found.tf32.map(by_tensor_cores),
        Precision::Bf16 => found.bf16.map(by_tensor_cores),
        Precision::Amp => found.fp16.map(by_tensor_cores),
    }
}

/// Whether the tensor cores of the GPU `name` add up in fp32 at half their rate: those of GeForce cards and of the
/// A10G do.
fn has_half_rate(name: &str) -> bool {
    name.contains("GeForce") || name.split_whitespace().any(|word| word == "A10G")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiprocessors × FLOPs per cycle × the boost clock of the data sheets, in TFLOP/s.
    #[test]
    fn figures_from_units_and_clocks_match_the_data_sheets() {
        use Precision::{Amp, Bf16, Fp32, Tf32};
        for (name, capability, multiprocessors, mhz, precision, tflops) in [
            ("NVIDIA GeForce RTX 2080 Ti", (7, 5), 68.0, 1635.0, Amp, 56.9),
            ("NVIDIA GeForce RTX 3090", (8, 6), 82.0, 1695.0, Tf32, 35.6),
            ("NVIDIA GeForce RTX 3090", (8, 6), 82.0, 1695.0, Bf16, 71.2),
            ("NVIDIA GeForce RTX 4090", (8, 9), 128.0, 2520.0, Fp32, 82.6),
            ("NVIDIA GeForce RTX 4090", (8, 9), 128.0, 2520.0, Amp, 165.2),
            ("NVIDIA GeForce RTX 5090", (12, 0), 170.0, 2407.0, Bf16, 209.5),
            ("NVIDIA RTX PRO 6000 Blackwell", (12, 0), 188.0, 2617.0, Bf16, 503.8),
            ("NVIDIA RTX A6000", (8, 6), 84.0, 1800.0, Bf16, 154.8),
            ("NVIDIA A10G", (8, 6), 80.0, 1710.0, Amp, 70.0),
            ("NVIDIA A10", (8, 6), 72.0, 1695.0, Amp, 125.0),
            ("NVIDIA B200", (10, 0), 148.0, 1855.0, Bf16, 2250.0),
            ("V100 SXM2", (7, 0), 80.0, 1530.0, Fp32, 15.7),
            ("V100 SXM2", (7, 0), 80.0, 1530.0, Amp, 125.0),
            ("T4", (7, 5), 40.0, 1590.0, Fp32, 8.1),
            ("T4", (7, 5), 40.0, 1590.0, Amp, 65.0),
            ("A100 SXM", (8, 0), 108.0, 1410.0, Fp32, 19.5),
            ("A100 SXM", (8, 0), 108.0, 1410.0, Tf32, 156.0),
            ("A100 SXM", (8, 0), 108.0, 1410.0, Bf16, 312.0),
            ("L4", (8, 9), 58.0, 2040.0, Fp32, 30.3),
            ("L4", (8, 9), 58.0, 2040.0, Bf16, 121.0),
            ("H100 SXM", (9, 0), 132.0, 1980.0, Fp32, 66.9),
            ("H100 SXM", (9, 0), 132.0, 1830.0, Tf32, 494.7),
            ("H100 SXM", (9, 0), 132.0, 1830.0, Bf16, 989.4),
        ] {
            let each = flops_per_cycle(name, capability, precision).unwrap() as f64;
            let found = multiprocessors * each * mhz * 1e6 / 1e12;
            assert!((found / tflops - 1.0).abs() < 0.01, "{name} {precision}: {found} and not {tflops}");
        }
        assert_eq!(flops_per_cycle("T4", (7, 5), Bf16), None);
        assert_eq!(flops_per_cycle("P40", (6, 1), Fp32), None, "a chip that is not in the table");
    }
}
