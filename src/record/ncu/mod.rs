//! Nsight Compute: what to ask it for, and what it answered.
//!
//! [`select_metrics`] chooses the metrics of a device, [`parse_ncu`] turns what `ncu --csv` left behind into
//! [`NcuCounters`] or into an [`NcuFailure`] with its remedy. Nothing here starts a process or reads a file.

mod counters;
mod failure;
mod log;
mod metric;
mod select;
mod table;
#[cfg(test)]
mod tests;
mod translate;
mod unit;

use std::collections::{BTreeMap, BTreeSet};

use self::log::Log;
use self::table::parse_table;
use super::ReportedExit;

pub use counters::{KernelGroup, NcuCounters, NcuTotals};
pub use failure::NcuFailure;
pub use log::parse_ncu_version;
pub use metric::{BadCapability, Capability, CoreFormat, CoreOperation, Meaning, TensorPath};
pub use select::{Selection, parse_query_metrics, select_metrics, select_named};
pub use table::TableError;
pub use translate::{Translation, UnknownMetric, translate, unknown_metrics};

/// Values by the metric's name: bytes, nanoseconds or events.
type Metrics = BTreeMap<String, u64>;

/// What a run under Nsight Compute left behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct NcuOutput<'a> {
    /// The file of `--log-file`: the table, and all else that it has to say.
    pub csv: &'a str,
    /// What it wrote elsewhere, to stdout or stderr; may hold the program's lines too, or the same text as `csv`.
    pub log: &'a str,
    /// How it ended; `None` if nobody saw it.
    pub exit: Option<ReportedExit>,
    /// The end of the program's stderr.
    pub program_stderr: &'a str,
}

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
