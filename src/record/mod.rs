//! One attempt, parsed: what it was, how it ended, what was measured and what was observed around it.
//! Rooms that read or write records call it, and so do those that ask other programs; texts come in as arguments.
//! It never opens a file, never derives a statistic, and never marks a run.
//!
//! [`Record`] is `record.json`, the one file that decides whether a job is done. Raw values only: whatever can be
//! derived from them (throughput, foreign load, marks) is derived by [`crate::analysis`], never stored.

mod bsd_time;
mod ending;
#[cfg(test)]
mod garble;
mod gnu_time;
mod host_counters;
pub mod ncu;
mod notation;
mod outcome;
pub mod perf;
mod policy;
mod process;
mod profiled;
mod provenance;
mod telemetry;
#[cfg(test)]
pub(crate) mod testing;
mod time_values;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::job::{JobId, Key};
use crate::protocol::Measurement;

pub use bsd_time::parse_bsd_time;
pub use ending::{Ending, decide_outcome};
pub use gnu_time::parse_gnu_time;
pub use host_counters::HostCounters;
pub use ncu::NcuCounters;
pub use outcome::{NotProfiled, Outcome};
pub use perf::PerfCounters;
pub use policy::Policy;
pub use process::{ProcessStats, ReportedExit, TimeFlavour, TimeReport, TimeReportError};
pub use profiled::{ProfilerOutput, decide_profiled};
pub use provenance::{
    CloudFacts, CpuFacts, GitFacts, GpuFacts, HostFacts, LibraryFacts, MatrixFacts, OsFacts, Provenance,
    WorkerFacts,
};
pub use telemetry::{
    ForeignProcess, GpuSample, GpuTelemetry, OnDevice, Readings, Sample, Telemetry, parse_samples,
};

/// The version of `record.json`.
///
/// Changelog: 1, the first.
pub const RECORD_SCHEMA: u32 = 1;

/// `record.json`: what one attempt left behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_SCHEMA`].
    pub schema: u32,
    /// The job's id; equals the hash of `key`.
    pub id: JobId,
    /// The job's label.
    pub label: String,
    /// Everything declared.
    pub key: Key,
    /// Which attempt this is, from 1: the number of its directory below `attempts/`.
    pub attempt: u32,
    /// When the process chain was started.
    pub started_at: DateTime<Utc>,
    /// When it was seen to have ended.
    pub ended_at: DateTime<Utc>,
    /// How it ended.
    pub outcome: Outcome,
    /// What the worker measured; present whenever the worker wrote a sound one, also if the outcome is a failure.
    pub measurement: Option<Measurement>,
    /// What `/usr/bin/time` said of the process; absent where it said nothing.
    pub process: Option<ProcessStats>,
    /// What a profiler counted; absent in timing jobs, and where it counted nothing that may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// What was seen around the process.
    pub observed: Observed,
    /// Where it ran and with what.
    pub provenance: Provenance,
}

/// What a profiler counted, by the job's kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "profiler", rename_all = "snake_case")]
pub enum Counters {
    /// Nsight Compute, over the kernels of the measured window.
    Ncu(NcuCounters),
    /// `perf stat`, over the whole run.
    Perf(PerfCounters),
}

/// What `orchestrate` saw around a running job. Raw values; shares and loads are derived from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The host's one-minute load average just before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_before: Option<f64>,
    /// Seconds of processor time that the whole host was busy between the job's start and its end, over all
    /// processors. Less the job's own, it is what others took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_busy_s: Option<f64>,
    /// Seconds of processor time that the hypervisor gave to others in that span, over all processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_steal_s: Option<f64>,
    /// The job's end was seen by another `orchestrate` than the one that started it.
    #[serde(default)]
    pub adopted: bool,
    /// Labels of jobs that this host ran at the same time by permission (`share: device`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// The job left processes behind, which were killed.
    #[serde(default)]
    pub left_processes: bool,
    /// What sensors showed meanwhile, as far as `telemetry.csv` goes: of an adopted attempt until its `orchestrate` was
    /// gone. Absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// How the start was waited for; absent where no limit asks for a quiet or a cool machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
}

/// How long a job waited for the machine to be as its limits ask (`quiet`, `max_temperature`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Seconds from having the right to measure, and the cool-down that was due, to the start.
    pub waited_s: f64,
    /// Why the machine never was as asked, with the last readings; the job was started all the same. Absent if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
}
