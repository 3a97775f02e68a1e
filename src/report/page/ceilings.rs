//! The peaks that the rows are compared with.

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::peaks::{Attainable, Ceiling, Peaks, Range, Spread};
use crate::analysis::table::NOT_KNOWN;
use crate::text::significant;

#[derive(Debug, Serialize)]
pub(super) struct CeilingRow {
    env: String,
    precision: String,
    flops: String,
    bandwidth: String,
    knee: String,
    origin: String,
    confidence: String,
    source: String,
    /// The note of the file, and the doubts from its measurement.
    note: String,
}

/// One line per env, peaks and precision.
pub(super) fn ceilings(analysis: &Analysis<'_>) -> Vec<CeilingRow> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let mut rows = Vec::new();
    for row in &analysis.rows {
        let Some(peaks) = row.ceilings() else { continue };
        let this = (row.config.env.as_str(), peaks.name.as_str());
        if !seen.contains(&this) {
            seen.push(this);
            rows.extend(peaks.flops.iter().map(|ceiling| ceiling_row(this.0, peaks, ceiling)));
        }
    }
    rows
}

fn ceiling_row(env: &str, peaks: &Peaks, ceiling: &Ceiling) -> CeilingRow {
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| NOT_KNOWN.to_owned());
    let spread = |spread: Option<Spread>| spread.map(|it| format!("; {}", it.text(1e9))).unwrap_or_default();
    let bandwidth = peaks
        .bandwidth
        .map(|range| format!("{} GB/s{}", range.times(1e-9).text(3), spread(peaks.bandwidth_spread)));
    let knee = peaks.knee(ceiling.precision).map(|knee| format!("{} FLOP/byte", significant(knee, 3)));
    CeilingRow {
        env: env.to_owned(),
        precision: format!("{}, dense, accumulated in {}", ceiling.precision, ceiling.accumulate),
        flops: format!(
            "{} by {}{}{}",
            flops_text(ceiling.flops_per_s),
            ceiling.kind,
            spread(ceiling.spread),
            attainable_text(ceiling)
        ),
        bandwidth: or_unknown(bandwidth),
        knee: or_unknown(knee),
        origin: format!("{}, {}", peaks.origin, peaks.date),
        confidence: peaks.confidence.to_string(),
        source: peaks.source.clone(),
        note: note(peaks),
    }
}

/// `; best product 204.0, best convolution 180.0 GFLOP/s`; empty if neither was measured.
fn attainable_text(ceiling: &Ceiling) -> String {
    let Attainable { product, convolution } = ceiling.attainable;
    let best = |name: &str, flops: Option<f64>| Some(format!("best {name} {}", significant(flops? / 1e9, 4)));
    let parts: Vec<String> =
        [best("product", product), best("convolution", convolution)].into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("; {} GFLOP/s", parts.join(", ")) }
}

/// The note and the warnings; `none` if there are neither.
fn note(peaks: &Peaks) -> String {
    let all: Vec<&str> = peaks.note.iter().chain(&peaks.warnings).map(String::as_str).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}

fn flops_text(range: Range) -> String {
    let high = significant(range.high / 1e9, 4);
    if range.is_wide() {
        format!("{} to {high} GFLOP/s; the upper end is the roof", significant(range.low / 1e9, 4))
    } else {
        format!("{high} GFLOP/s")
    }
}
