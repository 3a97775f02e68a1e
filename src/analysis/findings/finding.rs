//! The type [`Finding`], and the formatting of lists within a sentence.

use super::kind::FindingKind;
use crate::analysis::claim::{Claim, Sentence};

/// A sentence about computed numbers, with its claims about them.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The kind.
    pub kind: FindingKind,
    /// The label of the row or job, or the name of the network, as in the sentence. `None` for several subjects.
    pub subject: Option<String>,
    /// The sentence.
    pub text: String,
    /// The claims of the sentence. Each is true for the numbers as printed.
    pub claims: Vec<Claim>,
}

impl Finding {
    /// This finding, about `subject`.
    pub(super) fn about(self, subject: impl Into<String>) -> Self {
        Finding { subject: Some(subject.into()), ..self }
    }
}

pub(super) fn finding(kind: FindingKind, sentence: Sentence) -> Finding {
    Finding { kind, subject: None, text: sentence.text, claims: sentence.claims }
}

/// The most names or clauses that a list shows.
const SHOWN: usize = 4;

/// The first few of `names`, and the number of the others: `a, b, c, d and 3 more`.
pub(super) fn list<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The first few of `clauses` with their claims, and the number of the others.
pub(super) fn list_clauses(clauses: Vec<Sentence>) -> Sentence {
    let more = clauses.len().saturating_sub(SHOWN);
    let shown = Sentence::joined(clauses.into_iter().take(SHOWN), ", ");
    if more == 0 { shown } else { shown.reworded(|shown| format!("{shown} and {more} more")) }
}

/// The first few of `differences`, and the number of the others. Each has the form `threads 1 / 2`.
pub(super) fn list_differences(differences: &[String]) -> Sentence {
    let clause = |difference: &String| Sentence::new(difference, [Claim::Differ(difference.clone())]);
    list_clauses(differences.iter().map(clause).collect())
}
