//! The time of an iteration by part: one stacked bar per row.

use crate::analysis::Analysis;
use crate::analysis::group::Row;
use crate::analysis::operators::{Breakdown, Part};
use crate::analysis::table::{Keys, time_sections, time_table};
use crate::report::figure::{Drawing, Figure, further};
use crate::report::frame::{self, Area, MARGIN, SMALL, Sheet, WIDTH};
use crate::report::hover::{row_anchor, short_label};
use crate::report::inks::{GREY, INK, PAPER, colour};
use crate::report::letters::{cut_within, text_width};
use crate::report::scale::Kind;
use crate::report::svg::{Anchor, Look, Shape, Svg};

pub(in crate::report) const TIME: Figure = Figure {
    name: "time",
    heading: "Where the time goes",
    one_per: "env",
    needs: "It needs an `ops` job, which profiles a few iterations by operator.",
    explanation: "\
A bar is the iteration of a row, by its profile. Its parts are the shares of the time in matrix products, in elementwise
operators, in the optimizer, in copies, waiting for data, and outside of all operators. On an accelerator, the last part
is the time in which it is idle; on a processor, it is the framework and the script.

At the right stands what limits the row.",
    columns: time_sections,
    keys: Keys::OF_ROWS,
    draw,
};

/// The most rows in a drawing.
const ROWS: usize = 48;

/// The height of a row, and of its bar.
pub(super) const STEP: f64 = 18.0;
pub(super) const BAR: f64 = 13.0;

/// The most room for the names of rows.
const NAMES: f64 = 250.0;

/// A row with its place in the analysis and its breakdown.
pub(super) type Member<'r> = (usize, &'r Row<'r>, &'r Breakdown<'r>);

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let mut envs: Vec<&str> = analysis.rows.iter().map(|row| row.config.env.as_str()).collect();
    envs.dedup();
    envs.into_iter().flat_map(|env| of_env(env, analysis)).collect()
}

