//! Parameters and marks in the words in which several verbs say them.

use crate::analysis::marks::Mark;
use crate::job::Key;

/// A parameter's value in a table; `auto` where the worker chooses.
pub(super) fn param_text(key: &Key, name: &str) -> String {
    key.param(name).map_or_else(|| "auto".to_owned(), |value| value.to_string())
}

/// A mark and what it does to the statistics.
pub(super) fn mark_text(mark: &Mark) -> String {
    let effect = match (mark.voids(), mark.disqualifies()) {
        (true, _) => "it has no throughput",
        (false, true) => "left out of the statistics",
        (false, false) => "counted",
    };
    format!("{mark} ({effect})")
}
