//! The operands that a device multiplies in hardware. A processor without an instruction for bf16 still multiplies it
//! in single precision. That is sampled, but is not the ceiling of an arithmetic unit.

use orchestrate::job::Device;
use orchestrate::protocol::Operands;

use super::super::device::OpenDevice;
use super::super::shim;

/// Instructions that multiply bf16 and add in single precision, by libtorch's names: those of x86 (AMX and AVX-512),
/// then Arm's.
const BF16_INSTRUCTIONS: [&str; 3] = ["amx_bf16", "avx512_bf16", "bf16"];

/// The facts that determine the arithmetic of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    device: Device,
    /// A CUDA device's compute capability.
    capability: Option<(i32, i32)>,
    /// Whether a processor has one of [`BF16_INSTRUCTIONS`].
    has_bf16: bool,
}

/// How a device multiplies operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Support {
    /// The hardware multiplies them.
    Native {
        /// The precision in which it adds up the products.
        accumulate: &'static str,
    },
    /// libtorch computes with them, but the hardware does not.
    Emulated {
        /// What is missing.
        reason: &'static str,
    },
    /// The device cannot multiply them.
    Absent {
        /// What they need.
        reason: &'static str,
    },
}

impl Hardware {
    /// Reads the facts of the device.
    pub(super) fn probe(device: &OpenDevice) -> Self {
        Hardware {
            device: device.device,
            capability: device.capability,
            has_bf16: BF16_INSTRUCTIONS.iter().any(|name| shim::processor_has(name)),
        }
    }

    /// How the device multiplies `operands`.
    ///
    /// By default, libtorch makes cuBLAS add up products of half precision in single precision. For Metal, it is not
    /// documented.
    pub(super) fn support(self, operands: Operands) -> Support {
        const AMPERE: &str = "it needs an NVIDIA GPU of compute capability 8.0 or later";
        let is_ampere = self.capability.is_some_and(|capability| capability >= (8, 0));
        let native = Support::Native { accumulate: "fp32" };
        match (operands, self.device) {
            (Operands::Fp32, _) | (Operands::Fp16, Device::Cuda(_)) => native,
            (Operands::Tf32 | Operands::Bf16, Device::Cuda(_)) if is_ampere => native,
            (Operands::Bf16, Device::Cpu) if self.has_bf16 => native,
            (Operands::Bf16, Device::Cpu) => Support::Emulated {
                reason: "the CPU has no instruction for bf16 (amx_bf16, avx512_bf16 or Arm's bf16)",
            },
            (Operands::Fp16, Device::Cpu) => {
                Support::Absent { reason: "on a CPU, no precision of a job computes in it" }
            }
            (Operands::Bf16 | Operands::Fp16, Device::Mps) => {
                Support::Native { accumulate: "not said by Metal" }
            }
            (Operands::Tf32, _) | (Operands::Bf16, Device::Cuda(_)) => Support::Absent { reason: AMPERE },
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
            .filter(|operands| matches!(hardware.support(*operands), Support::Native { .. }))
            .map(Operands::as_str)
            .collect()
    }

    #[test]
    fn operands_are_native_where_the_hardware_has_them() {
        assert_eq!(native(Device::Cuda(0), Some((9, 0)), true), ["fp32", "tf32", "bf16", "fp16"]);
        // A T4 has tensor units for fp16 only, whatever its host's processor has.
        assert_eq!(native(Device::Cuda(0), Some((7, 5)), true), ["fp32", "fp16"]);
        assert_eq!(native(Device::Mps, None, true), ["fp32", "bf16", "fp16"]);
        assert_eq!(native(Device::Cpu, None, true), ["fp32", "bf16"]);
        assert_eq!(native(Device::Cpu, None, false), ["fp32"]);
    }

    #[test]
    fn bf16_without_an_instruction_is_emulated_and_not_absent() {
        let old = Hardware { device: Device::Cpu, capability: None, has_bf16: false };
        assert!(matches!(old.support(Operands::Bf16), Support::Emulated { .. }));
        assert!(matches!(old.support(Operands::Tf32), Support::Absent { .. }));
    }

    #[test]
    fn unknown_instructions_are_absent() {
        assert!(!shim::processor_has("avx1024_bf64"));
        // Every 64-bit x86 processor has SSE2, and every 64-bit Arm processor has NEON.
        let always = if cfg!(target_arch = "x86_64") { "sse2" } else { "neon" };
        assert!(shim::processor_has(always));
    }
}
