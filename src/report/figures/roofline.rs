//! The roofline of a device: roofs, knees, and configs as numbered points with a key beside the plot.
//!
//! Points with counted bytes are filled, points with modelled bytes hollow. Points with estimated bytes are not drawn:
//! they lie on the roof by construction.

use std::collections::BTreeSet;

use crate::analysis::Analysis;
use crate::analysis::group::Row;
use crate::analysis::peaks::Peaks;
use crate::analysis::roofline::{BytesSource, Point, Roofline};
use crate::analysis::table::{Keys, point_sections, roofline_table};
use crate::job::{ModelName, Precision};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, LEFT, SMALL, TOP};
use crate::report::roofs::{
    Entry, FlatRoof, PLOT_WIDTH, RoofAtClock, Unit, axes, draw_key, draw_numbers, flat_roofs, key_size,
    log_scales, roof_at_clock, roofs,
};
use crate::report::scale::Scale;
use crate::report::svg::{Anchor, GREY, INK, Shape, Stroke, Svg, colour, shape};
use crate::stats;
use crate::text::significant;

pub(super) const ROOFLINE: Figure = Figure {
    name: "roofline",
    heading: "Rooflines",
    one_per: "env and device",
    needs: "\
It needs a throughput, a network that `orchestrate` describes, and the device's peak at the same precision.
The findings say what is missing.",
    explanation: "\
Each point is a config. The horizontal axis is its arithmetic intensity, the FLOPs per byte moved. The vertical axis is
the FLOP/s that it attains. The sloping roof is the memory bandwidth, and each flat roof is the peak at a precision.
They meet at the knee.
A dotted roof is the peak at the clock that was seen, if the peak says which clock it is for.

- A filled point has bytes that were counted on the device. Only such a point says which roof bounds its config, and
  it says nothing if the host holds the config up, or if its memory spilled.
- A hollow point has modelled bytes: every layer reads its inputs and weights and writes its outputs once, forward and
  backward. The optimizer's step adds what it reads and writes. Caches and fusion save real bytes, and second passes
  add some, so the point shows no bound.
- A line through a point is the 95 % interval of its geometric mean throughput, or the range of its runs if there are
  fewer than three.
- A point above its roof means that the roof, the bytes or the FLOPs are wrong. It is reported, not clamped.

`roofline_points.csv` also has points whose bytes are estimated from the bandwidth roof, for comparison with older
reports. They lie on that roof by construction and are not drawn.",
    columns: point_sections,
    keys: Keys::WITHIN_ROWS,
    draw,
};

const PLOT_HEIGHT: f64 = 420.0;
/// Room for the axis and two notes.
const BELOW: f64 = 98.0;
const NOTE_LINE: f64 = 17.0;

/// A point, ready to be drawn.
struct Drawn<'r> {
    point: &'r Point,
    ink: &'static str,
    shape: Shape,
    at: (f64, f64),
    /// The heights between which its throughput lies; `None` if that is one.
    ends: Option<[f64; 2]>,
}

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    analysis.rooflines.iter().filter_map(|roofline| of_device(roofline, analysis)).collect()
}

