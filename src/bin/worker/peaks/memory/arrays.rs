//! The arrays of one thread, and the kinds of passes over them.

use std::fmt;

/// Bytes that a loop moves per array before it checks whether it is done. The size of an array is a multiple of it.
pub(super) const STEP: usize = 512;

/// The factor of [`Pass::Triad`].
pub(super) const SCALAR: f32 = 3.0;

/// The kinds of passes over arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Reads `a`.
    Read,
    /// c = a.
    Copy,
    /// c = a + [`SCALAR`] · b.
    Triad,
    /// [`Pass::Copy`] with stores that do not pass through the caches, so no line of `c` is read before it is written.
    CopyStreaming,
    /// [`Pass::Triad`] with such stores.
    TriadStreaming,
}

impl Pass {
    /// The number of arrays that are read or written, which determines the counted bytes. Lines that ordinary stores
    /// read before they write them are not counted.
    pub(super) fn arrays(self) -> u64 {
        match self {
            Pass::Read => 1,
            Pass::Copy | Pass::CopyStreaming => 2,
            Pass::Triad | Pass::TriadStreaming => 3,
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pass::Read => "read",
            Pass::Copy => "copy",
            Pass::Triad => "triad",
            Pass::CopyStreaming => "copy_nt",
            Pass::TriadStreaming => "triad_nt",
        })
    }
}

/// A loop over arrays of `bytes` bytes, a multiple of [`STEP`] above 0, which start at multiples of 64.
///
/// # Safety
/// The processor must have the instructions. `a` and `b` must be readable and `c` writable for as many bytes.
pub(super) type Loop = unsafe fn(c: *mut f32, a: *const f32, b: *const f32, bytes: usize);

/// The loops of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loops {
    /// The instruction set: `avx512f`, …
    pub(super) isa: &'static str,
    /// Each kind of pass with its loop.
    pub(super) all: [(Pass, Loop); 5],
}

impl Loops {
    /// The loop for `pass`.
    pub(super) fn of(&self, pass: Pass) -> Loop {
        let found = self.all.iter().find(|(known, _)| *known == pass);
        found.expect("every instruction set has all kinds of passes").1
    }
}

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Three arrays of one length.
#[derive(Debug)]
pub(super) struct Arrays {
    /// The requested bytes.
    pub(super) asked: usize,
    a: Vec<Line>,
    b: Vec<Line>,
    c: Vec<Line>,
}

impl Arrays {
    /// Of about `bytes` bytes each, at least [`STEP`]. The calling thread touches them first, so they are in the
    /// memory near its processor.
    pub(super) fn new(bytes: usize) -> Self {
        let lines = (bytes / STEP).max(1) * (STEP / size_of::<Line>());
        Arrays { asked: bytes, a: filled(lines, 1.0), b: filled(lines, 2.0), c: filled(lines, 0.0) }
    }

    /// The bytes of each.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.a.as_slice())
    }

    /// Runs a loop over all of them `passes` times.
    ///
    /// # Safety
    /// The processor must have the instructions of the loop.
    pub(super) unsafe fn run(&mut self, one: Loop, passes: u32) {
        let bytes = self.bytes();
        for _ in 0..passes {
            // SAFETY: the three arrays have as many bytes, a multiple of `STEP`, and start at multiples of 64.
            unsafe { one(self.c.as_mut_ptr().cast(), self.a.as_ptr().cast(), self.b.as_ptr().cast(), bytes) };
        }
    }

    /// The numbers of `c`.
    #[cfg(test)]
    pub(super) fn result(&self) -> Vec<f32> {
        self.c.iter().flat_map(|line| line.0).collect()
    }
}

fn filled(lines: usize, value: f32) -> Vec<Line> {
    let mut array = Vec::with_capacity(lines);
    ask_for_large_pages(&array);
    array.resize(lines, Line([value; 16]));
    array
}

/// With pages of 4 KiB, looking up addresses limits what one thread can stream. Linux ignores the advice if it must.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(array: &Vec<Line>) {
    /// The size of a large page of Linux, on x86-64 and on Arm with pages of 4 KiB.
    const LARGE: usize = 2 << 20;
    let start = (array.as_ptr() as usize).next_multiple_of(LARGE);
    let end = array.as_ptr() as usize + array.capacity() * size_of::<Line>();
    if start + LARGE <= end {
        // SAFETY: the range is within memory that the vector owns, and the advice does not change its contents.
        unsafe { nix::libc::madvise(start as *mut _, end - start, nix::libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_array: &Vec<Line>) {}
