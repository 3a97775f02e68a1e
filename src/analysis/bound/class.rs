//! The class of a row: its limit, with the evidence.

use super::kind::Bound;
use super::obstacle::Obstacle;
use crate::analysis::claim::Sentence;

/// The limit of a row, with the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The bound.
    pub bound: Bound,
    /// The evidence for it.
    pub evidence: Evidence,
    /// The reason, as a clause about the row.
    pub why: Sentence,
    /// The largest parts of its time, if it has a profile, as clauses.
    pub time: Option<String>,
    /// The cheapest experiment that would decide an unknown limit, as an imperative without a full stop.
    pub experiment: Option<String>,
}

/// The evidence for the limit of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// An obstacle keeps it from its roofs.
    Obstacle(Obstacle),
    /// Its place below the roofs, with the bytes that a profiler counted.
    Counters,
    /// Its throughput: its share of the compute roof is large enough.
    Throughput,
    /// The time of its operators.
    Operators,
    /// Its throughput, and the share of the time in which the device's memory was used.
    Activity,
    /// No evidence.
    Nothing,
}

impl Evidence {
    /// Its name in tables.
    pub fn as_str(&self) -> &'static str {
        match self {
            Evidence::Obstacle(_) => "process",
            Evidence::Counters => "counters",
            Evidence::Throughput => "throughput",
            Evidence::Operators => "operators",
            Evidence::Activity => "activity",
            Evidence::Nothing => "none",
        }
    }
}

impl Class {
    /// The class of a row with an obstacle.
    pub fn obstructed(obstacle: Obstacle) -> Class {
        let (bound, why) = (obstacle.bound(), obstacle.sentence());
        Class::shown(bound, Evidence::Obstacle(obstacle), why)
    }

    /// The class of a row whose limit follows from `evidence`.
    pub(in crate::analysis) fn shown(bound: Bound, evidence: Evidence, why: Sentence) -> Class {
        Class { bound, evidence, why, time: None, experiment: None }
    }

    /// The class of a row with an unknown limit.
    pub fn unknown(why: impl Into<Sentence>) -> Class {
        Class::shown(Bound::Unknown, Evidence::Nothing, why.into())
    }

    /// The bound.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// The reason, as a clause about the row, and the largest parts of its time.
    pub fn why(&self) -> Sentence {
        match &self.time {
            None => self.why.clone(),
            Some(time) => self.why.clone().reworded(|why| format!("{why}: {time}")),
        }
    }
}
