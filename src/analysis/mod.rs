//! Derives rows, tables, marks, rooflines and findings from records. The verbs and `report` call it; only this room
//! decides which runs count. It never reads or writes a file, does not depend on how jobs were run, and derives every
//! number anew.
//!
//! A [`Study`] is a plan with its records: one [`Cell`] per job, whether it succeeded, failed or never ran. [`analyse`]
//! derives the whole content of a report from it.
//!
//! | module | result |
//! |---|---|
//! | [`foreign`] | processors that other processes kept busy while a job ran |
//! | [`idle`] | processors that an idle machine keeps busy |
//! | [`marks`] | doubts about runs and rows, and which of them leave a run out of the statistics |
//! | [`block_shift`] | blocks that were slower or faster than others in all rows |
//! | [`audit`] | the rows with the runs that marks leave out, and without them |
//! | [`axes`] | the effect of each axis |
//! | [`blocks`] | blocks: runs that were made together |
//! | [`bound`] | the limits of rows: the host, memory that spilled, a roof, kernels |
//! | [`classes`] | the limit of each row, from the available evidence |
//! | `experiment` | the experiment that would decide an unknown limit |
//! | [`history`] | the throughput of each config in each version |
//! | [`brief`] | the five lines at the top of a report |
//! | [`group`] | rows: the runs of a config that can be pooled, with their statistics |
//! | [`calibration`] | the scatter of a machine's runs under equal conditions |
//! | [`compare`] | two sides of each config compared: ratios and verdicts, with known rates of error |
//! | [`complexity`] | the cost of a network before it runs, layer by layer |
//! | [`conduct`] | mistakes and omissions of a worker in one attempt |
//! | [`cost`] | parameters, MACs and FLOPs of a config, by a named convention |
//! | [`counted`] | counters of profilers, joined with the timing runs |
//! | [`energy`] | power and joules per sample of the measured window |
//! | [`facts`] | the effect of each fact of a provenance on rows |
//! | [`noise`] | the smallest differences that the noise of a machine can resolve |
//! | [`operators`] | the time of an iteration, operator by operator |
//! | [`own`] | the parameters and metrics that are specific to a study |
//! | [`peaks`] | the ceilings of a device |
//! | [`pipeline`] | the cost of reading and decoding files, compared with synthetic tensors |
//! | [`printed`] | throughput and its error, as tables print them |
//! | `replaced` | earlier results that marks left out, and that a re-run replaced |
//! | [`roofline`] | points and roofs |
//! | [`line`] | rows that differ only in the batch |
//! | [`scaling`] | the growth of throughput with the batch, and the knee |
//! | [`sequence`] | the runs of each machine in the order of time |
//! | [`step`] | bytes and FLOPs of an optimizer's step |
//! | [`findings`] | the sentences of a report, each with its number and its threshold |
//! | [`table`] | the CSV files |
//! | [`trace`] | the seconds of the iterations of each run, condensed |
//! | [`tradeoff`] | cost against throughput, and the Pareto front |
//! | [`unconfirmed`] | declared parameters that workers did not confirm |
//! | [`versus`] | two sides: common configs, differences, and configs that cannot be compared |

mod analyse;
pub mod audit;
pub mod axes;
pub mod block_shift;
pub mod blocks;
pub mod bound;
pub mod brief;
pub mod calibration;
mod cell_type;
mod circumstances;
mod claim;
pub mod classes;
mod column;
mod columns;
pub mod compare;
pub mod complexity;
pub mod conduct;
pub mod cost;
pub mod counted;
pub mod disagreement;
pub mod energy;
mod experiment;
pub mod facts;
pub mod fastest;
pub mod findings;
pub mod foreign;
pub mod group;
pub mod history;
pub mod idle;
pub mod leader;
mod libraries;
pub mod line;
pub mod marks;
pub mod noise;
pub mod operators;
pub mod order;
pub mod own;
pub mod peaks;
pub mod pipeline;
pub mod printed;
mod replaced;
mod role;
pub mod roofline;
pub mod scaling;
pub mod sequence;
mod source;
pub mod step;
pub mod table;
mod table_keys;
pub mod tally;
pub mod trace;
pub mod tradeoff;
pub mod unconfirmed;
mod units;
pub mod versus;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod independence_tests;
#[cfg(test)]
mod join_tests;
#[cfg(test)]
mod promise;
#[cfg(test)]
mod random_table;
#[cfg(test)]
mod simulation;

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::job::{Declared, Job, JobId, Kind};
use crate::protocol::{Iterations, Measurement, SampleUnit};
use crate::record::{HostFacts, MatrixFacts, Outcome, Record};
use crate::shared::Shared;

use cost::FlopsConvention;
use idle::Idle;
use marks::{Mark, Thresholds};
use noise::Calibrated;
use peaks::Catalogue;

pub use analyse::{Analysis, Judged, analyse, judge};

