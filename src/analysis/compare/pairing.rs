//! How the runs of a config are compared: paired by block, or not.

use std::collections::BTreeMap;

use super::{Pairing, Rate, Sides};
use crate::stats::{Estimate, MEAN_INTERVAL_NEEDS, TooFew, mean};

/// The estimate of a config from its own runs, before shrinking and correction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) pairing: Pairing,
    pub(super) log_ratio: Estimate,
    /// The variance of the log ratio times the repeats.
    pub(super) variance: f64,
}

/// The difference of logs in each block that contains both sides. Several runs of a side in a block count as their
/// mean.
pub(super) fn differences(sides: &Sides) -> Vec<(usize, f64)> {
    let mut blocks: BTreeMap<usize, [Vec<f64>; 2]> = BTreeMap::new();
    for (side, rates) in [&sides.from, &sides.to].into_iter().enumerate() {
        for rate in rates {
            if let Some(block) = rate.block {
                blocks.entry(block).or_default()[side].push(rate.per_s.ln());
            }
        }
    }
    let difference = |[from, to]: [Vec<f64>; 2]| Some(mean(&to).ok()? - mean(&from).ok()?);
    blocks.into_iter().filter_map(|(block, sides)| Some((block, difference(sides)?))).collect()
}

/// Whether a config is compared block by block. That does not depend on its throughputs.
pub(super) fn is_paired(sides: &Sides) -> bool {
    let pairs = differences(sides).len();
    pairs >= MEAN_INTERVAL_NEEDS && 2 * pairs >= sides.from.len().min(sides.to.len())
}

/// The estimate of a config from its own runs.
///
/// # Errors
/// It has too few pairs, or too few runs on a side.
pub(super) fn own(sides: &Sides) -> Result<Own, TooFew> {
    if is_paired(sides) {
        let differences: Vec<f64> =
            differences(sides).into_iter().map(|(_, difference)| difference).collect();
        let log_ratio = Estimate::mean(&differences)?;
        let pairs = differences.len();
        let variance = log_ratio.standard_error.powi(2) * pairs as f64;
        return Ok(Own { pairing: Pairing::ByBlock(pairs), log_ratio, variance });
    }
    let [from, to] = [&sides.from, &sides.to].map(|rates| Estimate::mean(&logs(rates)));
    let (from, to) = (from?, to?);
    let pairing = Pairing::Unpaired { from: sides.from.len(), to: sides.to.len() };
    let variance = from.standard_error.powi(2) * sides.from.len() as f64
        + to.standard_error.powi(2) * sides.to.len() as f64;
    Ok(Own { pairing, log_ratio: to.less(from), variance })
}

fn logs(rates: &[Rate]) -> Vec<f64> {
    rates.iter().map(|rate| rate.per_s.ln()).collect()
}
