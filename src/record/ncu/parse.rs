//! From the output of Nsight Compute to its counters, or to why there are none.

use std::collections::BTreeSet;

use super::counters::NcuCounters;
use super::failure::NcuFailure;
use super::log::Log;
use super::output::NcuOutput;
use super::select::Selection;
use super::table::parse_table;
use crate::metric::Meaning;

/// What Nsight Compute counted. Besides the metrics of `selection`, all that have a meaning for us are taken from the
/// table; what `selection` has and the table lacks is not measured.
///
/// # Errors
/// Why there is nothing to be used: see [`NcuFailure`]. An end without an error and without a kernel is a failure, too,
/// and a file that was cut is one wherever that can be seen; where it cannot, the counters are `unproven`.
pub fn parse_ncu(output: &NcuOutput<'_>, selection: &Selection) -> Result<NcuCounters, NcuFailure> {
    let log = Log::of(output.csv).and(Log::of(output.log));
    let asked: BTreeSet<&str> = selection.metrics.iter().map(String::as_str).collect();
    let wanted = |name: &str| asked.contains(name) || Meaning::of(name).is_some();
    let table = parse_table(output.csv, wanted);
    // What the profiler says of itself tells more than the table that it left behind.
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
    let unproven = output.exit.is_none() && log.announced == 0;
    Ok(NcuCounters::of(&kernels, selection, unproven))
}
