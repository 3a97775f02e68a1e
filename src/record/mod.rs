//! One attempt, parsed: its job, how it ended, what it measured, and what was observed meanwhile. Rooms that read or
//! write records call it, and those that run other programs; texts come in as arguments. It never opens a file, never
//! derives a statistic, and never marks a job.
//!
//! [`Record`] is `record.json`, the one file that decides whether a job is done. It has raw values only. Derived values
//! (throughput, foreign load, marks) are computed by [`crate::analysis`] and never stored.

mod bsd_time;
mod cloud;
mod ending;
mod evidence;
#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod garble;
mod gnu_time;
mod gpu_choice;
mod gpus;
mod host_counters;
mod inherited;
mod machine;
pub mod ncu;
mod notation;
mod outcome;
mod password;
pub mod perf;
mod policy;
mod pool;
mod process;
mod profiled;
mod provenance;
mod reason;
mod said;
mod secret;
mod slurm;
mod telemetry;
#[cfg(test)]
pub(crate) mod testing;
mod time_values;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::clean::deserialize_clean;
use crate::job::{JobId, Key};
use crate::protocol::Measurement;
use crate::shared::Shared;

pub use bsd_time::parse_bsd_time;
pub use cloud::{CloudFacts, CloudNotice, CloudNoticeKind, CloudProvider, CloudSource, Contradiction};
pub use ending::{Ending, decide_outcome};
pub use evidence::{Difference, DifferenceKind, Evidence, FileDigest};
pub use gnu_time::parse_gnu_time;
pub use gpu_choice::{CudaEntries, Extent, GpuAddress};
pub use gpus::{GpuFacts, GpuInstance, VisibleGpu, VisibleGpus};
pub use host_counters::HostCounters;
pub use inherited::{
    INHERITED, Influence, Inherited, dropped, influence, influence_on, inherited, inherited_list,
    is_set_by_us, passes,
};
pub use machine::Machine;
pub use ncu::NcuCounters;
pub use outcome::{NotProfiled, Outcome};
pub use password::contains_password;
pub use perf::PerfCounters;
pub use policy::Policy;
pub use pool::Pool;
pub use process::{ProcessStats, ReportedExit, TimeFlavour, TimeReport, TimeReportError};
pub use profiled::{ProfilerOutput, decide_operators, decide_profiled};
pub use provenance::{
    CgroupLimits, CpuFacts, GitFacts, HostFacts, LibraryFacts, LockReach, MachineIds, MatrixFacts, OsFacts,
    Provenance, WorkerFacts,
};
pub use reason::reason;
pub use said::last_line;
pub use secret::{SET, looks_secret, text_without_secrets, without_secrets};
pub use slurm::SlurmFacts;
pub use telemetry::{
    Declaration, ForeignProcess, GpuSample, GpuTelemetry, OnDevice, Part, Readings, Sample, Sensor,
    Statistic, Summaries, Summary, SummaryValue, Telemetry, parse_samples, sensors_table,
};

/// The version of `record.json`.
///
/// Changelog: 1, the first; 2, sealed, with the digests of the files that its numbers come from.
pub const RECORD_SCHEMA: u32 = 2;

/// `record.json`: what one attempt left behind.
///
/// Texts from other programs are sanitised, even if an older version wrote them raw. The key is as declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_SCHEMA`], or an older one if an older version wrote it.
    pub schema: u32,
    /// The job's id; equals the hash of `key`.
    pub id: JobId,
    /// The job's label.
    #[serde(deserialize_with = "deserialize_clean")]
    pub label: String,
    /// Everything declared.
    pub key: Key,
    /// The attempt's number, from 1; also the name of its directory below `attempts/`.
    pub attempt: u32,
    /// When the process chain was started.
    pub started_at: DateTime<Utc>,
    /// When its end was noticed, by the clock as it was set at the start.
    pub ended_at: DateTime<Utc>,
    /// How it ended.
    #[serde(deserialize_with = "deserialize_clean")]
    pub outcome: Outcome,
    /// The worker's measurement. Present whenever the worker wrote a valid measurement, even if the attempt failed.
    #[serde(default, deserialize_with = "deserialize_clean")]
    pub measurement: Option<Measurement>,
    /// The report of `/usr/bin/time`; absent if there is none.
    pub process: Option<ProcessStats>,
    /// The counts of the profiler; absent in timing jobs, and if the counts cannot be used.
    #[serde(default, deserialize_with = "deserialize_clean", skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// Observations while it ran.
    #[serde(deserialize_with = "deserialize_clean")]
    pub observed: Observed,
    /// Its machine, worker, matrix and environment. Mostly the same for all jobs of a run.
    pub provenance: Shared<Provenance>,
    /// Digests of the files that its numbers come from, taken when it was written. Absent in records of schema 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

impl Record {
    /// Seconds between the job's start and its end. The end of an adopted attempt may have been noticed late, so the
    /// value of `time` is used, unless it is 0.00 s.
    pub fn wall_s(&self) -> f64 {
        let by_clock = || (self.ended_at - self.started_at).as_seconds_f64();
        let by_time = self.process.as_ref().and_then(|process| process.wall_s);
        by_time.filter(|seconds| *seconds > 0.0).unwrap_or_else(by_clock)
    }
}

/// The counts of a profiler, by the job's kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "profiler", rename_all = "snake_case")]
pub enum Counters {
    /// Nsight Compute, over the kernels of the measured window.
    Ncu(Box<NcuCounters>),
    /// `perf stat`, over the whole life of the worker.
    Perf(PerfCounters),
}

