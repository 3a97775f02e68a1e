//! Marks from the comparison of a run with others: those of the same config and circumstances, and those at smaller
//! batches.
//!
//! A run is compared with sound runs, which have no disqualifying mark. With fewer than two of them, runs that other
//! work disturbed are used too. The value is then chosen so that their disturbance cannot mark another run.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Mark, Threshold, Thresholds, sensors};
use crate::analysis::Cell;
use crate::analysis::circumstances::Circumstances;
use crate::analysis::claim::{Compared, Limit, Relation, Sentence};
use crate::analysis::foreign::{LEAST_S, foreign_cores};
use crate::job::{ConfigOf, Device, Key};
use crate::record::{Readings, Record};
use crate::stats;

/// The least number of other runs in a baseline. Together with the judged run they are three; of two, the odd one
/// cannot be identified.
const BASELINE_NEEDS: usize = 2;

/// Successful timing runs that can be pooled.
struct Pool<'a> {
    /// The key of one of them.
    key: &'a Key,
    circumstances: Circumstances,
    /// Their indexes among the cells.
    members: Vec<usize>,
}

/// The cells, and which of them can be in a baseline.
struct Scene<'a, 'c> {
    cells: &'c [&'a Cell],
    /// Whether each has no disqualifying mark.
    is_sound: Vec<bool>,
    /// Whether the disqualifying marks of each are all `contended`.
    is_disturbed: Vec<bool>,
    thresholds: &'c Thresholds,
}

/// A mark for the cell at this index.
type Found = Vec<(usize, Mark)>;

/// Marks of `cells` by comparison with other runs, given the marks from their `own` records.
pub(super) fn marks(cells: &[&Cell], own: &[Vec<Mark>], thresholds: &Thresholds) -> Found {
    let is_sound = own.iter().map(|marks| !marks.iter().any(Mark::disqualifies)).collect();
    let is_disturbed = own.iter().map(|marks| is_only_disturbed(marks)).collect();
    let mut scene = Scene { cells, is_sound, is_disturbed, thresholds };
    let pools = pools(cells);
    let mut found = Found::new();
    for pool in &pools {
        found.extend(contended(pool, &scene));
        found.extend(clock_changed(pool, &scene));
    }
    for (index, mark) in &found {
        scene.is_sound[*index] &= !mark.disqualifies();
    }
    found.extend(spilled(pools, &mut scene));
    found
}

/// Whether a run with these marks is left out only because of other work. The effect of heat, sleep or paging on a
/// trace or a clock is unknown.
fn is_only_disturbed(marks: &[Mark]) -> bool {
    let mut reasons = marks.iter().filter(|mark| mark.disqualifies()).peekable();
    reasons.peek().is_some() && reasons.all(|mark| matches!(mark, Mark::Contended { .. }))
}

/// The pools of `cells`. A config has few circumstances, so a run is compared with the pools of its config one by one.
fn pools<'a>(cells: &[&'a Cell]) -> Vec<Pool<'a>> {
    let mut pools: Vec<Pool<'_>> = Vec::new();
    let mut by_config: HashMap<ConfigOf<'_>, Vec<usize>> = HashMap::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_timing()) {
        let Some((record, measurement)) = cell.success() else { continue };
        let key = cell.job.key();
        let places = by_config.entry(ConfigOf::new(key)).or_default();
        match places.iter().find(|place| pools[**place].circumstances.are_of(record, measurement)) {
            Some(place) => pools[*place].members.push(index),
            None => {
                places.push(pools.len());
                let circumstances = Circumstances::of(record, measurement);
                pools.push(Pool { key, circumstances, members: vec![index] });
            }
        }
    }
    pools
}

impl<'a> Scene<'a, '_> {
    fn record(&self, index: usize) -> Option<&'a Record> {
        Some(self.cells[index].success()?.0)
    }

    /// The sound members of `pool`.
    fn sound(&self, pool: &Pool<'_>) -> impl Iterator<Item = usize> {
        pool.members.iter().copied().filter(|index| self.is_sound[*index])
    }
}

