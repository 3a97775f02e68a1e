//! Multiply-add kernels of 64-bit Arm, in assembly: no compiler shortens, reorders or fuses them, so what they execute
//! is exactly the code here.
//!
//! Each keeps 24 sums in registers. Today's processors start up to four instructions per cycle and finish each after
//! four, so 16 independent sums keep them busy.

use std::arch::{asm, is_aarch64_feature_detected};

use orchestrate::protocol::Operands;

use super::kernel::{Factors, Kernel, Sums};

/// A kernel on vectors. `$instruction` multiplies factors of the form `$lanes`, and adds to the sum `\n`. The loops are
/// not nested, because the outer one would remove the mark that ends the name `\n`.
macro_rules! on_vectors {
    ($name:ident, $feature:literal, $instruction:literal, $lanes:literal) => {
        #[target_feature(enable = $feature)]
        unsafe fn $name(passes: u64, factors: &Factors, sums: &mut Sums) {
            // SAFETY: the processor has the instructions. They read the first vector of each block of the factors, read
            // and write the first 24 × 16 bytes of the sums, and change no other memory. All registers that they change
            // are listed.
            unsafe {
                asm!(
                    "ldr q29, [{factors}]",
                    "ldr q30, [{factors}, #1024]",
                    "ldr q31, [{factors}, #2048]",
                    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
                    "ldr q\\n, [{sums}, #16*\\n]",
                    ".endr",
                    "2:",
                    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
                    concat!($instruction, " v\\n\\().4s, v29.", $lanes, ", v30.", $lanes),
                    ".endr",
                    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
                    concat!($instruction, " v\\n\\().4s, v29.", $lanes, ", v31.", $lanes),
                    ".endr",
                    "subs {passes}, {passes}, #1",
                    "b.ne 2b",
                    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
                    "str q\\n, [{sums}, #16*\\n]",
                    ".endr",
                    factors = in(reg) factors,
                    sums = in(reg) sums,
                    passes = inout(reg) passes => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _,
                    out("v14") _, out("v15") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                    out("v20") _, out("v21") _, out("v22") _, out("v23") _, out("v29") _, out("v30") _,
                    out("v31") _,
                    options(nostack),
                );
            }
        }
    };
}

on_vectors!(neon, "neon", "fmla", "4s");
on_vectors!(bfdot, "neon,bf16", "bfdot", "8h");
on_vectors!(bfmmla, "neon,bf16", "bfmmla", "8h");

/// The kernels that this processor can run.
pub(super) fn kernels() -> Vec<Kernel> {
    use Operands::{Bf16, Fp32};
    let has_bf16 = is_aarch64_feature_detected!("bf16");
    let vectors =
        |isa, operands, flops: u64, run| Kernel { isa, operands, flops_per_pass: 2 * 24 * flops, run };
    let all = [
        (true, vectors("neon", Fp32, 2 * 4, neon as _)),
        (has_bf16, vectors("bfdot", Bf16, 4 * 4, bfdot as _)),
        // Each of four sums takes a product of four pairs.
        (has_bf16, vectors("bfmmla", Bf16, 8 * 4, bfmmla as _)),
    ];
    all.into_iter().filter(|(is_here, _)| *is_here).map(|(_, kernel)| kernel).collect()
}
