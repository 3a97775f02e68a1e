//! Profiled jobs that do not belong to any row.

use std::collections::HashMap;

use super::{circumstances, is_alike, sound};
use crate::analysis::circumstances::Circumstances;
use crate::analysis::group::Row;
use crate::analysis::{Cell, Run};
use crate::job::ConfigOf;

/// Profiled jobs with a result whose circumstances match no row of their config, each with its differences from the
/// config's first row.
pub(crate) fn stray<'a>(runs: &[Run<'a>], rows: &[Row<'a>]) -> Vec<(&'a Cell, Vec<String>)> {
    let mut by_config: HashMap<ConfigOf<'_>, Vec<&Row<'a>>> = HashMap::new();
    for row in rows.iter().filter(|row| row.circumstances.is_some()) {
        by_config.entry(ConfigOf::new(&row.config)).or_default().push(row);
    }
    let mut found = Vec::new();
    for cell in sound(runs).filter(|cell| cell.success().is_some()) {
        let own = by_config.get(&ConfigOf::timing(cell.job.key())).map_or(&[][..], Vec::as_slice);
        let (Some(first), Some(circumstances)) = (own.first(), circumstances(cell)) else { continue };
        if !own.iter().any(|row| is_alike(row.circumstances.as_ref(), cell)) {
            let of_row = first.circumstances.as_ref().map(Circumstances::without_profiling);
            let differences = of_row.map(|of_row| of_row.differences(&circumstances));
            found.push((cell, differences.unwrap_or_default()));
        }
    }
    found
}
