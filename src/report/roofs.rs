//! The roofs of a device for all rooflines, and the key of the points.

use super::frame::{self, Area, LINE, MARGIN, SMALL, Sheet, WIDTH};
use super::inks::{GREY, INK};
use super::labels::Labels;
use super::letters::{cut, text_width};
use super::scale::{Kind, Scale};
use super::svg::{Anchor, Look, Stroke, Svg};
use crate::analysis::peaks::{Attainable, CacheCeiling, Peaks, Range};
use crate::job::Precision;
use crate::text::significant;

/// The height of the plot of a roofline.
pub(super) const HEIGHT: f64 = 300.0;

/// The font size of numbers and names beside points.
pub(super) const NUMBER: f64 = 11.0;

/// The unit of the value axis.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    /// Its value in FLOP/s.
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
    /// The rates that libraries attain below it.
    attainable: Attainable,
}

/// Those of `peaks` at these `precisions`.
pub(super) fn flat_roofs(peaks: &Peaks, precisions: &[Precision], unit: Unit) -> Vec<FlatRoof> {
    let roof = |precision: &Precision| {
        let ceiling = peaks.ceiling(*precision)?;
        let Range { low, high } = ceiling.flops_per_s.times(1.0 / unit.flops);
        let Attainable { product, convolution } = ceiling.attainable;
        let [product, convolution] = [product, convolution].map(|flops| Some(flops? / unit.flops));
        Some(FlatRoof { precision: *precision, low, high, attainable: Attainable { product, convolution } })
    };
    precisions.iter().filter_map(roof).collect()
}

/// A plot with its axes and its occupied places.
pub(super) struct Plot {
    pub(super) area: Area,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) unit: Unit,
    pub(super) labels: Labels,
}

impl Plot {
    /// The position of a point with these FLOPs per byte and FLOP/s.
    pub(super) fn place(&self, intensity: f64, flops_per_s: f64) -> (f64, f64) {
        (self.x.place(intensity), self.y.place(flops_per_s / self.unit.flops))
    }

