//! The roofline of a device: roofs, knees, and configs as numbered points with a key beside the plot.
//!
//! Points with counted bytes are filled, points with modelled bytes hollow. Points with estimated bytes are not drawn:
//! they lie on the roof by construction.

use crate::analysis::Analysis;
use crate::analysis::group::Row;
use crate::analysis::peaks::{Peaks, Range};
use crate::analysis::roofline::{BytesSource, Point, Roofline};
use crate::analysis::table::{point_sections, roofline_table};
use crate::job::{ModelName, Precision};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, GRID, LEFT, SMALL, TOP};
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{Anchor, GREY, INK, Shape, Stroke, Svg, colour, shape, text_width};
use crate::text::{decimals, significant};

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
    draw,
};

const PLOT_WIDTH: f64 = 560.0;
const PLOT_HEIGHT: f64 = 420.0;
/// Room for the axis and two notes.
const BELOW: f64 = 98.0;
const NOTE_LINE: f64 = 17.0;
const LINE: f64 = 18.0;
const NUMBER: f64 = 11.0;

/// A point, ready to be drawn.
struct Drawn<'r> {
    point: &'r Point,
    ink: &'static str,
    shape: Shape,
    at: (f64, f64),
    /// The heights between which its throughput lies; `None` if that is one.
    ends: Option<[f64; 2]>,
}

/// The unit of the value axis.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    /// How many FLOP/s it is.
    flops: f64,
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
    let unit = unit(roofline);
    let keys: Vec<String> =
        points.iter().map(|point| key_line(point, &analysis.rows[point.row], unit)).collect();
    let key_width = keys.iter().map(|text| text_width(text, SMALL)).fold(180.0, f64::max) + 60.0;
    let key_height = (keys.len() + 1) as f64 * LINE;
    let height = key_height.clamp(PLOT_HEIGHT, 1.5 * PLOT_HEIGHT);
    let title = format!("Roofline, {env}: {}", roofline.peaks.device);
    let notes_height = BELOW + NOTE_LINE * (fillings(&points).len() as f64 - 1.0);
    let below = notes_height.max(key_height - height);
    let mut svg = Svg::new(LEFT + PLOT_WIDTH + key_width, TOP + height + below, &title);
    frame::title(&mut svg, &title);
    let (x, y) = scales(roofline, &points, bandwidth.high, unit, TOP + height);
    axes(&mut svg, &x, &y, unit);
    roofs(&mut svg, roofline, bandwidth, &x, &y, unit);
    let drawn = place(&points, analysis, &x, &y, unit);
    draw_points(&mut svg, &drawn);
    draw_key(&mut svg, &drawn, &keys);
    notes(&mut svg, roofline.peaks, &points, TOP + height);
    let suffix = if roofline.part > 1 { format!("_{}", roofline.part) } else { String::new() };
    Some(Drawing {
        of: format!("{env}{suffix}"),
        title,
        svg: svg.finish(),
        numbers: roofline_table(analysis, std::slice::from_ref(roofline)),
    })
}

fn unit(roofline: &Roofline<'_>) -> Unit {
    let highest = roofline.points.iter().map(|point| point.attainable).fold(0.0, f64::max);
    if highest >= 5e12 { Unit { name: "TFLOP/s", flops: 1e12 } } else { Unit { name: "GFLOP/s", flops: 1e9 } }
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

/// The flat roofs in the figure's unit: precision, low, high.
fn flat_roofs(roofline: &Roofline<'_>, unit: Unit) -> Vec<(Precision, f64, f64)> {
    let all = roofline.precisions.iter().filter_map(|precision| {
        let range = roofline.peaks.ceiling(*precision)?.flops_per_s;
        Some((*precision, range.low / unit.flops, range.high / unit.flops))
    });
    all.collect()
}

fn scales(
    roofline: &Roofline<'_>,
    points: &[&Point],
    bandwidth: f64,
    unit: Unit,
    bottom: f64,
) -> (Scale, Scale) {
    let roofs = flat_roofs(roofline, unit);
    let knees = roofs.iter().map(|(_, _, high)| high * unit.flops / bandwidth);
    let intensities: Vec<f64> = points.iter().map(|point| point.intensity).chain(knees).collect();
    let attained = points.iter().map(|point| point.attained / unit.flops);
    let heights: Vec<f64> = attained.chain(roofs.iter().map(|(_, _, high)| *high)).collect();
    let ends = |values: &[f64], below: f64, above: f64| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min) / below;
        let high = values.iter().copied().fold(0.0, f64::max) * above;
        (low, high)
    };
    let (low, high) = ends(&intensities, 4.0, 4.0);
    let x = Scale { kind: Kind::Log, low, high, from: LEFT, to: LEFT + PLOT_WIDTH };
    let (low, high) = ends(&heights, 3.0, 2.2);
    (x, Scale { kind: Kind::Log, low, high, from: bottom, to: TOP })
}

