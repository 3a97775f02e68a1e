use serde::{Deserialize, Serialize};

/// The supported kinds of `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeFlavour {
    /// GNU: `-v -o FILE`, parsed by [`super::parse_gnu_time`].
    Gnu,
    /// BSD, as on macOS: `-l -o FILE`, parsed by [`super::parse_bsd_time`].
    Bsd,
}

/// The report of `/usr/bin/time` about a finished process and the children it waited for. Always in seconds and bytes,
/// whatever units the tool printed. Absent values were not reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStats {
    /// Wall-clock seconds.
    pub wall_s: Option<f64>,
    /// Processor seconds in user mode.
    pub user_s: Option<f64>,
    /// Processor seconds in the kernel.
    pub system_s: Option<f64>,
    /// Maximum resident set size, in bytes.
    pub max_rss_bytes: Option<u64>,
    /// Peak memory footprint, in bytes (macOS on Apple Silicon). On MPS, only this figure includes GPU allocations.
    pub peak_footprint_bytes: Option<u64>,
    /// Context switches because the process waited.
    pub voluntary_switches: Option<u64>,
    /// Context switches because the scheduler preempted the process.
    pub involuntary_switches: Option<u64>,
    /// Page faults that needed the disk.
    pub major_faults: Option<u64>,
    /// Page faults that did not.
    pub minor_faults: Option<u64>,
    /// Instructions retired (macOS on Apple Silicon). Possibly without the children's, so no IPC can be derived.
    pub instructions: Option<u64>,
    /// Cycles elapsed (same caveats as `instructions`).
    pub cycles: Option<u64>,
}

/// How the timed program ended, according to `/usr/bin/time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedExit {
    /// With this exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// A complete report of `/usr/bin/time`.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeReport {
    /// How the program ended; absent on macOS, where `time` does not say.
    pub exit: Option<ReportedExit>,
    /// The figures.
    pub stats: ProcessStats,
}

/// Why a text is not a complete report of `/usr/bin/time`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeReportError {
    /// The file is empty, because `time` itself was killed.
    #[error("the report of /usr/bin/time is empty")]
    Empty,
    /// There is text, but the report is missing or cut off.
    #[error("the report of /usr/bin/time is cut off: it has no line `{0}`")]
    Truncated(&'static str),
    /// A line of the report has an invalid value.
    #[error("the report of /usr/bin/time has an invalid value for `{name}`: `{value}`")]
    Malformed {
        /// The line's name.
        name: String,
        /// The value as printed.
        value: String,
    },
}
