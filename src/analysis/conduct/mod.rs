//! The review of a worker by `orchestrate check-worker`: what it does wrong, what is doubtful, and what it leaves out.
//!
//! [`remarks`] derives the [`Remark`]s about one attempt ([`Attempted`]) from its record and from the files that the
//! worker wrote. The end of the attempt comes from its outcome, and mistakes in files come from their readers.
//! Mistakes in FLOPs come from [`cost`](super::cost), and doubts about the run from [`marks`](super::marks).
//!
//! A worker whose `measurement.json` has `"sampels": 8` gets this remark, among others:
//!
//! ```text
//! wrong: `sampels` is not a known field, and is ignored
//!   change: call it `samples` if that is the intended name
//!   lost:   its value is not used
//! ```
//!
//! | module | remarks about |
//! |---|---|
//! | `judge` | all of these, in order of weight |
//! | `ended` | the end of the attempt, and the form of `measurement.json` |
//! | `file` | unknown names in `measurement.json` |
//! | `asked` | requested and effective settings |
//! | `numbers` | impossible numbers |
//! | `output` | progress lines and `iterations.csv` |
//! | `absent` | optional fields that the worker does not report |

mod absent;
mod asked;
mod ended;
mod file;
mod judge;
mod numbers;
mod output;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::record::Record;

pub use ended::refused;
pub use judge::{remarks, tally_text};

/// An attempt with the output of its worker.
#[derive(Clone, Copy, Debug)]
pub struct Attempted<'a> {
    /// The record of the attempt.
    pub record: &'a Record,
    /// The text of `measurement.json`; `None` if the file is missing or not readable.
    pub measurement: Option<&'a str>,
    /// The text of `iterations.csv`.
    pub iterations: Option<&'a str>,
    /// The standard output, or its end.
    pub stdout: &'a str,
    /// The names of settings that the user did not request: the job has a value only because every job must.
    pub assumed: &'a [&'a str],
}

/// The severity of a remark. The worst sorts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// A job with this worker fails, its number does not count, or something that the worker reports is ignored.
    Wrong,
    /// A job counts, but the user should look at it.
    Doubtful,
    /// Nothing is wrong, but a report lacks something.
    LeftOut,
}

/// One thing that a worker should do differently. All texts are sentences without a capital and a full stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The severity.
    pub weight: Weight,
    /// The subject: a field such as `details.device_name`, a file, `stdout`, `exit` or `processes`.
    pub about: String,
    /// What the worker does or leaves out.
    pub what: String,
    /// What to change.
    pub change: String,
    /// What is lost otherwise.
    pub loss: String,
}

impl Weight {
    /// The words before a remark, such as `left out`.
    pub fn as_str(self) -> &'static str {
        match self {
            Weight::Wrong => "wrong",
            Weight::Doubtful => "doubtful",
            Weight::LeftOut => "left out",
        }
    }
}

/// The texts of a [`Remark`], by its fields.
struct Texts<'a> {
    about: &'a str,
    what: &'a str,
    change: &'a str,
    loss: &'a str,
}

/// A remark of this weight.
fn remark(weight: Weight, Texts { about, what, change, loss }: Texts<'_>) -> Remark {
    let [about, what, change, loss] = [about, what, change, loss].map(str::to_owned);
    Remark { weight, about, what, change, loss }
}
