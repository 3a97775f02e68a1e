//! Earlier results that marks leave out, and that a re-run replaced. They enter no statistic, but they were left out of
//! one, so the exclusion audit has to know them.

use super::group::Row;
use super::marks::{Mark, marks};
use super::{Cell, Run, Study};
use crate::job::ConfigOf;

/// Gives each of `rows` the replaced results of its config and circumstances that marks leave out.
pub(super) fn add_replaced<'a>(rows: &mut [Row<'a>], study: &'a Study) {
    if study.replaced.is_empty() {
        return;
    }
    let cells: Vec<&Cell> = study.cells.iter().chain(&study.replaced).collect();
    let found = marks(&cells, &study.spans, &study.idle, &study.thresholds);
    let replaced = cells.into_iter().zip(found).skip(study.cells.len());
    for (cell, marks) in replaced.filter(|(_, marks)| marks.iter().any(Mark::disqualifies)) {
        let Some((record, measurement)) = cell.success() else { continue };
        let config = ConfigOf::new(cell.job.key());
        let is_own = |row: &&mut Row<'_>| {
            ConfigOf::new(&row.config) == config
                && row.circumstances.as_ref().is_some_and(|own| own.are_of(record, measurement))
        };
        if let Some(row) = rows.iter_mut().find(is_own) {
            row.replaced.push(Run { cell, marks, include_marked: false });
        }
    }
}
