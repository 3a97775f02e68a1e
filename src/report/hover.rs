//! Hover texts of points: the config, the value, its interval, the number of runs, the marks. And link targets: the row
//! in the results of the page, or the run there, which links the run's files.

use super::svg::{Look, Shape};
use super::url::anchor;
use crate::analysis::Run;
use crate::analysis::group::Row;
use crate::analysis::marks::Mark;
use crate::analysis::printed::Throughput;
use crate::analysis::sequence::Placed;
use crate::text::significant;

/// Of a row: its label, and its throughput with interval and n.
pub(super) fn of_row(row: &Row<'_>) -> String {
    let mut lines = vec![row.label()];
    if let Ok(statistics) = &row.statistics {
        let Throughput { geometric_mean, interval } = Throughput::of(statistics);
        lines.push(format!("{geometric_mean} {} per s, 95 % interval {interval}", row.unit()));
        lines.push(format!("n = {}", statistics.n));
    }
    lines.push(marks_line(row.marks().into_iter()));
    if row.left_out() > 0 {
        lines.push(format!("{} of {} runs are left out", row.left_out(), row.runs.len()));
    }
    lines.join("\n")
}

/// Of a run of `row`.
pub(super) fn of_run(row: &Row<'_>, run: &Run<'_>) -> String {
    let mut lines = vec![format!("{}, repeat {}", row.label(), run.cell.job.key().repeat)];
    if let Some(rate) = run.samples_per_s() {
        lines.push(format!("{} {} per s", significant(rate, 5), row.unit()));
    }
    if let Some(record) = run.cell.record() {
        lines.push(format!("started {}", record.started_at.format("%Y-%m-%d %H:%M:%S UTC")));
    }
    lines.push(marks_line(run.marks.iter().map(Mark::name)));
    if !run.counts() {
        lines.push("left out of the statistics".to_owned());
    }
    lines.join("\n")
}

/// The anchor of `row` in the page's table of results. It is the same in every report that has the row.
pub(super) fn row_anchor(row: &Row<'_>) -> String {
    format!("row-{}", anchor(&row.label()))
}

/// The anchor of `run` of `row`, in that row.
pub(super) fn run_anchor(row: &Row<'_>, run: &Run<'_>) -> String {
    format!("{}-run{}", row_anchor(row), run.cell.job.key().repeat)
}

fn marks_line<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "no marks".to_owned() } else { format!("marks: {}", names.join(", ")) }
}

/// A short label of a row, for a figure of one env: network, precision, batch, and the parameters that vary.
pub(super) fn short_label(row: &Row<'_>) -> String {
    let key = &row.config;
    format!("{} {} {}{}", key.model, key.precision, key.batch, suffix(row))
}

/// The distinction of a row from others of its env, network, precision and batch: the parameters that vary, and its
/// part.
pub(super) fn suffix(row: &Row<'_>) -> String {
    let part = if row.part.1 > 1 { format!(" ({} of {})", row.part.0, row.part.1) } else { String::new() };
    format!("{}{part}", row.distinction_in_env)
}

/// Of a run with its place in the order of time.
pub(super) fn of_placed(row: &Row<'_>, placed: &Placed) -> String {
    let change = placed.change.map(|change| format!("\n{:+.2} % from the median of its row", 100.0 * change));
    let n = row.statistics.as_ref().map_or(0, |statistics| statistics.n);
    let text = of_run(row, &row.runs[placed.run]);
    format!("{text}{}, n = {n}\nblock {}", change.unwrap_or_default(), placed.block)
}

/// The mark of a run: a disc, hollow if it is left out, or a triangle if it counts although it is marked.
pub(super) fn look_of_run<'c>(run: &Run<'_>, colour: &'c str) -> Look<'c> {
    let is_doubted = run.counts() && !run.marks.is_empty();
    let shape = if is_doubted { Shape::Triangle } else { Shape::Circle };
    Look { shape, radius: if is_doubted { 3.2 } else { 2.6 }, colour, is_filled: run.counts() }
}
