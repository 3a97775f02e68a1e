//! The directories of jobs and attempts, and the names of their files.
#![expect(clippy::disallowed_methods, reason = "attempts are found by listing a directory")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::job::Kind;

/// A job's directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobDir {
    path: PathBuf,
}

impl JobDir {
    /// The directory at `path`, which does not need to exist.
    pub fn at(path: PathBuf) -> JobDir {
        JobDir { path }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name: `<label>-<12 hex of id>` if it belongs to a job.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// `key.json`.
    pub fn key(&self) -> PathBuf {
        self.path.join("key.json")
    }

    /// `command.sh`.
    pub fn command(&self) -> PathBuf {
        self.path.join("command.sh")
    }

    /// `record.json`.
    pub fn record(&self) -> PathBuf {
        self.path.join("record.json")
    }

    /// `accepted.json`.
    pub fn accepted(&self) -> PathBuf {
        self.path.join("accepted.json")
    }

    /// `lock`.
    pub fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// The directory of attempt `number`, from 1.
    pub fn attempt(&self, number: u32) -> AttemptDir {
        AttemptDir { path: self.attempts_dir().join(format!("{number:02}")), number }
    }

    /// The directory of all attempts.
    pub fn attempts_dir(&self) -> PathBuf {
        self.path.join("attempts")
    }

    /// The attempts that have a directory, in order.
    ///
    /// # Errors
    /// `attempts/` exists but cannot be read.
    pub fn attempts(&self) -> io::Result<Vec<AttemptDir>> {
        let entries = match fs::read_dir(self.attempts_dir()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers.into_iter().map(|number| self.attempt(number)).collect())
    }
}

/// The directory of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptDir {
    path: PathBuf,
    number: u32,
}

impl AttemptDir {
    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the attempt, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// `attempt.json`, written before the start: the data for the record, which is written at the end.
    pub fn attempt(&self) -> PathBuf {
        self.path.join("attempt.json")
    }

    /// `stop`: a request to the `orchestrate` that supervises the attempt to end its worker.
    pub fn stop(&self) -> PathBuf {
        self.path.join("stop")
    }

    /// `stdout.log`.
    pub fn stdout(&self) -> PathBuf {
        self.path.join("stdout.log")
    }

    /// `stderr.log`.
    pub fn stderr(&self) -> PathBuf {
        self.path.join("stderr.log")
    }

    /// `time.txt`: the report of `/usr/bin/time`.
    pub fn time(&self) -> PathBuf {
        self.path.join("time.txt")
    }

    /// `measurement.json`, written by the worker.
    pub fn measurement(&self) -> PathBuf {
        self.path.join("measurement.json")
    }

    /// `iterations.csv`, written by the worker.
    pub fn iterations(&self) -> PathBuf {
        self.path.join("iterations.csv")
    }

    /// `telemetry.csv`: the readings of sensors.
    pub fn telemetry(&self) -> PathBuf {
        self.path.join("telemetry.csv")
    }

    /// The file for the profiler's table and messages in a job of `kind`; `None` for a job without a program around its
    /// worker.
    pub fn profile(&self, kind: Kind) -> Option<PathBuf> {
        match kind {
            Kind::Timing | Kind::Ops => None,
            Kind::Ncu | Kind::Perf => Some(self.path.join(format!("{kind}.csv"))),
        }
    }

    /// The files in an attempt of a job of `kind` from which numbers are computed. They do not need to exist.
    pub fn evidence(&self, kind: Kind) -> Vec<PathBuf> {
        let mut files = vec![self.time(), self.measurement(), self.iterations(), self.telemetry()];
        files.extend(self.profile(kind));
        files
    }

    /// This attempt's `record.json`, kept if it failed or if a re-run's record replaced it.
    pub fn record(&self) -> PathBuf {
        self.path.join("record.json")
    }
}
