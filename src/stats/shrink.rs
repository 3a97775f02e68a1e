//! Shrinking of the variances of many small samples towards their common variance.

use super::centre::{mean, median};
use super::gamma::{digamma, inverse_trigamma, trigamma};

/// The least number of variances to be shrunk. With fewer, the prior is too uncertain: at
/// n = 3 the intervals of two shrunk rows cover 92 % instead of 95 %.
pub const SHRINK_NEEDS: usize = 5;

/// A variance beneath this share of the median counts as this much when the prior is estimated.
const LEAST_SHARE: f64 = 1e-5;

/// A variance with its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variance {
    /// The variance.
    pub value: f64,
    /// Its degrees of freedom.
    pub freedom: f64,
}

/// Variances after shrinking.
#[derive(Clone, Debug, PartialEq)]
pub struct Shrunk {
    /// The common variance with its degrees of freedom, which are infinite if the variances differ no more than by
    /// chance. `None` if they were not shrunk.
    pub prior: Option<Variance>,
    /// Each variance after shrinking.
    pub rows: Vec<Variance>,
}

/// Shrinks `rows` by the empirical Bayes method of limma (Smyth 2004, "Linear models and empirical Bayes methods for
/// assessing differential expression in microarray experiments", section 6.2). True variances are assumed to be
/// distributed as s₀² d₀ ÷ χ²(d₀). The moments of their logs determine d₀, by an inverse trigamma, and s₀². If the logs
/// scatter less than by chance, d₀ is infinite and s₀² is the pooled variance. A row then has the variance (d₀ s₀² + d
/// s²) ÷ (d₀ + d) with d₀ + d degrees of freedom, but no more than all rows have together.
///
/// The rows must be independent: a common event makes their variances similar, and their precision would be
/// overestimated. Fewer than [`SHRINK_NEEDS`] rows, and rows of which half have no variance, are not shrunk.
pub fn shrink(rows: &[Variance]) -> Shrunk {
    let Some(prior) = prior(rows) else { return Shrunk { prior: None, rows: rows.to_vec() } };
    let pooled: f64 = rows.iter().map(|row| row.freedom).sum();
    let shrunk = rows.iter().map(|row| {
        let value = if prior.freedom.is_finite() {
            (prior.freedom * prior.value + row.freedom * row.value) / (prior.freedom + row.freedom)
        } else {
            prior.value
        };
        Variance { value, freedom: (prior.freedom + row.freedom).min(pooled) }
    });
    Shrunk { prior: Some(prior), rows: shrunk.collect() }
}

fn prior(rows: &[Variance]) -> Option<Variance> {
    let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
    let least = LEAST_SHARE * median(&values).ok().filter(|median| *median > 0.0)?;
    if rows.len() < SHRINK_NEEDS {
        return None;
    }
    let logs: Vec<f64> = rows
        .iter()
        .map(|row| row.value.max(least).ln() - digamma(row.freedom / 2.0) + (row.freedom / 2.0).ln())
        .collect();
    let centre = mean(&logs).ok()?;
    let scatter = logs.iter().map(|log| (log - centre).powi(2)).sum::<f64>() / (logs.len() - 1) as f64;
    let by_chance = rows.iter().map(|row| trigamma(row.freedom / 2.0)).sum::<f64>() / rows.len() as f64;
    Some(if scatter > by_chance {
        let half = inverse_trigamma(scatter - by_chance);
        Variance { value: (centre + digamma(half) - half.ln()).exp(), freedom: 2.0 * half }
    } else {
        let pooled: f64 = rows.iter().map(|row| row.freedom).sum();
        let value = rows.iter().map(|row| row.freedom * row.value).sum::<f64>() / pooled;
        Variance { value, freedom: f64::INFINITY }
    })
}
