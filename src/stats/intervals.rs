//! Confidence intervals of one sample.

use statrs::distribution::{Binomial, DiscreteCDF};

use super::centre::{logs, sorted};
use super::estimate::Estimate;
use super::{Interval, TooFew, need};

/// Student's confidence interval of the mean. It assumes roughly normal scatter around one value, so it is meaningless
/// if the numbers have two modes or a trend.
///
/// # Errors
/// There are fewer than [`super::MEAN_INTERVAL_NEEDS`] numbers.
pub fn mean_interval(values: &[f64], confidence: f64) -> Result<Interval, TooFew> {
    Ok(Estimate::mean(values)?.interval(confidence))
}

/// Student's confidence interval of the geometric mean of positive numbers: that of the mean of their logs, transformed
/// back. It is suitable for relative scatter, such as that of throughput, and is always above 0.
///
/// # Errors
/// There are fewer than [`super::MEAN_INTERVAL_NEEDS`] numbers.
pub fn geometric_mean_interval(values: &[f64], confidence: f64) -> Result<Interval, TooFew> {
    let (unit, logs) = logs(values);
    let Interval { low, high, coverage } = mean_interval(&logs, confidence)?.exp();
    Ok(Interval { low: unit * low, high: unit * high, coverage })
}

/// The distribution-free confidence interval of the median: from the k-th smallest to the k-th largest number, with the
/// largest k whose coverage is at least `confidence`. The coverage 1 − 2·P(Bin(n, ½) < k) is that of every continuous
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
pub(super) fn median_coverage(n: usize, k: usize) -> f64 {
    let below = Binomial::new(0.5, n as u64).expect("0.5 is a probability");
    1.0 - 2.0 * below.cdf(k as u64 - 1)
}

/// The least n whose smallest and largest number cover the median with `confidence`: 1 − 2^(1−n) ≥ confidence.
fn median_interval_needs(confidence: f64) -> usize {
    (1.0 - (1.0 - confidence).log2()).ceil().max(2.0) as usize
}
