//! One attempt on disk: `attempt.json` before it starts, the record after it has ended.
//!
//! `attempt.json` (ours alone; schema 1, the first) holds all that cannot be found out afterwards. With it and with what
//! the process chain leaves behind, anybody can write the record: the `orchestrate` that saw the end, or a later one
//! that adopts the attempt.
#![expect(clippy::disallowed_methods, reason = "an attempt is files")]

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::atomic::{WriteError, write_atomic};
use super::dispatch::DispatchError;
use super::host::{HostCounters, TimeFlavour};
use super::lock::JobLock;
use super::regular::{FILE_LIMIT, open_regular, read_regular};
use super::store::{AttemptDir, JobDir, to_json};
use super::telemetry::load_telemetry;
use crate::job::{Job, Key};
use crate::matrix::Limits;
use crate::plan::Profiler;
use crate::protocol::{BadMeasurement, Report};
use crate::record::{
    Counters, Ending, Gate, Observed, Outcome, ProfilerOutput, Provenance, RECORD_SCHEMA, Record, TimeReport,
    TimeReportError, decide_outcome, decide_profiled, parse_bsd_time, parse_gnu_time,
};

/// The version of `attempt.json`.
const ATTEMPT_SCHEMA: u32 = 1;

/// The longest table of a profiler that is read: a kernel has some thousand bytes, an iteration some thousand kernels.
const TABLE_LIMIT: u64 = 1 << 30;

/// Of what a chain said, as much is looked at for a profiler's words.
const SAID_LIMIT: u64 = 1 << 16;

/// `attempt.json`: what is known before the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    schema: u32,
    /// When the chain was started, to the moment of this file's writing.
    pub started_at: DateTime<Utc>,
    /// The same moment in seconds since the system was started, which no setting of the clock moves. It means something
    /// on the same boot only. Absent in attempts of older versions, and where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_since_boot_s: Option<f64>,
    /// The limits it runs under.
    pub limits: Limits,
    /// The time tool at its head.
    pub time: TimeFlavour,
    /// Busy seconds of the host since it was started.
    host_busy_s: Option<f64>,
    /// Stolen seconds of the host since it was started.
    host_steal_s: Option<f64>,
    /// The load average.
    load: Option<f64>,
    /// Kills for want of memory, as [`HostCounters`] counts them.
    #[serde(default)]
    oom_kills: Option<u64>,
    /// Labels of the jobs that ran on other devices.
    beside: Vec<String>,
    /// The profiler it runs under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profiler: Option<Profiler>,
    /// How the start was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gate: Option<Gate>,
    /// Where it runs and with what; its boot id says for how long the counters can be compared.
    pub provenance: Provenance,
}

/// What was seen of an attempt's end.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// How the chain ended.
    pub how: HowEnded,
    /// When.
    pub at: DateTime<Utc>,
    /// The host's counters right after it; `None` if the end was seen too late for that.
    pub counters: Option<HostCounters>,
    /// Seen by another `orchestrate` than the one that started it.
    pub adopted: bool,
    /// Processes of its group were still there and were killed.
    pub left_processes: bool,
}

/// How a process chain ended.
#[derive(Clone, Debug, PartialEq)]
pub enum HowEnded {
    /// By itself: its first process exited with this code, or was killed by this signal.
    ByItself {
        /// The exit code.
        code: Option<i32>,
        /// The signal.
        signal: Option<i32>,
    },
    /// Unseen: only what it left behind can tell.
    Unseen,
    /// We know already.
    Known(Ending),
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

