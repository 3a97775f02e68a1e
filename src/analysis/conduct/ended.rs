//! How the attempt ended.

use super::{Attempted, Remark, Weight, remark};
use crate::protocol::{BadForm, BadMeasurement, MEASUREMENT_VARIABLE, Report, WorkerExit, mistakes};
use crate::record::Outcome;
use crate::text::with_causes;

/// What is lost whenever an attempt fails.
const NO_RESULT: &str = "the job fails, and has no result";

/// The remarks about how the attempt ended, and about the form of its `measurement.json`.
pub(super) fn remarks(attempted: &Attempted<'_>) -> Vec<Remark> {
    let outcome = &attempted.record.outcome;
    let mut found = match outcome {
        // What was not as requested is named one by one.
        Outcome::Succeeded | Outcome::SettingMismatch { .. } => Vec::new(),
        Outcome::BadOutput { message } => bad_output(attempted, message),
        _ => {
            let said = wrong("exit", &format!("the worker {outcome}"), &change(outcome));
            [said].into_iter().chain(unnamed(attempted)).chain(malformed(attempted)).collect()
        }
    };
    if attempted.record.observed.left_processes {
        found.push(remark(
            Weight::Wrong,
            [
                "processes",
                "the worker left processes behind, which were killed",
                "let the worker end every process that it starts, and wait for it, before it exits",
                "their work is cut off, and every job waits for their end",
            ],
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

/// What to change if a worker ends with this outcome.
fn change(outcome: &Outcome) -> String {
    let advice = match outcome {
        Outcome::Exited { code, .. } => {
            return match WorkerExit::of(*code) {
                WorkerExit::Usage => "make the flags in the command those that the worker takes".to_owned(),
                _ => "mend what the worker says on its standard error, or exit with 0 if it is no failure"
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
            "check it with a `--device`, `--precision` and `--model` that it knows here"
        }
        Outcome::Succeeded
        | Outcome::BadOutput { .. }
        | Outcome::SettingMismatch { .. }
        | Outcome::Interrupted { .. }
        | Outcome::NotProfiled(_) => "run it once more",
    };
    advice.to_owned()
}

/// A worker that failed and does not say why in its file.
fn unnamed(attempted: &Attempted<'_>) -> Option<Remark> {
    let has_file = attempted.measurement.is_some();
    let said_by_exit = matches!(attempted.record.outcome, Outcome::Exited { .. });
    (said_by_exit && !has_file).then(|| {
        remark(
            Weight::LeftOut,
            [
                "failure",
                "the worker failed without a `failure` in measurement.json",
                "write `\"failure\": { \"kind\": \"other\", \"message\": … }`; the kinds `out_of_memory` and \
                 `unsupported` mean something",
                "the reason is taken from the end of standard error, and only exit codes tell what kind it is",
            ],
        )
    })
}

/// The remarks about a worker that exited with 0 and left no usable measurement, which `message` explains.
fn bad_output(attempted: &Attempted<'_>, message: &str) -> Vec<Remark> {
    let found = malformed(attempted);
    if !found.is_empty() {
        return found;
    }
    let where_to_write = format!(
        "write a regular file to the path in the environment variable {MEASUREMENT_VARIABLE}, which `{{out}}` in the \
         command also gives"
    );
    let (about, change) = match attempted.measurement.map(Report::parse) {
        Some(Ok(Report::Measured(_))) => {
            ("elapsed_s", "give the seconds of the window, by a monotonic clock: no milliseconds".to_owned())
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
    errors.iter().map(|error| wrong("measurement.json", &with_causes(error), mend(error))).collect()
}

/// What to do about a mistake of the file.
fn mend(error: &BadMeasurement) -> &'static str {
    match error {
        BadMeasurement::Malformed(BadForm::NotJson(_)) => {
            "write the whole file by a library for JSON, and exit only after that"
        }
        BadMeasurement::Malformed(BadForm::NotFinite { .. }) => "write `null`: in Python `None`",
        BadMeasurement::Malformed(_) | BadMeasurement::Missing(_) => {
            "`orchestrate schema --measurement` and docs/reference/measurement.md say what belongs there"
        }
        BadMeasurement::UnknownSchema(_) => "write the number that is expected",
        BadMeasurement::Impossible(_) => {
            "count whole batches, so that `samples` is the iterations × the batch, and give seconds"
        }
        BadMeasurement::Unreadable(_) | BadMeasurement::Elsewhere(_) => {
            "write a regular file to the path that is given"
        }
    }
}

fn wrong(about: &str, what: &str, change: &str) -> Remark {
    remark(Weight::Wrong, [about, what, change, NO_RESULT])
}
