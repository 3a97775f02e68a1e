//! The loops that take the time, for the widest vectors of this processor.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128, __m256, __m512, _mm_add_ps, _mm_loadu_ps, _mm_mul_ps, _mm_set1_ps, _mm_sfence, _mm_stream_ps,
    _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_storeu_ps,
    _mm256_stream_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_ps,
    _mm512_storeu_ps, _mm512_stream_ps,
};
use std::array::from_fn;
use std::hint::black_box;

/// Most rows of a block.
const ROWS: usize = 4;

/// Most columns of a block: four vectors of 512 bits.
const COLUMNS: usize = 64;

/// The length of the sums of one round.
const DEPTH: usize = 4_096;

/// A block, and the column and the row whose product is added to it again and again. A part of it stays in registers: a
/// product that loads its operands waits for caches, which other machines on the same processor may keep busy.
pub(crate) struct Block {
    left: [f32; ROWS],
    right: [f32; COLUMNS],
    sum: [[f32; COLUMNS]; ROWS],
}

impl Block {
    /// Bytes of the column and the row, which are read, and of the block, which is read and written.
    pub(crate) const BYTES: f64 = 4.0 * (ROWS + COLUMNS + 2 * ROWS * COLUMNS) as f64;

    pub(crate) fn new() -> Self {
        // Small enough that sums of many rounds stay finite.
        Block { left: [1e-3; ROWS], right: [1e-3; COLUMNS], sum: [[0.0; COLUMNS]; ROWS] }
    }
}

/// Adds the product to a part of the block, `rounds` times [`DEPTH`] times. Returns the FLOPs: 2 per multiply-add.
pub(crate) fn multiply(block: &mut Block, rounds: u64) -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512.
            return unsafe { multiply_avx512(block, rounds) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            return unsafe { multiply_avx2(block, rounds) };
        }
    }
    multiply_plain(block, rounds)
}

fn flops(rounds: u64, rows: usize, columns: usize) -> f64 {
    2.0 * rounds as f64 * (DEPTH * rows * columns) as f64
}

/// Defines a product of `$rows` rows and `$vectors` vectors of `$lanes` numbers. The sums do not depend on each other.
/// They are as many as hide the latency of a multiply-add, and leave registers for the column and the row.
#[cfg(target_arch = "x86_64")]
macro_rules! define_multiply {
    ($name:ident, $features:literal, $rows:literal, $vectors:literal, $lanes:literal, $splat:ident, $load:ident,
     $multiply_add:ident, $store:ident) => {
        #[target_feature(enable = $features)]
        fn $name(block: &mut Block, rounds: u64) -> f64 {
            for _ in 0..rounds {
                let Block { left, right, sum } = black_box(&mut *block);
                let left: [_; $rows] = from_fn(|row| $splat(left[row]));
                // SAFETY: a chunk has as many numbers as a vector.
                let load = |numbers: &[f32; $lanes]| unsafe { $load(numbers.as_ptr()) };
                let right: [_; $vectors] = from_fn(|at| load(&right.as_chunks().0[at]));
                let mut sums: [[_; $vectors]; $rows] =
                    from_fn(|row| from_fn(|at| load(&sum[row].as_chunks().0[at])));
                for _ in 0..DEPTH {
                    for row in 0..$rows {
                        for at in 0..$vectors {
                            sums[row][at] = $multiply_add(left[row], right[at], sums[row][at]);
                        }
                    }
                }
                for (sums, row) in sums.iter().zip(sum) {
                    for (sum, old) in sums.iter().zip(row.as_chunks_mut::<$lanes>().0) {
                        // SAFETY: a chunk has as many numbers as a vector.
                        unsafe { $store(old.as_mut_ptr(), *sum) };
                    }
                }
            }
            flops(rounds, $rows, $vectors * $lanes)
        }
    };
}

#[cfg(target_arch = "x86_64")]
define_multiply!(
    multiply_avx512,
    "avx512f",
    4,
    4,
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_fmadd_ps,
    _mm512_storeu_ps
);

#[cfg(target_arch = "x86_64")]
define_multiply!(
    multiply_avx2,
    "avx2,fma",
    3,
    3,
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_fmadd_ps,
    _mm256_storeu_ps
);

/// 4 rows of 16 columns, which compilers keep in registers.
fn multiply_plain(block: &mut Block, rounds: u64) -> f64 {
    const WIDTH: usize = 16;
    for _ in 0..rounds {
        let Block { left, right, sum } = black_box(&mut *block);
        let (left, right): (_, [f32; WIDTH]) = (*left, from_fn(|column| right[column]));
        let mut sums: [[f32; WIDTH]; ROWS] = from_fn(|row| from_fn(|column| sum[row][column]));
        for _ in 0..DEPTH {
            // Otherwise the product is computed once only, if it is not fused with the addition.
            let left = if cfg!(target_arch = "aarch64") { left } else { black_box(left) };
            for row in 0..ROWS {
                for column in 0..WIDTH {
                    sums[row][column] = multiply_add(left[row], right[column], sums[row][column]);
                }
            }
        }
        sums.iter().zip(sum).for_each(|(sums, row)| row[..WIDTH].copy_from_slice(sums));
    }
    flops(rounds, ROWS, WIDTH)
}

