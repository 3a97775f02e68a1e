//! Records in; tables, groups, marks, rooflines and findings out.
//! The verbs and `report` call it; whoever asks what counts asks here.
//! It never reads a file, never knows how a job came to run, and stores nothing: every number is derived anew.
//!
//! A [`Study`] is what a plan asked for with what the store holds of it: one [`Cell`] a job, whether it succeeded,
//! failed or never ran. [`analyse`] derives everything that a report says from it. Nothing derived is ever stored.
//!
//! | module | what it derives |
//! |---|---|
//! | [`marks`] | doubts about single runs, and which of them keep a run out of the statistics |
//! | [`group`] | rows: the runs of a config that may be pooled, with their statistics |
//! | [`complexity`] | what a network costs before it runs, layer by layer |
//! | [`cost`] | parameters, MACs and FLOPs of a config, by a named convention |
//! | [`counted`] | what profilers counted, beside the timing runs it belongs to |
//! | [`energy`] | power and joules an image of the measured window |
//! | [`peaks`] | the ceilings of a device |
//! | [`pipeline`] | what reading and decoding files costs, against synthetic tensors |
//! | [`roofline`] | points and roofs |
//! | [`findings`] | the sentences of a report, each with its number and its threshold |
//! | [`table`] | the CSV files |
//! | [`unconfirmed`] | declared parameters that no worker confirmed |

mod analyse;
mod circumstances;
mod column;
mod columns;
pub mod complexity;
pub mod cost;
pub mod counted;
pub mod energy;
pub mod findings;
pub mod group;
pub mod marks;
pub mod peaks;
pub mod pipeline;
pub mod roofline;
pub mod table;
pub mod unconfirmed;

#[cfg(test)]
pub(crate) mod fixture;

use chrono::{DateTime, Utc};

use crate::job::{Job, Kind};
use crate::protocol::{Iterations, Measurement};
use crate::record::{MatrixFacts, Outcome, Record};

use cost::FlopsConvention;
use marks::{Mark, Thresholds};
use peaks::Catalogue;

pub use analyse::{Analysis, analyse};

/// What a plan asked for, with what the store holds of it.
#[derive(Clone, Debug)]
pub struct Study {
    /// The matrix file.
    pub matrix: MatrixFacts,
    /// What it is about.
    pub description: Option<String>,
    /// Every job of the plan.
    pub cells: Vec<Cell>,
    /// When which job of the store ran where, those of other plans included: two that overlap disturbed each other.
    pub spans: Vec<Span>,
    /// All peaks there are.
    pub peaks: Catalogue,
    /// How FLOPs are counted.
    pub convention: FlopsConvention,
    /// Runs whose marks would leave them out of the statistics are kept in them.
    pub include_marked: bool,
    /// From where on marks and findings are raised.
    pub thresholds: Thresholds,
}

/// A job of the plan and what became of it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The job.
    pub job: Job,
    /// Name of the peaks that its env says are for its device.
    pub peaks: Option<String>,
    /// What an hour of the machine costs.
    pub usd_per_hour: Option<f64>,
    /// What became of it.
    pub state: State,
    /// The seconds of its iterations, where its worker left them. Nothing that they say decides what counts.
    pub iterations: Option<Iterations>,
}

/// What became of a job.
#[derive(Clone, Debug)]
pub enum State {
    /// An attempt left a record, of a success or of a failure.
    Recorded(Box<Record>),
    /// There is none.
    NotRun {
        /// Why, as a sentence without its full stop.
        reason: String,
    },
}

/// When a job ran where.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The job's directory name, which no other job shares.
    pub job: String,
    /// The job's label.
    pub label: String,
    /// The host's name.
    pub host: String,
    /// Its start.
    pub started_at: DateTime<Utc>,
    /// Its end.
    pub ended_at: DateTime<Utc>,
}

impl Span {
    /// The span of `record`.
    pub fn of(record: &Record) -> Self {
        Span {
            job: Job::new(record.key.clone()).dir_name(),
            label: record.label.clone(),
            host: record.provenance.host.hostname.clone(),
            started_at: record.started_at,
            ended_at: record.ended_at,
        }
    }
}

impl Cell {
    /// The record, if there is one.
    pub fn record(&self) -> Option<&Record> {
        match &self.state {
            State::Recorded(record) => Some(record),
            State::NotRun { .. } => None,
        }
    }

    /// The record and its measurement, if the job succeeded.
    pub fn success(&self) -> Option<(&Record, &Measurement)> {
        let record = self.record().filter(|record| record.outcome == Outcome::Succeeded)?;
        Some((record, record.measurement.as_ref()?))
    }

    /// Why there is no result; `None` if there is one.
    pub fn reason(&self) -> Option<String> {
        match &self.state {
            State::NotRun { reason } => Some(reason.clone()),
            State::Recorded(_) if self.success().is_some() => None,
            State::Recorded(record) if record.outcome == Outcome::Succeeded => {
                Some("its record says it succeeded but holds no measurement".to_owned())
            }
            State::Recorded(record) => Some(record.outcome.to_string()),
        }
    }

    /// Whether an attempt ended without a result.
    pub fn is_failure(&self) -> bool {
        self.record().is_some() && self.success().is_none()
    }

    /// Whether its seconds may be published: an undisturbed run under no profiler.
    pub fn is_timing(&self) -> bool {
        self.job.key().kind == Kind::Timing
    }
}

/// A cell with the doubts about it.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The doubts, empty for a cell without a result.
    pub marks: Vec<Mark>,
    /// It is kept in the statistics in spite of its marks, if it has a throughput at all.
    pub include_marked: bool,
}

impl Run<'_> {
    /// Whether its throughput enters statistics.
    pub fn counts(&self) -> bool {
        self.cell.is_timing() && self.cell.success().is_some() && self.left_out_by().next().is_none()
    }

    /// The marks that keep it out of statistics.
    pub fn left_out_by(&self) -> impl Iterator<Item = &Mark> {
        let keeps_out = if self.include_marked { Mark::voids } else { Mark::disqualifies };
        self.marks.iter().filter(move |mark| keeps_out(mark))
    }

    /// Whether it enters statistics only because marked runs were asked for.
    pub fn is_included(&self) -> bool {
        self.counts() && self.marks.iter().any(Mark::disqualifies)
    }

    /// Images a second over the whole window; `None` without a result, and for a window that was not synchronised,
    /// whose seconds mean nothing.
    pub fn images_per_s(&self) -> Option<f64> {
        let (_, measurement) = self.cell.success()?;
        measurement.synchronized.then(|| measurement.samples_per_s())
    }
}