fn axes(svg: &mut Svg, x: &Scale, y: &Scale, unit: Unit) {
    let (right, bottom) = (LEFT + PLOT_WIDTH, y.from);
    frame::value_grid(svg, y, right);
    for tick in x.ticks() {
        let at = x.place(tick);
        svg.line((at, TOP), (at, bottom), Stroke::solid(GRID, 1.0));
        svg.text((at, bottom + 18.0), SMALL, Anchor::Middle, INK, &decimals(tick, 6));
    }
    let x_name = "arithmetic intensity / FLOP per byte (log scale)";
    frame::frame(svg, y, right, x_name, &format!("attained / {}", unit.name));
}

fn roofs(svg: &mut Svg, roofline: &Roofline<'_>, bandwidth: Range, x: &Scale, y: &Scale, unit: Unit) {
    let roofs = flat_roofs(roofline, unit);
    let slope = bandwidth.high / unit.flops;
    let highest = roofs.iter().map(|(_, _, high)| *high).fold(0.0, f64::max);
    let (thick, dashed) = (Stroke::solid(INK, 2.0), Stroke { colour: INK, width: 1.0, dashes: "4 3" });
    // The diagonal starts where it enters the plot and ends at the highest roof.
    let diagonal = |slope: f64| {
        let enters = x.low.max(y.low / slope);
        let ends = (highest / slope).min(x.high);
        ((x.place(enters), y.place(enters * slope)), (x.place(ends), y.place(ends * slope)))
    };
    let (from, to) = diagonal(slope);
    svg.line(from, to, thick);
    if bandwidth.is_wide() {
        let (from, to) = diagonal(bandwidth.low / unit.flops);
        svg.line(from, to, dashed);
    }
    let label = format!("{} GB/s", bandwidth.times(1e-9).text(3));
    diagonal_label(svg, from, to, &label);
    let mut taken: Vec<f64> = Vec::new();
    let mut knees: Vec<f64> = Vec::new();
    for (precision, low, high) in roofs {
        let knee = high / slope;
        let at = y.place(high);
        svg.line((x.place(knee), at), (x.to, at), thick);
        if low < high {
            let at = y.place(low);
            svg.line((x.place(low / slope), at), (x.to, at), dashed);
        }
        let value = Range { low, high }.text(3);
        // If two roofs coincide, their labels are stacked.
        let mut label_at = at - 7.0;
        while taken.iter().any(|other| (other - label_at).abs() < 14.0) {
            label_at -= 15.0;
        }
        taken.push(label_at);
        let text = format!("{precision} {value} {}", unit.name);
        svg.text((x.to - 6.0, label_at), SMALL, Anchor::End, INK, &text);
        knee_mark(svg, knee, at, x, y, &mut knees);
    }
}

/// Marks a knee on the intensity axis. `taken` are the positions of other knees' labels. If the label would overlap one
/// of them, it goes to the other side of its line. If that is taken too, it is left out, because the table has the
/// number.
fn knee_mark(svg: &mut Svg, knee: f64, roof: f64, x: &Scale, y: &Scale, taken: &mut Vec<f64>) {
    let at = x.place(knee);
    svg.line((at, roof), (at, y.from), Stroke { colour: GREY, width: 1.0, dashes: "2 4" });
    let free =
        [at - 5.0, at + 12.0].into_iter().find(|side| taken.iter().all(|other| (other - side).abs() > 13.0));
    if let Some(side) = free {
        let text = format!("knee {}", significant(knee, 3));
        svg.turned_text((side, y.from - 8.0), NUMBER, Anchor::Start, GREY, -90.0, &text);
        taken.push(side);
    }
}

