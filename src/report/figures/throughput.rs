//! Throughput by batch size: one figure per env, one line per model, precision and varying parameters.
//!
//! A dot is a run; a cross is a run that is left out of the statistics. Lines connect medians; bars are the 95 %
//! interval of the geometric mean, and there is none below three runs. The legend is beside the plot, so it never
//! covers data.

use std::collections::BTreeSet;

use crate::analysis::group::{Row, unit};
use crate::analysis::table::{Keys, run_sections, throughput_table};
use crate::analysis::{Analysis, Run};
use crate::job::{Key, ModelName, Precision};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, LEFT, SMALL, TOP};
use crate::report::scale::{Kind, Scale, round_up};
use crate::report::svg::{Anchor, GREY, INK, Stroke, Svg, colour, shape, text_width};
use crate::stats::Interval;

pub(super) const THROUGHPUT: Figure = Figure {
    name: "throughput",
    heading: "Throughput by batch size",
    one_per: "env",
    needs: "It needs a run with a throughput.",
    explanation: "\
A dot is a run, and a cross is a run that is left out of the statistics. A marker is the median of a row. Lines connect
the medians of one network and precision.

A bar is the 95 % interval of a row's geometric mean: Student's, on the logs of its runs. It needs n ≥ 3, and the legend
says how many runs the bars rest on. A row of fewer runs has no bar. Where a bar has no cap, it goes on beyond the
plot.",
    columns: run_sections,
    keys: Keys::RUNS,
    draw,
};

const PLOT_WIDTH: f64 = 520.0;
const PLOT_HEIGHT: f64 = 380.0;
const BELOW: f64 = 62.0;
const LINE: f64 = 20.0;

/// How much further right than other words the names of lines stand in the legend.
const INDENT: f64 = 30.0;

/// How far beyond the fastest run a bar widens the throughput axis, as a factor.
const ROOM: f64 = 1.3;

/// The throughput axis is logarithmic if the ratio of the fastest to the slowest run exceeds this.
const LOG_FROM: f64 = 20.0;

/// The rows of one line, by batch.
struct Series<'r, 'a> {
    name: String,
    /// The index of the model in the figure, which determines the shape.
    model: usize,
    /// The same index, or that of the line if two lines would otherwise look alike.
    colour: usize,
    precision: Precision,
    rows: Vec<&'r Row<'a>>,
}

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let mut envs: Vec<&str> = analysis.rows.iter().map(|row| row.config.env.as_str()).collect();
    envs.dedup();
    envs.into_iter().filter_map(|env| of_env(env, analysis)).collect()
}

/// The throughput of `env`; `None` if no run of it has any.
fn of_env(env: &str, analysis: &Analysis<'_>) -> Option<Drawing> {
    let rows: Vec<&Row<'_>> = analysis.rows.iter().filter(|row| row.config.env == env).collect();
    let all = series(&rows);
    let (lines, empty): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|line| line.rows.iter().any(|row| rates(row).next().is_some()));
    let values: Vec<f64> = rows.iter().flat_map(|row| rates(row)).map(|(rate, _)| rate).collect();
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    let highest = intervals(&rows).map(|(_, interval)| interval.high).fold(most, f64::max).min(ROOM * most);
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let missing = missing(&lines, &empty);
    let least_width = (text_width(&bar_text(&rows), SMALL) - INDENT).max(150.0);
    let names = lines.iter().map(|line| text_width(&line.name, 13.0));
    let legend_width = names.fold(least_width, f64::max) + 32.0 + INDENT;
    let legend_lines = lines.len() + 5;
    let plot_height = PLOT_HEIGHT.max(legend_lines as f64 * LINE);
    let below = BELOW + missing.len() as f64 * 16.0;
    let title = format!("Training throughput by batch size, {env}");
    let mut svg = Svg::new(LEFT + PLOT_WIDTH + legend_width, TOP + plot_height + below, &title);
    let bottom = TOP + plot_height;
    let x = batch_scale(&rows);
    let y = rate_scale(least, (most, highest), bottom);
    frame::title(&mut svg, &title);
    axes(&mut svg, &x, &y, &rows, bottom);
    for (index, line) in lines.iter().enumerate() {
        draw_line(&mut svg, line, (index, lines.len()), &x, &y);
    }
    legend(&mut svg, &lines, &rows);
    for (index, text) in missing.iter().enumerate() {
        svg.text((LEFT, bottom + 64.0 + 16.0 * index as f64), SMALL, Anchor::Start, GREY, text);
    }
    Some(Drawing { of: env.to_owned(), title, svg: svg.finish(), numbers: throughput_table(env, analysis) })
}

