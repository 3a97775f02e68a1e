//! Earlier results that marks leave out, and that a re-run replaced. They are in no statistic, but the exclusion audit
//! counts them, because marks decided about them.

use std::collections::HashMap;

use super::group::Row;
use super::marks::{Mark, marks};
use super::{Cell, Run, Span, Study};
use crate::job::ConfigOf;

/// Adds to each of `rows` the replaced results of its config and circumstances that marks leave out.
pub(super) fn add_replaced<'a>(rows: &mut [Row<'a>], study: &'a Study) {
    if study.replaced.is_empty() {
        return;
    }
    let cells: Vec<&Cell> = study.cells.iter().chain(&study.replaced).collect();
    // Overlapping runs disturbed each other, even if one was replaced later.
    let replaced = study.replaced.iter().filter_map(Cell::record).map(Span::of);
    let spans: Vec<Span> = study.spans.iter().cloned().chain(replaced).collect();
    let found = marks(&cells, &spans, &study.idle, &study.thresholds);
    let left_out: Vec<(&Cell, Vec<Mark>)> = cells
        .into_iter()
        .zip(found)
        .skip(study.cells.len())
        .filter(|(_, marks)| marks.iter().any(Mark::disqualifies))
        .collect();
    for (place, run) in placed(rows, left_out) {
        rows[place].replaced.push(run);
    }
}

/// The runs of `cells`, each with the place of its row among `rows`.
fn placed<'a>(rows: &[Row<'a>], cells: Vec<(&'a Cell, Vec<Mark>)>) -> Vec<(usize, Run<'a>)> {
    let mut of_config: HashMap<ConfigOf<'_>, Vec<usize>> = HashMap::new();
    for (place, row) in rows.iter().enumerate() {
        of_config.entry(ConfigOf::new(&row.config)).or_default().push(place);
    }
    let run = |(cell, marks): (&'a Cell, Vec<Mark>)| {
        let (record, measurement) = cell.success()?;
        let places = of_config.get(&ConfigOf::new(cell.job.key()))?;
        let is_own = |place: &&usize| {
            rows[**place].circumstances.as_ref().is_some_and(|own| own.are_of(record, measurement))
        };
        Some((*places.iter().find(is_own)?, Run { cell, marks, include_marked: false }))
    };
    cells.into_iter().filter_map(run).collect()
}
