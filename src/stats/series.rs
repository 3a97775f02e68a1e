//! Series with correlated neighbours.

use super::centre::mean;
use super::{TooFew, need};

/// The least n for an autocorrelation. Its standard error is about 1 ÷ √n.
pub const AUTOCORRELATION_NEEDS: usize = 10;

/// The autocorrelation of neighbours (lag 1), with the divisor n and so biased towards 0. It is 0 for a constant
/// series.
///
/// # Errors
/// There are fewer than [`AUTOCORRELATION_NEEDS`] numbers.
pub fn autocorrelation(values: &[f64]) -> Result<f64, TooFew> {
    need(values, AUTOCORRELATION_NEEDS)?;
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - centre) * (pair[1] - centre)).sum();
    Ok(if squares > 0.0 { products / squares } else { 0.0 })
}

/// The number of independent numbers with the same standard error of the mean: n (1 − ρ) ÷ (1 + ρ), as if the series
/// were autoregressive of order one. A negative ρ counts as 0, because it can be chance.
///
/// # Errors
/// There are fewer than [`AUTOCORRELATION_NEEDS`] numbers.
pub fn effective_size(values: &[f64]) -> Result<f64, TooFew> {
    let correlation = autocorrelation(values)?.max(0.0);
    Ok(values.len() as f64 * (1.0 - correlation) / (1.0 + correlation))
}