/// The throughput of each run of `row` that has one, and whether the run counts.
fn rates<'r>(row: &'r Row<'_>) -> impl Iterator<Item = (f64, bool)> + 'r {
    row.runs.iter().filter_map(|run: &Run<'_>| Some((run.samples_per_s()?, run.counts())))
}

/// The intervals of the rows that have one, each with its n.
fn intervals<'r>(rows: &'r [&Row<'_>]) -> impl Iterator<Item = (usize, Interval)> + 'r {
    let statistics = rows.iter().filter_map(|row| row.statistics.as_ref().ok());
    statistics.filter_map(|statistics| Some((statistics.n, statistics.interval.ok()?)))
}

fn series<'r, 'a>(rows: &[&'r Row<'a>]) -> Vec<Series<'r, 'a>> {
    let mut found: Vec<Series<'r, 'a>> = Vec::new();
    let mut models: Vec<&ModelName> = rows.iter().map(|row| &row.config.model).collect();
    models.dedup();
    for row in rows {
        let name = series_name(row);
        match found.iter_mut().find(|line| line.name == name) {
            Some(line) => line.rows.push(row),
            None => found.push(Series {
                name,
                model: models.iter().position(|model| **model == row.config.model).unwrap_or(0),
                colour: 0,
                precision: row.config.precision,
                rows: vec![row],
            }),
        }
    }
    let looks: BTreeSet<_> = found.iter().map(|line| (line.model, line.precision)).collect();
    let by_model = looks.len() == found.len();
    for (index, line) in found.iter_mut().enumerate() {
        line.colour = if by_model { line.model } else { index };
    }
    found
}

/// `resnet18 fp32 channels_last=true`.
fn series_name(row: &Row<'_>) -> String {
    let Key { model, precision, .. } = &row.config;
    let part = if row.part.1 > 1 { format!(" ({} of {})", row.part.0, row.part.1) } else { String::new() };
    format!("{model} {precision}{}{part}", row.distinction)
}

/// Notes about configs without a point.
fn missing(lines: &[Series<'_, '_>], empty: &[Series<'_, '_>]) -> Vec<String> {
    lines
        .iter()
        .chain(empty)
        .filter_map(|line| {
            let batches: Vec<String> = line
                .rows
                .iter()
                .filter(|row| row.statistics.is_err())
                .map(|row| format!("{}: {}", row.config.batch, brief(row)))
                .collect();
            (!batches.is_empty())
                .then(|| format!("No result for {} at batch {}", line.name, batches.join(", ")))
        })
        .collect()
}

/// Why `row` has no result, in two words.
fn brief(row: &Row<'_>) -> String {
    let counts = &row.counts;
    match (counts.succeeded, counts.failed) {
        (0, 0) => "not run".to_owned(),
        (0, failed) => format!("{failed} failed"),
        _ => "left out".to_owned(),
    }
}

/// A logarithmic axis of batches. A single batch is in the middle.
fn batch_scale(rows: &[&Row<'_>]) -> Scale {
    let batches = || rows.iter().map(|row| f64::from(row.config.batch));
    let low = batches().fold(f64::INFINITY, f64::min);
    let high = batches().fold(0.0, f64::max);
    let reach = 2f64.powf(0.5);
    Scale { kind: Kind::Log, low: low / reach, high: high * reach, from: LEFT, to: LEFT + PLOT_WIDTH }
}

/// A linear axis that starts at 0, or a logarithmic one if slow runs would otherwise lie on the axis. The runs go from
/// `least` to `most`, and bars up to `highest`.
fn rate_scale(least: f64, (most, highest): (f64, f64), bottom: f64) -> Scale {
    let (kind, low) = if most / least > LOG_FROM { (Kind::Log, least / 1.5) } else { (Kind::Linear, 0.0) };
    let high = match kind {
        Kind::Log => most * 1.5,
        Kind::Linear => {
            let step = round_up(highest * 1.02 / 7.0);
            (highest * 1.02 / step).ceil() * step
        }
    };
    Scale { kind, low, high, from: bottom, to: TOP }
}

fn axes(svg: &mut Svg, x: &Scale, y: &Scale, rows: &[&Row<'_>], bottom: f64) {
    let right = LEFT + PLOT_WIDTH;
    frame::value_grid(svg, y, right);
    let mut batches: Vec<u32> = rows.iter().map(|row| row.config.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let mut free_from = f64::NEG_INFINITY;
    for batch in batches {
        let at = x.place(f64::from(batch));
        svg.line((at, bottom), (at, bottom + 5.0), Stroke::solid(GREY, 1.0));
        let text = batch.to_string();
        let half = text_width(&text, SMALL) / 2.0 + 3.0;
        // If numbers would overlap, a batch gets only a tick.
        if at - half >= free_from {
            svg.text((at, bottom + 20.0), SMALL, Anchor::Middle, INK, &text);
            free_from = at + half;
        }
    }
    let unit = unit(rows.iter().copied());
    let (below, beside) = (format!("batch size / {unit} (log scale)"), format!("throughput / {unit} per s"));
    frame::frame(svg, y, right, &below, &beside);
}

/// The dashes of a precision, so that lines are distinguishable without colour.
fn dashes(precision: Precision) -> &'static str {
    match precision {
        Precision::Fp32 => "",
        Precision::Tf32 => "9 3",
        Precision::Amp => "5 3",
        Precision::Bf16 => "2 3",
    }
}

fn draw_line(svg: &mut Svg, line: &Series<'_, '_>, (index, of): (usize, usize), x: &Scale, y: &Scale) {
    let ink = colour(line.colour);
    // Lines are shifted a little, so that their dots and bars do not cover each other.
    let step = (30.0 / of as f64).min(7.0);
    let shift = (index as f64 - (of as f64 - 1.0) / 2.0) * step;
    let across = |row: &Row<'_>| x.place(f64::from(row.config.batch)) + shift;
    let medians: Vec<(f64, f64)> =
        line.rows.iter().filter_map(|row| Some((across(row), y.place(row.median()?)))).collect();
    if medians.len() > 1 {
        svg.polyline(&medians, Stroke { colour: ink, width: 1.8, dashes: dashes(line.precision) });
    }
    for row in &line.rows {
        let at = across(row);
        if let Some(interval) = row.statistics.as_ref().ok().and_then(|statistics| statistics.interval.ok()) {
            bar(svg, at, interval, y, ink);
        }
        if let Some(median) = row.median() {
            svg.marker(shape(line.model), (at, y.place(median)), 4.6, ink, false);
        }
        // Dots are drawn last, to show within a marker how close the runs are.
        for (rate, counts) in rates(row) {
            let place = (at, y.place(rate));
            if counts { svg.dot(place, ink) } else { svg.cross(place, ink) }
        }
    }
}

/// An end beyond the plot is cut off and has no cap.
fn bar(svg: &mut Svg, at: f64, interval: Interval, y: &Scale, ink: &str) {
    let ends = [interval.low, interval.high];
    let [bottom, top] = ends.map(|end| y.place(end.clamp(y.low, y.high)));
    let stroke = Stroke::solid(ink, 1.4);
    svg.line((at, top), (at, bottom), stroke);
    for end in ends.into_iter().filter(|end| (y.low..=y.high).contains(end)).map(|end| y.place(end)) {
        svg.line((at - 4.0, end), (at + 4.0, end), stroke);
    }
}

/// `bar: 95 % interval, n = 3 to 6`
fn bar_text(rows: &[&Row<'_>]) -> String {
    let numbers = || intervals(rows).map(|(n, _)| n);
    match (numbers().min(), numbers().max()) {
        (Some(least), Some(most)) if least == most => format!("bar: 95 % interval, n = {least}"),
        (Some(least), Some(most)) => format!("bar: 95 % interval, n = {least} to {most}"),
        _ => "no bar: n too small".to_owned(),
    }
}

fn legend(svg: &mut Svg, lines: &[Series<'_, '_>], rows: &[&Row<'_>]) {
    let left = LEFT + PLOT_WIDTH + 18.0;
    let mut at = TOP + 10.0;
    for line in lines {
        let ink = colour(line.colour);
        let stroke = Stroke { colour: ink, width: 1.8, dashes: dashes(line.precision) };
        svg.line((left, at), (left + 30.0, at), stroke);
        svg.marker(shape(line.model), (left + 15.0, at), 4.6, ink, false);
        svg.text((left + 38.0, at + 4.5), 13.0, Anchor::Start, INK, &line.name);
        at += LINE;
    }
    at += 6.0;
    for text in ["marker: median", &bar_text(rows)] {
        svg.text((left, at + 4.0), SMALL, Anchor::Start, GREY, text);
        at += LINE;
    }
    svg.dot((left + 5.0, at), GREY);
    svg.text((left + 16.0, at + 4.0), SMALL, Anchor::Start, GREY, "one run");
    if rows.iter().any(|row| row.left_out() > 0) {
        at += LINE;
        svg.cross((left + 5.0, at), GREY);
        svg.text((left + 16.0, at + 4.0), SMALL, Anchor::Start, GREY, "one run, left out (marked)");
    }
}
