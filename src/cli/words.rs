//! The texts of parameters, marks and hints that several verbs share.

use crate::analysis::marks::{Mark, MarkName};
use crate::files::JobDir;
use crate::job::Key;
use crate::record::Outcome;

/// A parameter's value in a table; `auto` if the worker chooses.
pub(super) fn param_text(key: &Key, name: &str) -> String {
    key.param(name).map_or_else(|| "auto".to_owned(), |value| value.to_string())
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

/// What `mark` means and what to do about it, in two sentences.
pub(super) fn mark_advice(mark: &Mark) -> String {
    let declared = MarkName::from(mark).declaration();
    format!("{} {}", declared.meaning, declared.remedy)
}

/// Where to look after an attempt of the job in `dir` failed: at its output, or at its measurement if that is wrong.
/// `store_flag` is `--store DIR` for commands to type, with a blank in front.
pub(super) fn failure_hint(outcome: &Outcome, dir: &JobDir, attempt: u32, store_flag: &str) -> String {
    if matches!(outcome, Outcome::BadOutput { .. }) {
        return format!(
            "the measurement belongs in `{}`; docs/reference/measurement.md says what it must hold",
            dir.attempt(attempt).measurement().display()
        );
    }
    format!("`orchestrate logs {}{store_flag}` prints the worker's output", dir.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_measurement_is_looked_for_in_its_file_and_not_in_the_logs() {
        let dir = JobDir::at("runs/a-0123".into());
        let hint = |outcome: Outcome| failure_hint(&outcome, &dir, 2, " --store runs");
        assert_eq!(
            hint(Outcome::BadOutput { message: "why".into() }),
            "the measurement belongs in `runs/a-0123/attempts/02/measurement.json`; \
             docs/reference/measurement.md says what it must hold"
        );
        assert_eq!(
            hint(Outcome::Exited { code: 1, message: None }),
            "`orchestrate logs a-0123 --store runs` prints the worker's output"
        );
    }
}