/// A value of each member of a pool that can be in a baseline.
struct Baseline {
    /// Those of sound members. Sorted by value, then by the member's index.
    sound: Vec<(f64, usize)>,
    /// Those of disturbed members.
    disturbed: Vec<(f64, usize)>,
    /// The rule for a run with too few sound others.
    among_few: Choice,
}

/// Chooses one of a few values, some of which may be those of disturbed runs.
#[derive(Clone, Copy)]
enum Choice {
    /// The least. Other work only adds to a trace, so a disturbed run cannot make it too small.
    Least,
    /// The nearest to the value of the run. A run that differs from it differs from all.
    Nearest,
}

/// The reference value of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    value: f64,
    /// The runs that it is from, as in a sentence.
    source: &'static str,
}

impl Choice {
    fn of(self, own: f64, few: &[f64]) -> Option<Level> {
        let distance = |value: f64| match self {
            Choice::Least => value,
            Choice::Nearest => (value - own).abs(),
        };
        let source = match self {
            Choice::Least => "the least disturbed other run of the row",
            Choice::Nearest => "the nearest other run of the row",
        };
        let nearer = |one: &f64, other: &f64| distance(*one).total_cmp(&distance(*other));
        few.iter().copied().min_by(nearer).map(|value| Level { value, source })
    }
}

impl Baseline {
    /// Of the members with a known `value`.
    fn of(
        pool: &Pool<'_>,
        scene: &Scene<'_, '_>,
        among_few: Choice,
        value: impl Fn(&Record) -> Option<f64>,
    ) -> Self {
        let known = |index: usize| Some((value(scene.record(index)?)?, index));
        let mut sound: Vec<(f64, usize)> = scene.sound(pool).filter_map(known).collect();
        sound.sort_by(in_order);
        let disturbed = pool.members.iter().copied().filter(|index| scene.is_disturbed[*index]);
        Baseline { sound, disturbed: disturbed.filter_map(known).collect(), among_few }
    }

    /// The median over all sound members except `index`, whose value is `own`. With too few of them, one value of sound
    /// or disturbed members. `None` if these are too few as well.
    fn without(&self, own: f64, index: usize) -> Option<Level> {
        let place = self.sound.binary_search_by(|value| in_order(value, &(own, index)));
        let others = self.sound.len() - usize::from(place.is_ok());
        if others < BASELINE_NEEDS {
            let all = self.sound.iter().chain(&self.disturbed);
            let few: Vec<f64> = all.filter(|(_, other)| *other != index).map(|(value, _)| *value).collect();
            return if few.len() < BASELINE_NEEDS { None } else { self.among_few.of(own, &few) };
        }
        let nth = |nth: usize| self.sound[nth + usize::from(place.is_ok_and(|own| own <= nth))].0;
        let middle = others / 2;
        let value = if others % 2 == 1 { nth(middle) } else { f64::midpoint(nth(middle - 1), nth(middle)) };
        Some(Level { value, source: "the other runs of the row" })
    }
}

fn in_order(one: &(f64, usize), other: &(f64, usize)) -> Ordering {
    one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
}

/// A trace of other work in a run. It is only visible in comparison with the other runs of the row.
struct Trace {
    /// The trace in a run; `None` if it is unknown.
    of: fn(&Record) -> Option<f64>,
    /// The tolerated trace in a run on the same host, given that of the others.
    limit: fn(f64, &Record, &Thresholds) -> f64,
    /// A sentence with the value of the run, the reference value, and the limit.
    sentence: fn(f64, Level, f64) -> Sentence,
}

