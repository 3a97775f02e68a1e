//! The unparsed output of Nsight Compute.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::record::ReportedExit;

/// Values by name of the metric, in bytes, nanoseconds or events.
///
/// A table has few metrics and many kernels, so the kernels share the names.
pub(super) type Metrics = BTreeMap<Rc<str>, u64>;

/// The output of Nsight Compute besides the file of `--log-file`, which has the table and messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct NcuOutput<'a> {
    /// Its stdout and stderr, mixed with the program's output; they can repeat the file of the table.
    pub log: &'a str,
    /// How Nsight Compute ended; `None` if that was not observed.
    pub exit: Option<ReportedExit>,
    /// The end of the program's stderr.
    pub program_stderr: &'a str,
}
