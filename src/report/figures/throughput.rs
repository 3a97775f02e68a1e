//! Throughput by batch size: one line per network, precision and varying parameters. If an env has many lines, each of
//! its networks has a separate plot.
//!
//! A disc is a run, hollow if it is left out of the statistics. Lines connect the throughputs of rows; bars are their
//! 95 % intervals, which need three runs. The names of lines are beside their ends.

use crate::analysis::group::{Row, unit};
use crate::analysis::table::{Keys, run_sections, runs_table};
use crate::analysis::{Analysis, Run};
use crate::job::Precision;
use crate::report::figure::{Drawing, Figure, further};
use crate::report::frame::{self, Area, MARGIN, SMALL, Sheet};
use crate::report::hover::{self, row_anchor, run_anchor};
use crate::report::inks::{GREY, colour};
use crate::report::labels::{height_for, spread};
use crate::report::letters::{cut_within, text_width};
use crate::report::lines::{Line, lines, panels};
use crate::report::scale::{Kind, Scale, round_up};
use crate::report::svg::{Anchor, Look, Stroke, Svg, ink_text, run_look, sample, shape};
use crate::stats::Interval;

pub(super) const THROUGHPUT: Figure = Figure {
    name: "throughput",
    heading: "Throughput by batch size",
    one_per: "env",
    needs: "It needs a run with a throughput.",
    explanation: "\
A small disc is a run; a hollow one is left out of the statistics. A marker is the throughput of a row, the
geometric mean of its runs. Lines connect those of one network, precision and set of parameters. If an env has more than
seven lines, each network has a plot with its own axis.

A bar is the 95 % interval of a row: Student's, on the logs of its runs. It needs n ≥ 3, and the figure
has the number of runs behind the bars. A row of fewer runs has no bar. A bar without a cap continues beyond the
plot.",
    columns: run_sections,
    keys: Keys::RUNS,
    draw,
};

const LEAST_HEIGHT: f64 = 150.0;

/// The most plots in a drawing.
const PLOTS: usize = 6;

/// The most room for the names of lines beside a plot.
const NAMES: f64 = 255.0;

/// The most that a bar extends the throughput axis beyond the fastest run, as a factor.
const ROOM: f64 = 1.3;

/// The throughput axis is logarithmic if the ratio of the fastest to the slowest run exceeds this.
const LOG_FROM: f64 = 20.0;

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let mut envs: Vec<&str> = analysis.rows.iter().map(|row| row.config.env.as_str()).collect();
    envs.dedup();
    envs.into_iter().flat_map(|env| of_env(env, analysis)).collect()
}

/// The throughput of `env`; nothing if no run of it has any.
fn of_env(env: &str, analysis: &Analysis<'_>) -> Vec<Drawing> {
    let has_rate = |line: &Line<'_, '_>| line.rows.iter().any(|(_, row)| rates(row).next().is_some());
    let (drawn, empty): (Vec<_>, Vec<_>) = lines(env, analysis).into_iter().partition(has_rate);
    let panels = panels(drawn);
    let last = panels.len().div_ceil(PLOTS);
    let chunks = panels.chunks(PLOTS).zip(1..);
    let drawing = |(chunk, number): (&[(String, Vec<Line<'_, '_>>)], usize)| {
        let place = further(number);
        let title = format!("Training throughput by batch size, {env}{}", of_several(number, last));
        let shown = || chunk.iter().flat_map(|(_, lines)| lines);
        let rows: Vec<&Row<'_>> = shown().flat_map(|line| &line.rows).map(|(_, row)| *row).collect();
        let unit = unit(rows.iter().copied());
        let mut sheet = Sheet::new(&title, &format!("{unit} per s over batch size (log scale)"));
        for (name, lines) in chunk {
            plot(&mut sheet, name, lines);
        }
        notes(&mut sheet, &rows);
        let empty = empty.iter().filter(|_| number == last);
        for text in missing(shown().chain(empty)) {
            sheet.paragraph(GREY, &text);
        }
        let indices: Vec<usize> = shown().flat_map(|line| &line.rows).map(|(index, _)| *index).collect();
        let numbers = runs_table(&indices, analysis);
        Drawing { of: format!("{env}{place}"), title, svg: sheet.finish(), numbers }
    };
    chunks.map(drawing).collect()
}

/// ` (2 of 3)`, of several drawings.
fn of_several(number: usize, of: usize) -> String {
    if of > 1 { format!(" ({number} of {of})") } else { String::new() }
}

/// The throughput of each run of `row` that has one, and the run.
pub(super) fn rates<'r, 'a>(row: &'r Row<'a>) -> impl Iterator<Item = (f64, &'r Run<'a>)> + 'r {
    row.runs.iter().filter_map(|run| Some((run.samples_per_s()?, run)))
}

/// The intervals of the rows that have one, each with its n.
fn intervals<'r>(rows: &'r [&Row<'_>]) -> impl Iterator<Item = (usize, Interval)> + 'r {
    let statistics = rows.iter().filter_map(|row| row.statistics.as_ref().ok());
    statistics.filter_map(|statistics| Some((statistics.n, statistics.interval.ok()?)))
}

/// Notes about configs without a point.
fn missing<'l, 'r: 'l, 'a: 'r>(lines: impl Iterator<Item = &'l Line<'r, 'a>>) -> Vec<String> {
    let text = |line: &Line<'_, '_>| {
        let without = line.rows.iter().filter(|(_, row)| row.statistics.is_err());
        let batches: Vec<String> =
            without.map(|(_, row)| format!("{}: {}", row.config.batch, row.counts.why_none())).collect();
        let name = line.full_name();
        (!batches.is_empty()).then(|| format!("No result for {name} at batch {}", batches.join(", ")))
    };
    lines.filter_map(text).collect()
}