/// Draws `roofline`; `None` if there is no point to draw or no bandwidth.
fn of_device(roofline: &Roofline<'_>, analysis: &Analysis<'_>) -> Option<Drawing> {
    let points: Vec<&Point> =
        roofline.points.iter().filter(|point| point.source != BytesSource::Estimated).collect();
    let bandwidth = roofline.peaks.bandwidth?;
    if points.is_empty() {
        return None;
    }
    let env = &roofline.env;
    let unit = Unit::of(roofline.points.iter().map(|point| point.attainable).fold(0.0, f64::max));
    let keys: Vec<String> =
        points.iter().map(|point| key_line(point, &analysis.rows[point.row], unit)).collect();
    let (key_width, key_height) = key_size(&keys);
    let height = key_height.clamp(PLOT_HEIGHT, 1.5 * PLOT_HEIGHT);
    let title = format!("Roofline, {env}: {}", roofline.peaks.device);
    let notes_height = BELOW + NOTE_LINE * (fillings(&points).len() as f64 - 1.0);
    let below = notes_height.max(key_height - height);
    let mut svg = Svg::new(LEFT + PLOT_WIDTH + key_width, TOP + height + below, &title);
    frame::title(&mut svg, &title);
    let flat = flat_roofs(roofline.peaks, &roofline.precisions, unit);
    let at_clock = roofs_at_clock(roofline, analysis);
    let (x, y) = scales(&flat, &at_clock, &points, bandwidth.high, unit, TOP + height);
    axes(&mut svg, &x, &y, unit);
    let mut labels = roofs(&mut svg, &flat, bandwidth, &x, &y, unit);
    for roof in at_clock {
        roof_at_clock(&mut svg, roof, bandwidth, &x, &y, unit, &mut labels);
    }
    let drawn = place(&points, analysis, &x, &y, unit);
    draw_points(&mut svg, &drawn);
    draw_key(&mut svg, drawn.iter().zip(keys).map(|(point, text)| entry(point, text)));
    notes(&mut svg, roofline.peaks, &points, TOP + height);
    let suffix = if roofline.part > 1 { format!("_{}", roofline.part) } else { String::new() };
    Some(Drawing {
        of: format!("{env}{suffix}"),
        title,
        svg: svg.finish(),
        numbers: roofline_table(analysis, std::slice::from_ref(roofline)),
    })
}

fn key_line(point: &Point, row: &Row<'_>, unit: Unit) -> String {
    let key = &row.config;
    let params = &row.distinction;
    let above = if point.is_above_roof() { ", above its roof!" } else { "" };
    let part = if row.part.1 > 1 { format!(" ({} of {})", row.part.0, row.part.1) } else { String::new() };
    let share =
        row.share_of_peak().map(|share| format!(" ({} %)", share.times(100.0).text(2))).unwrap_or_default();
    format!(
        "{} {} batch {}{params}{part}: {} {}{share}{above}",
        key.model,
        key.precision,
        key.batch,
        significant(point.attained / unit.flops, 3),
        unit.name
    )
}

fn scales(
    flat: &[FlatRoof],
    at_clock: &[RoofAtClock],
    points: &[&Point],
    bandwidth: f64,
    unit: Unit,
    bottom: f64,
) -> (Scale, Scale) {
    let at_clock = at_clock.iter().map(|roof| roof.flops_per_s.high / unit.flops);
    let roofs: Vec<f64> = flat.iter().map(|roof| roof.high).chain(at_clock).collect();
    let knees = roofs.iter().map(|roof| roof * unit.flops / bandwidth);
    let intensities: Vec<f64> = points.iter().map(|point| point.intensity).chain(knees).collect();
    let attained = points.iter().map(|point| point.attained / unit.flops);
    let heights: Vec<f64> = attained.chain(roofs.iter().copied()).collect();
    log_scales(&intensities, &heights, bottom)
}

/// The roofs at the clocks that were seen, one per precision whose peak says its clock.
fn roofs_at_clock(roofline: &Roofline<'_>, analysis: &Analysis<'_>) -> Vec<RoofAtClock> {
    let of_precision = |precision: &Precision| {
        let rows: BTreeSet<usize> = roofline.points.iter().map(|point| point.row).collect();
        let rows = rows.into_iter().map(|row| &analysis.rows[row]);
        let clocks: Vec<f64> =
            rows.filter(|row| row.config.precision == *precision).filter_map(Row::clock_mhz).collect();
        let mhz = stats::median(&clocks).ok()?;
        let flops_per_s = roofline.peaks.ceiling(*precision)?.at_clock(mhz)?;
        Some(RoofAtClock { precision: *precision, mhz, flops_per_s })
    };
    roofline.precisions.iter().filter_map(of_precision).collect()
}

