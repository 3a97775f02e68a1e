//! The five lines at the top of a report: the measured configs, the answer, its certainty, the runs left out, and the
//! missing results. Each sentence summarises rows, classes and findings.

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

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub enum Question {
    /// The configs that were measured, and their machines.
    Measured,
    /// The fastest config of each network and, if known, its limit.
    Answer,
    /// The scatter of the numbers.
    Certainty,
    /// The runs that marks leave out, and the bias from that.
    LeftOut,
    /// Jobs without a result, and rows whose limit is unknown.
    Missing,
}

impl Question {
    /// The heading of the line.
    pub fn heading(self) -> &'static str {
        match self {
            Question::Measured => "Measured",
            Question::Answer => "Answer",
            Question::Certainty => "Certainty",
            Question::LeftOut => "Left out",
            Question::Missing => "Missing",
        }
    }
}

/// One of the five lines.
#[derive(Clone, Debug, PartialEq)]
pub struct BriefLine {
    /// Its subject.
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
