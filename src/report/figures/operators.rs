//! The operators of a row below the roofs of its device. The area of an operator is its share of the time.

use crate::analysis::Analysis;
use crate::analysis::group::Row;
use crate::analysis::operators::{Breakdown, PlacedOperator};
use crate::analysis::table::{Keys, operator_sections, operator_table};
use crate::report::discs::{Disc, draw_discs, file_part};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::Sheet;
use crate::report::inks::{GREY, bound_ink};
use crate::report::roofs::{Unit, axes_text};

pub(super) const OPERATORS: Figure = Figure {
    name: "operators",
    heading: "Operators",
    one_per: "config with a profile by operator",
    needs: "It needs an `ops` job, and the device's peak and bandwidth.",
    explanation: "\
Each circle is an operator with inputs of one shape, of the 20 that take longest. Its area is its share of an iteration.
Its place is its FLOPs ÷ its compulsory bytes, and its FLOPs ÷ its seconds.

- Compulsory bytes are those of its inputs and outputs, each once. The real traffic can be more, or less where its
  data stay in a cache. So a point can be above the sloping roof.
- An operator without a FLOP, such as an addition or a copy, has no place on this axis. The key has its share of the
  bandwidth.",
    columns: operator_sections,
    keys: Keys::OPERATORS,
    draw,
};

/// The most operators in a drawing.
const SHOWN: usize = 20;

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let rows = analysis.rows.iter().zip(&analysis.breakdowns).enumerate();
    rows.filter_map(|(index, (row, breakdown))| of_row(index, row, breakdown.as_ref()?, analysis)).collect()
}

/// Draws the operators of `row`; `None` if none has a place on the axes.
fn of_row(
    index: usize,
    row: &Row<'_>,
    breakdown: &Breakdown<'_>,
    analysis: &Analysis<'_>,
) -> Option<Drawing> {
    let peaks = row.ceilings()?;
    let title = format!("Operators of {}: {}", row.label(), peaks.device);
    let unit = Unit::of(peaks.ceiling(row.config.precision)?.flops_per_s.high);
    let discs: Vec<Disc> = breakdown.operators.iter().take(SHOWN).map(disc).collect();
    let mut sheet = Sheet::new(&title, &axes_text(unit));
    draw_discs(&mut sheet, row, (peaks, unit), &discs)?;
    let shown: f64 = discs.iter().map(|disc| disc.share).sum();
    let text = format!(
        "The operators shown take {:.0} % of an iteration. Roofs: {}. The bytes are compulsory ones.",
        100.0 * shown,
        peaks.name
    );
    sheet.paragraph(GREY, &text);
    Some(Drawing {
        of: file_part(index, row),
        title,
        svg: sheet.finish(),
        numbers: operator_table(index, analysis),
    })
}

fn disc(operator: &PlacedOperator<'_>) -> Disc {
    let PlacedOperator { rank, rates, limit, .. } = operator;
    let flops = rates.flops.filter(|flops| *flops > 0.0 && rates.seconds > 0.0);
    let bytes = rates.bytes.filter(|bytes| *bytes > 0.0);
    let coordinates = flops.zip(bytes).map(|(flops, bytes)| (flops / bytes, flops / rates.seconds));
    let streams = rates.of_memory.as_ref().and_then(|it| it.streams.as_ref());
    let words = match (coordinates, streams) {
        (None, Some((level, share))) => {
            format!("{}, {:.0} % of the {level} bandwidth", limit.bound(), 100.0 * share.low)
        }
        _ => limit.bound().to_string(),
    };
    Disc {
        rank: *rank,
        name: display_name(operator),
        share: rates.time_share,
        coordinates,
        ink: bound_ink(limit.bound()),
        words,
    }
}

/// `convolution_backward 16x64x56x56 64x64x3x3`
fn display_name(operator: &PlacedOperator<'_>) -> String {
    let name = operator.sample.name.strip_prefix("aten::").unwrap_or(&operator.sample.name);
    let shapes = operator.sample.shapes.iter().flatten().take(2);
    let shapes = shapes.map(|shape| shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x"));
    std::iter::once(name.to_owned()).chain(shapes).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::study_with_operators;

    #[test]
    fn operators_are_drawn_with_their_time_and_limit() {
        let study = study_with_operators();
        let analysis = analyse(&study);
        let [drawing] = &draw(&analysis)[..] else { panic!("one row has a profile") };
        for text in ["70 % compute-bound: conv", "20 % memory-bound, 80 % of the memory bandwidth: norm"] {
            assert!(drawing.svg.contains(text), "{text}: {}", drawing.svg);
        }
    }
}
