//! The runs of each machine in the order of time: drift, blocks, and outliers.

use crate::analysis::Analysis;
use crate::analysis::sequence::{Block, Placed, Sequence};
use crate::analysis::table::{Keys, run_sections, sequence_table};
use crate::report::changes::{changes_axis, percent_ticks, place_change};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, Area, MARGIN, SMALL, Sheet, WIDTH};
use crate::report::hover::{self, run_anchor};
use crate::report::inks::{GREY, GRID, INK, SHADE, colour};
use crate::report::letters::text_width;
use crate::report::scale::{Kind, Scale, round_up};
use crate::report::svg::{Anchor, Look, Shape, Stroke, Svg};

pub(super) const ORDER: Figure = Figure {
    name: "order",
    heading: "The order of the runs",
    one_per: "four stretches of at most 150 runs, host by host",
    needs: "It needs a row with two runs that count.",
    explanation: "\
Each mark is a run, from left to right in the order in which a machine ran them, at its distance from its row's
throughput. A temporary slowdown of a machine is visible for all configs. Marks are those of the figure above: hollow is
left out, a triangle counts although it is marked, and a wedge is beyond the edge.

Bands are blocks, runs of one repeat that were made together; the number is that of the repeat. A bar across a block is
the median of its runs, if three or more count. The drift is a robust slope (Theil and Sen) over all runs that count,
multiplied by their number. Its 95 % interval is beside it, without ends if neighbouring runs correlate too much.",
    columns: run_sections,
    keys: Keys::RUNS,
    draw,
};

/// The most runs in a plot.
const RUNS: usize = 150;

/// The most plots in a drawing.
const PLOTS: usize = 4;

const HEIGHT: f64 = 130.0;

/// Some runs of a machine, one after the other.
type Stretch<'r> = (&'r Sequence, &'r [Placed]);

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let has_change = |sequence: &&Sequence| sequence.runs.iter().any(|placed| placed.change.is_some());
    let stretches: Vec<Stretch<'_>> = analysis
        .sequences
        .iter()
        .filter(has_change)
        .flat_map(|sequence| sequence.runs.chunks(RUNS).map(move |runs| (sequence, runs)))
        .collect();
    let all = stretches.len().div_ceil(PLOTS);
    let drawing = |(chunk, number): (&[Stretch<'_>], usize)| {
        let part = if all > 1 { format!(" ({number} of {all})") } else { String::new() };
        let title = format!("Runs in the order of time{part}");
        let runs: Vec<Placed> = chunk.iter().flat_map(|(_, runs)| *runs).copied().collect();
        let mut sheet =
            Sheet::new(&title, "each run's distance from the throughput of its row, over its place");
        for stretch in chunk {
            plot(&mut sheet, *stretch, analysis);
        }
        sheet.paragraph(
            GREY,
            "Bands: blocks, with the repeat. Bar: the median of a block. Triangle: marked, but counts. Hollow: left \
             out. Wedge: beyond the edge.",
        );
        Drawing {
            of: number.to_string(),
            title,
            svg: sheet.finish(),
            numbers: sequence_table(&runs, analysis),
        }
    };
    stretches.chunks(PLOTS).zip(1..).map(drawing).collect()
}

/// The host of `sequence`, with its machine's id if `all` have several of that name.
fn machine_text(sequence: &Sequence, all: &[Sequence]) -> String {
    let Sequence { host, machine, .. } = sequence;
    let is_alone = all.iter().filter(|other| other.host == *host).count() == 1;
    let id = machine.as_ref().filter(|_| !is_alone);
    format!("{host}{}", id.map(|id| format!(" (machine {id})")).unwrap_or_default())
}

fn heading((sequence, runs): Stretch<'_>, all: &[Sequence]) -> String {
    let (first, last) = (runs[0].place, runs[runs.len() - 1].place);
    let which = if runs.len() == sequence.runs.len() {
        format!("{last} runs")
    } else {
        format!("runs {first} to {last} of {}", sequence.runs.len())
    };
    let drift = match sequence.drift {
        Some(drift) => {
            let [low, high] = drift.interval.map(|end| format!("{:+.1}", 100.0 * end));
            let interval =
                if drift.interval[0].is_finite() { format!("{low} to {high}") } else { "no ends".to_owned() };
            format!("drift {:+.1} % ({interval})", 100.0 * drift.change)
        }
        None => "too few runs for a drift".to_owned(),
    };
    format!("{}: {which}, {drift}", machine_text(sequence, all))
}

