//! Writes SVG. Numbers are rounded, so that the same figure always has the same bytes.

use std::fmt::Write;

use crate::clean::clean_text;
use crate::text::decimals;

/// The font of all figures. PNGs are drawn with the built-in font, the first one.
const FONT_FAMILY: &str = "Ubuntu Light, Ubuntu, DejaVu Sans, Helvetica, Arial, sans-serif";

/// The colour of axes and text.
pub(super) const INK: &str = "#222222";

/// The colour of secondary lines and text.
pub(super) const GREY: &str = "#777777";

/// Colours that are distinguishable with any colour vision (Okabe and Ito), strongest contrasts first.
const PALETTE: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];

/// The average width of a character, relative to the font size.
const CHARACTER_WIDTH: f64 = 0.52;

/// The approximate width of `text` at font size `size`.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER_WIDTH
}

/// Which part of a text its position refers to.
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

/// The shape of a marker. Models differ in shape as well as in colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Wedge,
}

/// The shape of the `index`-th model in a figure.
pub(super) fn shape(index: usize) -> Shape {
    [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::Wedge][index % 5]
}

/// The colour of the `index`-th line in a figure.
pub(super) fn colour(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()]
}

/// A drawing under construction. Coordinates are in pixels from the upper left corner.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    height: f64,
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

impl Svg {
    /// An empty white drawing. Screen readers read `title`.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        Svg { width, height, title: title.to_owned(), body: String::new() }
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
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
        let look = stroke.attributes();
        self.element(&format!("<polyline points=\"{}\" fill=\"none\" {look}/>", points.join(" ")));
    }

    pub(super) fn frame(&mut self, left: f64, top: f64, right: f64, bottom: f64) {
        let [x, y, width, height] = [left, top, right - left, bottom - top].map(number);
        self.element(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"{GREY}\" \
             stroke-width=\"1\"/>"
        ));
    }

    pub(super) fn text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, colour: &str, text: &str) {
        self.turned_text(at, size, anchor, colour, 0.0, text);
    }

    /// Text that is rotated clockwise by `degrees` around its position.
    pub(super) fn turned_text(
        &mut self,
        at: (f64, f64),
        size: f64,
        anchor: Anchor,
        colour: &str,
        degrees: f64,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (number(at.0), number(at.1));
        let turn = if degrees == 0.0 {
            String::new()
        } else {
            format!(" transform=\"rotate({} {x} {y})\"", number(degrees))
        };
        self.element(&format!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" text-anchor=\"{anchor}\" fill=\"{colour}\"{turn}>{}</text>",
            number(size),
            escape(text)
        ));
    }

    /// A marker of `radius` in `colour`, filled or hollow.
    pub(super) fn marker(&mut self, shape: Shape, at: (f64, f64), radius: f64, colour: &str, filled: bool) {
        let fill = if filled { colour } else { "#ffffff" };
        let look = format!("fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.6\"");
        if shape == Shape::Circle {
            let [x, y, r] = [at.0, at.1, radius].map(number);
            return self.element(&format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {look}/>"));
        }
        let corners: &[(f64, f64)] = match shape {
            Shape::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Shape::Triangle => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            Shape::Wedge => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
            Shape::Diamond | Shape::Circle => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
        };
        let points: Vec<String> = corners
            .iter()
            .map(|(x, y)| format!("{},{}", number(at.0 + radius * x), number(at.1 + radius * y)))
            .collect();
        self.element(&format!("<polygon points=\"{}\" {look}/>", points.join(" ")));
    }

    /// A disc through which one sees what lies below, for a share.
    pub(super) fn disc(&mut self, at: (f64, f64), radius: f64, colour: &str) {
        let [x, y, r] = [at.0, at.1, radius].map(number);
        self.element(&format!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" fill=\"{colour}\" fill-opacity=\"0.15\" stroke=\"{colour}\" \
             stroke-width=\"1.6\"/>"
        ));
    }

    /// A dot, for one run.
    pub(super) fn dot(&mut self, at: (f64, f64), colour: &str) {
        let [x, y] = [at.0, at.1].map(number);
        self.element(&format!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"2.2\" fill=\"{colour}\" fill-opacity=\"0.55\"/>"
        ));
    }

    /// A cross, for one run that is left out.
    pub(super) fn cross(&mut self, at: (f64, f64), colour: &str) {
        let reach = 3.5;
        let stroke = Stroke::solid(colour, 1.4);
        self.line((at.0 - reach, at.1 - reach), (at.0 + reach, at.1 + reach), stroke);
        self.line((at.0 - reach, at.1 + reach), (at.0 + reach, at.1 - reach), stroke);
    }

    /// The drawing as an `<svg>` element, for a file or within HTML.
    pub(super) fn finish(self) -> String {
        let [width, height] = [self.width, self.height].map(number);
        let title = escape(&self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
             {height}\" font-family=\"{FONT_FAMILY}\" role=\"img\">\n<title>{title}</title>\n<rect width=\"{width}\" \
             height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }
}
