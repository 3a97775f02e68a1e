//! Which operands a device multiplies in hardware. A processor without an instruction for bf16 computes with it all the
//! same, through single precision: that is a fact worth a sample, but no ceiling of any unit.

use orchestrate::job::Device;
use orchestrate::protocol::Operands;

use super::super::device::OpenDevice;
use super::super::shim;

/// Instructions that multiply bf16 and add in single precision, as libtorch's processor library calls them: x86's two
/// (AVX-512 and AMX), then Arm's.
const BF16_INSTRUCTIONS: [&str; 3] = ["amx_bf16", "avx512_bf16", "bf16"];

/// What decides which arithmetic there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    device: Device,
    /// A CUDA device's compute capability.
    capability: Option<(i32, i32)>,
    /// Whether a processor has one of [`BF16_INSTRUCTIONS`].
    has_bf16: bool,
}

/// How operands stand on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The hardware multiplies them.
    Native {
        /// What it adds products up in.
        accumulate: &'static str,
    },
    /// libtorch computes with them, but the hardware does not.
    Emulated {
        /// What is missing.
        reason: &'static str,
    },
    /// They do not exist there.
    Absent {
        /// What they need.
        reason: &'static str,
    },
}

impl Hardware {
    /// Asks the device.
    pub(super) fn probe(device: &OpenDevice) -> Self {
        Hardware {
            device: device.device,
            capability: device.capability,
            has_bf16: BF16_INSTRUCTIONS.iter().any(|name| shim::processor_has(name)),
        }
    }

    /// How `operands` stand.
    ///
    /// libtorch has cuBLAS add half precision up in single precision unless it is told otherwise, which it is not. What
    /// Metal's products add up in is written nowhere.
    pub(super) fn standing(self, operands: Operands) -> Standing {
        const AMPERE: &str = "it needs an NVIDIA GPU of compute capability 8.0 or later";
        let is_ampere = self.capability.is_some_and(|capability| capability >= (8, 0));
        let native = Standing::Native { accumulate: "fp32" };
        match (operands, self.device) {
            (Operands::Fp32, _) | (Operands::Fp16, Device::Cuda(_)) => native,
            (Operands::Tf32 | Operands::Bf16, Device::Cuda(_)) if is_ampere => native,
            (Operands::Bf16, Device::Cpu) if self.has_bf16 => native,
            (Operands::Bf16, Device::Cpu) => Standing::Emulated {
                reason: "the processor has none of amx_bf16, avx512_bf16 and Arm's bf16",
            },
            (Operands::Fp16, Device::Cpu) => {
                Standing::Absent { reason: "no precision of a job computes in it on a processor" }
            }
            (Operands::Bf16 | Operands::Fp16, Device::Mps) => {
                Standing::Native { accumulate: "not said by Metal" }
            }
            (Operands::Tf32, _) | (Operands::Bf16, Device::Cuda(_)) => Standing::Absent { reason: AMPERE },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(device: Device, capability: Option<(i32, i32)>, has_bf16: bool) -> Vec<&'static str> {
        let hardware = Hardware { device, capability, has_bf16 };
        [Operands::Fp32, Operands::Tf32, Operands::Bf16, Operands::Fp16]
            .into_iter()
            .filter(|operands| matches!(hardware.standing(*operands), Standing::Native { .. }))
            .map(Operands::as_str)
            .collect()
    }

    #[test]
    fn operands_are_native_where_the_hardware_has_them() {
        assert_eq!(native(Device::Cuda(0), Some((9, 0)), true), ["fp32", "tf32", "bf16", "fp16"]);
        // A T4: tensor units for fp16 alone, whatever its host's processor has.
        assert_eq!(native(Device::Cuda(0), Some((7, 5)), true), ["fp32", "fp16"]);
        assert_eq!(native(Device::Mps, None, true), ["fp32", "bf16", "fp16"]);
        assert_eq!(native(Device::Cpu, None, true), ["fp32", "bf16"]);
        assert_eq!(native(Device::Cpu, None, false), ["fp32"]);
    }

    #[test]
    fn bf16_without_an_instruction_is_emulated_and_not_absent() {
        let old = Hardware { device: Device::Cpu, capability: None, has_bf16: false };
        assert!(matches!(old.standing(Operands::Bf16), Standing::Emulated { .. }));
        assert!(matches!(old.standing(Operands::Tf32), Standing::Absent { .. }));
    }

    #[test]
    fn an_instruction_that_nobody_has_is_not_there() {
        assert!(!shim::processor_has("avx1024_bf64"));
        // Every 64-bit x86 processor has SSE2, every 64-bit Arm one NEON.
        let always = if cfg!(target_arch = "x86_64") { "sse2" } else { "neon" };
        assert!(shim::processor_has(always));
    }
}
