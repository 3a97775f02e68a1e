//! Decides the outcome of an attempt from its process's end, its `measurement.json`, and the report of `time`.

use super::said::plain;
use super::{CloudNotice, NotProfiled, Outcome, ReportedExit, TimeReport};
use crate::job::Key;
use crate::protocol::{
    BadMeasurement, Failure, FailureKind, MEASUREMENT_VARIABLE, Mismatch, Report, WorkerExit,
};
use crate::text::with_causes;

/// The observed end of an attempt's process chain; input of [`decide_outcome`].
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The chain could not be started.
    NotStarted {
        /// The system's error message.
        message: String,
    },
    /// The chain exited, or was killed by a signal that `orchestrate` did not send.
    Ended {
        /// The worker's exit code, if it had one.
        code: Option<i32>,
        /// The signal that killed the worker, if one did.
        signal: Option<i32>,
    },
    /// `time` was killed and left no report. Processes of the worker survived and ended later, observed by another
    /// `orchestrate`.
    Outlived,
    /// SIGKILL ended the worker while the kernel's OOM killer was active. Linux overcommits memory, so running out of
    /// it ends a process this way.
    KilledForMemory,
    /// `orchestrate` stopped the chain at its time limit.
    TimedOut {
        /// The limit, in seconds.
        after_s: f64,
    },
    /// The chain was not started, because its profiler cannot work here.
    Refused(NotProfiled),
    /// `orchestrate` received a signal and stopped the chain, or both were killed together.
    Interrupted {
        /// The reason.
        message: String,
    },
}

impl Ending {
    /// A chain that ended unobserved. How it ended follows from its files alone.
    pub const UNOBSERVED: Ending = Ending::Ended { code: None, signal: None };

    /// The same ending, given the report of `time`; `None` if there is no complete one.
    ///
    /// An unobserved chain was not killed as a whole if `time` survived to write its report. Otherwise all of it was
    /// killed, possibly together with `orchestrate`.
    pub fn with_report(self, report: Option<&TimeReport>) -> Ending {
        match (self, report) {
            (Ending::Ended { code: None, signal: None }, None) => {
                let message = "its end was not observed, and `time` left no report";
                Ending::Interrupted { message: message.to_owned() }
            }
            (Ending::Outlived, None) => Ending::Outlived,
            (Ending::Outlived, report) => Ending::UNOBSERVED.with_report(report),
            (Ending::Ended { code, signal }, report) => {
                Ending::of_chain(code, signal, report.and_then(|report| report.exit))
            }
            (
                known @ (Ending::NotStarted { .. }
                | Ending::KilledForMemory
                | Ending::TimedOut { .. }
                | Ending::Refused(_)
                | Ending::Interrupted { .. }),
                _,
            ) => known,
        }
    }

    /// The ending of a chain that `orchestrate` did not stop. `code` and `signal` are those of its first process,
    /// `time`; `reported` is the report of `time` about the worker. The report takes precedence: `time` exits with
    /// 128 + n if signal n killed the worker, but a worker can also exit with that code itself.
    fn of_chain(code: Option<i32>, signal: Option<i32>, reported: Option<ReportedExit>) -> Ending {
        match (reported, code) {
            (Some(ReportedExit::Code(code)), _) => Ending::Ended { code: Some(code), signal: None },
            (Some(ReportedExit::Signal(signal)), _) => Ending::Ended { code: None, signal: Some(signal) },
            (None, Some(code @ 129..=192)) => Ending::Ended { code: None, signal: Some(code - 128) },
            (None, _) => Ending::Ended { code, signal },
        }
    }

    /// The same ending, given whether the kernel's OOM killer killed any process meanwhile.
    pub fn with_oom_killer(self, has_killed: bool) -> Ending {
        match self {
            Ending::Ended { signal: Some(9), .. } if has_killed => Ending::KilledForMemory,
            other => other,
        }
    }

    /// The same ending, given the announcements of the machine's provider.
    ///
    /// A system that is shut down ends all processes with SIGTERM, and then with SIGKILL. So if the machine was taken
    /// away, a worker killed by these signals counts as interrupted: its end does not depend on its job.
    pub fn with_notices(self, notices: &[CloudNotice]) -> Ending {
        let Some(why) = notices.iter().find_map(CloudNotice::end_text) else { return self };
        let how = match self {
            Ending::Interrupted { message } => message,
            Ending::Ended { signal: Some(signal @ (1 | 9 | 15)), .. } => {
                format!("its worker was killed by signal {signal}")
            }
            other => return other,
        };
        Ending::Interrupted { message: format!("{why}: {how}") }
    }

