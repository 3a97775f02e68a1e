//! Confidence intervals of standard deviations and coefficients of variation.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::centre::coefficient_of_variation;
use super::shrink::Variance;
use super::{Interval, MEAN_INTERVAL_NEEDS, TooFew, need};

/// The confidence interval of the standard deviation whose square `variance` estimates, from normal scatter: by the
/// chi-squared distribution.
pub fn deviation_interval(variance: Variance, confidence: f64) -> Interval {
    let law = ChiSquared::new(variance.freedom).expect("there are degrees of freedom");
    let end = |probability: f64| (variance.value * variance.freedom / law.inverse_cdf(probability)).sqrt();
    let tail = (1.0 - confidence) / 2.0;
    Interval { low: end(1.0 - tail), high: end(tail), coverage: confidence }
}

/// The confidence interval of the coefficient of variation, by Vangel (1996, "Confidence intervals for a normal
/// coefficient of variation"), who corrected McKay's. It assumes normal scatter and is close to exact for coefficients
/// up to a third. The upper end is infinite if the numbers do not bound it.
///
/// # Errors
/// There are fewer than [`MEAN_INTERVAL_NEEDS`] numbers.
pub fn variation_interval(values: &[f64], confidence: f64) -> Result<Interval, TooFew> {
    need(values, MEAN_INTERVAL_NEEDS)?;
    variation_bounds(coefficient_of_variation(values)?, values.len(), confidence)
}

/// The same from the coefficient of variation that `number` numbers have.
///
/// # Errors
/// There are fewer than [`MEAN_INTERVAL_NEEDS`] numbers.
pub fn variation_bounds(observed: f64, number: usize, confidence: f64) -> Result<Interval, TooFew> {
    if number < MEAN_INTERVAL_NEEDS {
        return Err(TooFew { n: number, needs: MEAN_INTERVAL_NEEDS });
    }
    let n = number as f64;
    let law = ChiSquared::new(n - 1.0).expect("there are degrees of freedom");
    let end = |probability: f64| {
        let u = law.inverse_cdf(probability);
        let square = ((u + 2.0) / n - 1.0) * observed.powi(2) + u / (n - 1.0);
        if square > 0.0 { observed / square.sqrt() } else { f64::INFINITY }
    };
    let tail = (1.0 - confidence) / 2.0;
    Ok(Interval { low: end(1.0 - tail), high: end(tail), coverage: confidence })
}
