//! Makes the record of an attempt from its files: [`Attempt::conclude`]. It does not matter which process observed its
//! end.

use std::fs;
use std::io;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};

use super::attempt::{Attempt, End};
use super::evidence::EvidenceReader;
use super::telemetry::read_telemetry;
use crate::files::{AttemptDir, FILE_LIMIT, keep_within, tail};
use crate::job::Job;
use crate::protocol::{BadMeasurement, Measurement, Report};
use crate::record::{
    Counters, Ending, HostCounters, Observed, Outcome, ProfilerOutput, RECORD_SCHEMA, Record, TimeFlavour,
    TimeReport, TimeReportError, decide_operators, decide_outcome, decide_profiled, parse_bsd_time,
    parse_gnu_time, reason,
};

/// How much of the output is searched for messages of a profiler.
const SAID_LIMIT: u64 = 1 << 16;

/// How much of the error output is searched for the last message of a worker.
const ERROR_LIMIT: u64 = 1 << 16;

impl Attempt {
    /// Reads the files that the attempt left in `dir`, and makes its record.
    pub fn conclude(self, job: &Job, dir: &AttemptDir, end: End) -> Record {
        let mut files = EvidenceReader::default();
        let mut report = self.load_time_report(dir, &mut files);
        if let Ok(report) = &mut report
            && end.clock_was_set
        {
            // `time` reads the wall clock too.
            report.stats.wall_s = None;
        }
        let measured =
            load_measurement(&dir.measurement(), &mut files).or_else(|| Some(Err(self.stray_measurement()?)));
        let ended_at = end.at.max(self.started_at);
        let mut observed = self.observed(&end);
        [observed.stdout_cut_bytes, observed.stderr_cut_bytes] = self.cut_output(dir);
        let ending = self.ending(&end, report.as_ref().ok());
        let seen_s = (ended_at - self.started_at).as_seconds_f64();
        let reported_s = report.as_ref().ok().and_then(|report| report.stats.wall_s);
        let lived_s = Some(seen_s.max(reported_s.unwrap_or(0.0)));
        let said = tail(&dir.stderr(), ERROR_LIMIT).and_then(|text| reason(&text));
        let outcome = decide_outcome(job.key(), &ending, measured.as_ref(), said.as_deref(), lived_s);
        let (outcome, counters) = self.count(job, dir, &mut files, outcome, &report);
        let measurement = match measured {
            Some(Ok(Report::Measured(measurement))) => Some(*measurement),
            _ => None,
        };
        let outcome = decide_operators(job.key(), outcome, measurement.as_ref());
        // If the clock was set, the worker's window cannot be located among the samples.
        let window = measurement.as_ref().and_then(Measurement::window).filter(|_| !end.clock_was_set);
        observed.telemetry = read_telemetry(&mut files, &dir.telemetry(), window);
        files.look_at(&dir.iterations());
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
            observed,
            provenance: self.provenance.into(),
            evidence: Some(files.evidence()),
        }
    }

    /// Whether its worker has ended, that is, `time` has written its report. Processes that it left may still run.
    pub fn has_ended(&self, dir: &AttemptDir) -> bool {
        self.load_time_report(dir, &mut EvidenceReader::default()).is_ok()
    }

    /// How it ended, according to `end`, the report of `time`, the kernel and the cloud provider.
    fn ending(&self, end: &End, report: Option<&TimeReport>) -> Ending {
        let has_oom_killed = end.counters.unwrap_or_default().has_oom_killed_since(&self.counters());
        end.ending.clone().with_report(report).with_oom_killer(has_oom_killed).with_notices(&self.notices)
    }

    /// What was observed, except by sensors and in the output.
    fn observed(&self, end: &End) -> Observed {
        let (before, after) = (self.counters(), end.counters.unwrap_or_default());
        let (host_busy_s, host_steal_s) = after.since(&before);
        Observed {
            since_boot_s: before.since_boot_s.zip(after.since_boot_s),
            asleep_s: after.asleep_since(&before),
            load_before: self.load,
            host_busy_s,
            host_steal_s,
            adopted: end.adopted,
            beside: self.beside.clone(),
            left_processes: end.left_processes,
            gate: self.gate.clone(),
            notices: self.notices.clone(),
            ..Observed::default()
        }
    }

    /// Cuts both outputs to the limit for the last time. Returns how many bytes were removed from each, if any.
    fn cut_output(&self, dir: &AttemptDir) -> [Option<u64>; 2] {
        [dir.stdout(), dir.stderr()]
            .map(|path| keep_within(&path, self.limits.output).ok().filter(|bytes| *bytes > 0))
    }

    /// The profiler's counters, if there was one, and the outcome that takes them into account.
    fn count(
        &self,
        job: &Job,
        dir: &AttemptDir,
        files: &mut EvidenceReader,
        outcome: Outcome,
        report: &Result<TimeReport, TimeReportError>,
    ) -> (Outcome, Option<Counters>) {
        let kind = job.key().kind;
        let Some((profiler, table)) = self.profiler.as_ref().zip(dir.profile(kind)) else {
            return (outcome, None);
        };
        let end = |path: &Path| tail(path, SAID_LIMIT).unwrap_or_default();
        let (stdout, stderr) = (end(&dir.stdout()), end(&dir.stderr()));
        let output = ProfilerOutput {
            log: &format!("{stdout}\n{stderr}"),
            program_stderr: &stderr,
            exit: report.as_ref().ok().and_then(|report| report.exit),
            version: profiler.version(),
            selection: profiler.selection(),
        };
        files.stream(&table, |table| decide_profiled(kind, outcome, table, &output))
    }

    /// A `measurement.json` in the worker's current directory (also that of this process), if written since the start.
    fn stray_measurement(&self) -> Option<BadMeasurement> {
        let directory = std::path::absolute(".").ok()?;
        let written: DateTime<Utc> =
            fs::metadata(directory.join("measurement.json")).ok()?.modified().ok()?.into();
        // File systems round times down, by up to two seconds.
        let is_new = written + TimeDelta::seconds(2) >= self.started_at;
        is_new.then(|| BadMeasurement::Elsewhere(directory.display().to_string()))
    }

    /// The host's counters before the start.
    fn counters(&self) -> HostCounters {
        HostCounters {
            busy_s: self.host_busy_s,
            steal_s: self.host_steal_s,
            load: self.load,
            oom_kills: self.oom_kills,
            since_boot_s: self.started_since_boot_s,
            asleep_s: self.asleep_s,
        }
    }

    fn load_time_report(
        &self,
        dir: &AttemptDir,
        files: &mut EvidenceReader,
    ) -> Result<TimeReport, TimeReportError> {
        let bytes = files.read(&dir.time(), FILE_LIMIT).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        match self.time {
            TimeFlavour::Gnu => parse_gnu_time(&text),
            TimeFlavour::Bsd => parse_bsd_time(&text),
        }
    }
}

/// The content of `measurement.json`; `None` if it does not exist.
fn load_measurement(path: &Path, files: &mut EvidenceReader) -> Option<Result<Report, BadMeasurement>> {
    match files.read(path, FILE_LIMIT) {
        Ok(bytes) => Some(Report::parse(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(BadMeasurement::Unreadable(error))),
    }
}
