//! Turns the output of Nsight Compute into counters, or into the reason why there are none.

use std::collections::BTreeSet;

use super::counters::NcuCounters;
use super::failure::NcuFailure;
use super::log::Log;
use super::output::NcuOutput;
use super::select::Selection;
use super::table::parse_table;
use crate::metric::Meaning;
use crate::record::said::plain;

/// Whether a message of Nsight Compute follows the table, so that none of the table's end is missing.
fn has_end(csv: &str) -> bool {
    let last = csv.lines().rev().find(|line| !line.trim().is_empty());
    last.is_some_and(|line| line.starts_with("==")) && csv.ends_with('\n')
}

/// Parses what Nsight Compute counted. Keeps the metrics in `selection` and all others that have a [`Meaning`]. Metrics
/// in `selection` that the table lacks become `not_measured`.
///
/// # Errors
/// [`NcuFailure`]: why no counts can be used. If it exited with 0 but counted no kernels, that is a failure. So is a
/// file that was visibly cut; if that cannot be told, the counters are `unproven`.
pub fn parse_ncu(output: &NcuOutput<'_>, selection: &Selection) -> Result<NcuCounters, NcuFailure> {
    let log = Log::of(output.csv).and(Log::of(output.log));
    let asked: BTreeSet<&str> = selection.metrics.iter().map(String::as_str).collect();
    let wanted = |name: &str| asked.contains(name) || Meaning::of(name).is_some();
    let table = parse_table(output.csv, wanted);
    // The profiler's own messages explain a failure better than the table that it left behind.
    let capability = table.iter().flatten().flatten().find_map(|kernel| kernel.capability);
    if let Some(failure) = NcuFailure::of(&log, output, capability) {
        return Err(failure);
    }
    let kernels = table?.ok_or(NcuFailure::NoTable)?;
    if kernels.len() < log.announced {
        return Err(NcuFailure::KernelsMissing { found: kernels.len(), announced: log.announced });
    }
    if kernels.is_empty() {
        return Err(NcuFailure::NoKernels);
    }
    // A table that was cut at the end of a row looks like a shorter one, even if the profiler exited with 0.
    let unproven = log.announced == 0 && !has_end(output.csv);
    let warnings = log.warnings.iter().map(|warning| plain(warning)).collect();
    Ok(NcuCounters { warnings, ..NcuCounters::of(&kernels, selection, unproven) })
}
