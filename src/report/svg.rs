//! Writes SVG. Numbers are rounded, so that the same figure always has the same bytes.
//!
//! Every text has an explicit width. So it has the same width in a browser without the font, and does not overlap
//! there.

use std::fmt::Write;

use super::inks::{INK, PAPER, dark_mode};
use super::letters::text_width;
use crate::clean::clean_text;
use crate::text::decimals;

/// The font of all figures. PNGs are drawn with the built-in font, the first one.
const FONT_FAMILY: &str = "Ubuntu Light, Ubuntu, DejaVu Sans, Helvetica, Arial, sans-serif";

/// The page, relative to the files of figures.
const PAGE: &str = "../report.html";

/// The initial capacity of a drawing in bytes. Most drawings need no more.
const ROOM: usize = 1 << 18;

/// The part of a text that its position refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The style of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke<'a> {
    pub(super) colour: &'a str,
    pub(super) width: f64,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub(super) dashes: &'a str,
}

impl<'a> Stroke<'a> {
    pub(super) fn solid(colour: &'a str, width: f64) -> Self {
        Stroke { colour, width, dashes: "" }
    }

    fn attributes(&self) -> String {
        let dashes = match self.dashes {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        };
        format!("stroke=\"{}\" stroke-width=\"{}\"{dashes}", self.colour, number(self.width))
    }
}

/// The shape of a marker. Categories differ in colour and in shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Wedge,
}

impl Shape {
    /// The corners of one of radius 1; none of a circle.
    fn corners(self) -> &'static [(f64, f64)] {
        match self {
            Shape::Circle => &[],
            Shape::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Shape::Triangle => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            Shape::Wedge => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
            Shape::Diamond => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
        }
    }
}

/// The shape of the `index`-th category.
pub(super) fn shape(index: usize) -> Shape {
    [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::Wedge][index % 5]
}

/// The appearance of a marker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) shape: Shape,
    pub(super) radius: f64,
    pub(super) colour: &'a str,
    pub(super) is_filled: bool,
}

/// The marker of a single run: a small disc, hollow if it is left out.
pub(super) fn run_look(colour: &str, counts: bool) -> Look<'_> {
    Look { shape: Shape::Circle, radius: 2.4, colour, is_filled: counts }
}

/// A drawing under construction. Coordinates are in pixels from the upper left corner.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    title: String,
    body: String,
}

/// `value` with at most two decimals.
pub(super) fn number(value: f64) -> String {
    decimals(value, 2)
}

