//! What a run under Nsight Compute left behind, before it is understood.

use std::collections::BTreeMap;

use crate::record::ReportedExit;

/// Values by the metric's name: bytes, nanoseconds or events.
pub(super) type Metrics = BTreeMap<String, u64>;

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
