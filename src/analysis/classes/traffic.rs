//! Bounds of the traffic of a row between its device and its memory, without counted bytes.
//!
//! - **At least.** An iteration moves the data that provably exceed its caches: see `cost::least`. From 60 % of the
//!   memory roof on, the row is at it, regardless of other traffic.
//! - **At most.** A GPU's driver reports the share of the last second, or of a sixth of it, in which its memory was
//!   read or written at all. If at least four iterations fit into that, the share of all time is at most 5/4 as large.
//!   Traffic as a share of the most that the memory could move is no higher. A roof is assumed to be at least two
//!   thirds of that. So a memory that is in use for less than 16 % of the time is below 30 % of its roof.
//!
//! The second uses the highest sample of all runs. It needs three within each window, because the first can include
//! time before it, and one above 0, because a driver without this counter might report 0.

use super::throughput::{share_of_compute, shares_text};
use crate::analysis::bound::{AT_ROOF, Bound, Class, Evidence, FAR_FROM_ROOF};
use crate::analysis::claim::{Compared, Limit, Relation, Sentence};
use crate::analysis::group::Row;
use crate::analysis::operators::cache_capacity;
use crate::analysis::roofline::rates;
use crate::record::{Record, Sensor};

/// The assumed least ratio of a roof to the most that a memory could move.
const LEAST_ROOF: f64 = 2.0 / 3.0;

/// The shortest time that a sample covers, in seconds.
const LEAST_COVERED_S: f64 = 1.0 / 6.0;

/// The least number of iterations in such a time.
const LEAST_ITERATIONS: f64 = 4.0;

/// The largest ratio of the share of all time to a sample with this number of iterations.
const BESIDE_SAMPLES: f64 = 1.0 + 1.0 / LEAST_ITERATIONS;

/// The fewest samples of the sensors within a window.
const LEAST_SAMPLES: u32 = 3;

/// The driver reports whole percent with an unspecified rounding.
const ROUNDED: f64 = 1.0;

/// The class of a row whose least traffic is at the memory roof. `None` if that is unknown or inconclusive.
pub(super) fn at_least(row: &Row<'_>) -> Option<Class> {
    let peaks = row.ceilings()?;
    let described = row.cost.as_ref().ok()?.described().filter(|_| row.config.worker.is_shipped())?;
    let bytes = described.least_bytes(&row.config, cache_capacity(peaks))?;
    let share = rates(row)?.times(bytes / f64::from(row.config.batch)).over(peaks.bandwidth?);
    if share.low < AT_ROOF {
        return None;
    }
    let (range, claims) = shares_text(share);
    let text = format!("data beyond its caches take {range} % of the memory roof");
    if share.low > 1.0 {
        return Some(Class::unknown(Sentence::new(format!("{text}, which is above the roof"), claims)));
    }
    Some(Class::shown(Bound::Memory, Evidence::Throughput, Sentence::new(text, claims)))
}

/// The class of a row that is far from the compute roof while its memory is hardly in use. `None` if one of them is
/// unknown or inconclusive.
pub(super) fn at_most(row: &Row<'_>) -> Option<Class> {
    let of_compute = share_of_compute(row)?;
    let most = memory_in_use(row)?;
    let iteration_s = f64::from(row.config.batch) / rates(row)?.low;
    if row.ceilings()?.bandwidth?.is_wide() || iteration_s * LEAST_ITERATIONS > LEAST_COVERED_S {
        return None;
    }
    let limit = 100.0 * FAR_FROM_ROOF * LEAST_ROOF / BESIDE_SAMPLES;
    if of_compute.high >= FAR_FROM_ROOF || most >= limit {
        return None;
    }
    let (range, mut claims) = shares_text(of_compute);
    let most = Compared::new(most, Relation::Below, Limit::with_unit(limit, " %"), 0);
    let text = format!(
        "it attains {range} % of the compute roof, and its memory was in use for at most {} % of the time (threshold {})",
        most.number(),
        most.limit()
    );
    claims.push(most);
    Some(Class::shown(Bound::Latency, Evidence::Activity, Sentence::new(text, claims)))
}

/// The highest share of the time in which the memory of the device was in use, in percent, over all runs that count.
fn memory_in_use(row: &Row<'_>) -> Option<f64> {
    let counting = row.runs.iter().filter(|run| run.counts());
    let of_run = |record: &Record| {
        let telemetry = record.observed.telemetry.as_ref()?;
        let is_known = telemetry.of_window && telemetry.samples >= LEAST_SAMPLES;
        telemetry.readings(Sensor::GpuMemoryBusy).filter(|_| is_known).map(|busy| busy.max + ROUNDED)
    };
    let all: Option<Vec<f64>> = counting.map(|run| run.cell.record().and_then(of_run)).collect();
    all?.into_iter().max_by(f64::total_cmp).filter(|most| *most > ROUNDED)
}