/// A linear axis that starts at 0, or a logarithmic one if slow runs would otherwise be on the axis.
fn rate_scale(area: &Area, rows: &[&Row<'_>]) -> Scale {
    let values = || rows.iter().flat_map(|row| rates(row)).map(|(rate, _)| rate);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let highest = intervals(rows).map(|(_, interval)| interval.high).fold(most, f64::max).min(ROOM * most);
    if most / least > LOG_FROM {
        return area.upwards(Kind::Log, least / 1.5, most * 1.5);
    }
    let step = round_up(highest * 1.02 / 7.0);
    area.upwards(Kind::Linear, 0.0, (highest * 1.02 / step).ceil() * step)
}

pub(super) fn plot(sheet: &mut Sheet, name: &str, lines: &[Line<'_, '_>]) {
    let rows: Vec<&Row<'_>> = lines.iter().flat_map(|line| &line.rows).map(|(_, row)| *row).collect();
    if !name.is_empty() {
        sheet.heading(name);
    }
    let anywhere = Area { left: 0.0, top: 0.0, right: 1.0, bottom: 1.0 };
    let names = lines.iter().map(|line| text_width(&line.name, SMALL)).fold(0.0, f64::max).min(NAMES);
    let right = sheet.width - MARGIN - names - 32.0;
    let left = frame::left_of(&rate_scale(&anywhere, &rows));
    let area = sheet.plot(left, right, height_for(lines.len(), LEAST_HEIGHT));
    let y = rate_scale(&area, &rows);
    let batches: Vec<u32> = rows.iter().map(|row| row.config.batch).collect();
    let (x, ticks) = frame::batch_axis(&area, &batches);
    frame::value_axis(&mut sheet.svg, &area, &y);
    frame::axis_below(&mut sheet.svg, &area, &ticks);
    for (index, line) in lines.iter().enumerate() {
        draw_line(&mut sheet.svg, line, (index, lines.len()), &x, &y);
    }
    frame::border(&mut sheet.svg, &area);
    names_beside(&mut sheet.svg, lines, &area, &y);
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

fn look(index: usize) -> Look<'static> {
    Look { shape: shape(index), radius: 4.6, colour: colour(index), is_filled: false }
}

fn draw_line(svg: &mut Svg, line: &Line<'_, '_>, (index, of): (usize, usize), x: &Scale, y: &Scale) {
    let ink = colour(index);
    // Lines are shifted a little, so that their dots and bars do not cover each other.
    let step = (30.0 / of as f64).min(7.0);
    let shift = (index as f64 - (of as f64 - 1.0) / 2.0) * step;
    let across = |row: &Row<'_>| x.place(f64::from(row.config.batch)) + shift;
    let rows = || line.rows.iter().map(|(_, row)| *row);
    let means: Vec<(f64, f64)> =
        rows().filter_map(|row| Some((across(row), y.place(row.samples_per_s()?)))).collect();
    if means.len() > 1 {
        svg.polyline(&means, Stroke { colour: ink, width: 1.8, dashes: dashes(line.precision) });
    }
    for row in rows() {
        let at = across(row);
        if let Some(interval) = row.statistics.as_ref().ok().and_then(|statistics| statistics.interval.ok()) {
            bar(svg, at, interval, y, ink);
        }
        if let Some(rate) = row.samples_per_s() {
            svg.linked_marker((at, y.place(rate)), look(index), &hover::of_row(row), &row_anchor(row));
        }
        // Runs are drawn last, so that they are visible on a marker.
        for (rate, run) in rates(row) {
            let (place, look) = ((at, y.place(rate)), run_look(ink, run.counts()));
            svg.linked_marker(place, look, &hover::of_run(row, run), &run_anchor(row, run));
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

/// The name of each line at the height of its end, or as near to it as other names allow.
fn names_beside(svg: &mut Svg, lines: &[Line<'_, '_>], area: &Area, y: &Scale) {
    let end = |line: &Line<'_, '_>| {
        let last = line
            .rows
            .iter()
            .rev()
            .find_map(|(_, row)| row.samples_per_s().or(rates(row).next().map(|it| it.0)));
        last.map_or(area.top, |rate| y.place(rate))
    };
    let wanted: Vec<f64> = lines.iter().map(end).collect();
    for (index, (line, at)) in
        lines.iter().zip(spread(&wanted, area.top + 6.0, area.bottom - 4.0)).enumerate()
    {
        sample(svg, (area.right + 15.0, at), dashes(line.precision), look(index));
        let room = svg.width() - MARGIN - area.right - 28.0;
        let text = cut_within(&line.name, SMALL, room);
        ink_text(svg, (area.right + 28.0, at + 4.0), SMALL, Anchor::Start, &text);
    }
}

/// `Bar: 95 % interval, n = 3 to 6.`
fn bar_text(rows: &[&Row<'_>]) -> String {
    let numbers = || intervals(rows).map(|(n, _)| n);
    match (numbers().min(), numbers().max()) {
        (Some(least), Some(most)) if least == most => format!("Bar: 95 % interval, n = {least}."),
        (Some(least), Some(most)) => format!("Bar: 95 % interval, n = {least} to {most}."),
        _ => "No bar: n is too small.".to_owned(),
    }
}

pub(super) fn notes(sheet: &mut Sheet, rows: &[&Row<'_>]) {
    let left_out = if rows.iter().any(|row| row.left_out() > 0) { ", hollow if left out" } else { "" };
    let text = format!("Marker: throughput. {} Small disc: a run{left_out}.", bar_text(rows));
    sheet.paragraph(GREY, &text);
}
