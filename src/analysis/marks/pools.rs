//! Doubts that the other runs raise: those of the same config and circumstances, and those at smaller batches.
//!
//! A run is compared only with runs that raise no doubt themselves.

use super::load::{LEAST_S, foreign_cores};
use super::{Mark, Threshold, Thresholds, sensors};
use crate::analysis::Cell;
use crate::analysis::circumstances::Circumstances;
use crate::job::{Device, Key};
use crate::record::{Readings, Record};
use crate::stats;

/// The fewest other runs that make a baseline. With this one they are three; of two, nobody could say which is the odd
/// one.
const BASELINE_NEEDS: usize = 2;

/// Successful timing runs that can be pooled.
struct Pool {
    config: Key,
    circumstances: Circumstances,
    members: Vec<Member>,
}

/// A run in a pool.
#[derive(Clone, Copy)]
struct Member {
    /// Its index among the cells.
    index: usize,
    /// Whether it raises no doubts, so that others can be compared with it.
    is_sound: bool,
}

/// A mark for the cell at this index.
type Found = Vec<(usize, Mark)>;

/// The doubts that other runs raise about each of `cells`, given the marks that it has `own`.
pub(super) fn marks(cells: &[&Cell], own: &[Vec<Mark>], thresholds: &Thresholds) -> Found {
    let mut pools = pools(cells, own);
    let mut found = Found::new();
    for pool in &pools {
        found.extend(contended(pool, cells, thresholds));
        found.extend(clock_changed(pool, cells, thresholds));
    }
    for (index, mark) in &found {
        let members = pools.iter_mut().flat_map(|pool| &mut pool.members);
        for member in members.filter(|member| member.index == *index) {
            member.is_sound &= !mark.disqualifies();
        }
    }
    found.extend(spilled(pools, cells, thresholds));
    found
}

fn pools(cells: &[&Cell], own: &[Vec<Mark>]) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_timing()) {
        let Some((record, measurement)) = cell.success() else { continue };
        let (config, circumstances) = (cell.job.key().config(), Circumstances::of(record, measurement));
        let member = Member { index, is_sound: !own[index].iter().any(Mark::disqualifies) };
        // The cells are in the order of their configs, so the pool is one of the last.
        match pools.iter_mut().rfind(|pool| pool.config == config && pool.circumstances == circumstances) {
            Some(pool) => pool.members.push(member),
            None => pools.push(Pool { config, circumstances, members: vec![member] }),
        }
    }
    pools
}

fn record<'a>(cells: &[&'a Cell], member: Member) -> Option<&'a Record> {
    Some(cells[member.index].success()?.0)
}

/// The median of `value` over the undoubted members of `pool` except `this`; `None` if too few of them have one.
fn baseline(
    pool: &Pool,
    this: Member,
    cells: &[&Cell],
    value: impl Fn(&Record) -> Option<f64>,
) -> Option<f64> {
    let others = pool.members.iter().filter(|other| other.is_sound && other.index != this.index);
    let values: Vec<f64> = others.filter_map(|other| value(record(cells, *other)?)).collect();
    if values.len() < BASELINE_NEEDS { None } else { stats::median(&values).ok() }
}

/// A trace that the work of others leaves in a run. It only shows in comparison with the other runs of the row.
struct Trace {
    /// The trace in a run; `None` if it is unknown.
    of: fn(&Record) -> Option<f64>,
    /// The tolerated trace in a run on the same host, given the median of the others.
    limit: fn(f64, &Record, &Thresholds) -> f64,
    /// A sentence with the value of the run, that of the others, and the limit.
    tell: fn(f64, f64, f64) -> String,
}

/// The most telling trace comes first.
const TRACES: [Trace; 3] = [
    Trace {
        of: foreign_cores,
        limit: |others, _, thresholds| others + thresholds.of(Threshold::ForeignAbove),
        tell: |own, others, limit| {
            format!(
                "other processes kept {own:.3} processors busy; in the other runs of the row it was {others:.3} \
                 (threshold {limit:.3})"
            )
        },
    },
    Trace {
        of: switches_per_s,
        limit: |others, record, thresholds| {
            thresholds.switches_limit(others, record.provenance.host.cpu.usable)
        },
        tell: |own, others, limit| {
            format!(
                "{own:.0} involuntary context switches per second; in the other runs of the row it was {others:.0} \
                 (threshold {limit:.0})"
            )
        },
    },
    Trace {
        of: |record| Some(system_share(record)?.1),
        limit: |others, _, thresholds| others + thresholds.of(Threshold::SystemShare),
        tell: |own, others, limit| {
            let [own, others, limit] = [own, others, limit].map(|share| 100.0 * share);
            format!(
                "{own:.0} % of its processor time went to the system; in the other runs of the row it was \
                 {others:.0} % (threshold {limit:.0} %)"
            )
        },
    },
];

/// Involuntary context switches per second.
fn switches_per_s(record: &Record) -> Option<f64> {
    let switches = record.process.as_ref()?.involuntary_switches? as f64;
    let wall = record.wall_s();
    (wall >= LEAST_S).then_some(switches / wall)
}

