//! Profiled jobs that do not belong to any row.

use super::{circumstances, is_alike, sound};
use crate::analysis::circumstances::Circumstances;
use crate::analysis::group::Row;
use crate::analysis::{Cell, Run};

/// Profiled jobs with a result whose circumstances match no row of their config, each with its differences from the
/// config's first row.
pub(crate) fn stray<'a>(runs: &[Run<'a>], rows: &[Row<'a>]) -> Vec<(&'a Cell, Vec<String>)> {
    let mut found = Vec::new();
    for cell in sound(runs).filter(|cell| cell.success().is_some()) {
        let config = cell.job.key().timing_config();
        let own: Vec<&Row<'a>> =
            rows.iter().filter(|row| row.config == config && row.circumstances.is_some()).collect();
        let (Some(first), Some(circumstances)) = (own.first(), circumstances(cell)) else { continue };
        if !own.iter().any(|row| is_alike(row.circumstances.as_ref(), cell)) {
            let of_row = first.circumstances.as_ref().map(Circumstances::without_profiling);
            let differences = of_row.map(|of_row| of_row.differences(&circumstances));
            found.push((cell, differences.unwrap_or_default()));
        }
    }
    found
}
