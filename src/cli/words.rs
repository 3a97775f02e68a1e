//! Texts of parameters, marks and hints for several verbs.

use super::remedy::remedy;
use crate::analysis::marks::{Mark, MarkName};
use crate::files::JobDir;
use crate::job::{Key, parameter};
use crate::record::Outcome;

/// A parameter's value in a table; `auto` if the shipped worker chooses it, `-` if it is not passed to the worker.
pub(super) fn param_text(key: &Key, name: &str) -> String {
    let chooses = key.worker.is_shipped() && parameter(name).is_some();
    let absent = || if chooses { "auto" } else { "-" }.to_owned();
    key.param(name).map_or_else(absent, |value| value.to_string())
}

/// A mark and its effect on the statistics.
pub(super) fn mark_text(mark: &Mark) -> String {
    let effect = match (mark.voids(), mark.disqualifies()) {
        (true, _) => "it has no throughput",
        (false, true) => "left out of the statistics",
        (false, false) => "counted",
    };
    format!("{mark} ({effect})")
}

/// The meaning and the remedy of `mark`, in two sentences.
pub(super) fn mark_advice(mark: &Mark) -> String {
    let declared = MarkName::from(mark).declaration();
    format!("{} {}", declared.meaning, declared.remedy)
}

/// The hint after a failed attempt of the job of `key` in `dir`: a remedy for its error message, if known, and the
/// command that shows its output. `store_flag` is ` --store DIR` for commands to type.
pub(super) fn failure_hint(
    outcome: &Outcome,
    key: &Key,
    dir: &JobDir,
    attempt: u32,
    store_flag: &str,
) -> String {
    let look = output_hint(outcome, dir, attempt, store_flag);
    remedy(outcome, key).map_or_else(|| look.clone(), |remedy| format!("{remedy}; {look}"))
}

/// The command that shows the output of a failed attempt, or the remedy for a wrong measurement.
fn output_hint(outcome: &Outcome, dir: &JobDir, attempt: u32, store_flag: &str) -> String {
    let name = dir.name();
    match outcome {
        Outcome::BadOutput { .. } => format!(
            "the worker finds the path `{}` in ORCHESTRATE_MEASUREMENT and in `{{out}}`; docs/protocol.md shows \
             what to write there",
            dir.attempt(attempt).measurement().display()
        ),
        Outcome::SettingMismatch { .. } => format!(
            "make the worker do what is declared, or declare what it does; `orchestrate show {name}{store_flag}` prints \
             its measurement"
        ),
        Outcome::Succeeded
        | Outcome::Exited { .. }
        | Outcome::Signalled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::OutOfMemory { .. }
        | Outcome::FailedToSpawn { .. }
        | Outcome::Interrupted { .. }
        | Outcome::Unsupported { .. }
        | Outcome::NotProfiled(_) => {
            format!("`orchestrate logs {name}{store_flag}` prints the worker's output")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{ParamValue, Params, WorkerTemplate};

    #[test]
    fn only_settings_chosen_by_the_worker_are_auto() {
        let shipped = Key::example();
        let own = Key {
            worker: WorkerTemplate::Command(["python".into(), "{compile}".into()].into()),
            params: Params::from([("compile".into(), ParamValue::Bool(true))]),
            ..Key::example()
        };
        let texts = |name: &str| [&shipped, &own].map(|key| param_text(key, name));
        assert_eq!(texts("compile"), ["-", "true"]);
        assert_eq!(texts("threads"), ["auto", "-"]);
        assert_eq!(texts("seed"), ["0", "-"]);
    }

    #[test]
    fn wrong_output_has_a_hint_other_than_the_logs() {
        let dir = JobDir::at("runs/a-0123".into());
        let hint = |outcome: Outcome| failure_hint(&outcome, &Key::example(), &dir, 2, " --store runs");
        assert_eq!(
            hint(Outcome::BadOutput { message: "why".into() }),
            "the worker finds the path `runs/a-0123/attempts/02/measurement.json` in ORCHESTRATE_MEASUREMENT and in \
             `{out}`; docs/protocol.md shows what to write there"
        );
        assert_eq!(
            hint(Outcome::SettingMismatch { mismatches: Vec::new() }),
            "make the worker do what is declared, or declare what it does; `orchestrate show a-0123 --store runs` \
             prints its measurement"
        );
        assert_eq!(
            hint(Outcome::Exited { code: 1, message: None }),
            "`orchestrate logs a-0123 --store runs` prints the worker's output"
        );
        let killed = hint(Outcome::Signalled { signal: 9 });
        assert!(killed.starts_with("SIGKILL is often memory"), "{killed}");
        assert!(
            killed.ends_with("; `orchestrate logs a-0123 --store runs` prints the worker's output"),
            "{killed}"
        );
    }
}
