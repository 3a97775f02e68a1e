//! The slope of a series.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::centre::{median, standard_deviation};
use super::series::autocorrelation;
use super::{Interval, SLOPE_NEEDS, TooFew, need};

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

/// The Theil–Sen slope of an equidistant series: the median of the slopes of all pairs. The interval follows Sen
/// (1968), with the normal approximation of Kendall's statistic. Needs time and memory for n² ÷ 2 slopes.
///
/// # Errors
/// There are fewer than [`SLOPE_NEEDS`] numbers.
pub fn theil_sen(values: &[f64], confidence: f64) -> Result<Slope, TooFew> {
    let slopes = slopes(values)?;
    let normal = Normal::new(0.0, 1.0).expect("the standard normal distribution exists");
    Ok(between(&slopes, values.len(), normal.inverse_cdf(f64::midpoint(1.0, confidence)), confidence))
}

/// The slope of [`theil_sen`] for a series whose neighbours correlate: an autoregressive process of first
/// order. The seconds of iterations are one, on a machine that is warm for a while.
///
/// n such numbers have an effective size of n (1 − ρ) ÷ (1 + ρ). So Kendall's statistic has that much more variance,
/// and Student's distribution has the effective size less two as degrees of freedom (Santer et al. 2000, section 3). ρ
/// is the autocorrelation of the residuals, corrected for its bias of −(2 + 4ρ) ÷ n (Kendall 1954), and never negative.
/// If less than one degree of freedom is left, the interval is infinite.
///
/// # Errors
/// There are fewer than [`SLOPE_NEEDS`] numbers.
pub fn correlated_slope(values: &[f64], confidence: f64) -> Result<Slope, TooFew> {
    let slopes = slopes(values)?;
    let n = values.len() as f64;
    let per_step = median(&slopes)?;
    let rest: Vec<f64> = values.iter().zip(0..).map(|(value, at)| value - per_step * f64::from(at)).collect();
    let correlation = ((n * correlation_of(&rest, values)? + 2.0) / (n - 4.0)).max(0.0);
    let inflation = (1.0 + correlation) / (1.0 - correlation).max(f64::MIN_POSITIVE);
    let freedom = n / inflation - 2.0;
    if freedom < 1.0 {
        let interval = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, coverage: confidence };
        return Ok(Slope { per_step, interval });
    }
    let student = StudentsT::new(0.0, 1.0, freedom).expect("one degree of freedom or more");
    let quantile = student.inverse_cdf(f64::midpoint(1.0, confidence)) * inflation.sqrt();
    Ok(between(&slopes, values.len(), quantile, confidence))
}

/// The autocorrelation of the residuals `rest` of `values`; 0 if they are no larger than rounding errors.
fn correlation_of(rest: &[f64], values: &[f64]) -> Result<f64, TooFew> {
    let largest = values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    if standard_deviation(rest)? <= 1e-12 * largest { Ok(0.0) } else { autocorrelation(rest) }
}

/// The slopes of all pairs, in order.
fn slopes(values: &[f64]) -> Result<Vec<f64>, TooFew> {
    need(values, SLOPE_NEEDS)?;
    let mut slopes = Vec::with_capacity(values.len() * (values.len() - 1) / 2);
    for (i, from) in values.iter().enumerate() {
        for (j, to) in values.iter().enumerate().skip(i + 1) {
            slopes.push((to - from) / (j - i) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    Ok(slopes)
}

/// The median of the ordered `slopes` of `n` numbers, and those at a distance of `quantile` standard deviations of
/// Kendall's statistic from it.
fn between(slopes: &[f64], n: usize, quantile: f64, confidence: f64) -> Slope {
    let (n, pairs) = (n as f64, slopes.len() as f64);
    let reach = quantile * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let low = ((pairs - reach) / 2.0).floor().max(1.0) as usize;
    let high = ((pairs + reach) / 2.0).ceil().min(pairs - 1.0) as usize;
    let interval = Interval { low: slopes[low - 1], high: slopes[high], coverage: confidence };
    Slope { per_step: median(slopes).expect("a series has slopes"), interval }
}
