//! Blocks that were slower or faster than the other blocks of their machine across rows, for example because the
//! machine was throttled for a while. [`shifted_blocks`] returns them for the findings; no statistic changes.
//!
//! - **The number** is the distance of a block from the mean of the others, by least squares on the logs of throughput:
//!   log = row + block + scatter ([`stats::block_effects`]).
//! - **Chance:** Bonferroni's intervals over the blocks. In at most 5 % of machines, a block that does not differ is
//!   reported. `docs/statistics.md` has the rates in simulations.
//! - **One block at a time:** the most significant block is removed, and the rest is judged again. Otherwise a slow
//!   block would make all others seem fast.
//! - **Agreement:** in three quarters of its rows, the run of the block must be on the same side of the row's other
//!   runs. So a single slow run does not make a slow block.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Run;
use super::blocks::blocks;
use super::group::Row;
use super::marks::{Threshold, Thresholds};
use crate::record::Record;
use crate::stats::{self, CONFIDENCE, Cell, Estimate, Interval};

/// The fewest rows of a block that is judged.
const LEAST_ROWS: usize = 3;

/// The fewest blocks. If two differ, either could be the shifted one.
const LEAST_BLOCKS: usize = 3;

/// The most blocks that are connected by common rows. The time grows with the fourth power of their number.
const MOST_BLOCKS: usize = 100;

/// The least share of a block's rows that must be shifted in the same direction.
const LEAST_AGREEING: f64 = 0.75;

/// The least standard error of an effect. Measured throughputs scatter more than this.
const LEAST_ERROR: f64 = 1e-9;

/// A block that differs from the others of its machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftedBlock {
    /// The name of the host.
    pub host: String,
    /// The repeat of its runs.
    pub repeat: u32,
    /// The start of its first run.
    pub started_at: DateTime<Utc>,
    /// The end of its last run.
    pub ended_at: DateTime<Utc>,
    /// The distance from the other blocks.
    pub shift: Shift,
}

/// The distance of a block from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The number of the block.
    pub block: usize,
    /// The number of blocks that it was compared with.
    pub others: usize,
    /// The number of rows with a run in the block.
    pub rows: usize,
    /// The number of these rows whose run is shifted in the direction of the block.
    pub agree: usize,
    /// Its throughput ÷ that of the others − 1: −0.04 is 4 % slower.
    pub change: f64,
    /// The interval of the change, at 95 % for all blocks together.
    pub interval: Interval,
}

/// The blocks of `rows` that differ from others by more than the threshold, sorted by time. Only runs that count are
/// used.
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

/// The cells in blocks with enough rows, and in rows with several such blocks.
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

/// The number of `cells` per row or per block, by `kind`.
fn numbers(cells: &[Cell], kind: fn(&Cell) -> usize) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    for cell in cells {
        *found.entry(kind(cell)).or_default() += 1;
    }
    found
}

/// Splits `cells` into parts that share no row: different machines, or runs of different times.
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

/// The most significant block, if one is. The blocks of `cells` are connected by common rows.
fn furthest(cells: &[Cell], threshold: f64) -> Option<Shift> {
    let blocks: BTreeMap<usize, usize> = numbers(cells, |cell| cell.block).into_keys().zip(0..).collect();
    if !(LEAST_BLOCKS..=MOST_BLOCKS).contains(&blocks.len()) {
        return None;
    }
    let numbered: Vec<Cell> = cells.iter().map(|cell| Cell { block: blocks[&cell.block], ..*cell }).collect();
    let effects = stats::block_effects(&numbered).ok()?;
    let others = blocks.len() - 1;
    // The effects are distances from the mean of all blocks, including the block itself.
    let scale = blocks.len() as f64 / others as f64;
    let from_others = |effect: Estimate| Estimate {
        value: scale * effect.value,
        standard_error: scale * effect.standard_error,
        ..effect
    };
    let known = blocks.keys().zip(effects.into_iter().map(from_others));
    known
        .filter(|(_, effect)| effect.standard_error > LEAST_ERROR)
        .map(|(block, effect)| (effect.value / effect.standard_error, shift(*block, effect, others, cells)))
        .filter(|(_, shift)| shift.change.abs() > threshold && shift.stands_out())
        // Of two equally significant blocks, the slower one.
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

/// The distance of each row's log in `block` from the mean of the row's other logs.
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
    /// Whether the shift is significant, and enough rows agree.
    fn stands_out(&self) -> bool {
        let excludes_zero = self.interval.low > 0.0 || self.interval.high < 0.0;
        excludes_zero && self.agree as f64 >= LEAST_AGREEING * self.rows as f64
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
    fn a_slow_block_is_found_and_the_others_do_not_seem_fast() {
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
    fn a_shift_below_the_threshold_is_not_reported() {
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
    fn two_blocks_or_two_rows_are_too_few() {
        assert_eq!(found(cells(12, &[0.0, -0.1])), [0; 0]);
        assert_eq!(found(cells(2, &[0.0, 0.0, -0.1, 0.0])), [0; 0]);
        assert_eq!(found(cells(3, &[0.0, 0.0, -0.1, 0.0])), [2]);
    }

    /// Throughputs without any scatter were not measured with a clock.
    #[test]
    fn blocks_without_scatter_are_not_judged() {
        let bare = cells(6, &[0.0; 4]).into_iter();
        let bare = bare.map(|cell| Cell { value: if cell.block == 1 { 1.0 } else { 2.0 }, ..cell });
        assert_eq!(found(bare.collect()), [0; 0]);
    }

    /// Runs of other times or of another machine share no row.
    #[test]
    fn blocks_without_a_row_in_common_are_judged_separately() {
        let early = cells(4, &[0.0, -0.05, 0.0, 0.0]);
        let late = cells(4, &[0.0, 0.0, 0.0, -0.05]).into_iter();
        let late =
            late.map(|cell| Cell { row: cell.row + 4, block: cell.block + 4, value: cell.value + 3.0 });
        let mut blocks = found(early.into_iter().chain(late).collect());
        blocks.sort_unstable();
        assert_eq!(blocks, [1, 7]);
    }

    #[test]
    fn a_shifted_block_has_its_repeat_and_time() {
        let block = |builder: StudyBuilder, repeat: u32| {
            let slow = if repeat == 2 { 0.95 } else { 1.0 };
            let rate = |row: usize| 10.0 * slow * scatter(row, repeat as usize).exp();
            let rates =
                [("alexnet", rate(0)), ("resnet18", rate(1)), ("resnet50", rate(2)), ("vgg16", rate(3))];
            builder.block(repeat, &rates)
        };
        let study = (1..=4).fold(StudyBuilder::new(), block).build();
        let found = shifted_blocks(&analyse(&study).rows, &study.thresholds);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.host.as_str(), one.repeat, one.shift.rows), (HOST, 2, 4));
        let runs =
            study.cells.iter().filter_map(|cell| cell.record()).filter(|record| record.key.repeat == 2);
        let times: Vec<_> = runs.map(|record| (record.started_at, record.ended_at)).collect();
        assert_eq!((one.started_at, one.ended_at), (times[0].0, times[3].1));
    }
}
