//! The results of all jobs: one line per row, jobs without a result, and runs left out.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::{Fact, fact};
use super::links::RunLinks;
use crate::analysis::group::{Row, Statistics};
use crate::analysis::own::{Metric, Summary};
use crate::analysis::peaks::Range;
use crate::analysis::printed::Throughput;
use crate::analysis::table::NOT_KNOWN;
use crate::analysis::{Analysis, NoRecord, Run};
use crate::job::distinction;
use crate::report::hover::{row_anchor, run_anchor};
use crate::text::significant;

#[derive(Debug, Serialize)]
pub(super) struct ResultRow {
    env: String,
    model: String,
    precision: String,
    batch: u32,
    varying: Vec<String>,
    part: Option<String>,
    /// `None` if there is no throughput; `reason` says why.
    numbers: Option<Numbers>,
    reason: String,
    /// Its limit, or `unknown`.
    limit: String,
    marks: String,
    /// The label of the row, for tables without the columns above.
    label: String,
    /// Its place on the page.
    anchor: String,
    /// Its runs with a result.
    runs: Vec<RunLink>,
}

/// A run of a row.
#[derive(Debug, Serialize)]
struct RunLink {
    repeat: u32,
    /// The target of the links from its points in figures.
    anchor: String,
    /// The URL of its files, if the page can link them.
    files: Option<String>,
    /// Whether it is in the statistics.
    counts: bool,
}

#[derive(Debug, Serialize)]
struct Numbers {
    n: usize,
    rate: String,
    interval: String,
    attained: String,
    share: String,
    usd: String,
}

/// A custom metric of a worker over the runs of a row.
#[derive(Debug, Serialize)]
pub(super) struct MetricRow {
    label: String,
    metric: String,
    unit: String,
    n: usize,
    median: String,
    min: String,
    max: String,
}

#[derive(Debug, Serialize)]
pub(super) struct LeftOut {
    label: String,
    /// The URL of its files, if the page can link them.
    files: Option<String>,
    samples_per_s: String,
    why: String,
}

#[derive(Debug, Serialize)]
pub(super) struct FailureRow {
    job: String,
    /// The URL of its files, if the page can link them.
    files: Option<String>,
    outcome: String,
    reason: String,
    attempts: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct AlteredRow {
    job: String,
    /// The URL of its files, if the page can link them.
    files: Option<String>,
    /// The reason, with the changed file.
    what: String,
}

/// One line per row.
pub(super) fn results(analysis: &Analysis<'_>, links: &RunLinks) -> Vec<ResultRow> {
    let rows = analysis.rows.iter().zip(&analysis.classes);
    rows.map(|(row, class)| ResultRow {
        anchor: row_anchor(row),
        limit: class.bound().to_string(),
        runs: row.runs.iter().map(|run| run_link(row, run, links)).collect(),
        ..result(row, &analysis.varying)
    })
    .collect()
}

fn run_link(row: &Row<'_>, run: &Run<'_>, links: &RunLinks) -> RunLink {
    let job = &run.cell.job;
    let anchor = run_anchor(row, run);
    RunLink { repeat: job.key().repeat, anchor, files: links.of(job), counts: run.counts() }
}

fn result(row: &Row<'_>, varying: &[String]) -> ResultRow {
    let key = &row.config;
    let value = |name: &String| key.param(name).map_or(NOT_KNOWN.to_owned(), |value| value.to_string());
    ResultRow {
        env: key.env.to_string(),
        model: key.model.to_string(),
        precision: key.precision.to_string(),
        batch: key.batch,
        varying: varying.iter().map(value).collect(),
        part: (row.part.1 > 1).then(|| format!("{} of {}", row.part.0, row.part.1)),
        numbers: row.statistics.as_ref().ok().map(|statistics| numbers(row, statistics)),
        reason: row.statistics.as_ref().err().cloned().unwrap_or_default(),
        limit: String::new(),
        marks: marks_cell(row),
        label: row.label(),
        anchor: String::new(),
        runs: Vec::new(),
    }
}

fn numbers(row: &Row<'_>, statistics: &Statistics) -> Numbers {
    let Throughput { geometric_mean, interval } = Throughput::of(statistics);
    let or_unknown =
        |value: Option<f64>, digits| value.map_or(NOT_KNOWN.to_owned(), |value| significant(value, digits));
    Numbers {
        n: statistics.n,
        rate: geometric_mean,
        interval,
        attained: or_unknown(row.attained().map(|attained| attained / 1e9), 4),
        share: share_text(row),
        usd: or_unknown(row.usd_per_million(), 3),
    }
}

/// `45.1`, or `45.1 (50.9 at 1755 MHz)` if the clock was read and the share at that clock differs.
fn share_text(row: &Row<'_>) -> String {
    let text = |share: Range| share.times(100.0).text(3);
    let Some(share) = row.share_of_peak().map(text) else { return NOT_KNOWN.to_owned() };
    match row.share_of_peak_at_clock().map(text).zip(row.clock_mhz()) {
        Some((at_clock, mhz)) if at_clock != share => format!("{share} ({at_clock} at {mhz:.0} MHz)"),
        _ => share,
    }
}

/// The custom metrics of workers, row by row.
pub(super) fn metrics(analysis: &Analysis<'_>) -> Vec<MetricRow> {
    let of_row = |row: &Row<'_>| -> Vec<MetricRow> {
        let found = analysis.own.metrics.iter().filter_map(|metric| Some((metric, metric.summary(row)?)));
        let line = |(metric, summary): (&Metric, Summary)| MetricRow {
            label: row.label(),
            metric: metric.name.clone(),
            unit: metric.unit.clone().unwrap_or_else(|| "none".to_owned()),
            n: summary.n,
            median: significant(summary.median, 4),
            min: significant(summary.min, 4),
            max: significant(summary.max, 4),
        };
        found.map(line).collect()
    };
    analysis.rows.iter().flat_map(of_row).collect()
}

