//! Loops over arrays with the vectors of x86-64, in assembly, so that no compiler replaces them by calls of `memcpy`,
//! or leaves out loads that it finds superfluous.

use std::arch::{asm, is_x86_feature_detected};

use super::arrays::{Loop, Loops, Pass, SCALAR};

/// [`SCALAR`] in every lane.
#[repr(C, align(64))]
struct Scalars([f32; 16]);

static SCALARS: Scalars = Scalars([SCALAR; 16]);

/// A loop over arrays, in steps of eight vectors with the numbers `\n`. `$step` handles the vector at `{i}`, plus its
/// number times its size. `$first` and `$last` are placed around the loop.
macro_rules! over_arrays {
    ($name:ident, $bytes:literal, [$($first:expr),*], [$($step:expr),+], [$($last:expr),*]) => {
        unsafe fn $name(c: *mut f32, a: *const f32, b: *const f32, bytes: usize) {
            // SAFETY: the processor has the instructions, and `bytes` is a multiple of eight vectors above 0. The loop
            // counts from −`bytes` to 0 behind the ends of the arrays, so it stays within them. All registers that it
            // changes are listed.
            unsafe {
                asm!(
                    $($first,)*
                    ".p2align 5",
                    "2:",
                    ".irp n, 0,1,2,3,4,5,6,7",
                    $($step,)+
                    ".endr",
                    concat!("add {i}, 8*", $bytes),
                    "jnz 2b",
                    $($last,)*
                    "/* {a} {b} {c} {start} {scalars} */",
                    i = inout(reg) bytes.wrapping_neg() => _,
                    a = in(reg) a.byte_add(bytes),
                    b = in(reg) b.byte_add(bytes),
                    c = in(reg) c.byte_add(bytes),
                    start = in(reg) c,
                    scalars = in(reg) &raw const SCALARS,
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                    out("zmm6") _, out("zmm7") _, out("zmm15") _,
                    options(nostack),
                );
            }
        }
    };
}

/// The loops of one instruction set in a module with its name. `$clear` sets the sum `\n` to 0, and `$add` adds the
/// vector of `a` to it. `$triad` adds the vector of `a` and register 15 × that of `b` in register 0. `$end` leaves the
/// registers as other code expects them.
macro_rules! loops {
    ($isa:ident, $register:literal, $bytes:literal, $move:literal, $stream:literal, $clear:literal, $add:literal,
     [$($triad:literal),+], $end:literal) => {
        mod $isa {
            use super::*;

            over_arrays!(read, $bytes, [".irp n, 0,1,2,3,4,5,6,7", $clear, ".endr"], [$add],
                [".irp n, 0,1,2,3,4,5,6,7",
                 concat!($move, " [{start} + ", $bytes, "*\\n], ", $register, "\\n"), ".endr", $end]);
            over_arrays!(copy, $bytes, [],
                [concat!($move, " ", $register, "0, [{a} + {i} + ", $bytes, "*\\n]"),
                 concat!($move, " [{c} + {i} + ", $bytes, "*\\n], ", $register, "0")], [$end]);
            over_arrays!(copy_streaming, $bytes, [],
                [concat!($move, " ", $register, "0, [{a} + {i} + ", $bytes, "*\\n]"),
                 concat!($stream, " [{c} + {i} + ", $bytes, "*\\n], ", $register, "0")], ["sfence", $end]);
            over_arrays!(triad, $bytes, [concat!($move, " ", $register, "15, [{scalars}]")],
                [$($triad,)+ concat!($move, " [{c} + {i} + ", $bytes, "*\\n], ", $register, "0")], [$end]);
            over_arrays!(triad_streaming, $bytes, [concat!($move, " ", $register, "15, [{scalars}]")],
                [$($triad,)+ concat!($stream, " [{c} + {i} + ", $bytes, "*\\n], ", $register, "0")],
                ["sfence", $end]);

            pub(super) const LOOPS: Loops = Loops {
                isa: stringify!($isa),
                all: [
                    (Pass::Read, read as Loop),
                    (Pass::Copy, copy),
                    (Pass::Triad, triad),
                    (Pass::CopyStreaming, copy_streaming),
                    (Pass::TriadStreaming, triad_streaming),
                ],
            };
        }
    };
}

loops!(
    avx512f,
    "zmm",
    64,
    "vmovaps",
    "vmovntps",
    "vpxord zmm\\n, zmm\\n, zmm\\n",
    "vaddps zmm\\n, zmm\\n, [{a} + {i} + 64*\\n]",
    ["vmovaps zmm0, [{a} + {i} + 64*\\n]", "vfmadd231ps zmm0, zmm15, [{b} + {i} + 64*\\n]"],
    "vzeroupper"
);
loops!(
    fma,
    "ymm",
    32,
    "vmovaps",
    "vmovntps",
    "vxorps ymm\\n, ymm\\n, ymm\\n",
    "vaddps ymm\\n, ymm\\n, [{a} + {i} + 32*\\n]",
    ["vmovaps ymm0, [{a} + {i} + 32*\\n]", "vfmadd231ps ymm0, ymm15, [{b} + {i} + 32*\\n]"],
    "vzeroupper"
);
loops!(
    sse2,
    "xmm",
    16,
    "movaps",
    "movntps",
    "xorps xmm\\n, xmm\\n",
    "addps xmm\\n, [{a} + {i} + 16*\\n]",
    ["movaps xmm0, [{b} + {i} + 16*\\n]", "mulps xmm0, xmm15", "addps xmm0, [{a} + {i} + 16*\\n]"],
    ""
);

/// The loops that the processor can run, those with the widest vectors first.
pub(super) fn loops() -> Vec<Loops> {
    let all = [
        (is_x86_feature_detected!("avx512f"), avx512f::LOOPS),
        (is_x86_feature_detected!("fma"), fma::LOOPS),
        (true, sse2::LOOPS),
    ];
    all.into_iter().filter(|(is_here, _)| *is_here).map(|(_, loops)| loops).collect()
}
