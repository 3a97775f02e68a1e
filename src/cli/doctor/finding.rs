//! One thing that is wrong with a host.

use serde::Serialize;

/// How much a finding matters, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// `orchestrate run` cannot work.
    Prevents,
    /// What is measured now is wrong, or will be marked and left out.
    Spoils,
    /// Something cannot be measured, or less well.
    Limits,
    /// To be known when numbers are compared.
    Note,
}

impl Severity {
    pub(super) const ALL: [Severity; 4] =
        [Severity::Prevents, Severity::Spoils, Severity::Limits, Severity::Note];

    /// As it stands before a finding.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Severity::Prevents => "prevents",
            Severity::Spoils => "spoils",
            Severity::Limits => "limits",
            Severity::Note => "note",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// A word for programs; it does not change.
    pub(super) code: &'static str,
    pub(super) severity: Severity,
    /// What was found, with its number.
    pub(super) what: String,
    /// Why it matters.
    pub(super) why: &'static str,
    /// What to do, a command to type where there is one.
    pub(super) remedy: String,
}