    /// Reads what the attempt left in `dir` and makes its record.
    pub fn conclude(self, job: &Job, dir: &AttemptDir, end: End) -> Record {
        let report = self.load_time_report(dir);
        let measured = load_measurement(&dir.measurement());
        let before = self.counters();
        let after = end.counters.unwrap_or_default();
        let ending = ending(end.how, &report).with_oom_killer(after.has_oom_killed_since(&before));
        let ended_at = end.at.max(self.started_at);
        let seen_s = (ended_at - self.started_at).as_seconds_f64();
        let reported_s = report.as_ref().ok().and_then(|report| report.stats.wall_s);
        let lived_s = Some(seen_s.max(reported_s.unwrap_or(0.0)));
        let last_line = last_line(&dir.stderr());
        let outcome = decide_outcome(job.key(), &ending, measured.as_ref(), last_line.as_deref(), lived_s);
        let (outcome, counters) = self.count(job, dir, outcome, &report);
        let measurement = match measured {
            Some(Ok(Report::Measured(measurement))) => Some(*measurement),
            _ => None,
        };
        let (host_busy_s, host_steal_s) = after.since(&before);
        let telemetry = load_telemetry(&dir.telemetry(), measurement.as_ref());
        Record {
            schema: RECORD_SCHEMA,
            id: job.id(),
            label: job.label(),
            key: job.key().clone(),
            attempt: dir.number(),
            started_at: self.started_at,
            ended_at,
            outcome,
            measurement,
            process: report.ok().map(|report| report.stats),
            counters,
            observed: Observed {
                load_before: self.load,
                host_busy_s,
                host_steal_s,
                adopted: end.adopted,
                beside: self.beside,
                left_processes: end.left_processes,
                telemetry,
                gate: self.gate,
            },
            provenance: self.provenance,
        }
    }

    /// What the profiler counted, if there was one, and how the job ended if that is taken into account.
    fn count(
        &self,
        job: &Job,
        dir: &AttemptDir,
        outcome: Outcome,
        report: &Result<TimeReport, TimeReportError>,
    ) -> (Outcome, Option<Counters>) {
        let kind = job.key().kind;
        let Some((profiler, table)) = self.profiler.as_ref().zip(dir.profile(kind)) else {
            return (outcome, None);
        };
        let table = read_regular(&table, TABLE_LIMIT).unwrap_or_default();
        let end = |path: &Path| tail(path, SAID_LIMIT).unwrap_or_default();
        let (stdout, stderr) = (end(&dir.stdout()), end(&dir.stderr()));
        let output = ProfilerOutput {
            table: &String::from_utf8_lossy(&table),
            said: &format!("{stdout}\n{stderr}"),
            program_stderr: &stderr,
            exit: report.as_ref().ok().and_then(|report| report.exit),
            version: profiler.version(),
            selection: profiler.selection(),
        };
        decide_profiled(kind, outcome, &output)
    }

    /// The host's counters as they were before the start.
    fn counters(&self) -> HostCounters {
        HostCounters {
            busy_s: self.host_busy_s,
            steal_s: self.host_steal_s,
            load: self.load,
            oom_kills: self.oom_kills,
        }
    }

    fn load_time_report(&self, dir: &AttemptDir) -> Result<TimeReport, TimeReportError> {
        let bytes = read_regular(&dir.time(), FILE_LIMIT).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        match self.time {
            TimeFlavour::Gnu => parse_gnu_time(&text),
            TimeFlavour::Bsd => parse_bsd_time(&text),
        }
    }
}

/// A chain whose end nobody saw ended by itself if `time` lived to write its whole report. If not, it was cut off: by
/// whatever ended `orchestrate` too, or by somebody who killed all of it.
fn ending(how: HowEnded, report: &Result<TimeReport, TimeReportError>) -> Ending {
    let reported = report.as_ref().ok().and_then(|report| report.exit);
    match how {
        HowEnded::Known(ending) => ending,
        HowEnded::ByItself { code, signal } => Ending::of_chain(code, signal, reported),
        HowEnded::Unseen if report.is_ok() => Ending::of_chain(None, None, reported),
        HowEnded::Unseen => {
            Ending::Interrupted { message: "cut off together with its orchestrate".to_owned() }
        }
    }
}

/// What `measurement.json` says; `None` if there is none.
fn load_measurement(path: &Path) -> Option<Result<Report, BadMeasurement>> {
    let unreadable = |error| Some(Err(BadMeasurement::Unreadable(serde::de::Error::custom(error))));
    match read_regular(path, FILE_LIMIT) {
        Ok(bytes) => Some(Report::parse(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => unreadable(error.to_string()),
    }
}

/// The last line of the file at `path` that is not blank; of very long files only the end is looked at.
fn last_line(path: &Path) -> Option<String> {
    let text = tail(path, 16_384)?;
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// The last `bytes` bytes of the file at `path`; `None` if it cannot be read, or is no
/// regular file.
pub(super) fn tail(path: &Path, bytes: u64) -> Option<String> {
    let mut file = open_regular(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes))).ok()?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read).ok()?;
    Some(String::from_utf8_lossy(&read).into_owned())
}

