//! The parts that all figures share: a sheet that is filled from top to bottom, and plots with their axes.
//!
//! A sheet is half as wide as a page, which fits a phone. Further parts are placed below, never beside.

use super::inks::{GREY, GRID, INK};
use super::letters::{cut_within, text_width, wrap};
use super::scale::{Kind, Scale};
use super::svg::{Anchor, Look, Stroke, Svg};
use crate::text::decimals;

/// The width of every drawing except the narrow ones.
pub(super) const WIDTH: f64 = 560.0;

/// The width of drawings that are shown in columns of three.
pub(super) const NARROW: f64 = 480.0;

/// Room at the sides of a drawing.
pub(super) const MARGIN: f64 = 10.0;

/// The font size of all texts except titles.
pub(super) const SMALL: f64 = 12.0;

/// The height of a line of such text.
pub(super) const LINE: f64 = 15.0;

/// The font size and the line height of titles.
const TITLE: (f64, f64) = (15.0, 19.0);

/// Room between the numbers of an axis and the plot.
const GAP: f64 = 6.0;

/// Room between a paragraph and what follows.
const PARAGRAPH: f64 = 5.0;

/// A plot's place in its drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// Left, top, right, bottom.
    pub(super) fn sides(&self) -> [f64; 4] {
        [self.left, self.top, self.right, self.bottom]
    }

    /// A linear or logarithmic axis from left to right.
    pub(super) fn across(&self, kind: Kind, low: f64, high: f64) -> Scale {
        Scale { kind, low, high, from: self.left, to: self.right }
    }

    /// One from bottom to top.
    pub(super) fn upwards(&self, kind: Kind, low: f64, high: f64) -> Scale {
        Scale { kind, low, high, from: self.bottom, to: self.top }
    }
}

/// A drawing that is filled from top to bottom.
pub(super) struct Sheet {
    pub(super) svg: Svg,
    /// The top of the next part.
    pub(super) at: f64,
    /// Its width.
    pub(super) width: f64,
}

impl Sheet {
    /// A sheet with a title, and a description of the axes below it.
    pub(super) fn new(title: &str, axes: &str) -> Sheet {
        Sheet::of_width(WIDTH, title, axes)
    }

    /// A narrow sheet.
    pub(super) fn narrow(title: &str, axes: &str) -> Sheet {
        Sheet::of_width(NARROW, title, axes)
    }

    fn of_width(width: f64, title: &str, axes: &str) -> Sheet {
        let mut sheet = Sheet { svg: Svg::new(width, title), at: 8.0, width };
        for line in wrap(title, TITLE.0, width - 2.0 * MARGIN) {
            sheet.at += TITLE.1;
            sheet.svg.text((MARGIN, sheet.at - 5.0), TITLE.0, Anchor::Start, INK, &line);
        }
        sheet.paragraph(GREY, axes);
        sheet
    }

    /// Writes `text` over as many lines as it needs.
    pub(super) fn paragraph(&mut self, colour: &str, text: &str) {
        for line in wrap(text, SMALL, self.width - 2.0 * MARGIN) {
            self.at += LINE;
            self.svg.text((MARGIN, self.at - 4.0), SMALL, Anchor::Start, colour, &line);
        }
        self.at += PARAGRAPH;
    }

    /// Writes the heading of a part.
    pub(super) fn heading(&mut self, text: &str) {
        self.at += 4.0;
        self.paragraph(INK, text);
    }

    /// Writes a legend of markers, as many per line as fit.
    pub(super) fn legend(&mut self, entries: &[(Look<'_>, &str)]) {
        let mut left = MARGIN;
        self.at += LINE;
        for (look, text) in entries {
            let text = cut_within(text, SMALL, self.width - 2.0 * MARGIN - 18.0);
            let width = 16.0 + text_width(&text, SMALL);
            if left > MARGIN && left + width > self.width - MARGIN {
                left = MARGIN;
                self.at += LINE;
            }
            self.svg.marker((left + 6.0, self.at - 8.0), *look, "");
            self.svg.text((left + 16.0, self.at - 4.0), SMALL, Anchor::Start, INK, &text);
            left += width + 14.0;
        }
        self.at += PARAGRAPH;
    }

    /// Takes room for a plot from `left` to `right`, and below it for the numbers of its axis.
    pub(super) fn plot(&mut self, left: f64, right: f64, height: f64) -> Area {
        let top = self.at + 3.0;
        let area = Area { left, top, right, bottom: top + height };
        self.at = area.bottom + 20.0 + PARAGRAPH;
        area
    }

    /// The drawing.
    pub(super) fn finish(self) -> String {
        let height = self.at + 6.0;
        self.svg.finish(height)
    }
}

/// The number at a tick.
pub(super) fn tick_text(value: f64) -> String {
    decimals(value, 6)
}

/// The left edge of a plot whose value axis has the ticks of `y`, for any height.
pub(super) fn left_of(y: &Scale) -> f64 {
    let widths = y.ticks().into_iter().map(|tick| text_width(&tick_text(tick), SMALL));
    MARGIN + widths.fold(24.0, f64::max) + GAP
}

/// Draws the border of a plot.
pub(super) fn border(svg: &mut Svg, area: &Area) {
    svg.rectangle(area.sides(), "none", GREY);
}

/// Draws a grid line at each tick of the value axis, and a number where there is room for one.
pub(super) fn value_axis(svg: &mut Svg, area: &Area, y: &Scale) {
    let mut free = f64::INFINITY;
    for tick in y.ticks() {
        let at = y.place(tick);
        svg.line((area.left, at), (area.right, at), Stroke::solid(GRID, 1.0));
        if at + LINE / 2.0 <= free {
            svg.text((area.left - GAP, at + 4.0), SMALL, Anchor::End, INK, &tick_text(tick));
            free = at - LINE / 2.0;
        }
    }
}

/// Draws a grid line at each of `ticks`, which go to the right, and its text below where there is room for it.
pub(super) fn axis_below(svg: &mut Svg, area: &Area, ticks: &[(f64, String)]) {
    let mut free = MARGIN / 2.0;
    for (at, text) in ticks {
        svg.line((*at, area.top), (*at, area.bottom), Stroke::solid(GRID, 1.0));
        let half = text_width(text, SMALL) / 2.0;
        let middle = at.min(svg.width() - MARGIN / 2.0 - half);
        if middle - half >= free {
            svg.line((*at, area.bottom), (*at, area.bottom + 4.0), Stroke::solid(GREY, 1.0));
            svg.text((middle, area.bottom + 16.0), SMALL, Anchor::Middle, INK, text);
            free = middle + half + 5.0;
        }
    }
}

/// The ticks of an axis with their texts.
pub(super) fn numbered(scale: &Scale) -> Vec<(f64, String)> {
    scale.ticks().into_iter().map(|tick| (scale.place(tick), tick_text(tick))).collect()
}

/// A logarithmic axis of batches across `area`, and its ticks: the batches themselves. A single one is in the middle.
pub(super) fn batch_axis(area: &Area, batches: &[u32]) -> (Scale, Vec<(f64, String)>) {
    let low = batches.iter().copied().min().map_or(1.0, f64::from);
    let high = batches.iter().copied().max().map_or(1.0, f64::from);
    let reach = 2f64.sqrt();
    let x = area.across(Kind::Log, low / reach, high * reach);
    let mut batches = batches.to_vec();
    batches.sort_unstable();
    batches.dedup();
    let ticks = batches.into_iter().map(|batch| (x.place(f64::from(batch)), batch.to_string())).collect();
    (x, ticks)
}