/// Observations of `orchestrate` while a job ran. Raw values; shares and loads are derived from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The host's one-minute load average just before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_before: Option<f64>,
    /// Seconds of processor time that the host was busy between the job's start and end, summed over the processors
    /// that the job may use. Subtract the job's own to get the share of other processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_busy_s: Option<f64>,
    /// Seconds of processor time that the hypervisor gave to other machines meanwhile, summed over the same processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_steal_s: Option<f64>,
    /// When the job was started and when its end was noticed, in seconds since the boot, sleep included. This clock
    /// cannot be set, but readings are comparable only within one boot. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_boot_s: Option<(f64, f64)>,
    /// Seconds for which the host slept meanwhile. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asleep_s: Option<f64>,
    /// The `orchestrate` that started the job died, and another one saw the job end.
    #[serde(default)]
    pub adopted: bool,
    /// Labels of the jobs that ran on this host at the same time, as `share: device` allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// The job left processes behind, and they were killed.
    #[serde(default)]
    pub left_processes: bool,
    /// Summary of `telemetry.csv`; absent if no sensor was read. For an adopted attempt it ends when the `orchestrate`
    /// that started it died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// How long the start was delayed; absent if no limit requires a quiet or a cool machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// The announcements of the cloud provider about the machine until the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<CloudNotice>,
    /// Bytes that were cut out of the middle of the worker's standard output, because it exceeded the limit `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_cut_bytes: Option<u64>,
    /// The same for its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_cut_bytes: Option<u64>,
}

/// How long a job waited until the machine met its limits (`quiet`, `max_temperature`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Seconds of waiting, after the locks and the cool-down.
    pub waited_s: f64,
    /// Why the wait was given up, with the last readings; the job was started anyway. Absent if the limits were met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::clean::is_unsafe;

    /// Control characters around every text. All of them must be removed.
    const RAW: &str = "\u{1b}[31m\u{202e}\u{0}\u{9b}\u{7f}";

    /// `value` with [`RAW`] around every text.
    fn soiled(value: &Value) -> Value {
        match value {
            Value::String(text) => format!("{RAW}{text}{RAW}").into(),
            Value::Array(values) => values.iter().map(soiled).collect(),
            Value::Object(entries) => {
                let entry = |(name, value): (&String, &Value)| (name.clone(), soiled(value));
                Value::Object(entries.iter().map(entry).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn texts(value: &Value) -> Vec<String> {
        match value {
            Value::String(text) => vec![text.clone()],
            Value::Array(values) => values.iter().flat_map(texts).collect(),
            Value::Object(entries) => {
                entries.iter().flat_map(|(name, value)| [vec![name.clone()], texts(value)].concat()).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
        }
    }

    /// Every text of a record, by its place, as older versions wrote it.
    #[test]
    fn a_record_with_raw_texts_is_sanitised_on_reading() {
        let mut record = serde_json::to_value(testing::record(1, Outcome::Succeeded)).unwrap();
        let measurement = json!({ "schema": 1, "samples": 4, "elapsed_s": 1.0, "synchronized": true,
            "effective": { "device": "cpu", "precision": "fp32", "batch": 4, "model": "m", "a": ["b", { "c": "d" }] },
            "details": { "device_name": "RTX™ é 漢字", "versions": { "libtorch": "2" }, "float32": { "a": "b" },
                "autocast": "off", "bf16_products": "p", "repeated": ["a"], "optimizer": "o",
                "ranks": [{ "rank": 0, "host": "h", "device_name": "d", "device_uuid": "u" }] } });
        let host = json!({ "hostname": "h", "nvidia_driver": "n", "boot_id": "b",
            "os": { "name": "linux", "version": "v", "kernel": "k", "architecture": "a" },
            "cpu": { "model": "c", "microcode": "m" }, "devices": ["cpu"], "governor": "g", "kernel_options": ["k"],
            "gpus": [{ "name": "g", "uuid": "u" }] });
        let counters = json!({ "profiler": "ncu", "version": "v", "metrics": { "m": 1 },
            "not_measured": { "m": "why" }, "top_kernels": [{ "name": "k<int>", "launches": 1 }] });
        let observed = json!({ "beside": ["a"], "gate": { "waited_s": 1.0, "gave_up": "g" },
            "telemetry": { "gpu": { "foreign_processes": [{ "pid": 1, "name": "p" }] } } });
        for (place, value) in [
            ("/label", json!("l")),
            ("/measurement", measurement),
            ("/counters", counters),
            ("/observed", observed),
            ("/outcome", json!({ "kind": "exited", "code": 1, "message": "why" })),
            ("/provenance/orchestrate", json!("0.1.0")),
            ("/provenance/host", host),
            ("/provenance/worker", json!({ "path": "/w", "sha256": "0", "others": { "python": "0" } })),
            ("/provenance/git", json!({ "revision": "r", "dirty": true })),
            ("/provenance/cloud", json!({ "provider": "p" })),
        ] {
            let (parent, name) = place.rsplit_once('/').unwrap();
            record.pointer_mut(parent).unwrap()[name] = value.clone();
            let clean: Record =
                serde_json::from_value(record.clone()).unwrap_or_else(|error| panic!("{place}: {error}"));
            let mut raw = record.clone();
            *raw.pointer_mut(place).unwrap() = soiled(&value);
            let read: Record = serde_json::from_value(raw).unwrap_or_else(|error| panic!("{place}: {error}"));
            let written = serde_json::to_value(&read).unwrap();
            assert!(!texts(&written).iter().any(|text| text.contains(is_unsafe)), "{place}: {written}");
            assert_eq!(read, clean, "{place}");
        }
    }
}