/// Writes `key.json` and makes the directory of the next attempt.
///
/// # Errors
/// Something cannot be written.
pub fn begin(job: &Job, lock: &JobLock) -> Result<AttemptDir, WriteError> {
    let dir = lock.dir();
    remove_tmp(dir);
    write_key(job, dir)?;
    let wrong = |source| WriteError { path: dir.path().join("attempts"), source };
    let last = dir.attempts().map_err(wrong)?.last().map_or(0, AttemptDir::number);
    let attempt = dir.attempt(last + 1);
    fs::create_dir_all(attempt.path()).map_err(wrong)?;
    Ok(attempt)
}

/// Writes `key.json` unless it is there and sound. Torn or foreign, it would hide the job's attempts from everybody.
fn write_key(job: &Job, dir: &JobDir) -> Result<(), WriteError> {
    let json = to_json(job.key());
    let is_sound = || {
        let found: Key = serde_json::from_slice(&read_regular(&dir.key(), FILE_LIMIT).ok()?).ok()?;
        Some(Job::new(found).id() == job.id())
    };
    if is_sound() == Some(true) { Ok(()) } else { write_atomic(&dir.key(), &json) }
}

/// Makes anew what the record of `attempt` needs and what was taken away while its worker ran: a worker is a foreign
/// program, and its failure is to be told all the same. Says whether anything was.
///
/// # Errors
/// It cannot be made anew.
pub(super) fn restore(
    job: &Job,
    lock: &mut JobLock,
    dir: &AttemptDir,
    attempt: &Attempt,
) -> Result<bool, DispatchError> {
    let lock_was_gone = lock.restore().map_err(DispatchError::Lock)?;
    if dir.attempt().exists() {
        return Ok(lock_was_gone);
    }
    write_key(job, lock.dir())?;
    let wrong = |source| WriteError { path: dir.path().to_owned(), source };
    fs::create_dir_all(dir.path()).map_err(wrong)?;
    attempt.save(dir)?;
    Ok(true)
}

