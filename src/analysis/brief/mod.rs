//! The five lines at the top of a report: what was measured, the answer, how sure it is, what was left out, and what is
//! missing. Nothing in them is new: each sentence sums up rows, classes and findings, and no other file derives any.

mod answer;
mod certainty;
mod gaps;
mod known;
mod measured;

#[cfg(test)]
mod tests;

use strum::EnumIter;

pub use answer::limits_text;
pub(super) use known::Known;

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub enum Question {
    /// What was measured, on which machine.
    Measured,
    /// How fast each network trains at best, and what limits it where something shows that.
    Answer,
    /// How far the numbers scatter.
    Certainty,
    /// Which runs marks leave out, and what that does.
    LeftOut,
    /// Which jobs have no result, and what nothing shows.
    Missing,
}

impl Question {
    /// What stands before the line.
    pub fn heading(self) -> &'static str {
        match self {
            Question::Measured => "What was measured",
            Question::Answer => "The answer",
            Question::Certainty => "How sure it is",
            Question::LeftOut => "What was left out",
            Question::Missing => "What is missing",
        }
    }
}

/// One of the five lines.
#[derive(Clone, Debug, PartialEq)]
pub struct BriefLine {
    /// What it tells.
    pub question: Question,
    /// Its sentences; at least one.
    pub sentences: Vec<String>,
}

/// The five lines, in the order of [`Question`].
pub(super) fn brief(known: Known<'_, '_>) -> Vec<BriefLine> {
    [
        (Question::Measured, measured::sentences(known)),
        (Question::Answer, answer::sentences(known)),
        (Question::Certainty, certainty::sentences(known)),
        (Question::LeftOut, gaps::left_out(known)),
        (Question::Missing, gaps::missing(known)),
    ]
    .map(|(question, sentences)| BriefLine { question, sentences })
    .into()
}
