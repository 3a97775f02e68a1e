//! Merges findings that differ only in their subject and numbers into one sentence.
//!
//! If twenty rows have the finding `a100_vgg11_fp32_bs4 waited for data during 34 % of its window …`, the first is
//! shown in full, followed by `The same, with other numbers, is true of 19 more: …`.

use super::finding::{Finding, list};
use super::kind::FindingKind;
use crate::text::without_numbers;

/// Findings of one kind with the same words about different subjects.
#[derive(Clone, Debug, PartialEq)]
pub struct Alike<'f> {
    /// The findings, at least one, in the order of the rows.
    pub findings: Vec<&'f Finding>,
}

impl Alike<'_> {
    /// The kind of the findings.
    pub fn kind(&self) -> FindingKind {
        self.findings[0].kind
    }

    /// The sentence of the first finding, then the number and the first few subjects of the others.
    pub fn text(&self) -> String {
        let [first, others @ ..] = &*self.findings else { return String::new() };
        if others.is_empty() {
            return first.text.clone();
        }
        let subjects: Vec<&str> = others.iter().filter_map(|finding| finding.subject.as_deref()).collect();
        let numbers = if others.iter().all(|other| frame(other) == frame(first)) {
            ""
        } else {
            ", with other numbers,"
        };
        format!("{} The same{numbers} is true of {} more: {}.", first.text, others.len(), list(&subjects))
    }
}

/// Groups `findings` by kind and words. A group is at the place of its first finding. A finding without a subject is
/// always alone.
pub fn alike(findings: &[Finding]) -> Vec<Alike<'_>> {
    let mut groups: Vec<(String, Alike<'_>)> = Vec::new();
    for finding in findings {
        let words = without_numbers(&frame(finding));
        let known = groups.iter_mut().find(|(known, group)| {
            finding.subject.is_some() && group.kind() == finding.kind && *known == words
        });
        match known {
            Some((_, group)) => group.findings.push(finding),
            None => groups.push((words, Alike { findings: vec![finding] })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The sentence without its subject.
fn frame(finding: &Finding) -> String {
    finding
        .subject
        .as_ref()
        .map_or_else(|| finding.text.clone(), |subject| finding.text.replace(subject, "…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(subject: &str, kind: FindingKind, text: &str) -> Finding {
        Finding {
            kind,
            subject: Some(subject.to_owned()),
            text: text.replace('_', subject),
            claims: Vec::new(),
        }
    }

    fn texts(findings: &[Finding]) -> Vec<String> {
        alike(findings).iter().map(Alike::text).collect()
    }

    #[test]
    fn equal_sentences_are_merged_with_the_number_and_first_names_of_their_subjects() {
        let names = ["m1", "m2", "m10", "m11", "m12", "m13", "m14"];
        let found = names.map(|name| about(name, FindingKind::MissingCost, "Nothing describes _ (2 rows)."));
        let all = "Nothing describes m1 (2 rows). The same is true of 6 more: m2, m10, m11, m12 and 2 more.";
        assert_eq!(texts(&found), [all]);
        assert_eq!(texts(&found[..1]), ["Nothing describes m1 (2 rows)."]);
    }

    #[test]
    fn other_numbers_are_mentioned_and_other_words_or_kinds_are_not_merged() {
        let waits =
            |row: &str, share: &str| about(row, FindingKind::DataWait, &format!("_ waited {share} %."));
        let found = [
            waits("a_bs4", "34.5"),
            about("a_bs4", FindingKind::Bound, "_ waited 34.5 %."),
            waits("a_bs8", "7"),
            about("a_bs16", FindingKind::DataWait, "_ never waited."),
        ];
        assert_eq!(
            texts(&found),
            [
                "a_bs4 waited 34.5 %. The same, with other numbers, is true of 1 more: a_bs8.",
                "a_bs4 waited 34.5 %.",
                "a_bs16 never waited."
            ]
        );
    }

    #[test]
    fn findings_without_a_subject_are_not_merged() {
        let one =
            Finding { subject: None, ..about("", FindingKind::NotConfirmed, "3 rows are not confirmed.") };
        assert_eq!(texts(&[one.clone(), one]).len(), 2);
    }
}
