//! Multiply-add kernels of x86-64, in assembly: no compiler shortens, reorders or fuses them, so what they execute is
//! exactly the code here.
//!
//! Each keeps its sums in registers: 24 with AVX-512, which has 32 registers, and 12 before it, which has 16. Today's
//! processors start two instructions per cycle and finish each after four to six, so ten independent sums keep them
//! busy. AMX starts one per 16 cycles and finishes it after 52, so four do.

use std::arch::{asm, is_x86_feature_detected};

use orchestrate::protocol::Operands;

use super::kernel::{Factors, Kernel, Sums};
use crate::shim;

/// A kernel on vectors. `$n` lists the numbers of its accumulators, `$step` is the multiply-add of sum `\n` and factor
/// `\f`, and `$end` leaves the registers as other code expects them.
macro_rules! on_vectors {
    ($name:ident, $register:literal, $bytes:literal, $move:literal, $n:literal,
     $left:literal, $right:literal, $opposite:literal, [$($step:literal),+], $end:literal) => {
        unsafe fn $name(passes: u64, factors: &Factors, sums: &mut Sums) {
            // SAFETY: the processor has the instructions. They read the first vector of each block of the factors. They
            // read and write as many vectors of the sums as there are accumulators, at most 24 × 64 bytes of 4096. They
            // change no other memory, and all registers that they change are listed.
            unsafe {
                asm!(
                    concat!($move, " ", $left, ", [{factors}]"),
                    concat!($move, " ", $right, ", [{factors} + 1024]"),
                    concat!($move, " ", $opposite, ", [{factors} + 2048]"),
                    concat!(".irp n, ", $n),
                    concat!($move, " ", $register, "\\n, [{sums} + ", $bytes, "*\\n]"),
                    ".endr",
                    ".p2align 5",
                    "2:",
                    concat!(".irp f, ", $right, ", ", $opposite),
                    concat!(".irp n, ", $n),
                    $($step,)+
                    ".endr",
                    ".endr",
                    "dec {passes}",
                    "jnz 2b",
                    concat!(".irp n, ", $n),
                    concat!($move, " [{sums} + ", $bytes, "*\\n], ", $register, "\\n"),
                    ".endr",
                    $end,
                    factors = in(reg) factors,
                    sums = in(reg) sums,
                    passes = inout(reg) passes => _,
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                    out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                    out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _,
                    out("zmm17") _, out("zmm18") _, out("zmm19") _, out("zmm20") _, out("zmm21") _,
                    out("zmm22") _, out("zmm23") _, out("zmm24") _, out("zmm25") _, out("zmm26") _,
                    options(nostack),
                );
            }
        }
    };
}

/// [`on_vectors`] with the registers of AVX-512.
macro_rules! on_avx512 {
    ($name:ident, $($step:literal),+) => {
        on_vectors!($name, "zmm", 64, "vmovaps", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
                    "zmm24", "zmm25", "zmm26", [$($step),+], "vzeroupper");
    };
}

/// [`on_vectors`] with the registers of AVX.
macro_rules! on_avx {
    ($name:ident, $($step:literal),+) => {
        on_vectors!($name, "ymm", 32, "vmovaps", "0,1,2,3,4,5,6,7,8,9,10,11",
                    "ymm13", "ymm14", "ymm15", [$($step),+], "vzeroupper");
    };
}

on_avx512!(avx512f, "vfmadd231ps zmm\\n, zmm24, \\f");
on_avx512!(avx512_bf16, "vdpbf16ps zmm\\n, zmm24, \\f");
on_avx!(fma, "vfmadd231ps ymm\\n, ymm13, \\f");
on_avx!(avx, "vmulps ymm12, ymm13, \\f", "vaddps ymm\\n, ymm\\n, ymm12");
on_vectors!(
    sse2,
    "xmm",
    16,
    "movaps",
    "0,1,2,3,4,5,6,7,8,9,10,11",
    "xmm13",
    "xmm14",
    "xmm15",
    ["movaps xmm12, xmm13", "mulps xmm12, \\f", "addps xmm\\n, xmm12"],
    ""
);

