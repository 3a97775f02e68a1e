//! The roofs of a device, as every roofline draws them, the numbers beside points, and the key that says what they are.

use super::frame::{self, GRID, LEFT, SMALL, TOP};
use super::scale::{Kind, Scale};
use super::svg::{Anchor, GREY, INK, Shape, Stroke, Svg, text_width};
use crate::analysis::peaks::{Peaks, Range};
use crate::job::Precision;
use crate::text::{decimals, significant};

/// The width of the plot.
pub(super) const PLOT_WIDTH: f64 = 560.0;

/// The height of a line of the key.
const LINE: f64 = 18.0;

/// The font size of numbers beside points.
const NUMBER: f64 = 11.0;

/// The unit of the value axis.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    /// How many FLOP/s it is.
    pub(super) flops: f64,
}

impl Unit {
    /// One in which `highest` FLOP/s is a number without many zeros.
    pub(super) fn of(highest: f64) -> Unit {
        if highest >= 5e12 {
            Unit { name: "TFLOP/s", flops: 1e12 }
        } else {
            Unit { name: "GFLOP/s", flops: 1e9 }
        }
    }
}

/// A flat roof, in the figure's unit.
#[derive(Clone, Copy)]
pub(super) struct FlatRoof {
    pub(super) precision: Precision,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Those of `peaks` at these `precisions`.
pub(super) fn flat_roofs(peaks: &Peaks, precisions: &[Precision], unit: Unit) -> Vec<FlatRoof> {
    let roof = |precision: &Precision| {
        let Range { low, high } = peaks.ceiling(*precision)?.flops_per_s.times(1.0 / unit.flops);
        Some(FlatRoof { precision: *precision, low, high })
    };
    precisions.iter().filter_map(roof).collect()
}

/// Draws the axes of a roofline and its grid.
pub(super) fn axes(svg: &mut Svg, x: &Scale, y: &Scale, unit: Unit) {
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

/// Draws the roofs, and returns the heights of the labels of the flat ones.
pub(super) fn roofs(
    svg: &mut Svg,
    flat: &[FlatRoof],
    bandwidth: Range,
    x: &Scale,
    y: &Scale,
    unit: Unit,
) -> Vec<f64> {
    let slope = bandwidth.high / unit.flops;
    let highest = flat.iter().map(|roof| roof.high).fold(0.0, f64::max);
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
    for FlatRoof { precision, low, high } in flat.iter().copied() {
        let knee = high / slope;
        let at = y.place(high);
        svg.line((x.place(knee), at), (x.to, at), thick);
        if low < high {
            let at = y.place(low);
            svg.line((x.place(low / slope), at), (x.to, at), dashed);
        }
        let value = Range { low, high }.text(3);
        let text = format!("{precision} {value} {}", unit.name);
        flat_label(svg, (x.to - 6.0, at), INK, &text, &mut taken);
        knee_mark(svg, knee, at, x, y, &mut knees);
    }
    taken
}

/// Writes the label of a flat roof above it. If two roofs coincide, their labels are stacked.
fn flat_label(svg: &mut Svg, (right, roof): (f64, f64), ink: &'static str, text: &str, taken: &mut Vec<f64>) {
    let mut at = roof - 7.0;
    while taken.iter().any(|other| (other - at).abs() < 14.0) {
        at -= 15.0;
    }
    taken.push(at);
    svg.text((right, at), SMALL, Anchor::End, ink, text);
}

/// A flat roof at the clock that was seen.
pub(super) struct RoofAtClock {
    pub(super) precision: Precision,
    /// The clock, in MHz.
    pub(super) mhz: f64,
    /// The peak at that clock, in FLOP/s; drawn at the upper end.
    pub(super) flops_per_s: Range,
}

/// Draws it.
pub(super) fn roof_at_clock(
    svg: &mut Svg,
    RoofAtClock { precision, mhz, flops_per_s }: RoofAtClock,
    bandwidth: Range,
    x: &Scale,
    y: &Scale,
    unit: Unit,
    taken: &mut Vec<f64>,
) {
    let (height, knee) = (flops_per_s.high / unit.flops, flops_per_s.high / bandwidth.high);
    let at = y.place(height);
    svg.line((x.place(knee), at), (x.to, at), Stroke { colour: GREY, width: 1.4, dashes: "1 3" });
    let value = flops_per_s.times(1.0 / unit.flops).text(3);
    let text = format!("{precision} at {mhz:.0} MHz: {value} {}", unit.name);
    flat_label(svg, (x.to - 6.0, at), GREY, &text, taken);
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

/// Axes with room around these intensities and heights, which are greater than 0.
pub(super) fn log_scales(intensities: &[f64], heights: &[f64], bottom: f64) -> (Scale, Scale) {
    let ends = |values: &[f64], below: f64, above: f64| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min) / below;
        let high = values.iter().copied().fold(0.0, f64::max) * above;
        (low, high)
    };
    let (low, high) = ends(intensities, 4.0, 4.0);
    let x = Scale { kind: Kind::Log, low, high, from: LEFT, to: LEFT + PLOT_WIDTH };
    let (low, high) = ends(heights, 3.0, 2.2);
    (x, Scale { kind: Kind::Log, low, high, from: bottom, to: TOP })
}

/// An entry of the key: the number that stands beside its point, the point's marker, and the words.
pub(super) struct Entry {
    pub(super) number: usize,
    pub(super) shape: Shape,
    pub(super) ink: &'static str,
    pub(super) is_filled: bool,
    pub(super) text: String,
    pub(super) text_ink: &'static str,
}

/// Writes numbers beside points, each where it covers least. A point's own marker reaches `reach` pixels far.
pub(super) fn draw_numbers(svg: &mut Svg, points: &[((f64, f64), usize)], reach: f64) {
    let mut taken: Vec<[f64; 4]> = points.iter().map(|(at, _)| around(*at, reach, reach)).collect();
    for (at, number) in points {
        let text = number.to_string();
        let half = text_width(&text, NUMBER) / 2.0 + 1.0;
        let centre = free_place(*at, half, &taken);
        if (centre.0 - at.0).hypot(centre.1 - at.1) > 16.0 {
            svg.line(*at, centre, Stroke::solid("#bbbbbb", 0.8));
        }
        svg.text((centre.0, centre.1 + 4.0), NUMBER, Anchor::Middle, INK, &text);
        taken.push(around(centre, half, 6.0));
    }
}

/// The width and the height of a key of these words beside the plot.
pub(super) fn key_size(texts: &[String]) -> (f64, f64) {
    let widest = texts.iter().map(|text| text_width(text, SMALL)).fold(180.0, f64::max);
    (widest + 60.0, (texts.len() + 1) as f64 * LINE)
}

/// Draws the key beside the plot.
pub(super) fn draw_key(svg: &mut Svg, entries: impl Iterator<Item = Entry>) {
    let left = LEFT + PLOT_WIDTH + 16.0;
    let mut at = TOP + 10.0;
    for Entry { number, shape, ink, is_filled, text, text_ink } in entries {
        svg.text((left + 16.0, at + 4.0), SMALL, Anchor::End, INK, &number.to_string());
        svg.marker(shape, (left + 27.0, at), 4.6, ink, is_filled);
        svg.text((left + 38.0, at + 4.0), SMALL, Anchor::Start, text_ink, &text);
        at += LINE;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
