//! What limits a row, with the evidence.

use super::kind::Bound;
use super::obstacle::Obstacle;
use crate::analysis::claim::Sentence;

/// What limits a row, and what shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The bound.
    pub bound: Bound,
    /// What shows it.
    pub evidence: Evidence,
    /// The reason, as a clause about the row.
    pub why: Sentence,
    /// Where its time goes, if it has a profile, as clauses.
    pub time: Option<String>,
    /// The cheapest experiment that would decide it, if it is unknown: what to do, without a full stop.
    pub experiment: Option<String>,
}

/// What shows what limits a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// Something keeps it from its roofs.
    Obstacle(Obstacle),
    /// Its place below the roofs, with the bytes that a profiler counted.
    Counters,
    /// Its throughput alone: it attains so much of the compute roof.
    Throughput,
    /// The time of its operators.
    Operators,
    /// Its throughput, and the share of the time in which the device's memory was in use at all.
    Activity,
    /// Nothing does.
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
    /// Of a row that something keeps from its roofs.
    pub fn obstructed(obstacle: Obstacle) -> Class {
        let (bound, why) = (obstacle.bound(), obstacle.sentence());
        Class::shown(bound, Evidence::Obstacle(obstacle), why)
    }

    /// Of a row whose limit `evidence` shows.
    pub(in crate::analysis) fn shown(bound: Bound, evidence: Evidence, why: Sentence) -> Class {
        Class { bound, evidence, why, time: None, experiment: None }
    }

    /// Of a row of which nothing shows what limits it.
    pub fn unknown(why: impl Into<Sentence>) -> Class {
        Class::shown(Bound::Unknown, Evidence::Nothing, why.into())
    }

    /// The bound.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// The reason, as a clause about the row, and where its time goes.
    pub fn why(&self) -> Sentence {
        match &self.time {
            None => self.why.clone(),
            Some(time) => self.why.clone().reworded(|why| format!("{why}: {time}")),
        }
    }
}
