//! Blocks that were slower or faster than the other blocks of their machine, in all rows alike: something slowed the
//! machine for a while. It changes no statistic: a row's interval holds the scatter of its blocks, and a comparison
//! pairs by block.
//!
//! - **The number** is the distance of a block from the mean of the others, by least squares on the logs of throughput:
//!   log = row + block + scatter ([`stats::block_effects`]).
//! - **Chance** is held by Bonferroni's intervals over the blocks: in at most 5 % of machines is any block told that
//!   does not differ. `docs/statistics.md` says how often that was in simulations.
//! - **One at a time:** the block that stands out most is taken out, and the rest is judged again. Otherwise a slow
//!   block would make all others seem fast.
//! - **Throughout:** in three quarters of its rows, the run of the block must lie on that side of the row's other runs.
//!   So a single slow run is no slow block.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Run;
use super::blocks::blocks;
use super::group::Row;
use super::marks::{Threshold, Thresholds};
use crate::record::Record;
use crate::stats::{self, CONFIDENCE, Cell, Estimate, Interval};

/// The fewest rows of a block that say anything about a machine.
const LEAST_ROWS: usize = 3;

/// The fewest blocks. Of two that differ, nobody can tell which stands out.
const LEAST_BLOCKS: usize = 3;

/// The most blocks that hang together. The time grows with their fourth power.
const MOST_BLOCKS: usize = 100;

/// The share of the rows that must show the same.
const THROUGHOUT: f64 = 0.75;

/// Logs scatter by more than this, unless the numbers do not come from a clock.
const LEAST_ERROR: f64 = 1e-9;

/// A block that differs from others of its machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftedBlock {
    /// The host's name.
    pub host: String,
    /// The repeat of its runs.
    pub repeat: u32,
    /// When its first run started.
    pub started_at: DateTime<Utc>,
    /// When its last run ended.
    pub ended_at: DateTime<Utc>,
    /// How far it lies from the others.
    pub shift: Shift,
}

/// How far a block lies from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The number of the block.
    pub block: usize,
    /// How many blocks it was compared with.
    pub others: usize,
    /// How many rows have a run in it.
    pub rows: usize,
    /// In how many of them that run lies on the same side of the row's other runs.
    pub agree: usize,
    /// Its throughput ÷ that of the others − 1: −0.04 is 4 % slower.
    pub change: f64,
    /// The interval of the change. It is wide enough for all blocks together to have 95 %.
    pub interval: Interval,
}

/// The blocks of `rows` that differ from others by more than the threshold, by time. Runs that are left out do not
/// matter.
pub fn shifted_blocks(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<ShiftedBlock> {
    let runs: Vec<(usize, &Record, f64)> = rows
        .iter()
        .enumerate()
        .flat_map(|(row, it)| counted(it).map(move |(record, log)| (row, record, log)))
        .collect();
    let records: Vec<&Record> = runs.iter().map(|(_, record, _)| *record).collect();
    let blocks = blocks(&records);
    let cells: Vec<Cell> = runs
        .iter()
        .zip(&blocks)
        .map(|((row, _, value), &block)| Cell { row: *row, block, value: *value })
        .collect();
    let placed = |shift: Shift| {
        let own = || {
            records.iter().zip(&blocks).filter(|(_, block)| **block == shift.block).map(|(record, _)| *record)
        };
        let first = own().min_by_key(|record| record.started_at)?;
        Some(ShiftedBlock {
            host: first.provenance.host.hostname.clone(),
            repeat: first.key.repeat,
            started_at: first.started_at,
            ended_at: own().map(|record| record.ended_at).max()?,
            shift,
        })
    };
    let mut found: Vec<ShiftedBlock> =
        shifts(cells, thresholds.of(Threshold::BlockShift)).into_iter().filter_map(placed).collect();
    found.sort_by_key(|block| (block.started_at, block.shift.block));
    found
}

/// The runs of `row` that count, each with the log of its throughput.
fn counted<'a>(row: &'a Row<'_>) -> impl Iterator<Item = (&'a Record, f64)> {
    let runs = row.runs.iter().filter(|run| run.counts());
    runs.filter_map(|run: &Run<'_>| Some((run.cell.success()?.0, run.samples_per_s()?.ln())))
}

/// The blocks of `cells` that differ from others by more than the share `threshold`.
pub(super) fn shifts(cells: Vec<Cell>, threshold: f64) -> Vec<Shift> {
    let mut found = Vec::new();
    let mut left = vec![cells];
    while let Some(cells) = left.pop() {
        for part in connected(comparable(cells)) {
            if let Some(shift) = furthest(&part, threshold) {
                left.push(part.into_iter().filter(|cell| cell.block != shift.block).collect());
                found.push(shift);
            }
        }
    }
    found
}

/// The cells of blocks with enough rows, and of rows in several such blocks.
fn comparable(mut cells: Vec<Cell>) -> Vec<Cell> {
    loop {
        let (rows, blocks) = (numbers(&cells, |cell| cell.row), numbers(&cells, |cell| cell.block));
        let before = cells.len();
        cells.retain(|cell| rows[&cell.row] > 1 && blocks[&cell.block] >= LEAST_ROWS);
        if cells.len() == before {
            return cells;
        }
    }
}

/// How many of `cells` there are of each kind.
fn numbers(cells: &[Cell], kind: fn(&Cell) -> usize) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    for cell in cells {
        *found.entry(kind(cell)).or_default() += 1;
    }
    found
}

