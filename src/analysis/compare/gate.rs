//! The gate of a pipeline: whether a comparison passes a limit.

use super::{Comparison, distance};
use crate::stats;

/// The outcome for a table. The numbers are places in [`Comparison::configs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Every config is significantly within the limit.
    Passed,
    /// These are significantly slower by more than the limit.
    Slower(Vec<usize>),
    /// None is significantly slower by more than the limit, but these might be.
    CannotTell(Vec<usize>),
}

/// Whether any config lost more than the share `limit` of its throughput.
///
/// A config is slower only if its whole interval is beyond the limit, also after Holm's step-down over the table. At
/// most 2.5 % of tables have a config that fails falsely. A config passes if its whole interval is within the limit,
/// and a table if all configs do. At most 2.5 % of tables pass falsely. That needs no correction, because a false pass
/// must miss a certain config that is slower than the limit.
pub fn gate(comparison: &Comparison, limit: f64) -> Gate {
    let error = (1.0 - comparison.settings.confidence) / 2.0;
    let known = |index: usize| {
        let config = comparison.configs[index].as_ref().ok()?;
        (config.log_ratio.standard_error > 0.0).then_some(config.log_ratio)
    };
    let compared: Vec<(usize, stats::Estimate)> =
        (0..comparison.configs.len()).filter_map(|index| Some((index, known(index)?))).collect();
    let beyond: Vec<f64> = compared.iter().map(|(_, ratio)| ratio.p_at_least(-distance(limit))).collect();
    let slower: Vec<usize> = compared
        .iter()
        .zip(stats::holm(&beyond))
        .filter(|(_, p)| *p <= error)
        .map(|((index, _), _)| *index)
        .collect();
    if !slower.is_empty() {
        return Gate::Slower(slower);
    }
    let passes =
        |index: &usize| known(*index).is_some_and(|ratio| ratio.p_at_most(-distance(limit)) <= error);
    let doubtful: Vec<usize> = (0..comparison.configs.len()).filter(|index| !passes(index)).collect();
    if doubtful.is_empty() { Gate::Passed } else { Gate::CannotTell(doubtful) }
}
