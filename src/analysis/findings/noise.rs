//! Findings about the smallest difference that the repeats of a report can show, given the noise of its machines.

use super::finding::{Finding, finding};
use super::kind::FindingKind;
use crate::analysis::group::Row;
use crate::analysis::noise::Calibrated;
use crate::stats;
use crate::text::capitalised;

/// One finding per calibration whose machine and device have rows, for the median number of their repeats that count.
pub(super) fn noise(rows: &[Row<'_>], calibrated: &[Calibrated]) -> Vec<Finding> {
    let sentence = |known: &Calibrated| {
        let repeats: Vec<f64> = rows
            .iter()
            .filter(|row| row.config.device == known.device && is_of(row, known))
            .filter_map(|row| Some(row.statistics.as_ref().ok()?.n as f64))
            .collect();
        let resolution = known.resolution(stats::median(&repeats).ok()? as usize)?;
        Some(finding(FindingKind::Resolution, resolution.reworded(|text| format!("{}.", capitalised(text)))))
    };
    calibrated.iter().filter_map(sentence).collect()
}

fn is_of(row: &Row<'_>, known: &Calibrated) -> bool {
    let record = row.runs.first().and_then(|run| run.cell.record());
    record.is_some_and(|record| known.is_of(&record.provenance.host))
}