    /// Whether the chain exited with code 0.
    pub fn is_clean(&self) -> bool {
        matches!(self, Ending::Ended { code: Some(0), signal: None })
    }
}

/// Decides how an attempt ended.
///
/// `report` is the content of `measurement.json`, `None` if there is no such file. `last_error_line` is what
/// [`reason`](super::reason) finds in the worker's stderr. `lived_s` is how long the process chain existed, in
/// seconds, if known: a measured window cannot be longer.
///
/// - A failure that the worker names takes precedence over how its process ended: a worker that runs out of memory can
///   crash or hang afterwards.
/// - An attempt that was stopped is never a success, even if it left a valid measurement. The files do not show whether
///   the signal arrived during the window or after it, and repeating a job costs less than a wrong number. The
///   measurement stays in the record.
/// - If neither exit code nor signal is known, a valid measurement decides, because a worker writes it last. That
///   happens if `orchestrate` died, on a system whose `time` does not report the exit, or if the worker outlived
///   `time`.
pub fn decide_outcome(
    key: &Key,
    ending: &Ending,
    report: Option<&Result<Report, BadMeasurement>>,
    last_error_line: Option<&str>,
    lived_s: Option<f64>,
) -> Outcome {
    match (ending, report) {
        (Ending::NotStarted { message }, _) => Outcome::FailedToSpawn { message: message.clone() },
        (Ending::Refused(why), _) => Outcome::NotProfiled(why.clone()),
        (_, Some(Ok(Report::Failed(failure)))) if failure.kind != FailureKind::Other => {
            named_failure(failure)
        }
        (Ending::TimedOut { after_s }, _) => Outcome::TimedOut { after_s: *after_s },
        (Ending::Interrupted { message }, _) => Outcome::Interrupted { message: message.clone() },
        (Ending::KilledForMemory, _) => out_of_memory("the kernel's OOM killer killed it"),
        (Ending::Ended { signal: Some(6), .. }, _) if last_error_line.is_some_and(is_failed_allocation) => {
            out_of_memory(last_error_line.unwrap_or_default())
        }
        (Ending::Ended { signal: Some(signal), .. }, _) => Outcome::Signalled { signal: *signal },
        (Ending::Ended { code: Some(0), .. }, _) => measured(key, report, lived_s),
        (Ending::Ended { code: Some(code), .. }, Some(Ok(Report::Failed(failure)))) => {
            Outcome::Exited { code: *code, message: Some(plain(&failure.message)) }
        }
        (Ending::Ended { code: Some(code), .. }, _) => exited(*code, last_error_line),
        (Ending::Ended { code: None, signal: None }, None) => {
            Outcome::Interrupted { message: "it ended unobserved and left no measurement".to_owned() }
        }
        (Ending::Outlived, None) => {
            let message =
                "`time` was killed, and the remaining processes of the worker ended without a measurement";
            Outcome::Interrupted { message: message.to_owned() }
        }
        (Ending::Ended { code: None, signal: None } | Ending::Outlived, Some(_)) => {
            measured(key, report, lived_s)
        }
    }
}

/// How far two clocks may disagree about the life of a process, in seconds.
const CLOCK_TOLERANCE_S: f64 = 1.0;

fn named_failure(failure: &Failure) -> Outcome {
    let message = plain(&failure.message);
    match failure.kind {
        FailureKind::OutOfMemory => {
            let Failure { needed_bytes, free_bytes, .. } = *failure;
            Outcome::OutOfMemory { message, needed_bytes, free_bytes }
        }
        FailureKind::Unsupported => Outcome::Unsupported { message },
        FailureKind::Other => {
            Outcome::BadOutput { message: format!("the worker reported a failure: {message}") }
        }
    }
}

/// Out of memory, by an unknown amount.
fn out_of_memory(message: &str) -> Outcome {
    Outcome::OutOfMemory { message: message.to_owned(), needed_bytes: None, free_bytes: None }
}

/// Whether `line` is the message with which a Rust program aborts when it runs out of memory.
fn is_failed_allocation(line: &str) -> bool {
    line.starts_with("memory allocation of ") && line.contains(" bytes failed")
}

