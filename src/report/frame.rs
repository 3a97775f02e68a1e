//! The parts that all plots share: position, title, frame, axis names, and the value axis with its grid.

use super::scale::{Kind, Scale};
use super::svg::{Anchor, INK, Stroke, Svg};
use crate::text::decimals;

/// Left edge of a plot, with room for the numbers and the name of the value axis.
pub(super) const LEFT: f64 = 78.0;

/// Upper edge of a plot, with room for the title.
pub(super) const TOP: f64 = 44.0;

/// Font size of numbers and keys.
pub(super) const SMALL: f64 = 12.0;

/// Colour of grid lines.
pub(super) const GRID: &str = "#e8e8e8";

/// Font size of axis names.
const NAME: f64 = 13.0;

/// Draws the title.
pub(super) fn title(svg: &mut Svg, text: &str) {
    svg.text((LEFT, 26.0), 16.0, Anchor::Start, INK, text);
}

/// Draws a grid line and a number at each tick of the value axis.
pub(super) fn value_grid(svg: &mut Svg, y: &Scale, right: f64) {
    for tick in y.ticks() {
        let at = y.place(tick);
        svg.line((LEFT, at), (right, at), Stroke::solid(GRID, 1.0));
        svg.text((LEFT - 8.0, at + 4.0), SMALL, Anchor::End, INK, &decimals(tick, 6));
    }
}

/// Draws the frame and the names of the axes. The name of a logarithmic value axis says so.
pub(super) fn frame(svg: &mut Svg, y: &Scale, right: f64, x_name: &str, y_name: &str) {
    let bottom = y.from;
    svg.frame(LEFT, TOP, right, bottom);
    svg.text((f64::midpoint(LEFT, right), bottom + 40.0), NAME, Anchor::Middle, INK, x_name);
    let y_name = if y.kind == Kind::Log { format!("{y_name} (log scale)") } else { y_name.to_owned() };
    svg.turned_text((20.0, f64::midpoint(TOP, bottom)), NAME, Anchor::Middle, INK, -90.0, &y_name);
}