/// Processor seconds, and the share of them that was spent in the kernel.
fn system_share(record: &Record) -> Option<(f64, f64)> {
    let process = record.process.as_ref()?;
    let (user, system) = (process.user_s?, process.system_s?);
    (user + system >= LEAST_S).then(|| (user + system, system / (user + system)))
}

fn contended(pool: &Pool, cells: &[&Cell], thresholds: &Thresholds) -> Found {
    let check = |member: &Member| {
        let record = record(cells, *member).filter(|_| member.is_sound)?;
        let by = TRACES.iter().find_map(|trace| trace.against(record, pool, *member, cells, thresholds))?;
        Some((member.index, Mark::Contended { by }))
    };
    pool.members.iter().filter_map(check).collect()
}

impl Trace {
    /// The doubt that this trace raises about the run `member` with the record `record`.
    fn against(
        &self,
        record: &Record,
        pool: &Pool,
        member: Member,
        cells: &[&Cell],
        thresholds: &Thresholds,
    ) -> Option<String> {
        // Jobs that may run beside this one (`share: device`) leave traces too, which cannot be separated.
        let of = |record: &Record| (self.of)(record).filter(|_| record.observed.beside.is_empty());
        let own = of(record)?;
        let others = baseline(pool, member, cells, of)?;
        let limit = (self.limit)(others, record, thresholds);
        (own > limit).then(|| (self.tell)(own, others, limit))
    }
}

/// Runs whose clock within the window differed from that of the others.
fn clock_changed(pool: &Pool, cells: &[&Cell], thresholds: &Thresholds) -> Found {
    let mean = |record: &Record| {
        let (_, Readings { mean, .. }) = sensors::clock(record)?;
        (mean > 0.0).then_some(mean)
    };
    let check = |member: &Member| {
        let record = record(cells, *member)?;
        let (of, _) = sensors::clock(record)?;
        let (own, others) = (mean(record)?, baseline(pool, *member, cells, mean)?);
        let change = own / others - 1.0;
        (change.abs() > thresholds.of(Threshold::ClockBetween)).then(|| {
            let (percent, threshold) = (100.0 * change, thresholds.text(Threshold::ClockBetween));
            let by = format!(
                "the {of}'s clock was {own:.0} MHz; in the other runs of the row it was {others:.0} MHz \
                 ({percent:+.0} %, threshold {threshold})"
            );
            (member.index, Mark::ClockChanged { by })
        })
    };
    pool.members.iter().filter_map(check).collect()
}

/// Runs on an accelerator whose throughput fell off a cliff compared with the next smaller batch that did not. They
/// also kept a processor busy and spent half its time in the kernel. That is the sign of a driver that pages device
/// memory to the host. A network that is slow for another reason does not do that.
fn spilled(mut pools: Vec<Pool>, cells: &[&Cell], thresholds: &Thresholds) -> Found {
    pools.retain(|pool| pool.config.device != Device::Cpu);
    pools.sort_by_key(|pool| pool.config.batch);
    let mut found = Found::new();
    for position in 0..pools.len() {
        let (smaller, rest) = pools.split_at_mut(position);
        let Some(pool) = rest.first_mut() else { break };
        let level = smaller.iter().rev().filter(|other| is_smaller(other, pool)).find_map(|other| {
            let sound = other.members.iter().filter(|member| member.is_sound);
            let rates: Vec<f64> = sound.filter_map(|member| rate(cells[member.index])).collect();
            Some((other.config.batch, stats::median(&rates).ok()?))
        });
        let Some((batch, level)) = level else { continue };
        for member in &mut pool.members {
            if let Some(mark) = spill(cells[member.index], batch, level, thresholds) {
                member.is_sound = false;
                found.push((member.index, mark));
            }
        }
    }
    found
}

/// Whether `other` is equal to `pool` except for a smaller batch.
fn is_smaller(other: &Pool, pool: &Pool) -> bool {
    other.config.batch < pool.config.batch
        && Key { batch: pool.config.batch, ..other.config.clone() } == pool.config
        && other.circumstances.differ_at_most_in_batch(&pool.circumstances)
}

fn rate(cell: &Cell) -> Option<f64> {
    let (_, measurement) = cell.success()?;
    measurement.synchronized.then(|| measurement.samples_per_s())
}

/// The mark of a run whose config reaches `level` images per second at `batch`, if it spilled.
fn spill(cell: &Cell, batch: u32, level: f64, thresholds: &Thresholds) -> Option<Mark> {
    let (record, _) = cell.success()?;
    let cliff = level / rate(cell)?;
    let (busy_s, system_share) = system_share(record)?;
    let cores = busy_s / record.wall_s();
    let threshold = thresholds.of(Threshold::SpillCliff);
    let is_paging = system_share >= thresholds.of(Threshold::SpillSystemShare)
        && cores >= thresholds.of(Threshold::SpillCores);
    (cliff > threshold && is_paging).then_some(Mark::Spilled { batch, cliff, cores, system_share, threshold })
}
