//! Marks: named doubts about runs, derived from the observations in their records, and about rows.
//!
//! A mark carries its number and the threshold that the number passed. Some marks leave a run out: it is shown with its
//! mark, but enters no statistic unless the user asks for it.
//!
//! | module | contents, or source of its marks |
//! |---|---|
//! | `mark`, `declaration`, `sentence` | the marks with their numbers; their effects and meanings; their sentences |
//! | `manual` | the manual's tables, from the declarations |
//! | `load` | other work on the host or the device, according to the record of the run |
//! | `timeline`, `crowd`, `placed` | indexes that find the jobs that ran at the same time |
//! | `sensors` | heat, power, clocks, swap |
//! | `times`, `kinds`, `stalls`, `shift` | the seconds of single iterations |
//! | `pools` | the other runs of the same row, and those at smaller batches |
//! | `compare`, `repeats` | for rows: their scatter, the order of their repeats, and rows of other envs beside them |

mod compare;
mod constants;
mod crowd;
mod declaration;
mod kinds;
mod load;
mod manual;
mod mark;
mod placed;
mod pools;
mod repeats;
mod sensors;
mod sentence;
mod shift;
mod stalls;
mod timeline;
mod times;

use super::claim::Sentence;
use super::idle::Idle;
use super::{Cell, Span};
use crate::job::Device;
use crate::protocol::Measurement;
use crate::record::Record;
use timeline::Timeline;

pub use crate::threshold::{Threshold, Thresholds};
pub use compare::row_marks;
pub use declaration::{Declaration, Effect, Scope};
pub use manual::{effects_table, evidence_table, marks_table, thresholds_table};
pub use mark::{Mark, MarkName, mark_names};
pub(super) use sensors::clock;

/// The marks of each of `cells`, in their order; empty for a cell without a result. `spans` has the time and host of
/// each job, `idle` the processors that each machine keeps busy when idle. Takes O(n log² n) at most, even if all jobs
/// ran at the same time.
pub fn marks(cells: &[&Cell], spans: &[Span], idle: &Idle, thresholds: &Thresholds) -> Vec<Vec<Mark>> {
    let timeline = Timeline::of(spans, thresholds.of(Threshold::OverlapS));
    let mut found: Vec<Vec<Mark>> =
        cells.iter().map(|cell| own_marks(cell, &timeline, idle, thresholds)).collect();
    for (index, mark) in pools::marks(cells, &found, thresholds) {
        found[index].push(mark);
    }
    found
}

/// The marks from the run's own record and iterations.
fn own_marks(cell: &Cell, timeline: &Timeline<'_>, idle: &Idle, thresholds: &Thresholds) -> Vec<Mark> {
    let Some((record, measurement)) = cell.success() else { return Vec::new() };
    let mut found = load::contended(record, timeline, idle, thresholds);
    if !measurement.synchronized {
        found.push(Mark::Unsynchronised);
    }
    let gave_up = record.observed.gate.as_ref().and_then(|gate| gate.gave_up.clone());
    found.extend(gave_up.map(|by| Mark::Unsettled { by: Sentence::plain(by) }));
    found.extend(sensors::marks(record, thresholds));
    found.extend(oversubscribed(record, measurement));
    if record.provenance.host.power_source.as_deref() == Some("battery") {
        found.push(Mark::OnBattery);
    }
    found.extend(first_non_finite(cell, measurement).map(|iteration| Mark::Diverged { iteration }));
    // Profilers repeat and slow down iterations.
    if let Some(iterations) = cell.iterations.as_ref().filter(|_| cell.is_timing()) {
        found.extend(times::marks(cell.job.key(), iterations, thresholds));
    }
    found
}

/// The first measured iteration whose loss is not finite: as reported by the worker, else from the losses that it
/// wrote.
fn first_non_finite(cell: &Cell, measurement: &Measurement) -> Option<u64> {
    let by_losses = || Some(cell.iterations.as_ref()?.first_non_finite()? as u64);
    measurement.details.first_non_finite_iteration.or_else(by_losses)
}

fn oversubscribed(record: &Record, measurement: &Measurement) -> Option<Mark> {
    let usable = record.provenance.host.cpu.usable;
    let threads = u32::try_from(measurement.effective.settings.whole("threads")?).ok()?;
    let is_over = record.key.device == Device::Cpu && usable > 0 && threads > usable;
    is_over.then_some(Mark::Oversubscribed { threads, usable })
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
