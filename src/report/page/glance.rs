//! The throughputs at a glance: a line per network and settings, a column per batch.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::bound::{Bound, Class};
use crate::analysis::group::Row;
use crate::analysis::line;
use crate::analysis::printed::{TOO_FEW, Throughput};
use crate::report::hover::row_anchor;

/// The most batches of one table: more would not fit on a screen.
const WIDEST: usize = 7;

/// A table with some of the batches.
#[derive(Debug, Serialize)]
pub(super) struct Glance {
    batches: Vec<u32>,
    lines: Vec<Line>,
    /// Whether the limit of any row is known.
    has_limits: bool,
}

#[derive(Debug, Serialize)]
struct Line {
    env: String,
    model: String,
    precision: String,
    /// The parameters that vary, and the distinction from other lines of the same settings; can be empty.
    settings: String,
    /// One per batch; `None` if the matrix has no such config.
    cells: Vec<Option<Cell>>,
    /// The limits of the rows of the line, without duplicates.
    limits: String,
}

/// A row.
#[derive(Clone, Debug, Serialize)]
struct Cell {
    /// The anchor of the row in the table of results.
    anchor: String,
    /// The throughput; empty if there is none.
    rate: String,
    /// The interval, or the number of runs, or why there is no result, or `no run here` if only other lines of the
    /// same settings have this batch.
    scatter: String,
    /// Whether the row or one of its runs has a mark.
    is_marked: bool,
}

/// The lines of `analysis`, in its order, for up to [`WIDEST`] batches at a time. A batch without any is in no table.
pub(super) fn glances(analysis: &Analysis<'_>) -> Vec<Glance> {
    let batches: BTreeSet<u32> = analysis.rows.iter().map(|row| row.config.batch).collect();
    let batches: Vec<u32> = batches.into_iter().collect();
    batches.chunks(WIDEST).map(|batches| glance(batches, analysis)).collect()
}

fn glance(batches: &[u32], analysis: &Analysis<'_>) -> Glance {
    let is_shown = |row: &usize| batches.contains(&analysis.rows[*row].config.batch);
    let rows = || analysis.lines.iter().flat_map(|line| &line.rows).filter(|row| is_shown(row));
    let has_limits = rows().any(|row| analysis.classes[*row].bound() != Bound::Unknown);
    let shown = analysis.lines.iter().filter(|line| line.rows.iter().any(is_shown));
    let lines = shown.map(|of| line(of, batches, analysis)).collect();
    Glance { batches: batches.to_vec(), lines, has_limits }
}

fn line(of: &line::Line, batches: &[u32], analysis: &Analysis<'_>) -> Line {
    let first = &analysis.rows[of.rows[0]];
    let row = |batch: u32| of.rows.iter().copied().find(|row| analysis.rows[*row].config.batch == batch);
    let cell = |batch: &u32| match row(*batch) {
        Some(row) => Some(cell(&analysis.rows[row])),
        None => of.elsewhere.contains(batch).then(Cell::elsewhere),
    };
    let limits = batches.iter().filter_map(|batch| row(*batch));
    let limits: BTreeSet<String> =
        limits.filter_map(|row| limit(&analysis.rows[row], &analysis.classes[row])).collect();
    Line {
        env: first.config.env.to_string(),
        model: first.config.model.to_string(),
        precision: first.config.precision.to_string(),
        settings: format!("{}{}", first.distinction, of.distinction).trim_start().to_owned(),
        cells: batches.iter().map(cell).collect(),
        limits: limits.into_iter().collect::<Vec<_>>().join(", "),
    }
}

impl Cell {
    /// The cell of a line without this batch, which other lines of the same settings have.
    fn elsewhere() -> Cell {
        let scatter = "no run here".to_owned();
        Cell { anchor: String::new(), rate: String::new(), scatter, is_marked: false }
    }
}

fn limit(row: &Row<'_>, class: &Class) -> Option<String> {
    row.statistics.is_ok().then(|| class.bound().to_string())
}

fn cell(row: &Row<'_>) -> Cell {
    let (rate, scatter) = match &row.statistics {
        Err(_) => (String::new(), row.counts.why_none().to_owned()),
        Ok(statistics) => {
            let Throughput { geometric_mean, interval, .. } = Throughput::of(statistics);
            let scatter = if interval == TOO_FEW { format!("n = {}", statistics.n) } else { interval };
            (geometric_mean, scatter)
        }
    };
    Cell { anchor: row_anchor(row), rate, scatter, is_marked: !row.marks().is_empty() }
}
