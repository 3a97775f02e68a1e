//! The fastest config of each network in each env, as the first screen shows it.

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::fastest::settings;
use crate::analysis::printed::{TOO_FEW, Throughput};
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
    /// Its interval, or the number of runs; why there is no result, if there is none.
    interval: String,
    /// The share of the peak in percent, if it is known.
    share: Option<String>,
    /// What limits it.
    limit: String,
    is_marked: bool,
}

/// A line per env and network, in the order of the rows.
pub(super) fn fastest(analysis: &Analysis<'_>) -> Vec<FastestRow> {
    analysis.fastest.iter().map(|index| fastest_row(*index, analysis)).collect()
}

fn fastest_row(index: usize, analysis: &Analysis<'_>) -> FastestRow {
    let row = &analysis.rows[index];
    let key = &row.config;
    let (rate, interval, limit) = match &row.statistics {
        Err(_) => (String::new(), row.counts.why_none().to_owned(), String::new()),
        Ok(statistics) => {
            let Throughput { geometric_mean, interval, .. } = Throughput::of(statistics);
            let interval = if interval == TOO_FEW { format!("n = {}", statistics.n) } else { interval };
            (geometric_mean, interval, analysis.classes[index].bound().to_string())
        }
    };
    FastestRow {
        env: key.env.to_string(),
        model: key.model.to_string(),
        settings: format!("{} {}", key.precision, settings(index, &analysis.rows, &analysis.lines))
            .trim_end()
            .to_owned(),
        batch: key.batch,
        anchor: row_anchor(row),
        rate,
        interval,
        share: row.share_of_peak().map(|share| share.times(100.0).text(2)),
        limit,
        is_marked: !row.marks().is_empty(),
    }
}
