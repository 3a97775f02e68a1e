//! Autocorrelation of rows: the correlation of successive repeats.

use std::collections::BTreeMap;

use super::student::upper_tail;

/// The least number of numbers of a row that is used.
pub const NEIGHBOURS_NEED: usize = 3;

/// The strongest correlation that is looked for.
const MOST: f64 = 0.95;

/// The correlation of neighbours over several rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    /// The autocorrelation at lag 1, corrected for the bias of short rows; from 0 to 0.95.
    pub correlation: f64,
    /// The probability that independent numbers correlate as much.
    pub p: f64,
    /// The number of rows that could be used.
    pub rows: usize,
}

/// The correlation of neighbours within `rows`, each with its numbers in the order of time. Rows of fewer than three
/// numbers, or of equal ones, are ignored. `None` if fewer than two are left.
///
/// For n independent normal numbers, the autocorrelation at lag 1 has the mean −1 ÷ n and the variance
/// (n − 2)² ÷ (n² (n − 1)) (Moran 1948). So the sum over independent rows is compared with a normal distribution. The
/// correlation is that of autoregressive rows of the same lengths, of equal variance, for which the expected products
/// of neighbours ÷ the expected squares equal the observed ratio.
///
/// If a common effect of each place was subtracted from all rows, the residuals are not independent. That increases the
/// variance by at most rows ÷ (rows − 1), which is included here.
pub fn neighbours(rows: &[Vec<f64>]) -> Option<Neighbours> {
    let usable: Vec<Products> = rows.iter().filter_map(|row| Products::of(row)).collect();
    let count = usable.len();
    if count < 2 {
        return None;
    }
    let lengths = || usable.iter().map(|row| row.n as f64);
    let expected: f64 = lengths().map(|n| -1.0 / n).sum();
    let variance: f64 = lengths().map(|n| (n - 2.0).powi(2) / (n * n * (n - 1.0))).sum();
    let variance = variance * count as f64 / (count as f64 - 1.0);
    let sum: f64 = usable.iter().map(|row| row.neighbours / row.squares).sum();
    let p = upper_tail((sum - expected) / variance.sqrt(), f64::INFINITY);
    Some(Neighbours { correlation: solved(|correlation| excess(&usable, correlation)), p, rows: count })
}

/// The factor by which Student's interval of the mean of `n` numbers is too narrow, if they are autoregressive with
/// `correlation` at lag 1. It is the root of Var(mean) ÷ E(s² ÷ n).
pub fn too_narrow_by(n: usize, correlation: f64) -> f64 {
    let size = n as f64;
    let sum = sum_of_correlations(n, correlation);
    let variance_of_mean = sum / (size * size);
    let sample_variance = 1.0 - (sum - size) / (size * (size - 1.0));
    (variance_of_mean * size / sample_variance).sqrt()
}

/// The sum of ρ^|i − j| over all pairs of `n` places.
fn sum_of_correlations(n: usize, correlation: f64) -> f64 {
    (0..n).flat_map(|i| (0..n).map(move |j| correlation.powi(i.abs_diff(j) as i32))).sum()
}

/// The sums of products of a row, less its mean, or their expectations.
struct Products {
    /// The number of numbers.
    n: usize,
    /// The sum over neighbours.
    neighbours: f64,
    /// The sum of squares.
    squares: f64,
}

impl Products {
    /// `None` with fewer than [`NEIGHBOURS_NEED`] numbers, or with equal ones.
    fn of(row: &[f64]) -> Option<Products> {
        let n = row.len();
        if n < NEIGHBOURS_NEED {
            return None;
        }
        let mean = row.iter().sum::<f64>() / n as f64;
        let squares: f64 = row.iter().map(|value| (value - mean).powi(2)).sum();
        let neighbours = row.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        (squares > 0.0).then_some(Products { n, neighbours, squares })
    }

    /// The expectations for `n` autoregressive numbers with variance 1.
    fn expected(n: usize, correlation: f64) -> Products {
        let size = n as f64;
        let power = |i: usize, j: usize| correlation.powi(i.abs_diff(j) as i32);
        // The covariance of each number with the mean.
        let with_mean: Vec<f64> = (0..n).map(|i| (0..n).map(|j| power(i, j)).sum::<f64>() / size).collect();
        let of_mean = with_mean.iter().sum::<f64>() / size;
        let covariance = |i: usize, j: usize| power(i, j) - with_mean[i] - with_mean[j] + of_mean;
        Products {
            n,
            neighbours: (1..n).map(|i| covariance(i - 1, i)).sum(),
            squares: (0..n).map(|i| covariance(i, i)).sum(),
        }
    }
}

