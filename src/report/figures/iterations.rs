//! The iterations of each run, over its window: one small plot per row.

use crate::analysis::Analysis;
use crate::analysis::group::Row;
use crate::analysis::marks::Mark;
use crate::analysis::table::{Keys, trace_sections, trace_table};
use crate::analysis::trace::{MOST_ROWS, Part, RowTraces, Trace, traces};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, Area, LINE, MARGIN, SMALL, Sheet, WIDTH, tick_text};
use crate::report::hover::{self, run_anchor, short_label};
use crate::report::inks::{ALARM, GREY, colour};
use crate::report::letters::{cut, cut_within, text_width};
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{Anchor, Look, Shape, Stroke, Svg, ink_text};
use crate::text::significant;

pub(super) const ITERATIONS: Figure = Figure {
    name: "iterations",
    heading: "Iterations",
    one_per: "16 rows",
    needs: "\
It needs a worker that writes `iterations.csv`, with a clock that waits for the device or times it by events.",
    explanation: "\
Each plot is a row, each line one of its runs: the seconds of an iteration over the window. A window of more than 60
iterations is drawn in 60 parts. The line is the median of each part, and the area behind it goes from the least to the
greatest seconds. A dashed line is a run that is left out.

The marks of the runs are below the name of the row. Rows with marked runs come first, and no more than 60 rows are
drawn. The files `iterations.csv` of the store have all iterations.",
    columns: trace_sections,
    keys: Keys::WITHIN_ROWS,
    draw,
};

/// The rows of a drawing, two beside each other.
const ROWS: usize = 16;
const COLUMNS: usize = 2;

const HEIGHT: f64 = 80.0;
const GAP: f64 = 14.0;

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let (found, rows) = traces(analysis);
    let all = found.len().div_ceil(ROWS);
    let drawing = |(chunk, number): (&[RowTraces], usize)| {
        let part = if all > 1 { format!(" ({number} of {all})") } else { String::new() };
        let title = format!("Seconds of each iteration{part}");
        let mut sheet = Sheet::new(&title, "seconds over the number of the iteration");
        for pair in chunk.chunks(COLUMNS) {
            plots(&mut sheet, pair, analysis);
        }
        let mut note = "Line: a run, dashed if it is left out. Area: from least to greatest.".to_owned();
        if rows > MOST_ROWS {
            note += &format!(" Of {rows} rows, {MOST_ROWS} are drawn, those with marked runs first.");
        }
        sheet.paragraph(GREY, &note);
        Drawing { of: number.to_string(), title, svg: sheet.finish(), numbers: trace_table(chunk, analysis) }
    };
    found.chunks(ROWS).zip(1..).map(drawing).collect()
}

/// Two plots beside each other.
fn plots(sheet: &mut Sheet, pair: &[RowTraces], analysis: &Analysis<'_>) {
    let width = (WIDTH - 2.0 * MARGIN - GAP) / COLUMNS as f64;
    let top = sheet.at;
    for (column, traces) in (0..).zip(pair) {
        let left = MARGIN + f64::from(column) * (width + GAP);
        let row = &analysis.rows[traces.row];
        sheet.at = top;
        let label = format!("{} {}", row.config.env, short_label(row));
        sheet.at += LINE;
        let name = cut_within(&label, SMALL, width);
        ink_text(&mut sheet.svg, (left, sheet.at - 2.0), SMALL, Anchor::Start, &name);
        sheet.at += LINE;
        let (ink, marks) = marks_line(row, &traces.traces);
        sheet.svg.text((left, sheet.at - 3.0), SMALL, Anchor::Start, ink, &cut(&marks, SMALL, width));
        // The number at the top of the axis is a little above the plot.
        sheet.at += 5.0;
        let y = seconds_axis(&traces.traces);
        let beside =
            y.ticks().into_iter().map(|tick| text_width(&tick_text(tick), SMALL)).fold(0.0, f64::max);
        let area = sheet.plot(left + beside + 6.0, left + width - 4.0, HEIGHT);
        plot(&mut sheet.svg, row, &traces.traces, &area);
    }
}

fn marks_line(row: &Row<'_>, traces: &[Trace]) -> (&'static str, String) {
    let mut names: Vec<&str> = Vec::new();
    for mark in traces.iter().flat_map(|trace| &row.runs[trace.run].marks).map(Mark::name) {
        if !names.contains(&mark) {
            names.push(mark);
        }
    }
    if names.is_empty() { (GREY, "no marks".to_owned()) } else { (ALARM, names.join(", ")) }
}

/// The axis of the seconds; the caller moves it to its place.
fn seconds_axis(traces: &[Trace]) -> Scale {
    let parts = || traces.iter().flat_map(|trace| &trace.parts);
    let most = parts().map(|part| part.greatest_s).fold(0.0, f64::max);
    Scale { kind: Kind::Linear, low: 0.0, high: most.max(1e-9) * 1.05, from: 0.0, to: 1.0 }
}

fn plot(svg: &mut Svg, row: &Row<'_>, traces: &[Trace], area: &Area) {
    let y = Scale { from: area.bottom, to: area.top, ..seconds_axis(traces) };
    let last = traces.iter().filter_map(|trace| trace.parts.last()).map(|part| part.last).max().unwrap_or(1);
    let x = area.across(Kind::Linear, 0.5, last as f64 + 0.5);
    frame::value_axis(svg, area, &y);
    frame::axis_below(svg, area, &[(x.place(1.0), "1".to_owned()), (x.place(last as f64), last.to_string())]);
    for (index, trace) in traces.iter().enumerate() {
        draw_trace(svg, row, trace, index, (&x, &y));
    }
    frame::border(svg, area);
}

fn draw_trace(svg: &mut Svg, row: &Row<'_>, trace: &Trace, index: usize, (x, y): (&Scale, &Scale)) {
    let run = &row.runs[trace.run];
    let ink = if run.counts() { colour(index) } else { GREY };
    let middle = |part: &Part| x.place((part.first + part.last) as f64 / 2.0);
    let line = |value: fn(&Part) -> f64| -> Vec<(f64, f64)> {
        trace.parts.iter().map(|part| (middle(part), y.place(value(part)))).collect()
    };
    if trace.parts.iter().any(|part| part.greatest_s > part.least_s) {
        let mut around = line(|part| part.least_s);
        around.extend(line(|part| part.greatest_s).into_iter().rev());
        svg.area(&around, ink);
    }
    let medians = line(|part| part.median_s);
    let dashes = if run.counts() { "" } else { "3 2" };
    svg.polyline(&medians, Stroke { colour: ink, width: 1.2, dashes });
    if let (Some(part), Some(at)) = (trace.parts.last(), medians.last()) {
        let median = significant(part.median_s, 4);
        let text = format!("{}\nits last iterations took {median} s", hover::of_run(row, run));
        let look = Look { shape: Shape::Circle, radius: 2.4, colour: ink, is_filled: run.counts() };
        svg.linked_marker(*at, look, &text, &run_anchor(row, run));
    }
}
