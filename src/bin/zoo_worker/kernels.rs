//! The loops that take the time, for the widest vectors of this processor.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128, _mm_add_ps, _mm_loadu_ps, _mm_mul_ps, _mm_set1_ps, _mm_sfence, _mm_stream_ps, _mm256_add_ps,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps, _mm512_add_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};
use std::array::from_fn;
use std::hint::black_box;

/// Rows of a block of the product.
const ROWS: usize = 12;

/// Its columns: two vectors of 512 bits.
const COLUMNS: usize = 32;

/// The length of the sums in it. Both panels stay in the nearest cache.
const DEPTH: usize = 128;

/// FLOPs of one round: 2 per multiply-accumulate.
pub(crate) const FLOPS_OF_A_ROUND: f64 = 2.0 * (ROWS * COLUMNS * DEPTH) as f64;

/// Two panels and the block that their product is added to.
pub(crate) struct Blocks {
    left: Box<[[f32; ROWS]; DEPTH]>,
    right: Box<[[f32; COLUMNS]; DEPTH]>,
    sum: Box<[[f32; COLUMNS]; ROWS]>,
}

impl Blocks {
    /// Bytes of the panels, which are read, and of the block, which is read and written.
    pub(crate) const BYTES: f64 = 4.0 * (DEPTH * (ROWS + COLUMNS) + 2 * ROWS * COLUMNS) as f64;

    pub(crate) fn new() -> Self {
        // Small enough that sums of many rounds stay finite.
        let (left, right) = (Box::new([[1e-3; ROWS]; DEPTH]), Box::new([[1e-3; COLUMNS]; DEPTH]));
        Blocks { left, right, sum: Box::new([[0.0; COLUMNS]; ROWS]) }
    }
}

/// Adds the product of the panels to the block, `rounds` times.
pub(crate) fn multiply(blocks: &mut Blocks, rounds: u64) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512.
            return unsafe { multiply_avx512(blocks, rounds) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            return unsafe { multiply_avx2(blocks, rounds) };
        }
    }
    multiply_plain(blocks, rounds);
}

/// Defines a product of the panels with vectors of `$lanes` numbers, for `$rows` rows and `$vectors` vectors of the block
/// at a time. Their sums do not depend on each other, and leave registers for what is loaded: a sum that does not stay in
/// a register waits for memory each time.
#[cfg(target_arch = "x86_64")]
macro_rules! define_multiply {
    ($name:ident, $features:literal, $rows:literal, $vectors:literal, $lanes:literal, $zero:ident, $splat:ident,
     $load:ident, $add:ident, $multiply_add:ident, $store:ident) => {
        #[target_feature(enable = $features)]
        fn $name(blocks: &mut Blocks, rounds: u64) {
            for _ in 0..rounds {
                let blocks = black_box(&mut *blocks);
                for (first, column) in tiles($rows, $vectors * $lanes) {
                    let mut sums = [[$zero(); $vectors]; $rows];
                    for (left, right) in blocks.left.iter().zip(blocks.right.iter()) {
                        let left: &[f32; $rows] =
                            left[first..].first_chunk().expect("a tile lies in the block");
                        let right: &[f32; $vectors * $lanes] =
                            right[column..].first_chunk().expect("a tile lies in the block");
                        let right = right.as_chunks::<$lanes>().0;
                        // SAFETY: a chunk has as many numbers as a vector.
                        let right: [_; $vectors] = from_fn(|at| unsafe { $load(right[at].as_ptr()) });
                        for row in 0..$rows {
                            let left = $splat(left[row]);
                            for at in 0..$vectors {
                                sums[row][at] = $multiply_add(left, right[at], sums[row][at]);
                            }
                        }
                    }
                    for (sums, row) in sums.iter().zip(&mut blocks.sum[first..]) {
                        for (sum, old) in sums.iter().zip(row[column..].as_chunks_mut::<$lanes>().0) {
                            // SAFETY: a chunk has as many numbers as a vector.
                            unsafe { $store(old.as_mut_ptr(), $add(*sum, $load(old.as_ptr()))) };
                        }
                    }
                }
            }
        }
    };
}

/// The first row and the first column of each part of the block.
fn tiles(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..ROWS)
        .step_by(rows)
        .flat_map(move |row| (0..COLUMNS).step_by(columns).map(move |column| (row, column)))
}

// 24 of 32 registers hold sums.
#[cfg(target_arch = "x86_64")]
define_multiply!(
    multiply_avx512,
    "avx512f",
    12,
    2,
    16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_add_ps,
    _mm512_fmadd_ps,
    _mm512_storeu_ps
);