/// The most specific trace comes first.
const TRACES: [Trace; 4] = [
    Trace {
        of: foreign_cores,
        limit: |others, record, thresholds| {
            others + thresholds.of(Threshold::ForeignAbove) + record.provenance.host.room_beside()
        },
        sentence: |own, Level { value, source }, limit| {
            let own = Compared::new(own, Relation::Above, Limit::printed(limit, 3), 3);
            let text = format!(
                "other processes kept {} processors busy; in {source} it was {value:.3} (threshold {})",
                own.number(),
                own.limit()
            );
            Sentence::new(text, [own])
        },
    },
    Trace { of: switches_of_window, limit: switches_limit, sentence: switches_sentence },
    Trace { of: switches_of_life, limit: switches_limit, sentence: switches_sentence },
    Trace {
        of: |record| Some(system_share(record)?.1),
        limit: |others, _, thresholds| others + thresholds.of(Threshold::SystemShare),
        sentence: |own, Level { value, source }, limit| {
            let own = Compared::new(100.0 * own, Relation::Above, Limit::printed(100.0 * limit, 0), 0);
            let text = format!(
                "{} % of its processor time went to the system; in {source} it was {:.0} % (threshold {} %)",
                own.number(),
                100.0 * value,
                own.limit()
            );
            Sentence::new(text, [own])
        },
    },
];

/// The least seconds of a window in which switches are counted. At the least limit, 100 per second, that is ten.
const LEAST_WINDOW_S: f64 = 0.1;

/// Involuntary context switches per second of the window, if the worker counts them.
fn switches_of_window(record: &Record) -> Option<f64> {
    let measurement = record.measurement.as_ref()?;
    let (switches, seconds) = (measurement.details.involuntary_switches?, measurement.elapsed_s);
    (seconds >= LEAST_WINDOW_S).then_some(switches as f64 / seconds)
}

/// Involuntary context switches per second of the whole life of a worker that does not count those of its window. They
/// include the compilation of its network, possibly with more processes than processors. So the two numbers are never
/// compared with each other, even if a worker was updated between two repeats.
fn switches_of_life(record: &Record) -> Option<f64> {
    if record.measurement.as_ref()?.details.involuntary_switches.is_some() {
        return None;
    }
    let (switches, seconds) = (record.process.as_ref()?.involuntary_switches?, record.wall_s());
    (seconds >= LEAST_S).then_some(switches as f64 / seconds)
}

fn switches_limit(others: f64, record: &Record, thresholds: &Thresholds) -> f64 {
    thresholds.switches_limit(others, record.provenance.host.cpu.usable)
}

fn switches_sentence(own: f64, Level { value, source }: Level, limit: f64) -> Sentence {
    let own = Compared::new(own, Relation::Above, Limit::printed(limit, 0), 0);
    let text = format!(
        "{} involuntary context switches per second; in {source} it was {value:.0} (threshold {})",
        own.number(),
        own.limit()
    );
    Sentence::new(text, [own])
}

/// Processor seconds, and the share of them in the kernel.
fn system_share(record: &Record) -> Option<(f64, f64)> {
    let process = record.process.as_ref()?;
    let (user, system) = (process.user_s?, process.system_s?);
    (user + system >= LEAST_S).then(|| (user + system, system / (user + system)))
}

fn contended(pool: &Pool<'_>, scene: &Scene<'_, '_>) -> Found {
    let baselines =
        TRACES.each_ref().map(|trace| Baseline::of(pool, scene, Choice::Least, |record| trace.seen(record)));
    let check = |index: usize| {
        let record = scene.record(index)?;
        let mut traces = TRACES.iter().zip(&baselines);
        let by = traces.find_map(|(trace, baseline)| {
            let own = trace.seen(record)?;
            let others = baseline.without(own, index)?;
            let limit = (trace.limit)(others.value, record, scene.thresholds);
            (own > limit).then(|| (trace.sentence)(own, others, limit))
        })?;
        Some((index, Mark::Contended { by }))
    };
    scene.sound(pool).filter_map(check).collect()
}

impl Trace {
    /// The trace in the run of `record`. Jobs that may run beside it (`share: device`) leave traces too, which cannot
    /// be separated.
    fn seen(&self, record: &Record) -> Option<f64> {
        (self.of)(record).filter(|_| record.observed.beside.is_empty())
    }
}

