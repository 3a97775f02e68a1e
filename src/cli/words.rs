//! Decisions, reasons and marks in the words in which several verbs say them.

use serde::Serialize;

use crate::analysis::marks::Mark;
use crate::job::Key;
use crate::plan::{Decision, NotDone, changes_text};

/// A decision in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Run,
    Done,
    Stale,
    NotHere,
    Pruned,
    Blocked,
}

impl Word {
    /// The word for `decision`, and why, as a sentence or a phrase; `None` for what is done.
    pub(super) fn of(decision: &Decision) -> (Word, Option<String>) {
        match decision {
            Decision::Run(not_done) => (Word::Run, Some(not_done_text(not_done))),
            Decision::Rerun { why } => (Word::Run, Some(why.clone())),
            Decision::Skip => (Word::Done, None),
            Decision::Stale { changes } => (Word::Stale, Some(changes_text(changes))),
            Decision::NotHere { why } => (Word::NotHere, Some(why.clone())),
            Decision::Pruned { why } => (Word::Pruned, Some(why.clone())),
            Decision::Blocked { why } => (Word::Blocked, Some(why.clone())),
        }
    }

    /// The word as people read it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Word::Run => "run",
            Word::Done => "done",
            Word::Stale => "stale",
            Word::NotHere => "not here",
            Word::Pruned => "pruned",
            Word::Blocked => "blocked",
        }
    }
}

/// Why a job is not done, as a sentence.
pub(super) fn not_done_text(not_done: &NotDone) -> String {
    match not_done {
        NotDone::NeverRan => "it never ran".to_owned(),
        NotDone::Failed(record) => format!("attempt {} {}", record.attempt, record.outcome),
        NotDone::Unfinished { attempts: 1 } => "its attempt was cut off and left no record".to_owned(),
        NotDone::Unfinished { attempts } => {
            format!("the last of its {attempts} attempts was cut off and left no record")
        }
        NotDone::Running => "somebody runs it right now".to_owned(),
        NotDone::Corrupt { message } => format!("its directory cannot be read: {message}"),
    }
}

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