// 12 of 16 registers hold sums.
#[cfg(target_arch = "x86_64")]
define_multiply!(
    multiply_avx2,
    "avx2,fma",
    6,
    2,
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_add_ps,
    _mm256_fmadd_ps,
    _mm256_storeu_ps
);

/// 4 rows of 8 columns at a time, which compilers keep in registers.
fn multiply_plain(blocks: &mut Blocks, rounds: u64) {
    for _ in 0..rounds {
        let blocks = black_box(&mut *blocks);
        for (first, column) in tiles(4, 8) {
            let mut sums = [[0.0_f32; 8]; 4];
            for (left, right) in blocks.left.iter().zip(blocks.right.iter()) {
                for (row, sums) in sums.iter_mut().enumerate() {
                    for (sum, right) in sums.iter_mut().zip(&right[column..column + 8]) {
                        *sum += left[first + row] * right;
                    }
                }
            }
            for (sums, row) in sums.iter().zip(&mut blocks.sum[first..]) {
                sums.iter().zip(&mut row[column..]).for_each(|(sum, old)| *old += sum);
            }
        }
    }
}

/// The factor of the triad.
const FACTOR: f32 = 3.0;

/// a = b + 3 c, past the caches: a store through them would read `a` first, which nothing needs.
#[cfg(target_arch = "x86_64")]
pub(crate) fn triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    // SAFETY: four floats are a vector, whatever their bits are.
    let (head, body, tail) = unsafe { a.align_to_mut::<__m128>() };
    let (after_head, after_body) = (head.len(), head.len() + 4 * body.len());
    let quads = b[after_head..after_body].chunks_exact(4).zip(c[after_head..after_body].chunks_exact(4));
    for (slot, (b, c)) in body.iter_mut().zip(quads) {
        // SAFETY: SSE is part of x86-64. Both chunks have four floats, and the slot is aligned.
        unsafe {
            let sum = _mm_add_ps(
                _mm_loadu_ps(b.as_ptr()),
                _mm_mul_ps(_mm_set1_ps(FACTOR), _mm_loadu_ps(c.as_ptr())),
            );
            _mm_stream_ps(std::ptr::from_mut(slot).cast(), sum);
        }
    }
    // SAFETY: SSE is part of x86-64. Stores past the caches are visible to other threads after this.
    unsafe { _mm_sfence() };
    plain_triad(head, &b[..after_head], &c[..after_head]);
    plain_triad(tail, &b[after_body..], &c[after_body..]);
}

/// a = b + 3 c.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    plain_triad(a, b, c);
}

fn plain_triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    for (a, (b, c)) in a.iter_mut().zip(b.iter().zip(c)) {
        *a = b + FACTOR * c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panels of different numbers, and the block by the definition of a product.
    fn panels() -> (Blocks, Vec<f32>) {
        let mut blocks = Blocks::new();
        let mut number = 0.0;
        for value in blocks.left.as_flattened_mut().iter_mut().chain(blocks.right.as_flattened_mut()) {
            number = (number + 7.0) % 11.0;
            *value = number;
        }
        let places = (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
        let dot = |(row, column): (usize, usize)| {
            blocks.left.iter().zip(blocks.right.iter()).map(|(left, right)| left[row] * right[column]).sum()
        };
        let expected = places.map(dot).collect();
        (blocks, expected)
    }

    /// Whole numbers, so that the order of additions does not matter.
    #[test]
    fn every_kernel_multiplies_the_panels() {
        for kernel in [multiply, multiply_plain] {
            let (mut blocks, expected) = panels();
            kernel(&mut blocks, 1);
            assert_eq!(blocks.sum.as_flattened(), expected);
            kernel(&mut blocks, 1);
            let twice: Vec<f32> = expected.iter().map(|sum| 2.0 * sum).collect();
            assert_eq!(blocks.sum.as_flattened(), twice);
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let (mut blocks, expected) = panels();
            // SAFETY: the processor has AVX2 and FMA.
            unsafe { multiply_avx2(&mut blocks, 1) };
            assert_eq!(blocks.sum.as_flattened(), expected);
        }
    }

    #[test]
    fn a_triad_writes_every_element_from_any_start() {
        let numbers: Vec<f32> = (0..40_u8).map(f32::from).collect();
        for start in 0..5 {
            let mut a = numbers.clone();
            triad(&mut a[start..], &numbers[start..], &numbers[start..]);
            let expected: Vec<f32> =
                (0..40).map(|at| if at < start { numbers[at] } else { 4.0 * numbers[at] }).collect();
            assert_eq!(a, expected);
        }
    }
}
