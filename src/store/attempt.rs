//! One attempt on disk: `attempt.json`, written before it starts.
//!
//! It is ours alone (schema 1, the first) and holds all that cannot be found out afterwards. With it and with what the
//! process chain leaves behind, anybody can write the record: the `orchestrate` that saw the end, or a later one that
//! adopts the attempt.

use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::files::{AttemptDir, FILE_LIMIT, WriteError, read_regular, to_json, write_atomic};
use crate::matrix::Limits;
use crate::plan::Profiler;
use crate::record::{Ending, Gate, HostCounters, Provenance, TimeFlavour};

/// The version of `attempt.json`.
const ATTEMPT_SCHEMA: u32 = 1;

/// `attempt.json`: what is known before the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    schema: u32,
    /// When the chain was started, to the moment of this file's writing.
    pub started_at: DateTime<Utc>,
    /// The same moment in seconds since the system was started, which no setting of the clock moves. It means something
    /// on the same boot only. Absent in attempts of older versions, and where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) started_since_boot_s: Option<f64>,
    /// The limits it runs under.
    pub limits: Limits,
    /// The time tool at its head.
    pub time: TimeFlavour,
    /// Busy seconds of the host since it was started.
    pub(super) host_busy_s: Option<f64>,
    /// Stolen seconds of the host since it was started.
    pub(super) host_steal_s: Option<f64>,
    /// The load average.
    pub(super) load: Option<f64>,
    /// Kills for want of memory, as [`HostCounters`] counts them.
    #[serde(default)]
    pub(super) oom_kills: Option<u64>,
    /// Labels of the jobs that ran on other devices.
    pub(super) beside: Vec<String>,
    /// The profiler it runs under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) profiler: Option<Profiler>,
    /// How the start was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gate: Option<Gate>,
    /// Where it runs and with what; its boot id says for how long the counters can be compared.
    pub provenance: Provenance,
}

/// What was seen of an attempt's end.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// How the chain ended.
    pub ending: Ending,
    /// When.
    pub at: DateTime<Utc>,
    /// The host's counters right after it; `None` if the end was seen too late for that.
    pub counters: Option<HostCounters>,
    /// Seen by another `orchestrate` than the one that started it.
    pub adopted: bool,
    /// Processes of its group were still there and were killed.
    pub left_processes: bool,
}

impl Attempt {
    /// What is known just before the start.
    pub fn new(
        started_at: DateTime<Utc>,
        limits: Limits,
        time: TimeFlavour,
        counters: HostCounters,
        beside: Vec<String>,
        provenance: Provenance,
    ) -> Self {
        let HostCounters { busy_s, steal_s, load, oom_kills } = counters;
        Attempt {
            schema: ATTEMPT_SCHEMA,
            started_at,
            started_since_boot_s: None,
            limits,
            time,
            host_busy_s: busy_s,
            host_steal_s: steal_s,
            load,
            oom_kills,
            beside,
            profiler: None,
            gate: None,
            provenance,
        }
    }

    /// The same attempt, under `profiler`.
    pub fn under(self, profiler: Option<Profiler>) -> Self {
        Attempt { profiler, ..self }
    }

    /// The same attempt, whose start was waited for.
    pub fn behind_gate(self, gate: Option<Gate>) -> Self {
        Attempt { gate, ..self }
    }

    /// The same attempt, started at `since_boot` after the system was.
    pub fn started_since_boot(self, since_boot: Option<Duration>) -> Self {
        Attempt { started_since_boot_s: since_boot.map(|span| span.as_secs_f64()), ..self }
    }

    /// How long the attempt may still run before its limit, at `since_boot` on the boot `boot_id`.
    ///
    /// Without a clock that holds between its start and now, that is its whole limit once more: the wall clock may have
    /// been set meanwhile, and a worker stopped late costs time, while one stopped early costs its measurement.
    pub fn time_left(&self, boot_id: Option<&str>, since_boot: Option<Duration>) -> Duration {
        let same_boot = boot_id.is_some() && self.provenance.host.boot_id.as_deref() == boot_id;
        let elapsed = || {
            let started = Duration::try_from_secs_f64(self.started_since_boot_s?).ok()?;
            since_boot?.checked_sub(started)
        };
        let elapsed = elapsed().filter(|_| same_boot).unwrap_or_default();
        self.limits.timeout.saturating_sub(elapsed)
    }

    /// Writes `attempt.json`. From then on the attempt counts as begun.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, dir: &AttemptDir) -> Result<(), WriteError> {
        write_atomic(&dir.attempt(), &to_json(self))
    }

    /// Reads `attempt.json`.
    ///
    /// # Errors
    /// It cannot be read, is not of the form, or is of another version.
    pub fn load(dir: &AttemptDir) -> io::Result<Attempt> {
        let attempt: Attempt = serde_json::from_slice(&read_regular(&dir.attempt(), FILE_LIMIT)?)?;
        if attempt.schema != ATTEMPT_SCHEMA {
            return Err(io::Error::other(format!("schema {}: expected {ATTEMPT_SCHEMA}", attempt.schema)));
        }
        Ok(attempt)
    }
}
