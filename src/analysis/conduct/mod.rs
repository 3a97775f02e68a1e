//! How a worker conducts itself: what it does wrong, what is doubtful, and what it leaves out, judged by one attempt.
//!
//! [`remarks`] derives one [`Remark`] for each, from the record and from the files that the worker wrote. What is known
//! elsewhere is taken from there: the end of the attempt from its outcome, and the form of files from their readers.
//! What FLOPs need comes from [`cost`](super::cost), and doubts about the run from [`marks`](super::marks).
//!
//! | module | what it looks at |
//! |---|---|
//! | `judge` | everything, in order |
//! | `ended` | how the attempt ended |
//! | `file` | the form of `measurement.json`, and the names in it |
//! | `asked` | what was asked for, and what was done |
//! | `numbers` | whether the numbers can be true |
//! | `output` | progress lines and `iterations.csv` |
//! | `absent` | what the worker could report and does not |

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

/// An attempt with what its worker wrote.
#[derive(Clone, Copy, Debug)]
pub struct Attempted<'a> {
    /// Its record.
    pub record: &'a Record,
    /// The text of `measurement.json`; `None` if there is no such file, or none that can be read.
    pub measurement: Option<&'a str>,
    /// The text of `iterations.csv`.
    pub iterations: Option<&'a str>,
    /// The standard output, or its end.
    pub stdout: &'a str,
    /// The settings that nobody asked for: the job has a value only because every job must.
    pub assumed: &'a [&'a str],
}

/// How much a remark weighs. The heaviest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// A job with this worker fails, or its number does not count, or the worker says something that nobody hears.
    Wrong,
    /// A job counts, but somebody should look at it.
    Doubtful,
    /// Nothing is wrong, but a report lacks something.
    LeftOut,
}

/// One thing that a worker should do otherwise. All texts are sentences without a capital and a full stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// How much it weighs.
    pub weight: Weight,
    /// What it is about: a field such as `details.device_name`, a file, `stdout`, `exit` or `processes`.
    pub about: String,
    /// What the worker does or leaves out.
    pub what: String,
    /// What to change.
    pub change: String,
    /// What is lost otherwise.
    pub loss: String,
}

impl Weight {
    /// Its words, as they stand before a remark.
    pub fn as_str(self) -> &'static str {
        match self {
            Weight::Wrong => "wrong",
            Weight::Doubtful => "doubtful",
            Weight::LeftOut => "left out",
        }
    }
}

/// A remark of this weight; the texts follow in the order of [`Remark`].
fn remark(weight: Weight, texts: [&str; 4]) -> Remark {
    let [about, what, change, loss] = texts.map(str::to_owned);
    Remark { weight, about, what, change, loss }
}
