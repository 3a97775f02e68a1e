//! Loops over arrays with the vectors of 64-bit Arm, in assembly, so that no compiler replaces them by calls of
//! `memcpy`, or leaves out loads that it finds superfluous.

use std::arch::asm;

use super::arrays::{Loop, Loops, Pass, SCALAR};

/// A loop over arrays, in steps of four pairs of vectors with the numbers `\n` of their first bytes. `$first` and
/// `$last` are placed around the loop.
macro_rules! over_arrays {
    ($name:ident, [$($first:expr),*], [$($step:expr),+], [$($last:expr),*]) => {
        unsafe fn $name(c: *mut f32, a: *const f32, b: *const f32, bytes: usize) {
            // SAFETY: every 64-bit Arm processor has these instructions, and `bytes` is a multiple of 128 above 0. The
            // pointers advance by 128 in each of `bytes` ÷ 128 rounds, so the loop stays within the arrays. All
            // registers that it changes are listed.
            unsafe {
                asm!(
                    "dup v31.4s, {scalar:w}",
                    $($first,)*
                    "2:",
                    ".irp n, 0,32,64,96",
                    $($step,)+
                    ".endr",
                    "add {a}, {a}, #128",
                    "add {b}, {b}, #128",
                    "add {c}, {c}, #128",
                    "subs {left}, {left}, #128",
                    "b.ne 2b",
                    $($last,)*
                    "/* {start} */",
                    a = inout(reg) a => _,
                    b = inout(reg) b => _,
                    c = inout(reg) c => _,
                    left = inout(reg) bytes => _,
                    start = in(reg) c,
                    scalar = in(reg) SCALAR.to_bits(),
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v31") _,
                    options(nostack),
                );
            }
        }
    };
}

over_arrays!(
    read,
    ["movi v4.4s, #0", "movi v5.4s, #0"],
    ["ldp q0, q1, [{a}, #\\n]", "fadd v4.4s, v4.4s, v0.4s", "fadd v5.4s, v5.4s, v1.4s"],
    ["stp q4, q5, [{start}]"]
);
over_arrays!(copy, [], ["ldp q0, q1, [{a}, #\\n]", "stp q0, q1, [{c}, #\\n]"], []);
over_arrays!(copy_streaming, [], ["ldp q0, q1, [{a}, #\\n]", "stnp q0, q1, [{c}, #\\n]"], []);
over_arrays!(
    triad,
    [],
    [
        "ldp q0, q1, [{a}, #\\n]",
        "ldp q2, q3, [{b}, #\\n]",
        "fmla v0.4s, v2.4s, v31.4s",
        "fmla v1.4s, v3.4s, v31.4s",
        "stp q0, q1, [{c}, #\\n]"
    ],
    []
);
over_arrays!(
    triad_streaming,
    [],
    [
        "ldp q0, q1, [{a}, #\\n]",
        "ldp q2, q3, [{b}, #\\n]",
        "fmla v0.4s, v2.4s, v31.4s",
        "fmla v1.4s, v3.4s, v31.4s",
        "stnp q0, q1, [{c}, #\\n]"
    ],
    []
);

/// The loops that every 64-bit Arm processor can run.
pub(super) fn loops() -> Vec<Loops> {
    vec![Loops {
        isa: "neon",
        all: [
            (Pass::Read, read as Loop),
            (Pass::Copy, copy),
            (Pass::Triad, triad),
            (Pass::CopyStreaming, copy_streaming),
            (Pass::TriadStreaming, triad_streaming),
        ],
    }]
}
