//! The slope of a series.

use statrs::distribution::{ContinuousCDF, Normal};

use super::centre::median;
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
