//! The unparsed output of Nsight Compute.

use std::collections::BTreeMap;

use crate::record::ReportedExit;

/// Values by name of the metric, in bytes, nanoseconds or events.
pub(super) type Metrics = BTreeMap<String, u64>;

/// What Nsight Compute left behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct NcuOutput<'a> {
    /// The file of `--log-file`: the table and messages.
    pub csv: &'a str,
    /// What it wrote to stdout and stderr, mixed with the program's output; it can repeat `csv`.
    pub log: &'a str,
    /// How Nsight Compute ended; `None` if nobody saw it.
    pub exit: Option<ReportedExit>,
    /// The end of the program's stderr.
    pub program_stderr: &'a str,
}
