//! Autocorrelated repeats: rows whose intervals are too narrow because successive repeats correlate.

use std::collections::BTreeMap;

use super::{Mark, Threshold, Thresholds};
use crate::analysis::blocks::{blocks, by_machine};
use crate::analysis::group::Row;
use crate::record::Record;
use crate::stats;

/// The tolerated probability that rows whose repeats are independent show such a correlation.
const CHANCE: f64 = 0.01;

/// The least number of rows of a machine that are judged. A single row has too few repeats to estimate a correlation.
const LEAST_ROWS: usize = 5;

/// The least number of runs of a block for its mean to be subtracted.
const LEAST_OF_BLOCK: usize = 3;

/// A run that counts.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    /// The index of its row.
    pub(super) row: usize,
    /// The number of its block.
    pub(super) block: usize,
    /// The log of its throughput, less the mean of its row.
    pub(super) distance: f64,
}

/// The doubt about each of `rows`, in their order. The rows of a machine are judged together.
pub(super) fn autocorrelated(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Option<Mark>> {
    let (records, runs) = counted(rows);
    let mut marks = vec![None; rows.len()];
    for machine in by_machine(&records) {
        let runs: Vec<Counted> = machine.iter().map(|placed| runs[placed.index]).collect();
        for (row, mark) in of_machine(&runs, thresholds.of(Threshold::Autocorrelated)) {
            marks[row] = Some(mark);
        }
    }
    marks
}

/// The rows of a machine that are marked. `runs` are in the order of time. The mean of each block is subtracted first,
/// because shifted blocks are a separate finding.
pub(super) fn of_machine(runs: &[Counted], threshold: f64) -> Vec<(usize, Mark)> {
    let by_row = without_blocks(runs);
    let numbers: Vec<Vec<f64>> = by_row.values().cloned().collect();
    let found = stats::neighbours(&numbers).filter(|found| found.p <= CHANCE && found.rows >= LEAST_ROWS);
    let Some(stats::Neighbours { correlation, rows, .. }) = found else { return Vec::new() };
    let mark = |(row, runs): (usize, Vec<f64>)| {
        let n = Some(runs.len()).filter(|n| *n >= stats::NEIGHBOURS_NEED)?;
        let too_narrow = stats::too_narrow_by(n, correlation);
        let mark = Mark::Autocorrelated { correlation, rows, too_narrow, n, threshold };
        (too_narrow > threshold).then_some((row, mark))
    };
    by_row.into_iter().filter_map(mark).collect()
}

/// The runs of `rows` that count, with their records.
fn counted<'a>(rows: &[Row<'a>]) -> (Vec<&'a Record>, Vec<Counted>) {
    let (mut records, mut runs) = (Vec::new(), Vec::new());
    for (row, it) in rows.iter().enumerate() {
        let counting = it.runs.iter().filter(|run| run.counts());
        let (own, logs): (Vec<&Record>, Vec<f64>) =
            counting.filter_map(|run| Some((run.cell.record()?, run.samples_per_s()?.ln()))).unzip();
        let Ok(mean) = stats::mean(&logs) else { continue };
        records.extend(own);
        runs.extend(logs.iter().map(|log| Counted { row, block: 0, distance: log - mean }));
    }
    for (run, block) in runs.iter_mut().zip(blocks(&records)) {
        run.block = block;
    }
    (records, runs)
}

/// The distances of each row in the order of time, without the mean of their block.
fn without_blocks(runs: &[Counted]) -> BTreeMap<usize, Vec<f64>> {
    let mut by_block: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for run in runs {
        by_block.entry(run.block).or_default().push(run.distance);
    }
    by_block.retain(|_, distances| distances.len() >= LEAST_OF_BLOCK);
    let mut by_row: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for run in runs {
        let in_common = by_block.get(&run.block).and_then(|distances| stats::mean(distances).ok());
        by_row.entry(run.row).or_default().push(run.distance - in_common.unwrap_or(0.0));
    }
    by_row
}