/// Runs whose mean clock within the window differed from that of the others.
fn clock_changed(pool: &Pool<'_>, scene: &Scene<'_, '_>) -> Found {
    let mean = |record: &Record| {
        let (_, Readings { mean, .. }) = sensors::clock(record)?;
        (mean > 0.0).then_some(mean)
    };
    let baseline = Baseline::of(pool, scene, Choice::Nearest, mean);
    let check = |index: &usize| {
        let record = scene.record(*index)?;
        let (of, _) = sensors::clock(record)?;
        let own = mean(record)?;
        let level = baseline.without(own, *index)?;
        let threshold = scene.thresholds.of(Threshold::ClockBetween);
        ((own / level.value - 1.0).abs() > threshold)
            .then(|| (*index, Mark::ClockChanged { by: clock_sentence(of, own, level, threshold) }))
    };
    pool.members.iter().filter_map(check).collect()
}

fn clock_sentence(of: &str, own: f64, Level { value, source }: Level, threshold: f64) -> Sentence {
    let change = own / value - 1.0;
    let (sign, relation) = if change > 0.0 { ('+', Relation::Above) } else { ('-', Relation::Below) };
    let size = Compared::passed(Threshold::ClockBetween, change.abs(), threshold, 0);
    let own = Compared::new(own, relation, Limit::printed(value, 0), 0);
    let text = format!(
        "the {of}'s clock was {} MHz; in {source} it was {} MHz ({sign}{} %, threshold {})",
        own.number(),
        own.limit(),
        size.number(),
        size.limit()
    );
    Sentence::new(text, [size, own])
}

/// Runs on an accelerator whose throughput dropped sharply compared with the next smaller batch that did not spill.
/// They also kept a processor busy and spent half its time in the kernel, which is the sign of a driver that pages
/// device memory to the host.
fn spilled(mut pools: Vec<Pool<'_>>, scene: &mut Scene<'_, '_>) -> Found {
    pools.retain(|pool| pool.key.device != Device::Cpu);
    pools.sort_by_key(|pool| pool.key.batch);
    let mut found = Found::new();
    let mut by_config: HashMap<ConfigOf<'_>, Vec<Levels>> = HashMap::new();
    for pool in &pools {
        let levels = by_config.entry(ConfigOf::of_any_batch(pool.key)).or_default();
        let levels = Levels::among(levels, pool.circumstances.of_any_batch());
        if let Some((batch, level)) = levels.below(pool.key.batch) {
            for index in &pool.members {
                if let Some(mark) = spill(scene.cells[*index], batch, level, scene.thresholds) {
                    scene.is_sound[*index] = false;
                    found.push((*index, mark));
                }
            }
        }
        let rates: Vec<f64> = scene.sound(pool).filter_map(|index| rate(scene.cells[index])).collect();
        levels.add(pool.key.batch, stats::median(&rates).ok());
    }
    found
}

/// The throughput of pools that differ at most in the batch, added in the order of their batches.
struct Levels {
    /// Their common circumstances.
    circumstances: Circumstances,
    /// The largest batch so far.
    batch: u32,
    /// The last throughput, with its batch, among the smaller batches.
    below: Option<(u32, f64)>,
    /// The last throughput of the largest batch.
    level: Option<f64>,
}

impl Levels {
    /// The entry of `all` with these circumstances; added if there is none. A config has few.
    fn among(all: &mut Vec<Levels>, circumstances: Circumstances) -> &mut Levels {
        let known = all.iter().position(|levels| levels.circumstances == circumstances);
        let place = known.unwrap_or_else(|| {
            all.push(Levels { circumstances, batch: 0, below: None, level: None });
            all.len() - 1
        });
        &mut all[place]
    }

    /// The throughput of the next smaller batch than `batch` that has one.
    fn below(&mut self, batch: u32) -> Option<(u32, f64)> {
        if batch > self.batch {
            let last = self.level.take().map(|level| (self.batch, level));
            self.below = last.or(self.below);
            self.batch = batch;
        }
        self.below
    }

    fn add(&mut self, batch: u32, level: Option<f64>) {
        debug_assert_eq!(batch, self.batch, "`below` came first");
        self.level = level.or(self.level);
    }
}

fn rate(cell: &Cell) -> Option<f64> {
    let (_, measurement) = cell.success()?;
    measurement.synchronized.then(|| measurement.samples_per_s())
}

/// The mark of a run whose config reaches `level` samples per second at `batch`, if it spilled.
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

#[cfg(test)]
#[path = "pools_tests.rs"]
mod tests;