/// The outcome of a worker that exited with 0.
fn measured(key: &Key, report: Option<&Result<Report, BadMeasurement>>, lived_s: Option<f64>) -> Outcome {
    match report {
        None => Outcome::BadOutput {
            message: format!("the worker wrote no measurement.json to the path in ${MEASUREMENT_VARIABLE}"),
        },
        Some(Err(error)) => Outcome::BadOutput { message: plain(&with_causes(error)) },
        Some(Ok(Report::Failed(failure))) => named_failure(failure),
        Some(Ok(Report::Measured(measurement))) => {
            let window_s = measurement.elapsed_s;
            let shown = |it: Mismatch| Mismatch { effective: plain(&it.effective), ..it };
            let mismatches: Vec<Mismatch> = measurement.mismatches(key).into_iter().map(shown).collect();
            match lived_s {
                _ if !mismatches.is_empty() => Outcome::SettingMismatch { mismatches },
                Some(lived_s) if window_s > lived_s + CLOCK_TOLERANCE_S => Outcome::BadOutput {
                    message: format!(
                        "measurement.json: elapsed_s is {window_s}, but the process ran for only {lived_s:.2} s"
                    ),
                },
                _ => Outcome::Succeeded,
            }
        }
    }
}

/// The outcome of a worker that exited with a code other than 0.
fn exited(code: i32, last_error_line: Option<&str>) -> Outcome {
    let message = last_error_line.map(str::to_owned);
    let details = || {
        let fallback = || format!("the worker exited with code {code} and gave no details");
        message.clone().unwrap_or_else(fallback)
    };
    if matches!(code, 126 | 127) && last_error_line.is_some_and(is_failed_start) {
        return Outcome::FailedToSpawn { message: details() };
    }
    match WorkerExit::of(code) {
        WorkerExit::OutOfMemory => out_of_memory(&details()),
        WorkerExit::Unsupported => Outcome::Unsupported { message: details() },
        WorkerExit::Done | WorkerExit::Failed | WorkerExit::Usage => Outcome::Exited { code, message },
    }
}

