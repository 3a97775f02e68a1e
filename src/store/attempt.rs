//! One attempt on disk: `attempt.json`, written before it starts.
//!
//! It is internal and contains everything that cannot be determined later. Together with the files that the process
//! chain leaves, it is enough to write the record. The `orchestrate` that observed the end does so, or a later one that
//! adopts the attempt.

use std::io;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::files::{
    AttemptDir, FILE_LIMIT, FormError, Versioned, WriteError, from_sealed_json, read_regular, to_sealed_json,
    write_whole,
};
use crate::matrix::Limits;
use crate::plan::Profiler;
use crate::record::{CloudNotice, Ending, Gate, HostCounters, Provenance, TimeFlavour};

/// The version of `attempt.json`.
///
/// Changelog: 1, the first; 2, sealed.
const ATTEMPT_SCHEMA: u32 = 2;

/// A larger difference between the wall clock and the time since the boot means that the clock was set. Smaller
/// corrections by the time service are ignored.
const CLOCK_TOLERANCE: TimeDelta = TimeDelta::seconds(1);

/// An unusable `attempt.json`.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// It cannot be read.
    #[error("attempt.json cannot be read")]
    Read(#[from] io::Error),
    /// It is torn, was changed after it was written, or has an unknown form or version.
    #[error(transparent)]
    Form(#[from] FormError),
}

/// An `attempt.json` cannot be updated.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// It cannot be read.
    #[error(transparent)]
    Load(#[from] AttemptError),
    /// It cannot be written.
    #[error(transparent)]
    Save(#[from] WriteError),
}

impl Versioned for Attempt {
    const FILE: &'static str = "attempt.json";
    const SCHEMA: u32 = ATTEMPT_SCHEMA;
    const SEALED_SINCE: u32 = 2;

    fn schema(&self) -> u32 {
        self.schema
    }
}

/// `attempt.json`: the facts before the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    schema: u32,
    /// The time of the start, which is when this file is written.
    pub started_at: DateTime<Utc>,
    /// The same time in seconds since the system booted, which setting the clock does not affect. It is only valid for
    /// the same boot. Absent in attempts of older versions, and if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) started_since_boot_s: Option<f64>,
    /// The limits it runs under.
    pub limits: Limits,
    /// The time tool at its head.
    pub time: TimeFlavour,
    /// Busy seconds of the host since its boot.
    pub(super) host_busy_s: Option<f64>,
    /// Stolen seconds of the host since its boot.
    pub(super) host_steal_s: Option<f64>,
    /// The load average.
    pub(super) load: Option<f64>,
    /// Out-of-memory kills, as [`HostCounters`] counts them.
    #[serde(default)]
    pub(super) oom_kills: Option<u64>,
    /// Seconds of sleep since the boot. Absent in attempts of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asleep_s: Option<f64>,
    /// Labels of the jobs that ran on other devices.
    pub(super) beside: Vec<String>,
    /// The profiler it runs under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) profiler: Option<Profiler>,
    /// The wait before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gate: Option<Gate>,
    /// The name of the lock of its `orchestrate`. Absent in attempts of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// The process group of its worker. Absent until the worker has started, where the system shows the environment of
    /// processes, and in attempts of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<WorkerGroup>,
    /// Announcements of the cloud provider about the machine so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<CloudNotice>,
    /// Where it runs and with what. The counters can be compared while the boot id stays the same.
    pub provenance: Provenance,
}

/// The process group of a worker, noted after its start. Where the system does not show the environment of processes,
/// only this identifies the worker of an `orchestrate` that died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerGroup {
    /// The id of its first process, which is also the id of the group.
    pub leader: u32,
    /// When that process started, as printed by the system. Process ids are reused, so the id alone is not enough.
    pub start: String,
}

/// The observed end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// How the chain ended.
    pub ending: Ending,
    /// When, by the wall clock as it was set at the start; see [`Attempt::with_corrected_end`].
    pub at: DateTime<Utc>,
    /// Whether the wall clock was set since the start. Then times that other programs read from it are invalid.
    pub clock_was_set: bool,
    /// The host's counters right after it; `None` if the end was noticed too late.
    pub counters: Option<HostCounters>,
    /// Whether another `orchestrate` than the one that started it noticed the end.
    pub adopted: bool,
    /// Whether remaining processes of its group were killed.
    pub left_processes: bool,
}

impl Attempt {
    /// The facts just before the start.
    pub fn new(
        started_at: DateTime<Utc>,
        limits: Limits,
        time: TimeFlavour,
        counters: HostCounters,
        beside: Vec<String>,
        provenance: Provenance,
    ) -> Self {
        let HostCounters { busy_s, steal_s, load, oom_kills, since_boot_s, asleep_s } = counters;
        Attempt {
            schema: ATTEMPT_SCHEMA,
            started_at,
            started_since_boot_s: since_boot_s,
            limits,
            time,
            host_busy_s: busy_s,
            host_steal_s: steal_s,
            load,
            oom_kills,
            asleep_s,
            beside,
            profiler: None,
            gate: None,
            owner: None,
            group: None,
            notices: Vec::new(),
            provenance,
        }
    }