/// Draws a label above the diagonal, parallel to it.
fn diagonal_label(svg: &mut Svg, from: (f64, f64), to: (f64, f64), label: &str) {
    let degrees = (to.1 - from.1).atan2(to.0 - from.0).to_degrees();
    let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
    let (sine, cosine) = degrees.to_radians().sin_cos();
    let lifted = (middle.0 + 7.0 * sine, middle.1 - 7.0 * cosine);
    svg.turned_text(lifted, SMALL, Anchor::Middle, INK, degrees, label);
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
    let mut taken: Vec<[f64; 4]> = drawn.iter().map(|point| around(point.at, 6.0, 6.0)).collect();
    for (point, [low, high]) in drawn.iter().filter_map(|point| Some((point, point.ends?))) {
        svg.line((point.at.0, low), (point.at.0, high), Stroke::solid(point.ink, 1.4));
    }
    for point in drawn {
        let filled = point.point.source == BytesSource::Measured;
        svg.marker(point.shape, point.at, 5.0, point.ink, filled);
    }
    for point in drawn {
        let text = point.point.number.to_string();
        let half = text_width(&text, NUMBER) / 2.0 + 1.0;
        let centre = free_place(point.at, half, &taken);
        if (centre.0 - point.at.0).hypot(centre.1 - point.at.1) > 16.0 {
            svg.line(point.at, centre, Stroke::solid("#bbbbbb", 0.8));
        }
        svg.text((centre.0, centre.1 + 4.0), NUMBER, Anchor::Middle, INK, &text);
        taken.push(around(centre, half, 6.0));
    }
}

/// A box around a point: left, top, right, bottom.
fn around(at: (f64, f64), half_width: f64, half_height: f64) -> [f64; 4] {
    [at.0 - half_width, at.1 - half_height, at.0 + half_width, at.1 + half_height]
}

/// The position for the number of the point at `at` with the least overlap with `taken`, the nearest one if several
/// tie.
fn free_place(at: (f64, f64), half_width: f64, taken: &[[f64; 4]]) -> (f64, f64) {
    let overlap = |[left, top, right, bottom]: [f64; 4]| -> f64 {
        let covered = |other: &[f64; 4]| {
            let width = right.min(other[2]) - left.max(other[0]);
            let height = bottom.min(other[3]) - top.max(other[1]);
            width.max(0.0) * height.max(0.0)
        };
        taken.iter().map(covered).sum()
    };
    let directions = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (0.8, -0.8),
        (-0.8, -0.8),
        (0.8, 0.8),
        (-0.8, 0.8),
    ];
    let candidates = [13.0, 22.0, 32.0, 44.0, 58.0]
        .into_iter()
        .flat_map(|radius| directions.map(|(x, y)| (at.0 + radius * x, at.1 + radius * y)));
    candidates
        .map(|centre| (overlap(around(centre, half_width, 6.0)), centre))
        .min_by(|left, right| left.0.total_cmp(&right.0))
        .map_or(at, |(_, centre)| centre)
}

fn draw_key(svg: &mut Svg, drawn: &[Drawn<'_>], keys: &[String]) {
    let left = LEFT + PLOT_WIDTH + 16.0;
    let mut at = TOP + 10.0;
    for (point, text) in drawn.iter().zip(keys) {
        svg.text((left + 16.0, at + 4.0), SMALL, Anchor::End, INK, &point.point.number.to_string());
        let filled = point.point.source == BytesSource::Measured;
        svg.marker(point.shape, (left + 27.0, at), 4.6, point.ink, filled);
        let ink = if point.point.is_above_roof() { "#B00020" } else { INK };
        svg.text((left + 38.0, at + 4.0), SMALL, Anchor::Start, ink, text);
        at += LINE;
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
    use proptest::prelude::*;

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

    proptest! {
        /// Holds for up to a dozen points.
        #[test]
        fn numbers_do_not_overlap(places in prop::collection::vec((0.0..500.0f64, 0.0..400.0f64), 1..12)) {
            let mut taken: Vec<[f64; 4]> = places.iter().map(|at| around(*at, 6.0, 6.0)).collect();
            for at in &places {
                let centre = free_place(*at, 7.0, &taken);
                let own = around(centre, 7.0, 6.0);
                for other in &taken {
                    let apart = own[2] <= other[0] || other[2] <= own[0] || own[3] <= other[1] || other[3] <= own[1];
                    prop_assert!(apart, "{centre:?} covers {other:?}");
                }
                taken.push(own);
            }
        }
    }
}