    /// Draws the axes of a roofline with room around these intensities and heights, which are greater than 0.
    pub(super) fn new(sheet: &mut Sheet, intensities: &[f64], heights: &[f64], unit: Unit) -> Plot {
        let ends = |values: &[f64], below: f64, above: f64| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min) / below;
            let high = values.iter().copied().fold(0.0, f64::max) * above;
            (low, high)
        };
        let (low, high) = ends(heights, 3.0, 2.4);
        let left = frame::left_of(&Scale { kind: Kind::Log, low, high, from: 0.0, to: 1.0 });
        let area = sheet.plot(left, WIDTH - MARGIN, HEIGHT);
        let y = area.upwards(Kind::Log, low, high);
        let (low, high) = ends(intensities, 4.0, 4.0);
        let x = area.across(Kind::Log, low, high);
        frame::value_axis(&mut sheet.svg, &area, &y);
        frame::axis_below(&mut sheet.svg, &area, &frame::numbered(&x));
        frame::border(&mut sheet.svg, &area);
        Plot { area, x, y, unit, labels: Labels::within(area) }
    }

    /// The ends of the sloping roof of `slope` units per FLOP per byte: its entry into the plot, and its intersection
    /// with the flat roof at `highest`.
    fn diagonal(&self, slope: f64, highest: f64) -> ((f64, f64), (f64, f64)) {
        let enters = self.x.low.max(self.y.low / slope);
        let ends = (highest / slope).min(self.x.high);
        let at = |intensity: f64| (self.x.place(intensity), self.y.place(intensity * slope));
        (at(enters), at(ends))
    }

    /// Draws the roofs with their labels.
    pub(super) fn roofs(&mut self, svg: &mut Svg, flat: &[FlatRoof], bandwidth: Range) {
        let slope = bandwidth.high / self.unit.flops;
        let highest = flat.iter().map(|roof| roof.high).fold(0.0, f64::max);
        let (thick, dashed) = (Stroke::solid(INK, 2.0), Stroke { colour: INK, width: 1.0, dashes: "4 3" });
        let (from, to) = self.diagonal(slope, highest);
        svg.line(from, to, thick);
        self.labels.take_line(from, to);
        if bandwidth.is_wide() {
            let (from, to) = self.diagonal(bandwidth.low / self.unit.flops, highest);
            svg.line(from, to, dashed);
        }
        for FlatRoof { precision, low, high, .. } in flat.iter().copied() {
            let knee = (self.x.place(high / slope), self.y.place(high));
            svg.line(knee, (self.area.right, knee.1), thick);
            if low < high {
                let at = self.y.place(low);
                svg.line((self.x.place(low / slope), at), (self.area.right, at), dashed);
            }
            let value = Range { low, high }.text(3);
            self.flat_label(svg, knee.1, INK, &format!("{precision} {value} {}", self.unit.name));
            self.labels.take_line(knee, (self.area.right, knee.1));
            self.knee_mark(svg, high / slope, knee);
        }
        self.diagonal_label(svg, from, to, &format!("{} GB/s", bandwidth.times(1e-9).text(3)));
    }

    /// Draws the rates of libraries below the flat roofs, dashed. Those of more than two precisions would hide the
    /// points, and the page has their numbers.
    pub(super) fn attainable(&mut self, svg: &mut Svg, flat: &[FlatRoof], bandwidth: Range) {
        const MOST: usize = 2;
        if flat.len() > MOST {
            return;
        }
        let slope = bandwidth.high / self.unit.flops;
        for roof in flat {
            let Attainable { product, convolution } = roof.attainable;
            let mut lines: Vec<(&str, f64)> = [("product", product), ("convolution", convolution)]
                .into_iter()
                // The fastest product can be the roof itself.
                .filter_map(|(name, value)| Some((name, value.filter(|value| *value < roof.high)?)))
                .collect();
            lines.sort_by(|left, right| right.1.total_cmp(&left.1));
            for (place, (name, value)) in lines.into_iter().enumerate() {
                let at = self.y.place(value);
                let from = (self.x.place((value / slope).max(self.x.low)), at);
                svg.line(from, (self.area.right, at), Stroke { colour: GREY, width: 1.2, dashes: "6 3" });
                let text = format!("{} best {name} {}", roof.precision, significant(value, 3));
                // The upper line has its label above, and the lower one below, so that neither crosses the other.
                self.near_label(svg, at, place == 0, &text);
            }
        }
    }

    /// Draws the bandwidth of caches as thin sloping lines.
    pub(super) fn cache_roofs(&mut self, svg: &mut Svg, flat: &[FlatRoof], caches: &[CacheCeiling]) {
        let highest = flat.iter().map(|roof| roof.high).fold(0.0, f64::max);
        for cache in caches {
            let slope = cache.bytes_per_s / self.unit.flops;
            // It can be to the left of the plot.
            if slope <= 0.0 || highest / slope <= self.x.low {
                continue;
            }
            let (from, to) = self.diagonal(slope, highest);
            svg.line(from, to, Stroke { colour: GREY, width: 0.8, dashes: "" });
            self.labels.take_line(from, to);
            let text = format!("{} {} GB/s", cache.level, significant(cache.bytes_per_s / 1e9, 3));
            self.diagonal_label(svg, from, to, &text);
        }
    }

    /// Writes the label of a flat roof above it, at the right. If roofs coincide, their labels are stacked.
    fn flat_label(&mut self, svg: &mut Svg, roof: f64, ink: &str, text: &str) {
        let right = self.area.right - 6.0;
        let mut at = roof - 5.0;
        while at > self.area.top + SMALL {
            if self.labels.take_text((right, at), SMALL, Anchor::End, text) {
                return svg.text((right, at), SMALL, Anchor::End, ink, text);
            }
            at -= 2.0;
        }
    }

    /// Writes the label of a dashed line right above or right below it, at the right or further left, so that it is
    /// not mistaken for that of another line. If all places are taken, it is left out, because the page has the number.
    fn near_label(&mut self, svg: &mut Svg, line: f64, is_above: bool, text: &str) {
        let width = text_width(text, SMALL);
        let (above, below) = (line - 4.0, line + SMALL + 1.0);
        let heights = if is_above { [above, below] } else { [below, above] };
        for shift in [0.0, width + 12.0, 2.0 * (width + 12.0)] {
            for at in heights {
                let place = (self.area.right - 6.0 - shift, at);
                if self.labels.take_text(place, SMALL, Anchor::End, text) {
                    return svg.text(place, SMALL, Anchor::End, GREY, text);
                }
            }
        }
    }

    /// Writes the label of the sloping roof below it.
    fn diagonal_label(&mut self, svg: &mut Svg, from: (f64, f64), to: (f64, f64), text: &str) {
        for share in [0.35, 0.5, 0.2, 0.65, 0.8] {
            let at = (from.0 + share * (to.0 - from.0) + 10.0, from.1 + share * (to.1 - from.1) + 10.0);
            if self.labels.take_text(at, SMALL, Anchor::Start, text) {
                return svg.text(at, SMALL, Anchor::Start, INK, text);
            }
        }
    }

    /// Draws a flat roof at the observed clock.
    pub(super) fn roof_at_clock(&mut self, svg: &mut Svg, roof: &RoofAtClock, bandwidth: Range) {
        let RoofAtClock { precision, mhz, flops_per_s } = roof;
        let (x, at) = self.place(flops_per_s.high / bandwidth.high, flops_per_s.high);
        svg.line((x, at), (self.area.right, at), Stroke { colour: GREY, width: 1.4, dashes: "1 3" });
        let value = flops_per_s.times(1.0 / self.unit.flops).text(3);
        let text = format!("{precision} at {mhz:.0} MHz: {value} {}", self.unit.name);
        self.flat_label(svg, at, GREY, &text);
    }

    /// Marks a knee on the intensity axis. If there is no room for its label, it is left out, because the table has the
    /// number.
    fn knee_mark(&mut self, svg: &mut Svg, knee: f64, (at, roof): (f64, f64)) {
        let bottom = self.area.bottom;
        svg.line((at, roof), (at, bottom), Stroke { colour: GREY, width: 1.0, dashes: "2 4" });
        let text = format!("knee {}", significant(knee, 3));
        let height = text_width(&text, NUMBER);
        for side in [at - 4.0, at + 12.0] {
            let place = [side - NUMBER, bottom - 8.0 - height, side + 3.0, bottom - 7.0];
            if self.labels.take_box(place) {
                return svg.upward_text((side, bottom - 8.0), NUMBER, Anchor::Start, GREY, &text);
            }
        }
    }

    /// Writes numbers or names beside points, whose markers have a radius of `reach` pixels. Returns how many found no
    /// place.
    pub(super) fn names(&mut self, svg: &mut Svg, points: &[((f64, f64), String)], reach: f64) -> usize {
        for (at, _) in points {
            self.labels.take(*at, reach);
        }
        let written = points
            .iter()
            .filter(|(at, text)| self.labels.write(svg, *at, reach, (text.as_str(), NUMBER, INK)));
        points.len() - written.count()
    }
}

