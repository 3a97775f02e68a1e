//! A finding, with the wording of lists.

use super::kind::FindingKind;
use crate::analysis::claim::{Claim, Sentence};

/// A sentence that rests on computed numbers, with what it claims of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The row, the job or the network that it is about, as its sentence names it. `None` if it is about several.
    pub subject: Option<String>,
    /// The sentence.
    pub text: String,
    /// What it claims. Each holds for the numbers as the sentence prints them.
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

/// How many names or clauses a list shows.
const SHOWN: usize = 4;

/// The first few of `names`, and the number of the others.
pub(super) fn list<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The same of clauses. What the others claim is not claimed.
pub(super) fn list_clauses(clauses: Vec<Sentence>) -> Sentence {
    let more = clauses.len().saturating_sub(SHOWN);
    let shown = Sentence::joined(clauses.into_iter().take(SHOWN), ", ");
    if more == 0 { shown } else { shown.reworded(|shown| format!("{shown} and {more} more")) }
}

/// The same of differences, each `name this / that`.
pub(super) fn list_differences(differences: &[String]) -> Sentence {
    let clause = |difference: &String| Sentence::new(difference, [Claim::Differ(difference.clone())]);
    list_clauses(differences.iter().map(clause).collect())
}
