//! Statistics of numbers: means, medians, intervals, slopes, effects of blocks, power. Any room may call it; it depends
//! on none. It does not depend on the meaning of numbers, and never guesses a missing one.
//!
//! Every function takes finite numbers. If there are not enough of them, it returns [`TooFew`], never a 0 and never an
//! interval without width.

mod alike;
mod blocks;
mod centre;
mod chance;
mod clusters;
mod course;
mod estimate;
mod gamma;
mod intervals;
mod level;
mod neighbours;
mod power;
#[cfg(test)]
mod reference_tests;
mod running_median;
mod series;
mod shrink;
mod slope;
mod student;
#[cfg(test)]
mod tests;
mod variation;

use std::fmt;

pub use alike::p_alike;
pub use blocks::{Cell, NoEffects, block_effects};
pub use centre::{
    coefficient_of_variation, geometric_mean, mad, mean, median, medians_of_parts, quantile,
    standard_deviation,
};
pub use chance::{chance_of_at_least, holm};
pub use clusters::mean_over_blocks;
pub use course::Course;
pub use estimate::Estimate;
pub use intervals::{geometric_mean_interval, mean_interval, median_interval};
pub use level::{LEVEL_SHIFT_NEEDS, LevelShift, level_shift};
pub use neighbours::{NEIGHBOURS_NEED, Neighbours, neighbours, too_narrow_by};
pub use power::{Design, MOST_REPEATS};
pub use running_median::RunningMedian;
pub use series::{AUTOCORRELATION_NEEDS, autocorrelation, effective_size};
pub use shrink::{SHRINK_NEEDS, Shrunk, Variance, shrink};
pub use slope::{Slope, correlated_slope, theil_sen};
pub use variation::{deviation_interval, variation_bounds, variation_interval};

/// The confidence level of every interval in a report.
pub const CONFIDENCE: f64 = 0.95;

/// The least n for an interval of the mean. With n = 2, Student's factor is 12.7, so the interval extends nine standard
/// deviations to each side and is useless.
pub const MEAN_INTERVAL_NEEDS: usize = 3;

/// The least n for a slope. Below it, the normal approximation of Kendall's statistic is poor.
pub const SLOPE_NEEDS: usize = 10;

/// There are fewer numbers than a statistic needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("n too small ({n} of at least {needs})")]
pub struct TooFew {
    /// The number of values.
    pub n: usize,
    /// The number of values needed.
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

impl Interval {
    /// The interval of the ratio, from that of its log.
    #[must_use]
    pub fn exp(self) -> Self {
        Interval { low: self.low.exp(), high: self.high.exp(), coverage: self.coverage }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} ({:.1} %)", self.low, self.high, 100.0 * self.coverage)
    }
}

fn need(values: &[f64], needs: usize) -> Result<(), TooFew> {
    debug_assert!(values.iter().all(|value| value.is_finite()), "statistics are over finite numbers");
    let n = values.len();
    if n < needs { Err(TooFew { n, needs }) } else { Ok(()) }
}
