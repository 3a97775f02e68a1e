use serde::{Deserialize, Serialize};

/// The two kinds of `time` we understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeFlavour {
    /// GNU: `-v -o FILE`; read by [`super::parse_gnu_time`].
    Gnu,
    /// BSD, as macOS has it: `-l -o FILE`; read by [`super::parse_bsd_time`].
    Bsd,
}

/// What `/usr/bin/time` says of a finished process and its waited-for children. Seconds and bytes throughout, whatever
/// unit the tool printed. Absent means the tool did not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStats {
    /// Wall-clock seconds.
    pub wall_s: Option<f64>,
    /// Processor seconds in user mode.
    pub user_s: Option<f64>,
    /// Processor seconds in the kernel.
    pub system_s: Option<f64>,
    /// Greatest resident set, in bytes.
    pub max_rss_bytes: Option<u64>,
    /// Peak memory footprint, in bytes (macOS on Apple Silicon; on MPS only this follows the GPU's allocations).
    pub peak_footprint_bytes: Option<u64>,
    /// Context switches because the process waited.
    pub voluntary_switches: Option<u64>,
    /// Context switches because another process was due.
    pub involuntary_switches: Option<u64>,
    /// Page faults that needed the disk.
    pub major_faults: Option<u64>,
    /// Page faults that did not.
    pub minor_faults: Option<u64>,
    /// Instructions retired (macOS on Apple Silicon; may be the parent's alone, so no IPC may be computed of it).
    pub instructions: Option<u64>,
    /// Cycles elapsed (as `instructions`).
    pub cycles: Option<u64>,
}

/// How the timed program ended, as the first line of the report tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedExit {
    /// With this status; 0 when the report says nothing.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// A complete report of `/usr/bin/time`.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeReport {
    /// How the program ended. macOS's `time` does not say, so it is absent there.
    pub exit: Option<ReportedExit>,
    /// The figures.
    pub stats: ProcessStats,
}

/// A text that is no complete report of `/usr/bin/time`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeReportError {
    /// Nothing was written: `time` itself was killed.
    #[error("the report of /usr/bin/time is empty")]
    Empty,
    /// There is text, but the report is not there or breaks off.
    #[error("the report of /usr/bin/time breaks off: no `{0}`")]
    Truncated(&'static str),
    /// A line of the report has a value that is none.
    #[error("the report of /usr/bin/time has `{value}` for `{name}`")]
    Malformed {
        /// The line's name.
        name: String,
        /// The value as it stood.
        value: String,
    },
}