/// Letters that XML does not allow are left out.
fn escape(text: &str) -> String {
    clean_text(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The same for texts of several lines.
fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

impl Svg {
    /// An empty drawing. Screen readers read `title`.
    pub(super) fn new(width: f64, title: &str) -> Self {
        Svg { width, title: title.to_owned(), body: String::with_capacity(ROOM) }
    }

    /// The width of the drawing.
    pub(super) fn width(&self) -> f64 {
        self.width
    }

    fn element(&mut self, text: &str) {
        writeln!(self.body, "{text}").expect("writing to a string cannot fail");
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke<'_>) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        let look = stroke.attributes();
        self.element(&format!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {look}/>"));
    }

    pub(super) fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke<'_>) {
        let look = stroke.attributes();
        self.element(&format!("<polyline points=\"{}\" fill=\"none\" {look}/>", corners(points)));
    }

    /// A translucent area.
    pub(super) fn area(&mut self, points: &[(f64, f64)], colour: &str) {
        let points = corners(points);
        self.element(&format!("<polygon points=\"{points}\" fill=\"{colour}\" fill-opacity=\"0.2\"/>"));
    }

    /// A rectangle, filled with `fill` or empty, with a border in `border` or without one.
    pub(super) fn rectangle(&mut self, [left, top, right, bottom]: [f64; 4], fill: &str, border: &str) {
        let [x, y, width, height] = [left, top, right - left, bottom - top].map(number);
        self.element(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\" stroke=\"{border}\" \
             stroke-width=\"1\"/>"
        ));
    }

    pub(super) fn text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, colour: &str, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        let element = text_element(&format!("x=\"{x}\" y=\"{y}\""), size, anchor, colour, text);
        self.element(&element);
    }

    /// Text that goes upwards.
    pub(super) fn upward_text(
        &mut self,
        at: (f64, f64),
        size: f64,
        anchor: Anchor,
        colour: &str,
        text: &str,
    ) {
        let (x, y) = (number(at.0), number(at.1));
        let place = format!("x=\"{x}\" y=\"{y}\" transform=\"rotate(-90 {x} {y})\"");
        self.element(&text_element(&place, size, anchor, colour, text));
    }

    /// A marker with a hover text.
    pub(super) fn marker(&mut self, at: (f64, f64), look: Look<'_>, hover: &str) {
        self.element(&marker_element(at, look, hover));
    }

    /// A marker that links to the `anchor` of the page. The Tab key skips it, since the page's table has all links.
    pub(super) fn linked_marker(&mut self, at: (f64, f64), look: Look<'_>, hover: &str, anchor: &str) {
        let name = escape(hover.lines().next().unwrap_or_default());
        self.element(&format!(
            "<a href=\"{PAGE}#{anchor}\" tabindex=\"-1\" aria-label=\"{name}\">\n{}\n</a>",
            marker_element(at, look, hover)
        ));
    }

    /// A bar that links to the `anchor` of the page. The Tab key skips it, like markers.
    pub(super) fn linked_bar(
        &mut self,
        [left, top, right, bottom]: [f64; 4],
        (fill, border): (&str, &str),
        hover: &str,
        anchor: &str,
    ) {
        let [x, y, width, height] = [left, top, right - left, bottom - top].map(number);
        let name = escape(hover.lines().next().unwrap_or_default());
        let attributes = format!(
            "x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\" stroke=\"{border}\" \
             stroke-width=\"1\""
        );
        let bar = titled("rect", &attributes, hover);
        self.element(&format!(
            "<a href=\"{PAGE}#{anchor}\" tabindex=\"-1\" aria-label=\"{name}\">\n{bar}\n</a>"
        ));
    }

    /// A translucent disc, for a share.
    pub(super) fn disc(&mut self, at: (f64, f64), radius: f64, colour: &str, hover: &str) {
        let [x, y, r] = [at.0, at.1, radius].map(number);
        let paint =
            format!("fill=\"{colour}\" fill-opacity=\"0.15\" stroke=\"{colour}\" stroke-width=\"1.6\"");
        self.element(&titled("circle", &format!("cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {paint}"), hover));
    }

    /// The drawing as an `<svg>` element, for a file or within HTML.
    pub(super) fn finish(self, height: f64) -> String {
        let [width, height] = [self.width, height.ceil()].map(number);
        let title = escape(&self.title);
        let head = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"orchestrate\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"{FONT_FAMILY}\" role=\"graphics-document\" \
             aria-label=\"{title}\">\n\
             <title>{title}</title>\n{}\n<rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>\n",
            dark_mode(),
        );
        // In place, since there can be a hundred drawings of half a megabyte each.
        let mut text = self.body;
        text.insert_str(0, &head);
        text.push_str("</svg>\n");
        text
    }
}

/// `svg` as a part of the page: its links to the file of the page become links within it.
pub(super) fn within_page(svg: &str) -> String {
    svg.replace(&format!("<a href=\"{PAGE}#"), "<a href=\"#")
}

fn marker_element(at: (f64, f64), look: Look<'_>, hover: &str) -> String {
    let Look { shape, radius, colour, is_filled } = look;
    let fill = if is_filled { colour } else { PAPER };
    let width = if radius < 3.0 { "1" } else { "1.6" };
    let paint = format!("fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"{width}\"");
    if shape == Shape::Circle {
        let [x, y, r] = [at.0, at.1, radius].map(number);
        return titled("circle", &format!("cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {paint}"), hover);
    }
    let place = |(x, y): &(f64, f64)| (at.0 + radius * x, at.1 + radius * y);
    let points = corners(&shape.corners().iter().map(place).collect::<Vec<_>>());
    titled("polygon", &format!("points=\"{points}\" {paint}"), hover)
}

fn titled(name: &str, attributes: &str, hover: &str) -> String {
    match hover {
        "" => format!("<{name} {attributes}/>"),
        hover => format!("<{name} {attributes}><title>{}</title></{name}>", escape_lines(hover)),
    }
}

fn text_element(place: &str, size: f64, anchor: Anchor, colour: &str, text: &str) -> String {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let (size_text, length) = (number(size), number(text_width(&clean_text(text), size)));
    let text = escape(text);
    format!(
        "<text {place} font-size=\"{size_text}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\" \
         text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
    )
}

fn corners(points: &[(f64, f64)]) -> String {
    let points = points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y)));
    points.collect::<Vec<_>>().join(" ")
}

/// The legend's line for a stroke and a marker.
pub(super) fn sample(svg: &mut Svg, at: (f64, f64), dashes: &str, look: Look<'_>) {
    let stroke = Stroke { colour: look.colour, width: 1.8, dashes };
    svg.line((at.0 - 9.0, at.1), (at.0 + 9.0, at.1), stroke);
    svg.marker(at, look, "");
}

/// The text in ink, as most texts are.
pub(super) fn ink_text(svg: &mut Svg, at: (f64, f64), size: f64, anchor: Anchor, text: &str) {
    svg.text(at, size, anchor, INK, text);
}
