//! Remarks about the end of an attempt: its exit code or signal, the form of `measurement.json`, and processes that
//! outlived the worker.

use super::{Attempted, Remark, Texts, Weight, remark};
use crate::protocol::{BadForm, BadMeasurement, MEASUREMENT_VARIABLE, Report, WorkerExit, mistakes};
use crate::record::Outcome;
use crate::text::with_causes;

/// The loss of every remark about a failed attempt.
const NO_RESULT: &str = "the job fails, and has no result";

/// The remarks about the end of an attempt, and about the form of its `measurement.json`.
pub(super) fn remarks(attempted: &Attempted<'_>) -> Vec<Remark> {
    let outcome = &attempted.record.outcome;
    let mut found = match outcome {
        // `asked` makes a remark about each setting that differs.
        Outcome::Succeeded | Outcome::SettingMismatch { .. } => Vec::new(),
        Outcome::BadOutput { message } => bad_output(attempted, message),
        _ => {
            let exit = wrong("exit", &format!("the worker {outcome}"), &change(outcome));
            [exit].into_iter().chain(without_failure(attempted)).chain(malformed(attempted)).collect()
        }
    };
    if attempted.record.observed.left_processes {
        found.push(remark(
            Weight::Wrong,
            Texts {
                about: "processes",
                what: "the worker left processes behind, which were killed",
                change: "let the worker end every process that it starts, and wait for it, before it exits",
                loss: "their work is cut off, and every job waits for their end",
            },
        ));
    }
    found
}

/// The remark about a command that cannot work, for the reason `why`.
pub fn refused(why: &str) -> Remark {
    let change = "activate the environment that has it, or name its program in the command; relative paths begin at the \
                  current directory";
    wrong("command", &format!("the worker is not started: {why}"), change)
}

/// The advice for a worker that ended with `outcome`.
fn change(outcome: &Outcome) -> String {
    let advice = match outcome {
        Outcome::Exited { code, .. } => {
            return match WorkerExit::of(*code) {
                WorkerExit::Usage => "use only flags that the worker accepts".to_owned(),
                _ => "fix the error on the worker's standard error, or exit with 0 if this is not a failure"
                    .to_owned(),
            };
        }
        Outcome::Signalled { .. } => {
            "for SIGKILL, `dmesg` may name the kernel's OOM killer; otherwise run the program in a debugger"
        }
        Outcome::TimedOut { .. } => {
            "let it do less, for example with `{iters}` in the command, or raise `--timeout`"
        }
        Outcome::OutOfMemory { .. } => "check it with a smaller `--batch`",
        Outcome::FailedToSpawn { .. } => "check the first word of the command",
        Outcome::Unsupported { .. } => {
            "check it with a `--device`, `--precision` and `--model` that it supports here"
        }
        Outcome::Succeeded
        | Outcome::BadOutput { .. }
        | Outcome::SettingMismatch { .. }
        | Outcome::Interrupted { .. }
        | Outcome::NotProfiled(_) => "run it once more",
    };
    advice.to_owned()
}

/// The remark about a worker that failed without writing the reason to its `measurement.json`.
fn without_failure(attempted: &Attempted<'_>) -> Option<Remark> {
    let has_file = attempted.measurement.is_some();
    let has_exited = matches!(attempted.record.outcome, Outcome::Exited { .. });
    (has_exited && !has_file).then(|| {
        remark(Weight::LeftOut, Texts { about: "failure", what: "the worker failed without a `failure` in measurement.json", change: "write `\"failure\": { \"kind\": \"other\", \"message\": … }`; the kinds `out_of_memory` and \
                 `unsupported` have a special meaning", loss: "the reason is taken from the end of standard error, and its kind from the exit code alone" })
    })
}

/// The remarks about a worker that exited with 0 and left no usable measurement, which `message` explains.
fn bad_output(attempted: &Attempted<'_>, message: &str) -> Vec<Remark> {
    let found = malformed(attempted);
    if !found.is_empty() {
        return found;
    }
    let where_to_write = format!(
        "write a regular file to the path in the environment variable {MEASUREMENT_VARIABLE}; `{{out}}` in the \
         command is the same path"
    );
    let (about, change) = match attempted.measurement.map(Report::parse) {
        Some(Ok(Report::Measured(_))) => {
            ("elapsed_s", "report the window in seconds by a monotonic clock, not in milliseconds".to_owned())
        }
        Some(Ok(Report::Failed(_))) => {
            ("exit", "exit with a code other than 0 if the worker failed".to_owned())
        }
        Some(Err(_)) | None => ("measurement.json", where_to_write),
    };
    vec![wrong(about, message, &change)]
}

/// One remark for each mistake in the form of `measurement.json`.
fn malformed(attempted: &Attempted<'_>) -> Vec<Remark> {
    let errors = attempted.measurement.map(mistakes).unwrap_or_default();
    errors.iter().map(|error| wrong("measurement.json", &with_causes(error), fix(error))).collect()
}

/// The advice for a mistake in the form of `measurement.json`.
fn fix(error: &BadMeasurement) -> &'static str {
    match error {
        BadMeasurement::Malformed(BadForm::NotJson(_)) => {
            "write the whole file with a JSON library before the worker exits"
        }
        BadMeasurement::Malformed(BadForm::NotFinite { .. }) => "write `null`: in Python `None`",
        BadMeasurement::Malformed(_) | BadMeasurement::Missing(_) => {
            "`orchestrate schema --measurement` and docs/reference/measurement.md describe the format"
        }
        BadMeasurement::UnknownSchema(_) => "write the expected number",
        BadMeasurement::Impossible(_) => {
            "count whole batches, so that `samples` is the iterations × the batch, and report seconds"
        }
        BadMeasurement::Unreadable(_) | BadMeasurement::Elsewhere(_) => {
            "write a regular file to the given path"
        }
    }
}

fn wrong(about: &str, what: &str, change: &str) -> Remark {
    remark(Weight::Wrong, Texts { about, what, change, loss: NO_RESULT })
}