/// The parts that share no row: different machines, or runs of different times.
fn connected(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
    let mut joined: BTreeMap<usize, usize> = cells.iter().map(|cell| (cell.block, cell.block)).collect();
    let mut first_of_row: BTreeMap<usize, usize> = BTreeMap::new();
    for cell in &cells {
        let first = *first_of_row.entry(cell.row).or_insert(cell.block);
        let [one, two] = [first, cell.block].map(|block| least(&joined, block));
        joined.insert(one.max(two), one.min(two));
    }
    let mut parts: BTreeMap<usize, Vec<Cell>> = BTreeMap::new();
    for cell in cells {
        parts.entry(least(&joined, cell.block)).or_default().push(cell);
    }
    parts.into_values().collect()
}

/// The least number of the blocks that `block` is joined with.
fn least(joined: &BTreeMap<usize, usize>, block: usize) -> usize {
    std::iter::successors(Some(block), |at| Some(joined[at]).filter(|next| next != at))
        .last()
        .unwrap_or(block)
}

/// The block that stands out most, if one does. The blocks of `cells` hang together.
fn furthest(cells: &[Cell], threshold: f64) -> Option<Shift> {
    let blocks: BTreeMap<usize, usize> = numbers(cells, |cell| cell.block).into_keys().zip(0..).collect();
    if !(LEAST_BLOCKS..=MOST_BLOCKS).contains(&blocks.len()) {
        return None;
    }
    let numbered: Vec<Cell> = cells.iter().map(|cell| Cell { block: blocks[&cell.block], ..*cell }).collect();
    let effects = stats::block_effects(&numbered).ok()?;
    let others = blocks.len() - 1;
    // The effects are distances from the mean of all blocks, and the block itself is one of them.
    let scale = blocks.len() as f64 / others as f64;
    let from_others = |effect: Estimate| Estimate {
        value: scale * effect.value,
        standard_error: scale * effect.standard_error,
        ..effect
    };
    let told = blocks.keys().zip(effects.into_iter().map(from_others));
    told.filter(|(_, effect)| effect.standard_error > LEAST_ERROR)
        .map(|(block, effect)| (effect.value / effect.standard_error, shift(*block, effect, others, cells)))
        .filter(|(_, shift)| shift.change.abs() > threshold && shift.stands_out())
        // Of two that stand out alike, the slower one.
        .max_by(|(one, _), (two, _)| one.abs().total_cmp(&two.abs()).then(two.total_cmp(one)))
        .map(|(_, shift)| shift)
}

fn shift(block: usize, effect: Estimate, others: usize, cells: &[Cell]) -> Shift {
    let logs = effect.interval(1.0 - (1.0 - CONFIDENCE) / (others + 1) as f64);
    let moved: Vec<f64> = moved(block, cells);
    Shift {
        block,
        others,
        rows: moved.len(),
        agree: moved.iter().filter(|by| by.signum() == effect.value.signum() && **by != 0.0).count(),
        change: effect.value.exp_m1(),
        interval: Interval { low: logs.low.exp_m1(), high: logs.high.exp_m1(), coverage: CONFIDENCE },
    }
}

/// How far the number of each row in `block` lies from the mean of the row's other numbers.
fn moved(block: usize, cells: &[Cell]) -> Vec<f64> {
    let mut rows: BTreeMap<usize, [Vec<f64>; 2]> = BTreeMap::new();
    for cell in cells {
        rows.entry(cell.row).or_default()[usize::from(cell.block == block)].push(cell.value);
    }
    rows.values()
        .filter_map(|[others, own]| Some(stats::mean(own).ok()? - stats::mean(others).ok()?))
        .collect()
}

