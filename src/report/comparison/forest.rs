//! The forest plot: the ratio of each config with its interval, the margin, and the geometric mean.
//!
//! Verdicts differ in shape as well as in colour. The names stand left of the plot and the numbers right of it, each at
//! its line, so that nothing has to be looked up.

use super::words::geometric_mean_text;
use crate::analysis::compare::Verdict;
use crate::analysis::versus::{Told, Versus, ratio_texts};
use crate::report::frame::{GRID, SMALL, TOP};
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{Anchor, GREY, INK, Shape, Stroke, Svg, colour, text_width};
use crate::stats::{CONFIDENCE, Interval};
use crate::text::decimals;

const WIDTH: f64 = 460.0;
const LINE: f64 = 22.0;
const BELOW: f64 = 84.0;
const GAP: f64 = 14.0;

/// The axis shows at least this share to both sides of 1, so that noise does not fill the plot.
const LEAST_SHARE: f64 = 0.03;

/// A line of the plot.
struct Mark<'v> {
    name: &'v str,
    ratio: f64,
    interval: Interval,
    /// `None` for the geometric mean.
    verdict: Option<Verdict>,
}

/// The plot; `None` if no config has a ratio.
pub(in crate::report) fn draw(versus: &Versus) -> Option<String> {
    let marks = marks(versus);
    if marks.is_empty() {
        return None;
    }
    let [from, to] = &versus.names;
    let title = format!("Throughput of {to} ÷ that of {from}");
    let left = marks.iter().map(|mark| text_width(mark.name, SMALL)).fold(120.0, f64::max) + 2.0 * GAP;
    let right = left + WIDTH;
    let numbers = marks.iter().map(|mark| text_width(&numbers(mark), SMALL)).fold(0.0, f64::max);
    let total = (right + GAP + numbers + GAP).max(text_width(&title, 16.0) + left);
    let bottom = TOP + marks.len() as f64 * LINE + 8.0;
    let mut svg = Svg::new(total, bottom + BELOW, &title);
    let x = axis(&marks, versus.comparison.settings.margin, left, right);
    svg.text((left, 26.0), 16.0, Anchor::Start, INK, &title);
    grid(&mut svg, &x, bottom, versus.comparison.settings.margin);
    for (index, mark) in marks.iter().enumerate() {
        draw_mark(&mut svg, mark, TOP + 4.0 + (index as f64 + 0.5) * LINE, &x, left, right);
    }
    svg.frame(left, TOP, right, bottom);
    legend(&mut svg, versus, left, bottom);
    Some(svg.finish())
}

fn marks(versus: &Versus) -> Vec<Mark<'_>> {
    let told = versus.lines.iter().filter_map(|line| Some((line.config.as_str(), line.told.as_ref().ok()?)));
    let mut marks: Vec<Mark<'_>> = told
        .map(|(name, Told { ratio, interval, verdict, .. })| Mark {
            name,
            ratio: *ratio,
            interval: *interval,
            verdict: Some(*verdict),
        })
        .collect();
    // Of one ratio, the mean says nothing new.
    if let Some(mean) = versus.comparison.geometric_mean.ok().filter(|_| marks.len() > 1) {
        let interval = mean.interval(CONFIDENCE).exp();
        marks.push(Mark { name: "geometric mean", ratio: mean.value.exp(), interval, verdict: None });
    }
    marks
}

fn axis(marks: &[Mark<'_>], margin: f64, left: f64, right: f64) -> Scale {
    let least = LEAST_SHARE.max(1.5 * margin);
    let low = marks.iter().map(|mark| mark.interval.low).fold(1.0 - least, f64::min);
    let high = marks.iter().map(|mark| mark.interval.high).fold(1.0 / (1.0 - least), f64::max);
    let pad = (high / low).powf(0.04);
    Scale { kind: Kind::Log, low: low / pad, high: high * pad, from: left, to: right }
}

/// Ratios to label: those of the axis, or within a small range, round steps.
fn ticks(x: &Scale) -> Vec<f64> {
    let linear = Scale { kind: Kind::Linear, ..*x };
    if x.high / x.low < 5.0 { linear.ticks() } else { x.ticks() }
}

fn grid(svg: &mut Svg, x: &Scale, bottom: f64, margin: f64) {
    for tick in ticks(x) {
        let at = x.place(tick);
        svg.line((at, TOP), (at, bottom), Stroke::solid(GRID, 1.0));
        svg.text((at, bottom + 18.0), SMALL, Anchor::Middle, INK, &decimals(tick, 4));
    }
    for edge in [1.0 - margin, 1.0 / (1.0 - margin)] {
        let at = x.place(edge);
        svg.line((at, TOP), (at, bottom), Stroke { colour: GREY, width: 1.0, dashes: "4 3" });
    }
    let one = x.place(1.0);
    svg.line((one, TOP), (one, bottom), Stroke::solid(INK, 1.2));
}

fn draw_mark(svg: &mut Svg, mark: &Mark<'_>, y: f64, x: &Scale, left: f64, right: f64) {
    let (shape, hue, filled) = look(mark.verdict);
    let baseline = y + 4.0;
    svg.text((left - GAP, baseline), SMALL, Anchor::End, INK, mark.name);
    let [low, at, high] = [mark.interval.low, mark.ratio, mark.interval.high].map(|value| x.place(value));
    svg.line((low, y), (high, y), Stroke::solid(hue, 2.0));
    for end in [low, high] {
        svg.line((end, y - 4.0), (end, y + 4.0), Stroke::solid(hue, 1.6));
    }
    svg.marker(shape, (at, y), 4.5, hue, filled);
    svg.text((right + GAP, baseline), SMALL, Anchor::Start, INK, &numbers(mark));
}

/// `1.312 (1.271 – 1.354) faster`
fn numbers(mark: &Mark<'_>) -> String {
    let [ratio, low, high] = ratio_texts(mark.ratio, mark.interval);
    let verdict = mark.verdict.map_or(String::new(), |verdict| format!(" {}", verdict.as_str()));
    format!("{ratio} ({low} – {high}){verdict}")
}

/// The shape, the colour, and whether it is filled.
fn look(verdict: Option<Verdict>) -> (Shape, &'static str, bool) {
    match verdict {
        Some(Verdict::Faster) => (Shape::Triangle, colour(0), true),
        Some(Verdict::Slower) => (Shape::Wedge, colour(1), true),
        Some(Verdict::Same) => (Shape::Square, colour(2), true),
        Some(Verdict::CannotTell) => (Shape::Circle, GREY, false),
        None => (Shape::Diamond, INK, true),
    }
}

fn legend(svg: &mut Svg, versus: &Versus, left: f64, bottom: f64) {
    let margin = decimals(versus.comparison.settings.margin * 100.0, 2);
    let level = decimals(CONFIDENCE * 100.0, 1);
    let lines = [
        format!("Bars: each config's {level} % interval. Dashed: the margin of {margin} %. Log scale."),
        geometric_mean_text(versus).unwrap_or_default(),
    ];
    let mut at = left;
    for verdict in Verdict::ALL {
        let (shape, hue, filled) = look(Some(verdict));
        svg.marker(shape, (at + 6.0, bottom + 38.0), 4.5, hue, filled);
        svg.text((at + 16.0, bottom + 42.0), SMALL, Anchor::Start, INK, verdict.as_str());
        at += text_width(verdict.as_str(), SMALL) + 40.0;
    }
    for (index, line) in lines.iter().enumerate() {
        svg.text((left, bottom + 60.0 + 16.0 * index as f64), SMALL, Anchor::Start, GREY, line);
    }
}
