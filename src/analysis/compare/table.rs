//! The comparison of all configs: estimates, shrunk variances, corrected p-values, verdicts.

use super::geometric::geometric_mean;
use super::pairing::{Own, own};
use super::verdict::{Tested, verdict};
use super::{Compared, Comparison, Pairing, Settings, Sides, distance};
use crate::stats::{self, Estimate, TooFew, Variance};

/// The least number of paired configs for their variances to be shrunk. With five to eight, the common variance is so
/// uncertain that up to 7 % of tables contain a false verdict.
const LENDS_FROM: usize = 10;

/// Compares the sides of each config.
pub fn compare(table: &[Sides], settings: Settings) -> Comparison {
    let mut rows: Vec<Result<Own, TooFew>> = table.iter().map(own).collect();
    let prior = shrink(&mut rows);
    let estimated: Vec<Own> = rows.iter().filter_map(|row| row.ok()).collect();
    let adjusted = |p: fn(&Estimate, f64) -> f64| {
        // Without any scatter a difference cannot be tested.
        let known = |estimate: &Estimate| estimate.standard_error > 0.0;
        let p_values: Vec<f64> = estimated
            .iter()
            .map(|row| if known(&row.log_ratio) { p(&row.log_ratio, distance(settings.margin)) } else { 1.0 })
            .collect();
        stats::holm(&p_values)
    };
    let equal = adjusted(|estimate, _| estimate.p_equal(0.0));
    let beyond = adjusted(Estimate::p_beyond);
    let mut tested = equal.into_iter().zip(beyond);
    let configs = rows.into_iter().map(|row| {
        let row = row?;
        let (p_equal, p_beyond) = tested.next().expect("each config with an estimate was tested");
        let log_ratio = row.log_ratio;
        Ok(Compared {
            pairing: row.pairing,
            log_ratio,
            interval: log_ratio.interval(settings.confidence).exp(),
            p_equal,
            p_beyond,
            verdict: verdict(Tested { log_ratio: log_ratio.value, p_equal, p_beyond }, settings.error),
            variance: row.variance,
        })
    });
    let configs: Vec<Result<Compared, TooFew>> = configs.collect();
    let counted: Vec<&Sides> =
        table.iter().zip(&configs).filter(|(_, config)| config.is_ok()).map(|(sides, _)| sides).collect();
    Comparison { settings, geometric_mean: geometric_mean(&counted), configs, prior, table: table.to_vec() }
}

/// Shrinks the variance of each paired config towards that of the table, and returns their common variance.
fn shrink(rows: &mut [Result<Own, TooFew>]) -> Option<Variance> {
    let mut paired: Vec<(usize, &mut Own)> = rows
        .iter_mut()
        .filter_map(|row| row.as_mut().ok())
        .filter_map(|row| match row.pairing {
            Pairing::ByBlock(pairs) => Some((pairs, row)),
            Pairing::Unpaired { .. } => None,
        })
        .collect();
    let own: Vec<Variance> = paired
        .iter()
        .map(|(_, row)| Variance { value: row.variance, freedom: row.log_ratio.freedom })
        .collect();
    if own.len() < LENDS_FROM {
        return None;
    }
    let shrunk = stats::shrink(&own);
    for ((pairs, row), Variance { value, freedom }) in paired.iter_mut().zip(shrunk.rows) {
        row.variance = value;
        row.log_ratio.standard_error = (value / *pairs as f64).sqrt();
        row.log_ratio.freedom = freedom;
    }
    shrunk.prior
}
