//! The severity of an objection.

use std::fmt;

use serde::Serialize;

/// The severity of an objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Numbers contradict each other, or what a network or a device can do: at least one of them is wrong.
    Error,
    /// All numbers can be true, but hardly mean what they are taken for.
    Doubt,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Doubt => "doubt",
        })
    }
}
