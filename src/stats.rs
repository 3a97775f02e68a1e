//! Numbers in, statistics out.
//! Any room may call it; it depends on none.
//! It never knows what a number means, and never guesses a missing one.
//!
//! Every function takes finite numbers. If there are not enough of them, it returns [`TooFew`], never a 0 and never an
//! interval without width.

mod running_median;

use std::fmt;

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Hypergeometric, Normal, StudentsT};

pub use running_median::RunningMedian;

/// The confidence level of every interval in a report.
pub const CONFIDENCE: f64 = 0.95;

/// The least n for an interval of the mean. With n = 2, Student's factor is 12.7, so the interval extends nine standard
/// deviations to each side and says nothing.
pub const MEAN_INTERVAL_NEEDS: usize = 3;

/// The least n for a slope. Below it, the normal approximation of Kendall's statistic is poor.
pub const SLOPE_NEEDS: usize = 10;

/// There are fewer numbers than a statistic needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("n too small ({n} of at least {needs})")]
pub struct TooFew {
    /// How many there are.
    pub n: usize,
    /// How many are needed.
    pub needs: usize,
}

/// A two-sided confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The probability that such an interval covers the true value. For intervals from order statistics this is the
    /// exact coverage, which is at least the requested confidence.
    pub coverage: f64,
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} ({:.1} %)", self.low, self.high, 100.0 * self.coverage)
    }
}

/// The slope of a series, robust against outliers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// The change from one number to the next.
    pub per_step: f64,
    /// The confidence interval of that change.
    pub interval: Interval,
}

impl Slope {
    /// Whether the interval excludes 0.
    pub fn is_significant(&self) -> bool {
        self.interval.low > 0.0 || self.interval.high < 0.0
    }
}

fn need(values: &[f64], needs: usize) -> Result<(), TooFew> {
    debug_assert!(values.iter().all(|value| value.is_finite()), "statistics are over finite numbers");
    let n = values.len();
    if n < needs { Err(TooFew { n, needs }) } else { Ok(()) }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The middle number, or the mean of the middle two.
///
/// # Errors
/// There is no number.
pub fn median(values: &[f64]) -> Result<f64, TooFew> {
    need(values, 1)?;
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    Ok(if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) })
}

/// The median absolute deviation from the median, unscaled.
///
/// # Errors
/// There are fewer than two numbers.
pub fn mad(values: &[f64]) -> Result<f64, TooFew> {
    need(values, 2)?;
    let centre = median(values)?;
    median(&values.iter().map(|value| (value - centre).abs()).collect::<Vec<_>>())
}

