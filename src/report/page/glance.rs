//! The throughputs at a glance: a line per network and settings, a column per batch.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::bound::{Bound, Class};
use crate::analysis::group::Row;
use crate::analysis::printed::{TOO_FEW, Throughput};
use crate::job::ConfigOf;
use crate::report::hover::row_anchor;

/// The most batches of one table: more would not fit on a screen.
const WIDEST: usize = 7;

/// A table with some of the batches.
#[derive(Debug, Serialize)]
pub(super) struct Glance {
    batches: Vec<u32>,
    lines: Vec<Line>,
    /// Whether any row shows what limits it.
    has_limits: bool,
}

#[derive(Debug, Serialize)]
struct Line {
    env: String,
    model: String,
    precision: String,
    /// The parameters that vary, and the number of the row if its config has several; can be empty.
    settings: String,
    /// One per batch; `None` if the matrix has no such config.
    cells: Vec<Option<Cell>>,
    /// What limits the rows of the line, each bound once.
    limits: String,
}

/// A row.
#[derive(Clone, Debug, Serialize)]
struct Cell {
    /// The anchor of the row in the table of results.
    anchor: String,
    /// The median throughput; empty if there is none.
    median: String,
    /// The interval, or how many runs there are, or `no result`.
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
    let mut places: HashMap<(ConfigOf<'_>, usize), usize> = HashMap::new();
    let mut lines: Vec<(Line, BTreeSet<String>)> = Vec::new();
    let mut has_limits = false;
    for (row, class) in analysis.rows.iter().zip(&analysis.classes) {
        let Some(column) = batches.iter().position(|batch| *batch == row.config.batch) else { continue };
        let of = (ConfigOf::of_any_batch(&row.config), row.part.0);
        let place = *places.entry(of).or_insert_with(|| {
            lines.push((line(row, batches.len()), BTreeSet::new()));
            lines.len() - 1
        });
        lines[place].0.cells[column] = Some(cell(row));
        has_limits |= class.bound() != Bound::Unknown;
        lines[place].1.extend(limit(row, class));
    }
    let finish = |(line, limits): (Line, BTreeSet<String>)| Line {
        limits: limits.into_iter().collect::<Vec<_>>().join(", "),
        ..line
    };
    Glance { batches: batches.to_vec(), lines: lines.into_iter().map(finish).collect(), has_limits }
}

fn line(row: &Row<'_>, batches: usize) -> Line {
    let part = match row.part {
        (_, 1) => String::new(),
        (part, of) => format!(" ({part} of {of})"),
    };
    Line {
        env: row.config.env.to_string(),
        model: row.config.model.to_string(),
        precision: row.config.precision.to_string(),
        settings: format!("{}{part}", row.distinction).trim_start().to_owned(),
        cells: vec![None; batches],
        limits: String::new(),
    }
}

fn limit(row: &Row<'_>, class: &Class) -> Option<String> {
    row.statistics.is_ok().then(|| class.bound().to_string())
}

fn cell(row: &Row<'_>) -> Cell {
    let (median, scatter) = match &row.statistics {
        Err(_) => (String::new(), "no result".to_owned()),
        Ok(statistics) => {
            let Throughput { median, interval, .. } = Throughput::of(statistics);
            let scatter = if interval == TOO_FEW { format!("n = {}", statistics.n) } else { interval };
            (median, scatter)
        }
    };
    Cell { anchor: row_anchor(row), median, scatter, is_marked: !row.marks().is_empty() }
}
