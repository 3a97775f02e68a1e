//! Whether a comparison passes a limit, for a pipeline to act on.

use super::{Comparison, distance};
use crate::stats;

/// The outcome for a table. The numbers are places in [`Comparison::configs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Every config is shown to be slower by less than the limit.
    Passed,
    /// These are slower by more than the limit.
    Slower(Vec<usize>),
    /// None is shown to be slower by more than the limit, but these may be.
    CannotTell(Vec<usize>),
}

/// Whether any config lost more than the share `limit` of its throughput.
///
/// A config is slower only if its whole interval lies beyond the limit, and Holm's step-down over the table still says
/// so. In at most 2.5 % of tables does any config fail falsely. A config passes if its whole interval lies within the
/// limit, and a table if all configs do. That is false in at most 2.5 % of tables, too. It needs no correction, for one
/// config that is slower than the limit has to be missed.
pub fn gate(comparison: &Comparison, limit: f64) -> Gate {
    let error = (1.0 - comparison.settings.confidence) / 2.0;
    let known = |index: usize| {
        let config = comparison.configs[index].as_ref().ok()?;
        (config.log_ratio.standard_error > 0.0).then_some(config.log_ratio)
    };
    let told: Vec<(usize, stats::Estimate)> =
        (0..comparison.configs.len()).filter_map(|index| Some((index, known(index)?))).collect();
    let beyond: Vec<f64> = told.iter().map(|(_, ratio)| ratio.p_at_least(-distance(limit))).collect();
    let slower: Vec<usize> = told
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