/// A flat roof at the observed clock.
pub(super) struct RoofAtClock {
    pub(super) precision: Precision,
    /// The clock, in MHz.
    pub(super) mhz: f64,
    /// The peak at that clock, in FLOP/s; drawn at the upper end.
    pub(super) flops_per_s: Range,
}

/// An entry of the key: the number beside the point, the point's marker, and the text.
pub(super) struct Entry<'a> {
    pub(super) number: usize,
    pub(super) look: Look<'a>,
    pub(super) text: String,
    pub(super) ink: &'a str,
}

/// Draws the key below the plot.
pub(super) fn draw_key<'a>(sheet: &mut Sheet, entries: impl Iterator<Item = Entry<'a>>) {
    for Entry { number, look, text, ink } in entries {
        sheet.at += LINE;
        let (middle, baseline) = (sheet.at - 8.0, sheet.at - 4.0);
        sheet.svg.text((MARGIN + 20.0, baseline), SMALL, Anchor::End, INK, &number.to_string());
        sheet.svg.marker((MARGIN + 31.0, middle), look, "");
        let text = cut(&text, SMALL, WIDTH - 2.0 * MARGIN - 42.0);
        sheet.svg.text((MARGIN + 42.0, baseline), SMALL, Anchor::Start, ink, &text);
    }
    sheet.at += 4.0;
}

/// The axes of a roofline in words.
pub(super) fn axes_text(unit: Unit) -> String {
    format!("attained {} over arithmetic intensity in FLOP per byte (log scales)", unit.name)
}