/// In one instruction where every processor has it.
fn multiply_add(left: f32, right: f32, sum: f32) -> f32 {
    if cfg!(target_arch = "aarch64") { left.mul_add(right, sum) } else { left * right + sum }
}

/// The factor of the triad.
const FACTOR: f32 = 3.0;

/// a = b + 3 c, past the caches: a store through them would read `a` first, which is not needed.
#[cfg(target_arch = "x86_64")]
pub(crate) fn triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512.
        unsafe { triad_avx512(a, b, c) }
    } else if is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX.
        unsafe { triad_avx(a, b, c) }
    } else {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { triad_sse2(a, b, c) }
    }
}

/// Defines the triad with vectors of `$lanes` numbers, several of them in a row, as many as fill lines of the cache.
#[cfg(target_arch = "x86_64")]
macro_rules! define_triad {
    ($name:ident, $features:literal, $vector:ty, $lanes:literal, $splat:ident, $load:ident, $add:ident, $multiply:ident,
     $stream:ident) => {
        #[target_feature(enable = $features)]
        fn $name(a: &mut [f32], b: &[f32], c: &[f32]) {
            const STEP: usize = 8;
            // SAFETY: floats are a vector, whatever their bits are.
            let (head, body, tail) = unsafe { a.align_to_mut::<[$vector; STEP]>() };
            let width = STEP * $lanes;
            let (after_head, after_body) = (head.len(), head.len() + width * body.len());
            let (b_chunks, c_chunks) =
                (b[after_head..after_body].chunks_exact(width), &c[after_head..after_body]);
            for (slot, (b, c)) in body.iter_mut().zip(b_chunks.zip(c_chunks.chunks_exact(width))) {
                for at in 0..STEP {
                    // SAFETY: both chunks have as many numbers as the vectors, and the slot is aligned.
                    unsafe {
                        let (b, c) = (b.as_ptr().add(at * $lanes), c.as_ptr().add(at * $lanes));
                        let sum = $add($load(b), $multiply($splat(FACTOR), $load(c)));
                        $stream(std::ptr::from_mut(&mut slot[at]).cast(), sum);
                    }
                }
            }
            // Stores past the caches are visible to other threads after this.
            _mm_sfence();
            plain_triad(head, &b[..after_head], &c[..after_head]);
            plain_triad(tail, &b[after_body..], &c[after_body..]);
        }
    };
}

#[cfg(target_arch = "x86_64")]
define_triad!(
    triad_avx512,
    "avx512f",
    __m512,
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_stream_ps
);

#[cfg(target_arch = "x86_64")]
define_triad!(
    triad_avx,
    "avx",
    __m256,
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_add_ps,
    _mm256_mul_ps,
    _mm256_stream_ps
);

#[cfg(target_arch = "x86_64")]
define_triad!(
    triad_sse2,
    "sse2",
    __m128,
    4,
    _mm_set1_ps,
    _mm_loadu_ps,
    _mm_add_ps,
    _mm_mul_ps,
    _mm_stream_ps
);

/// a = b + 3 c.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    plain_triad(a, b, c);
}

/// a = b + 3 c through the caches, `passes` times.
pub(crate) fn triad_in_cache(a: &mut [f32], b: &[f32], c: &[f32], passes: u64) {
    for _ in 0..passes {
        plain_triad(black_box(&mut *a), b, c);
    }
}

fn plain_triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    for (a, (b, c)) in a.iter_mut().zip(b.iter().zip(c)) {
        *a = b + FACTOR * c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of different numbers.
    fn block() -> Block {
        let number = |row: usize, column: usize| ((7 * row + column) % 11) as f32;
        Block {
            left: from_fn(|row| row as f32 - 1.0),
            right: from_fn(|column| (column % 5) as f32),
            sum: from_fn(|row| from_fn(|column| number(row, column))),
        }
    }

    /// Whole numbers, so that the order of additions does not matter.
    #[test]
    fn every_kernel_adds_the_product_to_a_part_of_the_block() {
        let compare = |kernel: &dyn Fn(&mut Block, u64) -> f64| {
            let (before, mut after) = (block(), block());
            let flops = kernel(&mut after, 2);
            let mut changed = 0;
            for (row, column) in (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column))) {
                let (old, new) = (before.sum[row][column], after.sum[row][column]);
                let added = 2.0 * DEPTH as f32 * before.left[row] * before.right[column];
                assert!(new == old || new == old + added, "{row}, {column}: {old} becomes {new}");
                changed += usize::from(new != old);
            }
            // A row of `left` and every fifth column of `right` are 0.
            let most = flops / (4 * DEPTH) as f64;
            assert!(
                changed > 0 && changed as f64 <= most && changed as f64 > most / 2.0,
                "{changed} of {most}"
            );
        };
        compare(&multiply);
        compare(&multiply_plain);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            compare(&|block, rounds| unsafe { multiply_avx2(block, rounds) });
        }
    }

    #[test]
    fn a_triad_writes_every_element_from_any_start() {
        let numbers: Vec<f32> = (0..400_u16).map(f32::from).collect();
        for start in 0..5 {
            let mut a = numbers.clone();
            triad(&mut a[start..], &numbers[start..], &numbers[start..]);
            let expected: Vec<f32> =
                (0..400).map(|at| if at < start { numbers[at] } else { 4.0 * numbers[at] }).collect();
            assert_eq!(a, expected);
        }
    }
}