/// Removes what a crash left of files that were being written. The job's lock keeps other writers away.
fn remove_tmp(dir: &JobDir) {
    for entry in fs::read_dir(dir.path()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{HostFacts, MatrixFacts, Outcome, WorkerFacts};
    use crate::run::Store;

    const MEASUREMENT: &str = r#"{"schema":1,"samples":400,"elapsed_s":0.5,"synchronized":true,
        "effective":{"device":"cpu","precision":"fp32","batch":4}}"#;

    /// A report of a program that exited with 0.
    const REPORT: &str = include_str!("../../tests/records/gnu_time_exit_0.txt");

    fn job() -> Job {
        Job::new(Key::example())
    }

    fn attempt() -> Attempt {
        let provenance = Provenance {
            orchestrate: "0".into(),
            host: HostFacts::default(),
            worker: WorkerFacts::default(),
            matrix: MatrixFacts::default(),
            git: None,
            cloud: None,
            command: Vec::new(),
            environment: Default::default(),
        };
        let counters =
            HostCounters { busy_s: Some(100.0), steal_s: None, load: Some(0.5), oom_kills: Some(3) };
        let start = DateTime::from_timestamp(1_000_000, 0).unwrap();
        Attempt::new(start, Limits::default(), TimeFlavour::Gnu, counters, Vec::new(), provenance)
    }

    fn unseen() -> End {
        End {
            how: HowEnded::Unseen,
            at: DateTime::from_timestamp(1_000_100, 0).unwrap(),
            counters: Some(HostCounters {
                busy_s: Some(150.0),
                steal_s: Some(1.0),
                load: None,
                oom_kills: Some(3),
            }),
            adopted: true,
            left_processes: false,
        }
    }

    struct Place {
        _directory: tempfile::TempDir,
        dir: AttemptDir,
    }

    fn place() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let dir = Store::at(directory.path()).unwrap().job_dir(&job()).attempt(1);
        fs::create_dir_all(dir.path()).unwrap();
        Place { _directory: directory, dir }
    }

    #[test]
    fn attempt_json_survives_its_own_json() {
        let place = place();
        attempt().save(&place.dir).unwrap();
        assert_eq!(Attempt::load(&place.dir).unwrap(), attempt());
        fs::write(place.dir.attempt(), "{").unwrap();
        assert!(Attempt::load(&place.dir).is_err());
    }

    #[test]
    fn only_a_clock_that_nobody_sets_shortens_the_limit() {
        let seconds = Duration::from_secs;
        let mut attempt = attempt().started_since_boot(Some(seconds(1000)));
        attempt.limits.timeout = seconds(60);
        attempt.provenance.host.boot_id = Some("one".into());
        assert_eq!(attempt.time_left(Some("one"), Some(seconds(1045))), seconds(15));
        assert_eq!(attempt.time_left(Some("one"), Some(seconds(5000))), Duration::ZERO);
        for (boot, now) in [
            (Some("two"), Some(seconds(1045))),
            (None, Some(seconds(1045))),
            (Some("one"), None),
            (Some("one"), Some(seconds(999))),
        ] {
            assert_eq!(attempt.time_left(boot, now), seconds(60), "{boot:?} {now:?}");
        }
        let older = attempt.clone().started_since_boot(None);
        assert_eq!(older.time_left(Some("one"), Some(seconds(5000))), seconds(60));
        for torn in [f64::NAN, -1.0, 1e300] {
            attempt.started_since_boot_s = Some(torn);
            assert_eq!(attempt.time_left(Some("one"), Some(seconds(5000))), seconds(60), "{torn}");
        }
    }

    #[test]
    fn an_unseen_end_is_told_from_what_is_left() {
        let place = place();
        let outcome = || attempt().conclude(&job(), &place.dir, unseen()).outcome;
        assert_eq!(outcome().kind(), "interrupted", "nothing is there");
        fs::write(place.dir.measurement(), MEASUREMENT).unwrap();
        assert_eq!(outcome().kind(), "interrupted", "`time` was killed as well");
        for length in [0, 10, REPORT.len() / 2] {
            fs::write(place.dir.time(), &REPORT[..length]).unwrap();
            assert_eq!(outcome().kind(), "interrupted", "the report is cut at {length}");
        }
        fs::write(place.dir.time(), REPORT).unwrap();
        let record = attempt().conclude(&job(), &place.dir, unseen());
        assert_eq!(record.outcome, Outcome::Succeeded);
        assert_eq!(record.observed.host_busy_s, Some(50.0));
        assert_eq!(record.observed.host_steal_s, None, "there was no reading before");
        assert!(record.observed.adopted && record.process.is_some() && record.measurement.is_some());
        fs::write(place.dir.time(), format!("Command terminated by signal 9\n{REPORT}")).unwrap();
        assert_eq!(outcome(), Outcome::Signalled { signal: 9 });
        let mut end = unseen();
        end.counters.as_mut().unwrap().oom_kills = Some(4);
        assert_eq!(attempt().conclude(&job(), &place.dir, end).outcome.kind(), "out_of_memory");
    }

    #[test]
    fn the_last_line_of_a_log_is_found_from_its_end() {
        let place = place();
        let path = place.dir.stderr();
        assert_eq!(last_line(&path), None);
        for (text, last) in [("", None), ("\n \n", None), ("one\ntwo \n\n", Some("two"))] {
            fs::write(&path, text).unwrap();
            assert_eq!(last_line(&path).as_deref(), last, "{text:?}");
        }
        fs::write(&path, format!("{}\nthe end\n", "x".repeat(100_000))).unwrap();
        assert_eq!(last_line(&path).as_deref(), Some("the end"));
        fs::write(&path, b"\xff\xfe torn\n").unwrap();
        assert!(last_line(&path).unwrap().ends_with("torn"));
    }
}
