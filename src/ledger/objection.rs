//! An objection to a ledger: the lines, the arithmetic and the likely cause.

use serde::Serialize;

use super::entry::{Entry, Place};
use super::rule::Rule;
use super::severity::Severity;

/// An objection to some lines of a ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Objection {
    /// Its severity.
    pub severity: Severity,
    /// The rule that raises it.
    pub rule: Rule,
    /// The lines concerned. The first is the one that looks wrong.
    pub lines: Vec<Place>,
    /// The arithmetic, in a sentence whose numbers can be recomputed.
    pub sentence: String,
    /// The most likely cause.
    pub cause: String,
}

impl Objection {
    /// An objection of `rule` to `lines`.
    pub(super) fn new<'a>(
        rule: Rule,
        lines: impl IntoIterator<Item = &'a Entry>,
        sentence: String,
        cause: impl Into<String>,
    ) -> Objection {
        let lines = lines.into_iter().map(Entry::place).collect();
        Objection { severity: rule.facts().severity, rule, lines, sentence, cause: cause.into() }
    }
}