/// A plan with its records from the store.
#[derive(Clone, Debug)]
pub struct Study {
    /// The matrix file.
    pub matrix: MatrixFacts,
    /// The description in the matrix.
    pub description: Option<String>,
    /// The order of the values of its axes.
    pub declared: Declared,
    /// Every job of the plan.
    pub cells: Vec<Cell>,
    /// Earlier results of these jobs, of the same worker, that a re-run replaced.
    pub replaced: Vec<Cell>,
    /// The time and host of each job of the store, including other plans. Overlapping jobs disturbed each other.
    pub spans: Vec<Span>,
    /// All known peaks.
    pub peaks: Catalogue,
    /// The convention for counting FLOPs.
    pub convention: FlopsConvention,
    /// Whether runs stay in the statistics despite marks that would leave them out.
    pub include_marked: bool,
    /// The thresholds of marks and findings.
    pub thresholds: Thresholds,
    /// The noise of the machines that were calibrated, by device.
    pub noise: Vec<Calibrated>,
    /// The processors that idle machines keep busy, from their calibrations.
    pub idle: Idle,
}

/// A job of the plan and its result. It shares its record with the inventory.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The job.
    pub job: Job,
    /// The name of the peaks that its env names for its device.
    pub peaks: Option<String>,
    /// The price of an hour on the machine, in US dollars.
    pub usd_per_hour: Option<f64>,
    /// The record of its last attempt, successful or failed.
    pub record: Result<Arc<Record>, NoRecord>,
    /// The seconds of its iterations, if its worker wrote them. They never decide whether it counts.
    pub iterations: Option<Iterations>,
}

/// A job without a usable record.
#[derive(Clone, Debug)]
pub struct NoRecord {
    /// The reason, as a sentence without a full stop.
    pub reason: String,
    /// Whether there is a record, but a file that it refers to was changed. Such a job is done, so it is not run again.
    pub is_altered: bool,
}

/// The time and host of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The job.
    pub job: JobId,
    /// The job's label.
    pub label: String,
    /// The host.
    pub host: Shared<HostFacts>,
    /// The start of the run.
    pub started_at: DateTime<Utc>,
    /// The end of the run.
    pub ended_at: DateTime<Utc>,
    /// Both times in seconds since the boot of the host, by a clock that cannot be set. Absent in older records.
    pub since_boot_s: Option<(f64, f64)>,
}

impl Span {
    /// The span of `record`.
    pub fn of(record: &Record) -> Self {
        Span {
            job: record.id,
            label: record.label.clone(),
            host: record.provenance.host.clone(),
            started_at: record.started_at,
            ended_at: record.ended_at,
            since_boot_s: record.observed.since_boot_s,
        }
    }
}

impl Cell {
    /// The record, if any.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_deref().ok()
    }

    /// The record and its measurement, if the job succeeded.
    pub fn success(&self) -> Option<(&Record, &Measurement)> {
        let record = self.record().filter(|record| record.outcome == Outcome::Succeeded)?;
        Some((record, record.measurement.as_ref()?))
    }

    /// The reason why there is no result; `None` if there is one.
    pub fn reason(&self) -> Option<String> {
        match &self.record {
            Err(NoRecord { reason, .. }) => Some(reason.clone()),
            Ok(_) if self.success().is_some() => None,
            Ok(record) if record.outcome == Outcome::Succeeded => {
                Some("its record says it succeeded but holds no measurement".to_owned())
            }
            Ok(record) => Some(record.outcome.to_string()),
        }
    }

    /// Whether an attempt ended without a result.
    pub fn is_failure(&self) -> bool {
        self.record().is_some() && self.success().is_none()
    }

    /// Whether its last attempt ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.record().is_some_and(|record| record.outcome.policy().prunes)
    }

    /// Whether it is a timing job, whose seconds can be published.
    pub fn is_timing(&self) -> bool {
        self.job.key().kind == Kind::Timing
    }
}

/// A cell with its marks.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The marks; empty for a cell without a result.
    pub marks: Vec<Mark>,
    /// Whether it is kept in the statistics despite its marks, if it has a throughput.
    pub include_marked: bool,
}

impl Run<'_> {
    /// Whether its throughput enters statistics.
    pub fn counts(&self) -> bool {
        self.cell.is_timing() && self.cell.success().is_some() && self.left_out_by().next().is_none()
    }

    /// The marks that leave it out of statistics.
    pub fn left_out_by(&self) -> impl Iterator<Item = &Mark> {
        let keeps_out = if self.include_marked { Mark::voids } else { Mark::disqualifies };
        self.marks.iter().filter(move |mark| keeps_out(mark))
    }

    /// Whether it is in the statistics only because the user included marked runs.
    pub fn is_included(&self) -> bool {
        self.counts() && self.marks.iter().any(Mark::disqualifies)
    }

    /// The unit of its samples.
    pub fn unit(&self) -> SampleUnit {
        let key = self.cell.job.key();
        self.cell
            .success()
            .map_or_else(|| SampleUnit::default_for(key), |(_, measurement)| measurement.unit(key))
    }

    /// Samples per second over the whole window. `None` without a result, and for an unsynchronised window, whose
    /// seconds are meaningless.
    pub fn samples_per_s(&self) -> Option<f64> {
        let (_, measurement) = self.cell.success()?;
        measurement.synchronized.then(|| measurement.samples_per_s())
    }
}