fn plot(sheet: &mut Sheet, stretch: Stretch<'_>, analysis: &Analysis<'_>) {
    let (sequence, runs) = stretch;
    sheet.heading(&heading(stretch, &analysis.sequences));
    let area = sheet.plot(MARGIN + 46.0, WIDTH - MARGIN, HEIGHT);
    let [first, last] = [runs[0].place, runs[runs.len() - 1].place].map(|place| place as f64);
    let x = area.across(Kind::Linear, first - 0.5, last + 0.5);
    let y = changes_axis(runs.iter(), |reach| area.upwards(Kind::Linear, -reach, reach));
    let within = |block: &&Block| block.places[1] as f64 >= first && block.places[0] as f64 <= last;
    let blocks: Vec<&Block> = sequence.blocks.iter().filter(within).collect();
    bands(&mut sheet.svg, &blocks, &area, &x);
    changes_beside(&mut sheet.svg, &area, &y);
    frame::axis_below(&mut sheet.svg, &area, &places_below(&x, first, last));
    for block in &blocks {
        if let Some(change) = block.change.filter(|change| (y.low..=y.high).contains(change)) {
            let [from, to] = ends(block, &x);
            svg_bar(&mut sheet.svg, [from, to], y.place(change));
        }
    }
    for placed in runs {
        let row = &analysis.rows[placed.row];
        let run = &row.runs[placed.run];
        let Some((at, is_within)) = place_change(placed, &y) else { continue };
        let look = if is_within {
            hover::look_of_run(run, colour(0))
        } else {
            Look { shape: Shape::Wedge, radius: 4.0, colour: colour(1), is_filled: run.counts() }
        };
        let (place, text) = ((x.place(placed.place as f64), at), hover::of_placed(row, placed));
        sheet.svg.linked_marker(place, look, &text, &run_anchor(row, run));
    }
    frame::border(&mut sheet.svg, &area);
}

fn svg_bar(svg: &mut Svg, [from, to]: [f64; 2], at: f64) {
    svg.line((from + 1.0, at), (to - 1.0, at), Stroke::solid(colour(1), 2.0));
}

/// The left and right end of a block, within the plot.
fn ends(block: &Block, x: &Scale) -> [f64; 2] {
    [block.places[0] as f64 - 0.5, block.places[1] as f64 + 0.5]
        .map(|place| x.place(place.clamp(x.low, x.high)))
}

/// Shades every second block, and writes the repeat above wide ones. If no block has two runs, there
/// is nothing to shade.
fn bands(svg: &mut Svg, blocks: &[&Block], area: &Area, x: &Scale) {
    if blocks.iter().all(|block| block.places[0] == block.places[1]) {
        return;
    }
    for (index, block) in blocks.iter().enumerate() {
        let [from, to] = ends(block, x);
        if index % 2 == 1 {
            svg.rectangle([from, area.top, to, area.bottom], SHADE, "none");
        }
        let text = block.repeat.to_string();
        if text_width(&text, SMALL) + 4.0 <= to - from {
            let middle = f64::midpoint(from, to);
            svg.text((middle, area.top + 12.0), SMALL, Anchor::Middle, GREY, &text);
        }
    }
}

/// The value axis with its percentages.
fn changes_beside(svg: &mut Svg, area: &Area, y: &Scale) {
    let mut free = f64::INFINITY;
    for (at, text) in percent_ticks(y) {
        if at + 7.5 <= free {
            svg.line((area.left, at), (area.right, at), Stroke::solid(GRID, 1.0));
            svg.text((area.left - 6.0, at + 4.0), SMALL, Anchor::End, INK, &text);
            free = at - 7.5;
        }
    }
    let zero = y.place(0.0);
    svg.line((area.left, zero), (area.right, zero), Stroke::solid(GREY, 1.0));
}

/// Whole places, at a round distance from each other.
fn places_below(x: &Scale, first: f64, last: f64) -> Vec<(f64, String)> {
    let step = round_up((last - first).max(1.0) / 8.0).max(1.0);
    let from = (first / step).ceil() as usize;
    let to = (last / step).floor() as usize;
    let places = (from..=to).map(|index| index as f64 * step);
    places.map(|place| (x.place(place), format!("{place:.0}"))).collect()
}