fn of_env(env: &str, analysis: &Analysis<'_>) -> Vec<Drawing> {
    let rows = analysis.rows.iter().zip(&analysis.breakdowns).enumerate();
    let members: Vec<Member<'_>> = rows
        .filter(|(_, (row, _))| *row.config.env == *env)
        .filter_map(|(index, (row, breakdown))| Some((index, row, breakdown.as_ref()?)))
        .collect();
    let drawing = |(chunk, number): (&[Member<'_>], usize)| {
        let title = format!("Where the time of an iteration goes, {env}");
        let indices: Vec<usize> = chunk.iter().map(|(index, ..)| *index).collect();
        Drawing {
            of: format!("{env}{}", further(number)),
            svg: of_members(&title, chunk, analysis),
            title,
            numbers: time_table(&indices, analysis),
        }
    };
    members.chunks(ROWS).zip(1..).map(drawing).collect()
}

fn of_members(title: &str, members: &[Member<'_>], analysis: &Analysis<'_>) -> String {
    let mut sheet = Sheet::new(title, "share of a profiled iteration, in percent");
    legend(&mut sheet, members);
    let bound = |index: usize| analysis.classes[index].bound.to_string();
    let widest = |texts: &mut dyn Iterator<Item = String>| {
        texts.map(|text| text_width(&text, SMALL)).fold(0.0, f64::max)
    };
    let left = MARGIN + widest(&mut members.iter().map(|(_, row, _)| short_label(row))).min(NAMES) + 8.0;
    let right = WIDTH - MARGIN - widest(&mut members.iter().map(|(index, ..)| bound(*index))) - 8.0;
    let area = sheet.plot(left, right, members.len() as f64 * STEP);
    let x = area.across(Kind::Linear, 0.0, 100.0);
    let ticks = [0.0, 25.0, 50.0, 75.0, 100.0].map(|tick| (x.place(tick), format!("{tick:.0}")));
    frame::axis_below(&mut sheet.svg, &area, &ticks);
    for ((index, row, breakdown), line) in members.iter().zip(0_u32..) {
        let middle = area.top + (f64::from(line) + 0.5) * STEP;
        let name = cut_within(&short_label(row), SMALL, left - MARGIN - 8.0);
        sheet.svg.text((left - 8.0, middle + 4.0), SMALL, Anchor::End, INK, &name);
        bar(&mut sheet.svg, &area, middle, row, breakdown);
        sheet.svg.text((right + 8.0, middle + 4.0), SMALL, Anchor::Start, INK, &bound(*index));
    }
    hollow_note(&mut sheet, members);
    sheet.finish()
}

/// Explains hollow bars, if there are any.
pub(super) fn hollow_note(sheet: &mut Sheet, members: &[Member<'_>]) {
    if members.iter().any(|(_, _, breakdown)| !breakdown.is_representative()) {
        sheet.paragraph(
            GREY,
            "Where the profiler changed the time of an iteration by half or more, the bar is hollow.",
        );
    }
}

/// The legend of the colours: the parts that any of `members` has.
pub(super) fn legend(sheet: &mut Sheet, members: &[Member<'_>]) {
    let is_there = |part: &Part| members.iter().any(|(_, _, it)| it.share(*part) >= LEAST_SHOWN);
    let parts: Vec<Part> = Part::ALL.into_iter().filter(is_there).collect();
    let entries: Vec<(Look<'_>, &str)> = parts
        .iter()
        .map(|part| {
            let look = Look { shape: Shape::Square, radius: 5.0, colour: ink(*part), is_filled: true };
            (look, part.title())
        })
        .collect();
    sheet.legend(&entries);
}

/// A part with a smaller share of an iteration is not in the legend.
const LEAST_SHOWN: f64 = 0.001;

/// The least width of a part with a number on it.
const NUMBERED: f64 = 24.0;

pub(super) fn bar(svg: &mut Svg, area: &Area, middle: f64, row: &Row<'_>, breakdown: &Breakdown<'_>) {
    let x = area.across(Kind::Linear, 0.0, 1.0);
    let mut start = 0.0;
    for (part, share) in &breakdown.parts {
        let (from, to) = (x.place(start), x.place((start + share).min(1.0)));
        start += share;
        if to - from < 0.1 {
            continue;
        }
        let box_ = [from, middle - BAR / 2.0, to, middle + BAR / 2.0];
        let text = format!("{}\n{:.1} % {}", row.label(), 100.0 * share, part.title());
        let fill = if breakdown.is_representative() { ink(*part) } else { PAPER };
        svg.linked_bar(box_, (fill, ink(*part)), &text, &row_anchor(row));
        if to - from >= NUMBERED {
            let number = format!("{:.0}", 100.0 * share);
            let on = if breakdown.is_representative() { PAPER } else { INK };
            svg.text(((from + to) / 2.0, middle + 4.0), SMALL - 1.0, Anchor::Middle, on, &number);
        }
    }
}

/// The colour of a part.
fn ink(part: Part) -> &'static str {
    match part {
        Part::Products => colour(0),
        Part::Elementwise => colour(1),
        Part::Optimizer => colour(2),
        Part::Copies => colour(3),
        Part::DataWait => colour(4),
        Part::Other => colour(5),
        Part::Idle => GREY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::study_with_operators;

    #[test]
    fn a_bar_shows_each_part_of_an_iteration_and_its_limit() {
        let study = study_with_operators();
        let analysis = analyse(&study);
        let [drawing] = &draw(&analysis)[..] else { panic!("one env") };
        for text in ["70.0 % matrix products and convolutions", "20.0 % normalisation", "compute-bound"] {
            assert!(drawing.svg.contains(text), "{text}: {}", drawing.svg);
        }
        assert!(!drawing.svg.contains("data wait"), "a part that no row has is not in the legend");
        assert_eq!(drawing.numbers.read().rows.len(), 1);
    }
}
