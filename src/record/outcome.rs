//! How an attempt ended, as its record states it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::protocol::Mismatch;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The worker exited with 0 and left a valid measurement of what was requested.
    Succeeded,
    /// The worker exited with a code other than 0.
    Exited {
        /// The code.
        code: i32,
        /// The last line of its stderr, if any.
        message: Option<String>,
    },
    /// A signal that `orchestrate` did not send killed the worker.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// It exceeded its time limit and was stopped.
    TimedOut {
        /// The limit, in seconds.
        after_s: f64,
    },
    /// The device or the host ran out of memory.
    OutOfMemory {
        /// How the worker or the kernel described it.
        message: String,
        /// The bytes whose allocation failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needed_bytes: Option<u64>,
        /// The bytes that were free at that moment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        free_bytes: Option<u64>,
    },
    /// The process could not be started.
    FailedToSpawn {
        /// The system's error message.
        message: String,
    },
    /// The worker exited with 0, but its measurement is missing or unusable.
    BadOutput {
        /// What is wrong with it.
        message: String,
    },
    /// The worker ran with settings other than the requested ones.
    SettingMismatch {
        /// Every setting that differs.
        mismatches: Vec<Mismatch>,
    },
    /// The user or the system stopped it.
    Interrupted {
        /// The reason.
        message: String,
    },
    /// The device, precision or network does not exist here.
    Unsupported {
        /// The worker's explanation.
        message: String,
    },
    /// The profiler of a profiled job did not work, regardless of the worker.
    NotProfiled(NotProfiled),
}

/// Why a profiler did not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotProfiled {
    /// As one word: `no_permission`, `no_kernels`, ….
    pub cause: String,
    /// As a sentence without its full stop.
    pub message: String,
    /// What to do about it, as a sentence without its full stop.
    pub remedy: String,
}

impl fmt::Display for NotProfiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

impl fmt::Display for Outcome {
    /// One sentence without its full stop, in the past: it completes "the attempt …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Succeeded => f.write_str("succeeded"),
            Outcome::Exited { code, message: Some(message) } => {
                write!(f, "exited with code {code}: {message}")
            }
            Outcome::Exited { code, message: None } => {
                write!(f, "exited with code {code} and wrote nothing to stderr")
            }
            Outcome::Signalled { signal } => write_signal(f, *signal),
            Outcome::TimedOut { after_s } => write!(f, "was stopped at its time limit of {after_s} s"),
            Outcome::OutOfMemory { message, .. } => write!(f, "ran out of memory: {message}"),
            Outcome::FailedToSpawn { message } => write!(f, "could not be started: {message}"),
            Outcome::BadOutput { message } => write!(f, "left no usable measurement: {message}"),
            Outcome::SettingMismatch { mismatches } => write_mismatches(f, mismatches),
            Outcome::Interrupted { message } => write!(f, "was interrupted: {message}"),
            Outcome::Unsupported { message } => write!(f, "is not supported here: {message}"),
            Outcome::NotProfiled(why) => write!(f, "was not profiled: {why}"),
        }
    }
}

fn write_signal(f: &mut fmt::Formatter<'_>, signal: i32) -> fmt::Result {
    // Only signals with the same number on Linux and macOS: a record can be read on another system.
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL, an instruction that this processor lacks",
        5 => "SIGTRAP",
        6 => "SIGABRT, the program aborted itself",
        8 => "SIGFPE, an arithmetic error",
        9 => "SIGKILL; unless a user or a program sent it, the kernel's OOM killer did: see `dmesg`",
        11 => "SIGSEGV, a segmentation fault",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return write!(f, "was killed by signal {signal}"),
    };
    write!(f, "was killed by signal {signal} ({name})")
}

