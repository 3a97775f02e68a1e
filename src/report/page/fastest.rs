//! The fastest config of each network in each env, for the first screen.

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::leader::{Leader, Measured, leaders};
use crate::report::hover::row_anchor;

/// A network in an env.
#[derive(Debug, Serialize)]
pub(super) struct FastestRow {
    env: String,
    model: String,
    /// Its precision, and the parameters that vary.
    settings: String,
    batch: u32,
    /// Its place in the table of results.
    anchor: String,
    /// The throughput; empty if there is none.
    rate: String,
    /// Its interval, or the number of runs, or why there is no result.
    interval: String,
    /// The share of the peak in percent, if it is known.
    share: Option<String>,
    /// Its limit.
    limit: String,
    is_marked: bool,
}

/// A line per env and network, in the order of the rows.
pub(super) fn fastest(analysis: &Analysis<'_>) -> Vec<FastestRow> {
    leaders(analysis).map(fastest_row).collect()
}

fn fastest_row(Leader { row, settings, measured }: Leader<'_>) -> FastestRow {
    let key = &row.config;
    // In the narrow column, a word says why there is none.
    let measured = measured.unwrap_or_else(|_| Measured {
        rate: String::new(),
        interval: row.counts.why_none().to_owned(),
        share: None,
        limit: String::new(),
    });
    FastestRow {
        env: key.env.to_string(),
        model: key.model.to_string(),
        settings: format!("{} {settings}", key.precision).trim_end().to_owned(),
        batch: key.batch,
        anchor: row_anchor(row),
        rate: measured.rate,
        interval: measured.interval,
        share: measured.share,
        limit: measured.limit,
        is_marked: !row.marks().is_empty(),
    }
}