/// All eight tiles have 16 rows of 64 bytes: palette 1, then the bytes per row of each tile, then their rows.
#[repr(C, align(64))]
struct TileShapes {
    palette: [u8; 16],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static TILES: TileShapes = {
    let mut shapes = TileShapes { palette: [0; 16], row_bytes: [0; 16], rows: [0; 16] };
    shapes.palette[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        shapes.row_bytes[tile] = 64;
        shapes.rows[tile] = 16;
        tile += 1;
    }
    shapes
};

unsafe fn amx_bf16(passes: u64, factors: &Factors, sums: &mut Sums) {
    // SAFETY: the processor has the instructions, and the process has permission to use tiles. They read 1 KiB of each
    // block of the factors, read and write the 4 KiB of the sums, and change no other memory.
    unsafe {
        asm!(
            "ldtilecfg [{shapes}]",
            "tileloadd tmm4, [{factors} + {stride}]",
            "tileloadd tmm5, [{factors} + {stride} + 1024]",
            "tileloadd tmm6, [{factors} + {stride} + 2048]",
            ".irp n, 0,1,2,3",
            "tileloadd tmm\\n, [{sums} + {stride} + 1024*\\n]",
            ".endr",
            "2:",
            ".irp f, tmm5, tmm6",
            ".irp n, 0,1,2,3",
            "tdpbf16ps tmm\\n, tmm4, \\f",
            ".endr",
            ".endr",
            "dec {passes}",
            "jnz 2b",
            ".irp n, 0,1,2,3",
            "tilestored [{sums} + {stride} + 1024*\\n], tmm\\n",
            ".endr",
            "tilerelease",
            shapes = in(reg) &raw const TILES,
            factors = in(reg) factors,
            sums = in(reg) sums,
            stride = in(reg) 64_u64,
            passes = inout(reg) passes => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _, out("tmm6") _,
            options(nostack),
        );
    }
}

/// The kernels that this processor can run, of the newest instruction sets for each kind of operands. An older set can
/// be the faster one, where the newer one lowers the clock.
pub(super) fn kernels() -> Vec<Kernel> {
    use Operands::{Bf16, Fp32};
    let (has_avx512, has_fma) = (is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("fma"));
    let has_avx = is_x86_feature_detected!("avx");
    // Operations of one instruction, or of a multiplication and the addition of its products.
    let vectors = |isa, operands, chains: u64, flops: u64, run| Kernel {
        isa,
        operands,
        flops_per_pass: 2 * chains * flops,
        run,
    };
    let all = [
        (has_avx512, vectors("avx512f", Fp32, 24, 2 * 16, avx512f as _)),
        (has_fma, vectors("fma", Fp32, 12, 2 * 8, fma as _)),
        (has_avx && !has_fma, vectors("avx", Fp32, 12, 2 * 8, avx as _)),
        (!has_avx, vectors("sse2", Fp32, 12, 2 * 4, sse2 as _)),
        (is_x86_feature_detected!("avx512bf16"), vectors("avx512_bf16", Bf16, 24, 4 * 16, avx512_bf16 as _)),
        (has_tiles(), vectors("amx_bf16", Bf16, 4, 2 * 16 * 16 * 32, amx_bf16 as _)),
    ];
    all.into_iter().filter(|(is_here, _)| *is_here).map(|(_, kernel)| kernel).collect()
}

/// Whether the processor has AMX with bf16, and Linux lets this process use it.
fn has_tiles() -> bool {
    shim::processor_has("amx_bf16") && permits_tiles()
}

/// Asks Linux for permission to use tiles, whose state is large.
#[cfg(target_os = "linux")]
fn permits_tiles() -> bool {
    /// `ARCH_REQ_XCOMP_PERM` and `XFEATURE_XTILEDATA` of Linux, see its `Documentation/arch/x86/xstate.rst`.
    const REQUEST: (nix::libc::c_int, nix::libc::c_ulong) = (0x1023, 18);
    // SAFETY: this call takes two numbers, and changes nothing but the permission.
    unsafe { nix::libc::syscall(nix::libc::SYS_arch_prctl, REQUEST.0, REQUEST.1) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn permits_tiles() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels of older instruction sets, which newer processors run too but have no use for.
    #[test]
    fn older_instructions_compute_the_same() {
        let run = |kernel: unsafe fn(u64, &Factors, &mut Sums)| {
            let mut sums = Sums::all(0.0);
            // SAFETY: every x86-64 processor has SSE2, and the test checks for AVX.
            unsafe { kernel(5, &Factors::ones(Operands::Fp32), &mut sums) };
            sums.total()
        };
        assert_eq!(run(sse2), 5.0 * 2.0 * 12.0 * 4.0);
        if is_x86_feature_detected!("avx") {
            assert_eq!(run(avx), 5.0 * 2.0 * 12.0 * 8.0);
        }
    }
}