/// The arithmetic mean.
///
/// # Errors
/// There is no number.
pub fn mean(values: &[f64]) -> Result<f64, TooFew> {
    need(values, 1)?;
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (divisor n − 1).
///
/// # Errors
/// There are fewer than two numbers.
pub fn standard_deviation(values: &[f64]) -> Result<f64, TooFew> {
    need(values, 2)?;
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Ok((squares / (values.len() - 1) as f64).sqrt())
}

/// The coefficient of variation: standard deviation ÷ |mean|. Infinite for a mean of 0.
///
/// # Errors
/// There are fewer than two numbers.
pub fn coefficient_of_variation(values: &[f64]) -> Result<f64, TooFew> {
    Ok(standard_deviation(values)? / mean(values)?.abs())
}

/// Student's confidence interval of the mean. It assumes roughly normal scatter around one value, so it is meaningless
/// if the numbers have two modes or a trend.
///
/// # Errors
/// There are fewer than [`MEAN_INTERVAL_NEEDS`] numbers.
pub fn mean_interval(values: &[f64], confidence: f64) -> Result<Interval, TooFew> {
    need(values, MEAN_INTERVAL_NEEDS)?;
    let n = values.len() as f64;
    let student = StudentsT::new(0.0, 1.0, n - 1.0).expect("there are at least two degrees of freedom");
    let half = student.inverse_cdf(f64::midpoint(1.0, confidence)) * standard_deviation(values)? / n.sqrt();
    let centre = mean(values)?;
    Ok(Interval { low: centre - half, high: centre + half, coverage: confidence })
}

/// The distribution-free confidence interval of the median: from the k-th smallest to the k-th largest number, with the
/// largest k whose coverage is at least `confidence`. The coverage 1 − 2·P(Bin(n, ½) < k) holds for every continuous
/// distribution and is reported exactly.
///
/// # Errors
/// There are too few numbers: even the smallest and largest do not reach the confidence. For 95 % that is n < 6.
pub fn median_interval(values: &[f64], confidence: f64) -> Result<Interval, TooFew> {
    let needs = median_interval_needs(confidence);
    need(values, needs)?;
    let n = values.len();
    let coverage = |k: usize| median_coverage(n, k);
    let k = (1..=n / 2).take_while(|&k| coverage(k) >= confidence).last().unwrap_or(1);
    let sorted = sorted(values);
    Ok(Interval { low: sorted[k - 1], high: sorted[n - k], coverage: coverage(k) })
}

/// The probability that the interval from the `k`-th smallest to the `k`-th largest of `n` numbers covers the median.
fn median_coverage(n: usize, k: usize) -> f64 {
    let below = Binomial::new(0.5, n as u64).expect("0.5 is a probability");
    1.0 - 2.0 * below.cdf(k as u64 - 1)
}

/// The least n whose smallest and largest number cover the median with `confidence`: 1 − 2^(1−n) ≥ confidence.
fn median_interval_needs(confidence: f64) -> usize {
    (1.0 - (1.0 - confidence).log2()).ceil().max(2.0) as usize
}

/// The Theil–Sen slope of an equidistant series: the median of the slopes of all pairs. The interval follows Sen
/// (1968), with the normal approximation of Kendall's statistic. Needs time and memory for n² ÷ 2 slopes.
///
/// # Errors
/// There are fewer than [`SLOPE_NEEDS`] numbers.
pub fn theil_sen(values: &[f64], confidence: f64) -> Result<Slope, TooFew> {
    need(values, SLOPE_NEEDS)?;
    let mut slopes = Vec::with_capacity(values.len() * (values.len() - 1) / 2);
    for (i, from) in values.iter().enumerate() {
        for (j, to) in values.iter().enumerate().skip(i + 1) {
            slopes.push((to - from) / (j - i) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    let (n, pairs) = (values.len() as f64, slopes.len() as f64);
    let normal = Normal::new(0.0, 1.0).expect("the standard normal distribution exists");
    let reach =
        normal.inverse_cdf(f64::midpoint(1.0, confidence)) * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let low = ((pairs - reach) / 2.0).floor().max(1.0) as usize;
    let high = ((pairs + reach) / 2.0).ceil().min(pairs - 1.0) as usize;
    let interval = Interval { low: slopes[low - 1], high: slopes[high], coverage: confidence };
    Ok(Slope { per_step: median(&slopes)?, interval })
}

/// Splits a series into at most `most` parts of nearly equal length and returns their medians, in order. A series no
/// longer than `most` is returned as it is.
pub fn medians_of_parts(values: &[f64], most: usize) -> Vec<f64> {
    let n = values.len();
    if n <= most {
        return values.to_vec();
    }
    let part = |index: usize| &values[index * n / most..(index + 1) * n / most];
    (0..most).filter_map(|index| median(part(index)).ok()).collect()
}

/// Fisher's one-sided exact test: the probability that at least `found` of `drawn` things are marked. They are drawn at
/// random, without replacement, from `of` things of which `marked` are marked. The probability is 1 if `drawn` or
/// `marked` exceeds `of`.
pub fn chance_of_at_least(found: usize, drawn: usize, marked: usize, of: usize) -> f64 {
    let Ok(law) = Hypergeometric::new(of as u64, marked as u64, drawn as u64) else { return 1.0 };
    if found == 0 { 1.0 } else { law.sf(found as u64 - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
    }

    fn numbers(least: usize) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-1e6..1e6f64, least..40)
    }

    #[test]
    fn too_few_numbers_are_an_error() {
        assert_eq!(median(&[]), Err(TooFew { n: 0, needs: 1 }));
        assert_eq!(mad(&[1.0]), Err(TooFew { n: 1, needs: 2 }));
        assert_eq!(standard_deviation(&[1.0]), Err(TooFew { n: 1, needs: 2 }));
        assert_eq!(mean_interval(&[1.0, 2.0], CONFIDENCE), Err(TooFew { n: 2, needs: 3 }));
        assert_eq!(median_interval(&[1.0; 5], CONFIDENCE), Err(TooFew { n: 5, needs: 6 }));
        assert_eq!(theil_sen(&[1.0; 9], CONFIDENCE), Err(TooFew { n: 9, needs: 10 }));
        assert_eq!(TooFew { n: 5, needs: 6 }.to_string(), "n too small (5 of at least 6)");
    }

    #[test]
    fn worked_examples() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(median(&values), Ok(4.5));
        assert_eq!(mad(&values), Ok(0.5));
        assert_eq!(mean(&values), Ok(5.0));
        assert!(close(standard_deviation(&values).unwrap(), (32.0f64 / 7.0).sqrt()));
        // Student's factor for four degrees of freedom is 2.776445.
        let interval = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
        assert!(close(interval.high - 3.0, 2.776_445_1 * (2.5f64 / 5.0).sqrt()), "{interval}");
    }

    /// From the published table of ranks for the 95 % interval of the median.
    #[test]
    fn median_intervals_have_the_published_ranks() {
        for (n, k, percent) in [(6, 1, 96.88), (8, 1, 99.22), (9, 2, 96.09), (10, 2, 97.85), (20, 6, 95.86)] {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let interval = median_interval(&values, 0.95).unwrap();
            assert_eq!((interval.low, interval.high), (f64::from(k), f64::from(n + 1 - k)), "n = {n}");
            assert!((100.0 * interval.coverage - percent).abs() < 0.01, "n = {n}: {interval}");
        }
    }

    /// Each number is equally likely to be below or above the median. Counting all patterns is an oracle that does not
    /// use the binomial distribution.
    #[test]
    fn coverage_equals_a_count_of_all_patterns() {
        for n in 2..=14usize {
            for k in 1..=n / 2 {
                let covered = (0..1u32 << n)
                    .filter(|pattern| (k..=n - k).contains(&(pattern.count_ones() as usize)))
                    .count();
                assert!(close(median_coverage(n, k), covered as f64 / f64::from(1u32 << n)), "{n} {k}");
            }
        }
    }

    #[test]
    fn an_outlier_does_not_change_the_slope() {
        let mut values: Vec<f64> = (0..50).map(|i| 10.0 + 0.5 * f64::from(i)).collect();
        values[7] = 1e6;
        let slope = theil_sen(&values, 0.95).unwrap();
        assert!(close(slope.per_step, 0.5) && slope.is_significant());
    }

    #[test]
    fn a_series_is_split_into_nearly_equal_parts() {
        let values: Vec<f64> = (0..7).map(f64::from).collect();
        assert_eq!(medians_of_parts(&values, 7), values);
        assert_eq!(medians_of_parts(&values, 3), [0.5, 2.5, 5.0]);
        assert_eq!(medians_of_parts(&[], 3), [0.0; 0]);
    }

    /// Fisher's lady tasting tea: by chance, she gets all four cups right with 1/70 and at least three with 17/70.
    #[test]
    fn the_lady_tasting_tea() {
        assert!(close(chance_of_at_least(4, 4, 4, 8), 1.0 / 70.0));
        assert!(close(chance_of_at_least(3, 4, 4, 8), 17.0 / 70.0));
        assert_eq!(chance_of_at_least(0, 4, 4, 8), 1.0);
        assert_eq!(chance_of_at_least(1, 9, 4, 8), 1.0);
    }

    proptest! {
        #[test]
        fn half_of_the_numbers_lie_on_each_side_of_the_median(values in numbers(1)) {
            let m = median(&values).unwrap();
            let at_most = values.iter().filter(|&&value| value <= m).count();
            let at_least = values.iter().filter(|&&value| value >= m).count();
            prop_assert!(2 * at_most >= values.len() && 2 * at_least >= values.len());
        }

        #[test]
        fn half_of_the_numbers_lie_within_the_mad(values in numbers(2)) {
            let (m, d) = (median(&values).unwrap(), mad(&values).unwrap());
            // The tolerance covers the rounding of m ± d itself.
            let within = values.iter().filter(|&&value| (value - m).abs() <= d + 1e-6).count();
            let beyond = values.iter().filter(|&&value| (value - m).abs() >= d - 1e-6).count();
            prop_assert!(2 * within >= values.len() && 2 * beyond >= values.len());
        }

        #[test]
        fn the_standard_deviation_follows_from_all_pairs(values in numbers(2)) {
            // s² = Σ over pairs of (a − b)² ÷ (n (n − 1)).
            let n = values.len() as f64;
            let pairs: f64 = values
                .iter()
                .enumerate()
                .flat_map(|(i, a)| values[..i].iter().map(move |b| (a - b).powi(2)))
                .sum();
            prop_assert!(close(standard_deviation(&values).unwrap(), (pairs / (n * (n - 1.0))).sqrt()));
        }

        #[test]
        fn intervals_contain_their_centre(values in numbers(6)) {
            let interval = median_interval(&values, 0.95).unwrap();
            let m = median(&values).unwrap();
            prop_assert!(interval.low <= m && m <= interval.high && interval.coverage >= 0.95);
            let interval = mean_interval(&values, 0.95).unwrap();
            let m = mean(&values).unwrap();
            prop_assert!(interval.low <= m && m <= interval.high);
        }

        #[test]
        fn the_slope_is_equivariant_under_shift_scale_and_trend(values in numbers(10), trend in -100.0..100.0f64) {
            let plain = theil_sen(&values, 0.95).unwrap();
            prop_assert!(plain.interval.low <= plain.per_step && plain.per_step <= plain.interval.high);
            let tilted: Vec<f64> =
                values.iter().enumerate().map(|(i, value)| 3.0 * value + 7.0 + trend * i as f64).collect();
            let tilted = theil_sen(&tilted, 0.95).unwrap();
            prop_assert!(close(tilted.per_step, 3.0 * plain.per_step + trend));
            prop_assert!(close(tilted.interval.high, 3.0 * plain.interval.high + trend));
        }
    }
}
