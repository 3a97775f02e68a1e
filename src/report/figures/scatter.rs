//! Every run: the distance of its throughput from that of its row, one line per row.

use crate::analysis::Analysis;
use crate::analysis::group::{Row, unit};
use crate::analysis::printed::Throughput;
use crate::analysis::sequence::Placed;
use crate::analysis::table::{Keys, run_sections, runs_table};
use crate::report::changes::{changes_axis, percent_ticks, place_change};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, Area, MARGIN, SMALL, Sheet, WIDTH};
use crate::report::hover::{self, run_anchor, short_label};
use crate::report::inks::{GREY, GRID, INK, colour};
use crate::report::letters::{cut, cut_within, text_width};
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{Anchor, Look, Shape, Stroke, Svg, ink_text};

pub(super) const SCATTER: Figure = Figure {
    name: "scatter",
    heading: "Every run",
    one_per: "60 rows, env by env",
    needs: "It needs a row with two runs that count.",
    explanation: "\
A line is a row, with its network, precision, batch and what else varies. A mark is a run, at its distance from the
throughput of its row. So the rows of all networks share an axis. A disc is a run that counts, a triangle one that
counts although it is marked, and a hollow disc one that is left out. A wedge at an edge is a run beyond it.

At the right are n and the throughput. A row with fewer than two runs that count has no line: the
throughput would be the run itself.",
    columns: run_sections,
    keys: Keys::RUNS,
    draw,
};

/// The most rows in a drawing.
const ROWS: usize = 60;

/// The height of a line.
const STEP: f64 = 17.0;

/// The most room for the names of rows.
const NAMES: f64 = 260.0;

/// A row with those of its runs that have a throughput.
type Member<'r> = (usize, Vec<&'r Placed>);

/// A line of the figure.
enum Line<'r> {
    Env(&'r str),
    Row(&'r Member<'r>),
}

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let members = members(analysis);
    let all = members.len().div_ceil(ROWS);
    let drawing = |(chunk, number): (&[Member<'_>], usize)| {
        let part = if all > 1 { format!(" ({number} of {all})") } else { String::new() };
        let title = format!("Every run{part}");
        let rows: Vec<usize> = chunk.iter().map(|(row, _)| *row).collect();
        let svg = of_rows(&title, chunk, analysis);
        Drawing { of: number.to_string(), title, svg, numbers: runs_table(&rows, analysis) }
    };
    members.chunks(ROWS).zip(1..).map(drawing).collect()
}

/// `members`, with a line for each env before its rows.
fn lines<'r>(members: &'r [Member<'r>], analysis: &'r Analysis<'_>) -> Vec<Line<'r>> {
    let mut lines = Vec::new();
    let mut last = "";
    for member in members {
        let env = analysis.rows[member.0].config.env.as_str();
        if env != last {
            lines.push(Line::Env(env));
            last = env;
        }
        lines.push(Line::Row(member));
    }
    lines
}

/// The rows whose runs have a distance from a throughput, in the order of the rows.
fn members<'r>(analysis: &'r Analysis<'_>) -> Vec<Member<'r>> {
    let mut runs: Vec<Vec<&Placed>> = vec![Vec::new(); analysis.rows.len()];
    let all = analysis.sequences.iter().flat_map(|sequence| &sequence.runs);
    for placed in all.filter(|placed| placed.change.is_some()) {
        runs[placed.row].push(placed);
    }
    runs.into_iter().enumerate().filter(|(_, runs)| !runs.is_empty()).collect()
}

fn of_rows(title: &str, members: &[Member<'_>], analysis: &Analysis<'_>) -> String {
    let mut sheet = Sheet::new(title, "each run's distance from the throughput of its row");
    let rows = || members.iter().map(|(row, _)| &analysis.rows[*row]);
    let widest = |texts: &mut dyn Iterator<Item = String>| {
        texts.map(|text| text_width(&text, SMALL)).fold(0.0, f64::max)
    };
    let left = MARGIN + widest(&mut rows().map(short_label)).min(NAMES) + 8.0;
    let right = WIDTH - MARGIN - widest(&mut rows().map(beside)) - 8.0;
    let lines = lines(members, analysis);
    let area = sheet.plot(left, right, lines.len() as f64 * STEP);
    let runs = members.iter().flat_map(|(_, runs)| runs).copied();
    let x = changes_axis(runs, |reach| area.across(Kind::Linear, -reach, reach));
    frame::axis_below(&mut sheet.svg, &area, &percent_ticks(&x));
    let zero = x.place(0.0);
    sheet.svg.line((zero, area.top), (zero, area.bottom), Stroke::solid(GREY, 1.0));
    for (index, line) in lines.iter().enumerate() {
        let middle = area.top + (index as f64 + 0.5) * STEP;
        match line {
            Line::Env(env) => {
                let name = cut(env, SMALL, area.left - MARGIN - 8.0);
                sheet.svg.text((MARGIN, middle + 4.0), SMALL, Anchor::Start, GREY, &name);
            }
            Line::Row((row, runs)) => {
                draw_row(&mut sheet.svg, (&analysis.rows[*row], &runs[..]), middle, &area, &x);
            }
        }
    }
    frame::border(&mut sheet.svg, &area);
    notes(&mut sheet, &unit(rows()).to_string());
    sheet.finish()
}

fn notes(sheet: &mut Sheet, unit: &str) {
    let text = format!(
        "Right: n, and the throughput in {unit} per s. Disc: a run. Triangle: it counts although it is marked. Hollow: it \
         is left out. Wedge: it is beyond the edge."
    );
    sheet.paragraph(GREY, &text);
}

/// `5 · 812.3`.
fn beside(row: &Row<'_>) -> String {
    row.statistics.as_ref().map_or(String::new(), |statistics| {
        let rate = Throughput::of(statistics).geometric_mean;
        format!("{} · {rate}", statistics.n)
    })
}

fn draw_row(svg: &mut Svg, (row, runs): (&Row<'_>, &[&Placed]), middle: f64, area: &Area, x: &Scale) {
    svg.line((area.left, middle), (area.right, middle), Stroke::solid(GRID, 1.0));
    let name = cut_within(&short_label(row), SMALL, area.left - MARGIN - 8.0);
    svg.text((area.left - 8.0, middle + 4.0), SMALL, Anchor::End, INK, &name);
    ink_text(svg, (area.right + 8.0, middle + 4.0), SMALL, Anchor::Start, &beside(row));
    for placed in runs {
        let run = &row.runs[placed.run];
        let Some((at, is_within)) = place_change(placed, x) else { continue };
        let text = hover::of_placed(row, placed);
        let look = if is_within {
            hover::look_of_run(run, colour(0))
        } else {
            Look { shape: Shape::Wedge, radius: 4.0, colour: colour(1), is_filled: run.counts() }
        };
        svg.linked_marker((at, middle), look, &text, &run_anchor(row, run));
    }
}