impl Shift {
    /// Whether it is more than chance, and not the work of a few rows.
    fn stands_out(&self) -> bool {
        let excludes_none = self.interval.low > 0.0 || self.interval.high < 0.0;
        excludes_none && self.agree as f64 >= THROUGHOUT * self.rows as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{HOST, StudyBuilder};

    /// A little scatter, different in each cell.
    fn scatter(row: usize, block: usize) -> f64 {
        [0.004, -0.003, 0.001, -0.002, 0.003, -0.004, 0.002][(3 * row + 5 * block) % 7]
    }

    /// Logs of `rows` rows in as many blocks as there are shifts.
    fn cells(rows: usize, shifts: &[f64]) -> Vec<Cell> {
        let cell = |row, block| Cell { row, block, value: row as f64 + shifts[block] + scatter(row, block) };
        (0..rows).flat_map(|row| (0..shifts.len()).map(move |block| cell(row, block))).collect()
    }

    fn found(cells: Vec<Cell>) -> Vec<usize> {
        shifts(cells, 0.01).iter().map(|shift| shift.block).collect()
    }

    #[test]
    fn a_slow_block_is_told_and_the_others_are_not_called_fast() {
        let all = shifts(cells(6, &[0.0, 0.0, -0.04, 0.0, 0.0]), 0.01);
        let [shift] = all[..] else { panic!("{all:?}") };
        assert_eq!((shift.block, shift.others, shift.rows, shift.agree), (2, 4, 6, 6));
        assert!((shift.change - (-0.04f64).exp_m1()).abs() < 0.003, "{shift:?}");
        assert!(
            shift.interval.low < shift.change
                && shift.change < shift.interval.high
                && shift.interval.high < 0.0
        );
        assert_eq!(found(cells(6, &[0.0, 0.0, -0.04, 0.0, 0.03])), [2, 4]);
        assert_eq!(found(cells(6, &[0.0; 5])), [0; 0]);
    }

    #[test]
    fn what_is_certain_but_small_is_not_told() {
        let small = cells(40, &[0.0, 0.0, -0.006, 0.0, 0.0]);
        assert_eq!(found(small.clone()), [0; 0]);
        assert_eq!(shifts(small, 0.0).iter().map(|shift| shift.block).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn one_slow_run_is_no_slow_block() {
        let mut one = cells(12, &[0.0; 20]);
        one[7].value -= 0.5;
        assert_eq!(found(one), [0; 0]);
    }

    #[test]
    fn two_blocks_and_two_rows_tell_nothing() {
        assert_eq!(found(cells(12, &[0.0, -0.1])), [0; 0]);
        assert_eq!(found(cells(2, &[0.0, 0.0, -0.1, 0.0])), [0; 0]);
        assert_eq!(found(cells(3, &[0.0, 0.0, -0.1, 0.0])), [2]);
    }

    /// Runs without any scatter come from a counter or a mistake, not from a clock.
    #[test]
    fn no_scatter_tells_nothing() {
        let bare = cells(6, &[0.0; 4]).into_iter();
        let bare = bare.map(|cell| Cell { value: if cell.block == 1 { 1.0 } else { 2.0 }, ..cell });
        assert_eq!(found(bare.collect()), [0; 0]);
    }

    /// What ran at other times, or on another machine, shares no row.
    #[test]
    fn blocks_without_a_row_in_common_are_judged_apart() {
        let early = cells(4, &[0.0, -0.05, 0.0, 0.0]);
        let late = cells(4, &[0.0, 0.0, 0.0, -0.05]).into_iter();
        let late =
            late.map(|cell| Cell { row: cell.row + 4, block: cell.block + 4, value: cell.value + 3.0 });
        let mut blocks = found(early.into_iter().chain(late).collect());
        blocks.sort_unstable();
        assert_eq!(blocks, [1, 7]);
    }

    #[test]
    fn a_shifted_block_is_known_by_its_repeat_and_its_time() {
        let block = |builder: StudyBuilder, repeat: u32| {
            let slow = if repeat == 2 { 0.95 } else { 1.0 };
            let rate = |row: usize| 10.0 * slow * scatter(row, repeat as usize).exp();
            let rates =
                [("alexnet", rate(0)), ("resnet18", rate(1)), ("resnet50", rate(2)), ("vgg16", rate(3))];
            builder.block(repeat, &rates)
        };
        let study = (1..=4).fold(StudyBuilder::new(), block).build();
        let told = shifted_blocks(&analyse(&study).rows, &study.thresholds);
        let [one] = &told[..] else { panic!("{told:?}") };
        assert_eq!((one.host.as_str(), one.repeat, one.shift.rows), (HOST, 2, 4));
        let runs =
            study.cells.iter().filter_map(|cell| cell.record()).filter(|record| record.key.repeat == 2);
        let times: Vec<_> = runs.map(|record| (record.started_at, record.ended_at)).collect();
        assert_eq!((one.started_at, one.ended_at), (times[0].0, times[3].1));
    }
}