fn write_mismatches(f: &mut fmt::Formatter<'_>, mismatches: &[Mismatch]) -> fmt::Result {
    f.write_str("did not run as requested:")?;
    for (index, Mismatch { setting, requested, effective }) in mismatches.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        write!(f, "{separator} {setting} {effective} instead of {requested}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn message() -> String {
        "why".to_owned()
    }

    /// At least one outcome of each kind, with its sentence.
    fn examples() -> Vec<(Outcome, &'static str)> {
        let mismatch = |setting: &str| Mismatch {
            setting: setting.into(),
            requested: "false".into(),
            effective: "true".into(),
        };
        let why =
            NotProfiled { cause: "no_kernels".into(), message: "it saw none".into(), remedy: "ask".into() };
        vec![
            (Outcome::Succeeded, "succeeded"),
            (Outcome::Exited { code: 3, message: Some(message()) }, "exited with code 3: why"),
            (Outcome::Exited { code: 3, message: None }, "exited with code 3 and wrote nothing to stderr"),
            (
                Outcome::Signalled { signal: 9 },
                "was killed by signal 9 (SIGKILL; unless a user or a program sent it, the kernel's OOM killer \
                 did: see `dmesg`)",
            ),
            (Outcome::Signalled { signal: 10 }, "was killed by signal 10"),
            (Outcome::TimedOut { after_s: 1800.0 }, "was stopped at its time limit of 1800 s"),
            (
                Outcome::OutOfMemory { message: message(), needed_bytes: None, free_bytes: None },
                "ran out of memory: why",
            ),
            (Outcome::FailedToSpawn { message: message() }, "could not be started: why"),
            (Outcome::BadOutput { message: message() }, "left no usable measurement: why"),
            (
                Outcome::SettingMismatch { mismatches: vec![mismatch("tf32"), mismatch("augment")] },
                "did not run as requested: tf32 true instead of false, augment true instead of false",
            ),
            (Outcome::Interrupted { message: message() }, "was interrupted: why"),
            (Outcome::Unsupported { message: message() }, "is not supported here: why"),
            (Outcome::NotProfiled(why), "was not profiled: it saw none; ask"),
        ]
    }

    /// Fails with the names of those outcomes that are not among `found`.
    fn assert_all<'a>(found: impl IntoIterator<Item = &'a str>, what: &str) {
        let found: BTreeSet<&str> = found.into_iter().collect();
        let names = Outcome::POLICIES.iter().map(|policy| policy.name);
        let missing: Vec<&str> = names.filter(|name| !found.contains(name)).collect();
        assert!(missing.is_empty(), "{what} is missing for {missing:?}");
    }

    #[test]
    fn every_outcome_is_a_sentence() {
        let examples = examples();
        assert_all(examples.iter().map(|(outcome, _)| outcome.kind()), "an example of its sentence");
        for (outcome, sentence) in examples {
            assert_eq!(outcome.to_string(), sentence);
            assert_eq!(serde_json::to_value(&outcome).unwrap()["kind"], outcome.kind());
        }
    }

    #[test]
    fn signals_have_names_where_all_systems_agree() {
        let text = |signal| Outcome::Signalled { signal }.to_string();
        let named: Vec<(i32, String)> = (1..32)
            .filter_map(|signal| Some((signal, text(signal).split_once(" (")?.1.to_owned())))
            .collect();
        let starts: Vec<(i32, &str)> = named
            .iter()
            .map(|(signal, name)| (*signal, name.split([',', ';', ')']).next().unwrap()))
            .collect();
        let expected = [
            (1, "SIGHUP"),
            (2, "SIGINT"),
            (3, "SIGQUIT"),
            (4, "SIGILL"),
            (5, "SIGTRAP"),
            (6, "SIGABRT"),
            (8, "SIGFPE"),
            (9, "SIGKILL"),
            (11, "SIGSEGV"),
            (13, "SIGPIPE"),
            (15, "SIGTERM"),
        ];
        assert_eq!(starts, expected);
    }

    /// Outcomes as written in records on disk. Never change one: the job of an unreadable record runs again.
    #[test]
    fn outcomes_of_old_records_are_read() {
        let golden = [
            r#"{"kind":"succeeded"}"#,
            r#"{"kind":"exited","code":3,"message":"RuntimeError: it went wrong"}"#,
            r#"{"kind":"exited","code":3,"message":null}"#,
            r#"{"kind":"signalled","signal":11}"#,
            r#"{"kind":"timed_out","after_s":60.0}"#,
            r#"{"kind":"out_of_memory","message":"wanted 3 GiB"}"#,
            r#"{"kind":"out_of_memory","message":"wanted 3 GiB","needed_bytes":3221225472,"free_bytes":1024}"#,
            r#"{"kind":"failed_to_spawn","message":"No such file or directory"}"#,
            r#"{"kind":"bad_output","message":"the worker wrote no measurement.json"}"#,
            r#"{"kind":"setting_mismatch","mismatches":[{"setting":"tf32","requested":"false","effective":"true"}]}"#,
            r#"{"kind":"interrupted","message":"orchestrate was stopped by SIGINT"}"#,
            r#"{"kind":"unsupported","message":"no CUDA"}"#,
            r#"{"kind":"not_profiled","cause":"no_permission","message":"no access","remedy":"ask"}"#,
        ];
        let read: Vec<Outcome> = golden.iter().map(|json| serde_json::from_str(json).unwrap()).collect();
        assert_all(read.iter().map(Outcome::kind), "a record on disk");
        for (outcome, json) in read.iter().zip(golden) {
            assert_eq!(serde_json::to_string(outcome).unwrap(), json);
        }
    }
}
