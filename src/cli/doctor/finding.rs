//! A finding: one problem of a host.

use serde::Serialize;

/// The severity of a finding, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// `orchestrate run` cannot work.
    Prevents,
    /// Measurements would be wrong, or marked and left out.
    Spoils,
    /// Some values cannot be measured, or only less precisely.
    Limits,
    /// Worth knowing when numbers are compared.
    Note,
}

impl Severity {
    pub(super) const ALL: [Severity; 4] =
        [Severity::Prevents, Severity::Spoils, Severity::Limits, Severity::Note];

    /// The word in front of a finding.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Severity::Prevents => "prevents",
            Severity::Spoils => "spoils",
            Severity::Limits => "limits",
            Severity::Note => "note",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// A stable word for programs.
    pub(super) code: &'static str,
    pub(super) severity: Severity,
    /// The problem, with its number.
    pub(super) what: String,
    /// Why it matters.
    pub(super) why: &'static str,
    /// The remedy: a command to type if there is one.
    pub(super) remedy: String,
}
