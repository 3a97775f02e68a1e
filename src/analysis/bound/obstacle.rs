//! Obstacles that keep a row from its roofs: the host, or memory that spilled.
//!
//! Obstacles are examined before the roofs. A device that waits for the host, or whose memory is paged to it, is far
//! from both of its roofs too. So the place of such a row below the roofs is not evidence.

use std::fmt;

use super::Bound;
use crate::analysis::Run;
use crate::analysis::claim::{Claim, Compared, Limit, Relation, Sentence};
use crate::analysis::group::Row;
use crate::analysis::marks::{Mark, Threshold, Thresholds};
use crate::analysis::pipeline::{self, Gap, Verdict};
use crate::job::Device;
use crate::record::Record;
use crate::stats;

/// The share of the usable processors from which a process counts as using all of them.
pub const ALL_PROCESSORS: f64 = 0.9;

/// An obstacle that keeps a row from its roofs, for any place below them.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// It waited for data.
    Waits {
        /// The median share of its window.
        share: f64,
        /// The number of runs that report it.
        n: usize,
        /// The tolerated share.
        threshold: f64,
    },
    /// It is slower on files than on synthetic tensors.
    Data {
        /// The loss, as a share of the throughput on synthetic tensors.
        slower: f64,
        /// The tolerated share.
        threshold: f64,
    },
    /// Its process kept nearly all processors busy, in addition to the device.
    Processors {
        /// The median number of processors.
        busy: f64,
        /// The number of usable processors.
        usable: u32,
    },
    /// Device memory was paged to the host.
    Spill {
        /// The number of its runs that spilled.
        runs: usize,
        /// The number of its runs.
        of: usize,
    },
}

impl Obstacle {
    /// The limit that this obstacle is.
    pub fn bound(&self) -> Bound {
        match self {
            Obstacle::Waits { .. } | Obstacle::Data { .. } | Obstacle::Processors { .. } => Bound::Host,
            Obstacle::Spill { .. } => Bound::Spilled,
        }
    }
}

impl Obstacle {
    /// A clause about the row, with the threshold.
    pub fn sentence(&self) -> Sentence {
        match *self {
            Obstacle::Waits { share, n, threshold } => {
                let share = Compared::passed(Threshold::DataWaitShare, share, threshold, 0);
                let text = format!(
                    "it waited for data during {} % of its window, median of n = {n} (threshold {})",
                    share.number(),
                    share.limit()
                );
                Sentence::new(text, [share])
            }
            Obstacle::Data { slower, threshold } => {
                let slower = Compared::passed(Threshold::DataGap, slower, threshold, 1);
                let (percent, limit) = (slower.number(), slower.limit());
                let text = format!("it is {percent} % slower than on synthetic tensors (threshold {limit})");
                Sentence::new(text, [slower])
            }
            Obstacle::Processors { busy, usable } => processors_text(busy, usable),
            Obstacle::Spill { runs, of } => {
                Sentence::new(format!("{runs} of {of} runs are marked spilled"), [Claim::of(runs, of)])
            }
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence().fmt(f)
    }
}

fn processors_text(busy: f64, usable: u32) -> Sentence {
    let share = 100.0 * busy / f64::from(usable);
    let limit = Limit::with_unit(100.0 * ALL_PROCESSORS, " %");
    let share = Compared::new(share, Relation::From, limit, 0);
    let text = format!(
        "its process kept {busy:.2} of {usable} usable processors busy beside the device, {} % of them (threshold {})",
        share.number(),
        share.limit()
    );
    Sentence::new(text, [share])
}

/// The obstacle of each of `rows`, in their order.
pub(in crate::analysis) fn obstacles(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Option<Obstacle>> {
    let gaps = pipeline::gaps(rows);
    rows.iter().map(|row| obstacle(row, &gaps, thresholds)).collect()
}

fn obstacle(row: &Row<'_>, gaps: &[Gap<'_>], thresholds: &Thresholds) -> Option<Obstacle> {
    waits(row, thresholds)
        .or_else(|| data(row, gaps, thresholds))
        // Paging keeps processors busy, too.
        .or_else(|| spill(row))
        .or_else(|| processors(row))
}

fn waits(row: &Row<'_>, thresholds: &Thresholds) -> Option<Obstacle> {
    let shares = pipeline::data_wait_shares(row);
    let threshold = thresholds.of(Threshold::DataWaitShare);
    let share = stats::median(&shares).ok().filter(|share| *share > threshold)?;
    Some(Obstacle::Waits { share, n: shares.len(), threshold })
}

fn data(row: &Row<'_>, gaps: &[Gap<'_>], thresholds: &Thresholds) -> Option<Obstacle> {
    let gap = gaps.iter().find(|gap| std::ptr::eq(gap.real, row))?;
    let is_slower = matches!(gap.verdict(thresholds), Verdict::SharesProcessors | Verdict::SlowsDevice);
    let threshold = thresholds.of(Threshold::DataGap);
    is_slower.then(|| Obstacle::Data { slower: gap.slower(), threshold })
}

/// `None` on a CPU, where the processors are the device, and for a single processor, which is always busy: a process
/// polls while it waits for a GPU.
fn processors(row: &Row<'_>) -> Option<Obstacle> {
    let usable = row.circumstances.as_ref()?.usable_processors();
    if row.config.device == Device::Cpu || usable < 2 {
        return None;
    }
    let counting = row.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.record());
    let busy: Vec<f64> = counting.filter_map(busy_processors).collect();
    let busy = stats::median(&busy).ok()?;
    (busy >= ALL_PROCESSORS * f64::from(usable)).then_some(Obstacle::Processors { busy, usable })
}

/// How many processors the process of an attempt kept busy, on average over its life.
fn busy_processors(record: &Record) -> Option<f64> {
    let process = record.process.as_ref()?;
    let wall_s = Some(record.wall_s()).filter(|seconds| *seconds > 0.0)?;
    Some((process.user_s? + process.system_s?) / wall_s)
}

/// At least half of the runs spilled: of those that count, or of all if none does.
pub(super) fn spill(row: &Row<'_>) -> Option<Obstacle> {
    let counting: Vec<&Run<'_>> = row.runs.iter().filter(|run| run.counts()).collect();
    let looked_at = if counting.is_empty() { row.runs.iter().collect() } else { counting };
    let spilled = |run: &&&Run<'_>| run.marks.iter().any(|mark| matches!(mark, Mark::Spilled { .. }));
    let runs = looked_at.iter().filter(spilled).count();
    (runs > 0 && 2 * runs >= looked_at.len()).then_some(Obstacle::Spill { runs, of: looked_at.len() })
}
