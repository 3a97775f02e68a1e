//! Location and scatter of numbers: median, means, quantiles, deviations.

use super::{TooFew, need};

pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
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

/// The first of `values`, which are positive, and the distance of each log from that of the first. So equal numbers are
/// exactly at 0, without scatter from rounding.
pub(super) fn logs(values: &[f64]) -> (f64, Vec<f64>) {
    let unit = values.first().copied().unwrap_or(1.0);
    (unit, values.iter().map(|value| value.ln() - unit.ln()).collect())
}

/// The geometric mean of positive numbers.
///
/// # Errors
/// There is no number.
pub fn geometric_mean(values: &[f64]) -> Result<f64, TooFew> {
    let (unit, logs) = logs(values);
    Ok(unit * mean(&logs)?.exp())
}

/// The quantile at `share`, from 0 for the smallest number to 1 for the largest. Between two numbers it is interpolated
/// linearly: type 7 of Hyndman and Fan (1996), as NumPy and R do by default.
///
/// # Errors
/// There is no number.
pub fn quantile(values: &[f64], share: f64) -> Result<f64, TooFew> {
    need(values, 1)?;
    let sorted = sorted(values);
    let last = sorted.len() - 1;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[(place.floor() as usize + 1).min(last)]);
    let part = place.fract();
    // This form does not overflow for numbers that are far apart.
    Ok((low * (1.0 - part) + high * part).clamp(low, high))
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