    /// The same attempt, under `profiler`.
    pub fn under(self, profiler: Option<Profiler>) -> Self {
        Attempt { profiler, ..self }
    }

    /// The same attempt, after a wait for its start.
    pub fn behind_gate(self, gate: Option<Gate>) -> Self {
        Attempt { gate, ..self }
    }

    /// The same attempt, of the `orchestrate` whose lock is called `name`.
    pub fn owned_by(self, name: String) -> Self {
        Attempt { owner: Some(name), ..self }
    }

    /// The name of the lock of its `orchestrate`.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// The process group of its worker, if it was noted.
    pub fn group(&self) -> Option<&WorkerGroup> {
        self.group.as_ref()
    }

    /// The same attempt, with a worker in `group`.
    #[cfg(test)]
    pub(crate) fn with_worker_in(self, group: WorkerGroup) -> Self {
        Attempt { group: Some(group), ..self }
    }

    /// Notes in the `attempt.json` in `dir` that the worker has started, in `group`.
    ///
    /// # Errors
    /// It cannot be written. The file is then unchanged.
    pub fn note_group(&self, dir: &AttemptDir, group: WorkerGroup) -> Result<(), WriteError> {
        Attempt { group: Some(group), ..self.clone() }.save(dir)
    }

    /// Notes the announcements of the cloud provider in the `attempt.json` in `dir`, because the machine may disappear
    /// before the record is written.
    ///
    /// # Errors
    /// It cannot be read or written. It is then unchanged.
    pub fn note_notices(dir: &AttemptDir, notices: &[CloudNotice]) -> Result<(), NoteError> {
        // Only the file contains the worker's group.
        let attempt = Attempt::load(dir)?;
        Ok(Attempt { notices: notices.to_vec(), ..attempt }.save(dir)?)
    }

    /// The same attempt, started at `since_boot` after the boot.
    pub fn started_since_boot(self, since_boot: Option<Duration>) -> Self {
        Attempt { started_since_boot_s: since_boot.map(|span| span.as_secs_f64()), ..self }
    }

    /// When it began, as the time since the boot.
    pub(super) fn began_since_boot(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.started_since_boot_s?).ok()
    }

    /// The time since the start, at `since_boot` on the boot `boot_id`; `None` without a reliable clock.
    fn elapsed(&self, boot_id: Option<&str>, since_boot: Option<Duration>) -> Option<Duration> {
        boot_id.filter(|boot_id| self.provenance.host.boot_id.as_deref() == Some(*boot_id))?;
        since_boot?.checked_sub(self.began_since_boot()?)
    }

    /// The time until the attempt's limit, at `since_boot` on the boot `boot_id`.
    ///
    /// Without a reliable clock between its start and now, this is the whole limit again. The wall clock might have
    /// been set in the meantime. Stopping a worker late only costs time, but stopping it early costs its measurement.
    pub fn time_left(&self, boot_id: Option<&str>, since_boot: Option<Duration>) -> Duration {
        self.limits.timeout.saturating_sub(self.elapsed(boot_id, since_boot).unwrap_or_default())
    }

    /// Corrects the time of `end` if the wall clock was set since the start. `now` is the wall clock's time, and
    /// `since_boot` the time on the boot `boot_id`. If the clock was set, the end is the current time on the clock of
    /// the start.
    pub fn with_corrected_end(
        &self,
        end: End,
        now: DateTime<Utc>,
        boot_id: Option<&str>,
        since_boot: Option<Duration>,
    ) -> End {
        let elapsed = self.elapsed(boot_id, since_boot).and_then(|span| TimeDelta::from_std(span).ok());
        let Some(unset) = elapsed.and_then(|span| self.started_at.checked_add_signed(span)) else {
            return end;
        };
        match (now - unset).abs() > CLOCK_TOLERANCE {
            true => End { at: unset, clock_was_set: true, ..end },
            false => end,
        }
    }

    /// Writes `attempt.json`, replacing the previous version.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&self, dir: &AttemptDir) -> Result<(), WriteError> {
        write_whole(&dir.attempt(), &to_sealed_json(self))
    }

    /// Reads `attempt.json`.
    ///
    /// # Errors
    /// [`AttemptError`].
    pub fn load(dir: &AttemptDir) -> Result<Attempt, AttemptError> {
        Ok(from_sealed_json(&read_regular(&dir.attempt(), FILE_LIMIT)?)?)
    }
}
