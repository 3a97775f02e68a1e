//! What the repeats of a report can show, at the noise of its machines.

use super::finding::{Finding, Topic, finding};
use crate::analysis::group::Row;
use crate::analysis::noise::Calibrated;
use crate::stats;

/// A sentence for each calibration whose machine and device have rows: by the median of their repeats that count.
pub(super) fn noise(rows: &[Row<'_>], calibrated: &[Calibrated]) -> Vec<Finding> {
    let sentence = |known: &Calibrated| {
        let repeats: Vec<f64> = rows
            .iter()
            .filter(|row| row.config.device == known.device && is_of(row, known))
            .filter_map(|row| Some(row.statistics.as_ref().ok()?.n as f64))
            .collect();
        let text = known.resolution_text(stats::median(&repeats).ok()? as usize)?;
        let mut letters = text.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        Some(finding(Topic::Spread, format!("{first}{}.", letters.as_str())))
    };
    calibrated.iter().filter_map(sentence).collect()
}

fn is_of(row: &Row<'_>, known: &Calibrated) -> bool {
    let record = row.runs.first().and_then(|run| run.cell.record());
    record.is_some_and(|record| known.is_of(&record.provenance.host))
}