/// The marks of a row and its runs, with the number of runs they leave out, or that were included despite them.
fn marks_cell(row: &Row<'_>) -> String {
    let names: Vec<&str> = row.marks().into_iter().collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let of = row.runs.len();
    let counts = [(row.left_out(), "left out"), (row.included(), "included")];
    let counts = counts.into_iter().filter(|(n, _)| *n > 0);
    let counts: Vec<String> = counts.map(|(n, what)| format!("{n} of {of} {what}")).collect();
    if counts.is_empty() { names.join(", ") } else { format!("{} ({})", names.join(", "), counts.join(", ")) }
}

pub(super) fn left_out(run: &Run<'_>, varying: &[String], links: &RunLinks) -> Option<LeftOut> {
    run.cell.success()?;
    if run.counts() || !run.cell.is_timing() {
        return None;
    }
    let reasons: Vec<String> = run.left_out_by().map(ToString::to_string).collect();
    Some(LeftOut {
        files: links.of(&run.cell.job),
        label: format!("{}{}", run.cell.job.label(), distinction(run.cell.job.key(), varying)),
        samples_per_s: run.samples_per_s().map_or(NOT_KNOWN.to_owned(), |rate| significant(rate, 4)),
        why: reasons.join("; "),
    })
}

pub(super) fn failure(run: &Run<'_>, links: &RunLinks) -> Option<FailureRow> {
    let record = run.cell.record().filter(|_| run.cell.is_failure())?;
    Some(FailureRow {
        files: links.of(&run.cell.job),
        job: run.cell.job.dir_name(),
        outcome: record.outcome.kind().to_owned(),
        reason: run.cell.reason()?,
        attempts: record.attempt,
    })
}

/// A job that is done but has no result, because a file was changed after its record was written.
pub(super) fn altered(run: &Run<'_>, links: &RunLinks) -> Option<AlteredRow> {
    let Err(NoRecord { reason, is_altered: true }) = &run.cell.record else { return None };
    let job = &run.cell.job;
    Some(AlteredRow { files: links.of(job), job: job.dir_name(), what: reason.clone() })
}

/// The number of jobs that a run would still do, by env and reason.
pub(super) fn not_run(analysis: &Analysis<'_>) -> Vec<Fact> {
    let mut found: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for run in &analysis.runs {
        let Err(NoRecord { reason, is_altered: false }) = &run.cell.record else { continue };
        *found.entry((run.cell.job.key().env.as_str(), reason.as_str())).or_default() += 1;
    }
    found.into_iter().map(|((env, reason), n)| fact(env, format!("{n} × {reason}"))).collect()
}
