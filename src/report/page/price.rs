//! The cost of samples and runs, in dollars and in joules.

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::energy::{Draw, NOT_MEASURED, cpu_draw, gpu_draw, row_energy};
use crate::analysis::group::Row;
use crate::analysis::table::NOT_KNOWN;
use crate::record::Record;
use crate::text::significant;

/// The cost of a row.
#[derive(Debug, Serialize)]
pub(super) struct PriceRow {
    label: String,
    usd_per_million: String,
    usd_per_run: String,
    processor: String,
    gpu: String,
}

/// The rows with statistics; empty if all prices and energies are unknown.
pub(super) fn prices(analysis: &Analysis<'_>) -> Vec<PriceRow> {
    let rows = || analysis.rows.iter().filter(|row| row.statistics.is_ok());
    let is_known = |row: &Row<'_>| {
        row.usd_per_hour.is_some()
            || row_energy(row, cpu_draw).is_some()
            || row_energy(row, gpu_draw).is_some()
    };
    if rows().any(is_known) { rows().map(price_row).collect() } else { Vec::new() }
}

fn price_row(row: &Row<'_>) -> PriceRow {
    let usd = |usd: Option<f64>| usd.map_or(NOT_KNOWN.to_owned(), |usd| significant(usd, 3));
    PriceRow {
        label: row.label(),
        usd_per_million: usd(row.usd_per_million()),
        usd_per_run: usd(row.usd_per_run()),
        processor: energy_text(row, cpu_draw),
        gpu: energy_text(row, gpu_draw),
    }
}

/// `0.512 (counter, n = 3)`.
fn energy_text(row: &Row<'_>, draw: fn(&Record) -> Option<Draw>) -> String {
    row_energy(row, draw).map_or(NOT_MEASURED.to_owned(), |energy| {
        let joules = significant(energy.joules_per_sample, 3);
        format!("{joules} ({}, n = {})", energy.source.as_str(), energy.n)
    })
}