/// Whether `line` is the message of a `time` that could not start the worker: `/usr/bin/time: cannot run worker: No
/// such file or directory` (GNU), `time: worker: No such file or directory` (BSD).
fn is_failed_start(line: &str) -> bool {
    line.starts_with("time: ") || line.contains("time: cannot run ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chrono::DateTime;

    use super::*;
    use crate::record::{CloudNoticeKind, ProcessStats};

    fn key() -> Key {
        Key { batch: 16, ..Key::example() }
    }

    const VALID: &str = r#"{ "schema": 1, "samples": 1600, "elapsed_s": 12.5, "synchronized": true,
        "effective": { "device": "cpu", "precision": "fp32", "batch": 16 } }"#;
    const OOM: &str = r#"{ "schema": 1, "failure": { "kind": "out_of_memory", "message": "wanted 3 GiB" } }"#;
    const UNSUPPORTED: &str =
        r#"{ "schema": 1, "failure": { "kind": "unsupported", "message": "no CUDA" } }"#;

    /// The contents of `measurement.json` in the columns of [`every_ending_with_every_report`].
    fn reports() -> [Option<Result<Report, BadMeasurement>>; 6] {
        let other = VALID.replace("fp32", "bf16");
        [
            None,
            Some(Report::parse("{ \"schema\": 1,")),
            Some(Report::parse(VALID)),
            Some(Report::parse(&other)),
            Some(Report::parse(OOM)),
            Some(Report::parse(UNSUPPORTED)),
        ]
    }

    #[test]
    fn every_ending_with_every_report() {
        let ended = |code, signal| Ending::Ended { code, signal };
        let refused =
            NotProfiled { cause: "no_permission".into(), message: "no".into(), remedy: "ask".into() };
        // Columns: no file, half a file, valid, another precision, out of memory, unsupported.
        let table = [
            (
                ended(Some(0), None),
                "bad_output bad_output succeeded setting_mismatch out_of_memory unsupported",
            ),
            (ended(Some(1), None), "exited exited exited exited out_of_memory unsupported"),
            (ended(Some(2), None), "exited exited exited exited out_of_memory unsupported"),
            (
                ended(Some(i32::from(WorkerExit::Unsupported.code())), None),
                "unsupported unsupported unsupported unsupported out_of_memory unsupported",
            ),
            (
                ended(Some(i32::from(WorkerExit::OutOfMemory.code())), None),
                "out_of_memory out_of_memory out_of_memory out_of_memory out_of_memory unsupported",
            ),
            (ended(None, Some(9)), "signalled signalled signalled signalled out_of_memory unsupported"),
            (ended(Some(0), Some(11)), "signalled signalled signalled signalled out_of_memory unsupported"),
            (
                ended(None, None),
                "interrupted bad_output succeeded setting_mismatch out_of_memory unsupported",
            ),
            (Ending::Outlived, "interrupted bad_output succeeded setting_mismatch out_of_memory unsupported"),
            (
                Ending::KilledForMemory,
                "out_of_memory out_of_memory out_of_memory out_of_memory out_of_memory unsupported",
            ),
            (
                Ending::TimedOut { after_s: 60.0 },
                "timed_out timed_out timed_out timed_out out_of_memory unsupported",
            ),
            (
                Ending::Interrupted { message: "Ctrl-C".into() },
                "interrupted interrupted interrupted interrupted out_of_memory unsupported",
            ),
            (
                Ending::NotStarted { message: "no such file".into() },
                "failed_to_spawn failed_to_spawn failed_to_spawn failed_to_spawn failed_to_spawn failed_to_spawn",
            ),
            (
                Ending::Refused(refused),
                "not_profiled not_profiled not_profiled not_profiled not_profiled not_profiled",
            ),
        ];
        let led_to: BTreeSet<&str> = table.iter().flat_map(|(_, kinds)| kinds.split(' ')).collect();
        let names = Outcome::POLICIES.iter().map(|policy| policy.name);
        let never: Vec<&str> = names.filter(|name| !led_to.contains(name)).collect();
        assert!(never.is_empty(), "no ending has the outcome {never:?}");
        for (ending, expected) in table {
            let kinds: Vec<&str> = reports()
                .iter()
                .map(|report| decide_outcome(&key(), &ending, report.as_ref(), Some("boom"), None).kind())
                .collect();
            assert_eq!(kinds.join(" "), expected, "{ending:?}");
        }
    }

    #[test]
    fn the_report_of_time_takes_precedence_over_its_own_exit() {
        let ended = |code, signal| Ending::Ended { code, signal };
        let reported = |exit| Some(exit);
        for (code, signal, report, expected) in [
            (Some(139), None, reported(ReportedExit::Signal(11)), ended(None, Some(11))),
            (Some(139), None, reported(ReportedExit::Code(139)), ended(Some(139), None)),
            (Some(139), None, None, ended(None, Some(11))),
            (Some(128), None, None, ended(Some(128), None)),
            (Some(255), None, None, ended(Some(255), None)),
            (None, Some(9), None, ended(None, Some(9))),
            // `time` was killed after it had written its report.
            (None, Some(9), reported(ReportedExit::Code(0)), ended(Some(0), None)),
            (None, None, None, ended(None, None)),
        ] {
            assert_eq!(Ending::of_chain(code, signal, report), expected, "{code:?} {signal:?} {report:?}");
        }
    }

    #[test]
    fn an_unobserved_chain_was_killed_unless_time_reported() {
        let report = |exit| TimeReport { stats: ProcessStats::default(), exit };
        let exited = report(Some(ReportedExit::Code(3)));
        let ended = |code, signal| Ending::Ended { code, signal };
        assert_eq!(Ending::UNOBSERVED.with_report(Some(&exited)), ended(Some(3), None));
        assert_eq!(Ending::UNOBSERVED.with_report(Some(&report(None))), Ending::UNOBSERVED);
        let killed =
            Ending::Interrupted { message: "its end was not observed, and `time` left no report".into() };
        assert_eq!(Ending::UNOBSERVED.with_report(None), killed);
        assert_eq!(ended(Some(139), None).with_report(None), ended(None, Some(11)));
        for known in
            [Ending::TimedOut { after_s: 1.0 }, Ending::NotStarted { message: "no file".into() }, killed]
        {
            assert_eq!(known.clone().with_report(Some(&exited)), known, "an observed end takes precedence");
        }
    }

    #[test]
    fn running_out_of_memory_is_distinguished_from_other_kills() {
        let ended = |code, signal| Ending::Ended { code, signal };
        for (ending, has_killed, expected) in [
            (ended(None, Some(9)), true, Ending::KilledForMemory),
            (ended(None, Some(9)), false, ended(None, Some(9))),
            (ended(None, Some(11)), true, ended(None, Some(11))),
            (ended(Some(0), None), true, ended(Some(0), None)),
            (Ending::TimedOut { after_s: 1.0 }, true, Ending::TimedOut { after_s: 1.0 }),
        ] {
            assert_eq!(ending.clone().with_oom_killer(has_killed), expected, "{ending:?} {has_killed}");
        }
        let abort = |line| decide_outcome(&key(), &ended(None, Some(6)), None, Some(line), None).kind();
        assert_eq!(abort("memory allocation of 602112000 bytes failed"), "out_of_memory");
        assert_eq!(abort("memory allocation of a plan failed"), "signalled");
        assert_eq!(abort("the device said: memory allocation of 1 bytes failed"), "signalled");
        assert_eq!(abort("terminate called without an active exception"), "signalled");
    }

    #[test]
    fn a_worker_killed_after_the_provider_announced_a_stop_was_interrupted() {
        let ended = |code, signal| Ending::Ended { code, signal };
        let notices = |kinds: &[CloudNoticeKind]| -> Vec<CloudNotice> {
            let seen_at = DateTime::from_timestamp(1_000_000, 0).unwrap();
            kinds.iter().map(|kind| CloudNotice { kind: *kind, seen_at }).collect()
        };
        let end = |ending: Ending, kinds: &[CloudNoticeKind]| match ending.with_notices(&notices(kinds)) {
            Ending::Interrupted { message } => message,
            other => format!("{other:?}"),
        };
        let (taken, stopped) = ([CloudNoticeKind::Preemption], [CloudNoticeKind::Stop]);
        let goes_on = [CloudNoticeKind::Pause, CloudNoticeKind::Risk];
        let by_signal = || Ending::Interrupted { message: "orchestrate was stopped by SIGTERM".into() };
        assert_eq!(
            end(by_signal(), &taken),
            "the provider was taking the machine away (announced by 1970-01-12 13:46:40 UTC): orchestrate was \
             stopped by SIGTERM"
        );
        let killed = end(ended(None, Some(15)), &stopped);
        assert!(killed.starts_with("the provider was stopping the machine for maintenance ("), "{killed}");
        assert!(killed.ends_with("): its worker was killed by signal 15"), "{killed}");
        assert_eq!(end(by_signal(), &goes_on), "orchestrate was stopped by SIGTERM");
        for own in [
            ended(Some(0), None),
            ended(Some(1), None),
            ended(None, Some(11)),
            Ending::KilledForMemory,
            Ending::TimedOut { after_s: 1.0 },
        ] {
            assert_eq!(own.clone().with_notices(&notices(&taken)), own, "the job's own end");
        }
        assert_eq!(ended(None, Some(9)).with_notices(&notices(&goes_on)), ended(None, Some(9)));
    }

    #[test]
    fn needed_and_free_bytes_are_recorded() {
        let text =
            OOM.replace("\"message\"", "\"needed_bytes\": 3221225472, \"free_bytes\": 1024, \"message\"");
        let report = Report::parse(&text);
        let code = Some(i32::from(WorkerExit::OutOfMemory.code()));
        let ending = Ending::Ended { code, signal: None };
        let outcome = decide_outcome(&key(), &ending, Some(&report), None, None);
        let expected = Outcome::OutOfMemory {
            message: "wanted 3 GiB".into(),
            needed_bytes: Some(3 << 30),
            free_bytes: Some(1024),
        };
        assert_eq!(outcome, expected);
        let json = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), expected);
        let older = r#"{ "kind": "out_of_memory", "message": "why" }"#;
        assert_eq!(serde_json::from_str::<Outcome>(older).unwrap(), out_of_memory("why"));
    }

    #[test]
    fn a_worker_that_time_cannot_run_was_not_started() {
        let outcome = |code, line| {
            let ending = Ending::Ended { code: Some(code), signal: None };
            decide_outcome(&key(), &ending, None, line, None).kind()
        };
        let gnu = "/usr/bin/time: cannot run /opt/worker: No such file or directory";
        assert_eq!(outcome(127, Some(gnu)), "failed_to_spawn");
        assert_eq!(outcome(126, Some("time: ./worker: Permission denied")), "failed_to_spawn");
        assert_eq!(outcome(127, Some("sh: 1: python3: not found")), "exited");
        assert_eq!(outcome(1, Some(gnu)), "exited");
        assert_eq!(outcome(127, None), "exited");
    }

    /// Two mistakes of the seed reports: 30 iterations counted as 100, and a window longer than the process.
    #[test]
    fn an_impossible_window_is_not_a_result() {
        let end = |samples: u64, elapsed_s: &str, lived_s| {
            let text = format!(
                r#"{{ "schema": 1, "samples": {samples}, "elapsed_s": {elapsed_s}, "synchronized": true,
                     "effective": {{ "device": "cpu", "precision": "fp32", "batch": 16 }} }}"#
            );
            let ending = Ending::Ended { code: Some(0), signal: None };
            decide_outcome(&key(), &ending, Some(&Report::parse(&text)), None, lived_s)
        };
        // The key asks for 100 iterations of 16 images, the default.
        assert_eq!(end(1600, "10.0", Some(12.0)), Outcome::Succeeded);
        assert_eq!(end(1600, "10.0", None), Outcome::Succeeded);
        // The clocks of `time` and of the worker differ by less than a second.
        assert_eq!(end(1600, "10.0", Some(9.0)), Outcome::Succeeded);
        assert_eq!(end(1600, "10.0", Some(8.99)).kind(), "bad_output");
        let Outcome::SettingMismatch { mismatches } = end(480, "10.0", Some(12.0)) else {
            panic!("30 iterations are not 100");
        };
        assert_eq!(
            mismatches,
            [Mismatch { setting: "iters".into(), requested: "100".into(), effective: "30".into() }]
        );
        let Outcome::BadOutput { message } = end(1600, "10.0", Some(3.0)) else {
            panic!("a process of 3 s cannot contain a window of 10 s");
        };
        assert_eq!(message, "measurement.json: elapsed_s is 10, but the process ran for only 3.00 s");
        for elapsed_s in ["1e-320", "0", "-1", "1e300"] {
            assert_eq!(end(1600, elapsed_s, None).kind(), "bad_output", "{elapsed_s}");
        }
    }

    #[test]
    fn a_failure_of_another_kind_keeps_its_message() {
        let report =
            Report::parse(r#"{ "schema": 1, "failure": { "kind": "no_licence", "message": "ask Bob" } }"#);
        let end = |code| {
            let ending = Ending::Ended { code: Some(code), signal: None };
            decide_outcome(&key(), &ending, Some(&report), Some("another message"), None)
        };
        assert_eq!(end(3), Outcome::Exited { code: 3, message: Some("ask Bob".into()) });
        assert_eq!(end(0), Outcome::BadOutput { message: "the worker reported a failure: ask Bob".into() });
    }

    #[test]
    fn an_exit_code_without_a_message_is_explained() {
        let end = |exit: WorkerExit| {
            let ending = Ending::Ended { code: Some(exit.code().into()), signal: None };
            decide_outcome(&key(), &ending, None, None, None).to_string()
        };
        assert_eq!(
            end(WorkerExit::OutOfMemory),
            "ran out of memory: the worker exited with code 71 and gave no details"
        );
        assert_eq!(
            end(WorkerExit::Unsupported),
            "is not supported here: the worker exited with code 69 and gave no details"
        );
    }

    #[test]
    fn reported_settings_are_sanitised() {
        let text = r#"{ "schema": 1, "samples": 1600, "elapsed_s": 10, "synchronized": true,
            "effective": { "device": "cpu", "precision": "fp32", "batch": 16, "data": { "folder": "\u001b[31mimages" } } }"#;
        let ending = Ending::Ended { code: Some(0), signal: None };
        let outcome = decide_outcome(&key(), &ending, Some(&Report::parse(text)), None, Some(12.0));
        assert_eq!(outcome.to_string(), "did not run as requested: data images instead of synthetic");
    }

    #[test]
    fn an_invalid_measurement_is_explained_with_its_causes() {
        let report = Report::parse("{ \"schema\": 1,");
        let ending = Ending::Ended { code: Some(0), signal: None };
        let Outcome::BadOutput { message } = decide_outcome(&key(), &ending, Some(&report), None, None)
        else {
            panic!("half a file is bad output");
        };
        assert!(message.starts_with("measurement.json is not valid JSON: EOF"), "{message}");
    }
}
