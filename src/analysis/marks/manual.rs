//! The manual's tables of marks and thresholds as Markdown, generated from their declarations.

use super::{MarkName, Threshold};
use crate::threshold::Passed;

/// The thresholds that raise a finding and no mark.
const OF_FINDINGS: [Threshold; 7] = [
    Threshold::DataWaitShare,
    Threshold::DataGap,
    Threshold::BlockShift,
    Threshold::ExecutedFlops,
    Threshold::ReportedFlops,
    Threshold::CountedFlops,
    Threshold::ExclusionBias,
];

/// One row per mark: its condition, its remedy and its effect on statistics. The numbers are the declared values of
/// the thresholds.
pub fn marks_table() -> String {
    let row = |mark: MarkName| {
        let declared = mark.declaration();
        format!(
            "| `{}` | {} | {} | {} |\n",
            mark.as_str(),
            filled(declared.raised, declared.thresholds),
            declared.remedy,
            declared.effect.word()
        )
    };
    let rows: String = MarkName::all().map(row).collect();
    format!("| mark | raised when | what to do | in statistics |\n|---|---|---|---|\n{rows}")
}

/// One row per mark: its subject, its meaning, and why a run with it is left out or kept.
pub fn effects_table() -> String {
    let row = |mark: MarkName| {
        let declared = mark.declaration();
        let (subject, reason) = (declared.scope.word(), declared.effect.reason());
        format!("| `{}` | {subject} | {} | {reason} |\n", mark.as_str(), declared.meaning)
    };
    let rows: String = MarkName::all().map(row).collect();
    format!("| mark | subject | meaning | why it is left out or kept |\n|---|---|---|---|\n{rows}")
}

/// One row per threshold: its declared value, the mark that it raises, and the number that is compared with it.
pub fn thresholds_table() -> String {
    let row = |threshold: Threshold| {
        let (name, facts) = (threshold.name(), threshold.facts());
        let value = passed(threshold, facts.value);
        format!("| `{name}` | {value} | {} | {} |\n", raises(threshold), facts.compared)
    };
    let rows: String = Threshold::all().map(row).collect();
    format!("| threshold | passed | raises | by |\n|---|---|---|---|\n{rows}")
}

/// One row per threshold: the reason for its value.
pub fn evidence_table() -> String {
    let row = |threshold: Threshold| format!("| `{}` | {} |\n", threshold.name(), threshold.facts().evidence);
    let rows: String = Threshold::all().map(row).collect();
    format!("| threshold | evidence |\n|---|---|\n{rows}")
}

/// Which numbers pass `threshold` if its value is `value`: `above 5 %`, `from 40 %`.
fn passed(threshold: Threshold, value: f64) -> String {
    let word = match threshold.facts().passed {
        Passed::Above => "above",
        Passed::From => "from",
    };
    format!("{word} {}", threshold.text(value))
}

/// The marks that `threshold` raises, or that it raises a finding.
fn raises(threshold: Threshold) -> String {
    let marks = MarkName::all().filter(|mark| mark.declaration().thresholds.contains(&threshold));
    let mut names: Vec<String> = marks.map(|mark| format!("`{}`", mark.as_str())).collect();
    if OF_FINDINGS.contains(&threshold) {
        names.push("a finding".to_owned());
    }
    names.join(", ")
}

/// `text` with the names of `thresholds` replaced by their declared values.
fn filled(text: &str, thresholds: &[Threshold]) -> String {
    thresholds.iter().fold(text.to_owned(), |text, threshold| {
        let value = threshold.text(threshold.facts().value);
        text.replace(&format!("{{{}}}", threshold.name()), &value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest row that a table of the manual may have, in characters.
    const LONGEST_ROW: usize = 240;

    fn tables() -> [String; 4] {
        [marks_table(), effects_table(), thresholds_table(), evidence_table()]
    }

    #[test]
    fn the_tables_of_the_manual() {
        insta::assert_snapshot!(tables().join("\n"));
    }

    #[test]
    fn rows_are_complete_and_short_enough_to_read() {
        for row in tables().iter().flat_map(|table| table.lines()) {
            assert!(row.chars().count() <= LONGEST_ROW, "{} characters: {row}", row.chars().count());
            assert!(!row.contains(['{', '}']), "names a threshold that is not its mark's: {row}");
            assert!(!row.contains("|  |"), "an empty cell: {row}");
        }
    }

    #[test]
    fn every_mark_is_explained_in_sentences() {
        for mark in MarkName::all() {
            let (name, declared) = (mark.as_str(), mark.declaration());
            for sentence in [declared.meaning, declared.remedy, declared.effect.reason()] {
                assert!(sentence.ends_with('.') && sentence.len() > 8, "{name}: {sentence:?}");
            }
            assert!(!declared.raised.is_empty() && !declared.raised.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn every_threshold_raises_something() {
        for threshold in Threshold::all() {
            assert!(!raises(threshold).is_empty(), "{} raises no mark and no finding", threshold.name());
        }
    }
}