/// How much more neighbours correlate in `rows` than they would with `correlation`.
fn excess(rows: &[Products], correlation: f64) -> f64 {
    let mut by_length: BTreeMap<usize, usize> = BTreeMap::new();
    for row in rows {
        *by_length.entry(row.n).or_default() += 1;
    }
    let expected: Vec<(f64, Products)> =
        by_length.into_iter().map(|(n, count)| (count as f64, Products::expected(n, correlation))).collect();
    let sum = |of: fn(&Products) -> f64| rows.iter().map(of).sum::<f64>();
    let expected_sum =
        |of: fn(&Products) -> f64| expected.iter().map(|(count, row)| count * of(row)).sum::<f64>();
    let of = [|row: &Products| row.neighbours, |row: &Products| row.squares];
    sum(of[0]) / sum(of[1]) - expected_sum(of[0]) / expected_sum(of[1])
}

/// The root of the decreasing `function` between 0 and [`MOST`], by bisection.
fn solved(function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, MOST);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if function(middle) > 0.0 { low = middle } else { high = middle }
    }
    if low == 0.0 { 0.0 } else { high }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Rows of `n` numbers, each correlated with the one before.
    fn rows(count: usize, n: usize, correlation: f64, seed: u64) -> Vec<Vec<f64>> {
        let mut random = SplitMix64::new(seed);
        let mut row = || {
            let mut last = random.normal();
            let scale = (1.0 - correlation * correlation).sqrt();
            let next = |_| {
                last = correlation * last + scale * random.normal();
                last
            };
            (0..n).map(next).collect()
        };
        (0..count).map(|_| row()).collect()
    }

    #[test]
    fn independent_rows_rarely_correlate() {
        for n in [3, 5, 10] {
            let found = |seed| neighbours(&rows(12, n, 0.0, seed)).unwrap().p < 0.01;
            let share = (0..2000).filter(|seed| found(*seed)).count();
            assert!((2..=40).contains(&share), "n = {n}: {share} of 2000");
        }
    }

    #[test]
    fn the_correlation_of_many_rows_is_found() {
        for (n, correlation) in [(3, 0.7), (5, 0.7), (10, 0.4), (5, 0.9)] {
            let found = neighbours(&rows(4000, n, correlation, 1)).unwrap();
            assert!((found.correlation - correlation).abs() < 0.08, "n = {n}: {found:?}");
            assert!(found.p < 1e-6 && found.rows == 4000);
        }
    }

    /// By simulation: the root of the variance of means ÷ the mean of their estimated variances.
    #[test]
    fn intervals_are_too_narrow_by_the_root_of_the_ratio_of_variances() {
        assert!((too_narrow_by(5, 0.0) - 1.0).abs() < 1e-12);
        for (n, correlation) in [(3, 0.7), (5, 0.5), (10, 0.7)] {
            let all = rows(40_000, n, correlation, 3);
            let mean = |row: &[f64]| row.iter().sum::<f64>() / n as f64;
            let of_means: f64 = all.iter().map(|row| mean(row).powi(2)).sum();
            let estimated: f64 = all
                .iter()
                .map(|row| {
                    let squares: f64 = row.iter().map(|value| (value - mean(row)).powi(2)).sum();
                    squares / (n as f64 - 1.0) / n as f64
                })
                .sum();
            let found = (of_means / estimated).sqrt();
            let expected = too_narrow_by(n, correlation);
            assert!((found / expected - 1.0).abs() < 0.03, "n = {n}: {found} is not {expected}");
        }
    }

    #[test]
    fn short_and_constant_rows_are_ignored() {
        assert_eq!(neighbours(&[vec![1.0, 2.0], vec![3.0; 9]]), None);
        assert_eq!(neighbours(&[]), None);
        let alternating = vec![vec![1.0, 2.0, 1.0, 2.0], vec![1.0, 2.0, 1.0, 2.0]];
        assert_eq!(neighbours(&alternating).unwrap().correlation, 0.0);
    }
}