fn place<'r>(
    points: &[&'r Point],
    analysis: &Analysis<'_>,
    x: &Scale,
    y: &Scale,
    unit: Unit,
) -> Vec<Drawn<'r>> {
    let mut models: Vec<&ModelName> = Vec::new();
    points
        .iter()
        .map(|&point| {
            let row = &analysis.rows[point.row];
            let known = models.iter().position(|model| **model == row.config.model);
            let model = known.unwrap_or(models.len());
            if known.is_none() {
                models.push(&row.config.model);
            }
            let at = (x.place(point.intensity), y.place(point.attained / unit.flops));
            let height = |flops: f64| y.place((flops / unit.flops).clamp(y.low, y.high));
            let ends = Some(point.place.attained).filter(|range| range.is_wide());
            let ends = ends.map(|range| range.ends().map(height));
            Drawn { point, ink: colour(model), shape: shape(model), at, ends }
        })
        .collect()
}

fn draw_points(svg: &mut Svg, drawn: &[Drawn<'_>]) {
    for (point, [low, high]) in drawn.iter().filter_map(|point| Some((point, point.ends?))) {
        svg.line((point.at.0, low), (point.at.0, high), Stroke::solid(point.ink, 1.4));
    }
    for point in drawn {
        let filled = point.point.source == BytesSource::Measured;
        svg.marker(point.shape, point.at, 5.0, point.ink, filled);
    }
    let numbers: Vec<((f64, f64), usize)> =
        drawn.iter().map(|point| (point.at, point.point.number)).collect();
    draw_numbers(svg, &numbers, 6.0);
}

fn entry(drawn: &Drawn<'_>, text: String) -> Entry {
    let point = drawn.point;
    Entry {
        number: point.number,
        shape: drawn.shape,
        ink: drawn.ink,
        is_filled: point.source == BytesSource::Measured,
        text,
        text_ink: if point.is_above_roof() { "#B00020" } else { INK },
    }
}

/// Explains the fillings of the markers that occur in the figure.
fn fillings(points: &[&Point]) -> Vec<&'static str> {
    let has = |source| points.iter().any(|point| point.source == source);
    let filled = "Filled: the bytes were counted on the device.";
    let hollow = "Hollow: the bytes are modelled, so the point shows no bound.";
    let notes = [(BytesSource::Measured, filled), (BytesSource::Modelled, hollow)];
    notes.into_iter().filter(|(source, _)| has(*source)).map(|(_, text)| text).collect()
}

fn notes(svg: &mut Svg, peaks: &Peaks, points: &[&Point], bottom: f64) {
    let Peaks { name, origin, date, confidence, .. } = peaks;
    let roofs = format!("Roofs: {name}, {origin} ({date}), confidence {confidence}.");
    for (index, text) in fillings(points).into_iter().chain([&*roofs]).enumerate() {
        svg.text((LEFT, bottom + 62.0 + NOTE_LINE * index as f64), SMALL, Anchor::Start, GREY, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::bound::{Bound, Place};
    use crate::analysis::peaks::Range;

    #[test]
    fn every_filling_in_the_figure_is_explained() {
        let point = |source| Point {
            row: 0,
            number: 1,
            source,
            intensity: 1.0,
            attained: 1.0,
            attainable: 2.0,
            place: Place {
                attained: Range::exactly(1.0),
                peak: Range::exactly(2.0),
                allowed: Range::exactly(2.0),
            },
            bound: Bound::Unknown,
        };
        let (counted, modelled) = (point(BytesSource::Measured), point(BytesSource::Modelled));
        let explained = |points: &[&Point]| {
            let notes = fillings(points);
            notes.iter().map(|text| text.split(':').next().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(explained(&[&modelled, &modelled]), "Hollow");
        assert_eq!(explained(&[&counted]), "Filled");
        assert_eq!(explained(&[&modelled, &counted]), "Filled Hollow");
    }
}
