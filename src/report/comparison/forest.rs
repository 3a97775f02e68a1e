//! The forest plot: the ratio of each config with its interval, the margin, and the geometric mean.
//!
//! Verdicts differ in shape and in colour. The names are left of the plot and the numbers right of it, each at
//! its line.

use super::words::geometric_mean_text;
use crate::analysis::compare::Verdict;
use crate::analysis::versus::{ConfigComparison, Versus, ratio_texts};
use crate::report::frame::{self, Area, MARGIN, SMALL, Sheet, WIDTH};
use crate::report::inks::{GREY, INK, colour};
use crate::report::letters::{cut_within, text_width};
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{Anchor, Look, Shape, Stroke, Svg};
use crate::stats::{CONFIDENCE, Interval};
use crate::text::decimals;

/// The height of a line.
const STEP: f64 = 18.0;

/// Room between the plot and its names and numbers.
const GAP: f64 = 8.0;

/// The most lines of a plot.
pub(in crate::report) const MOST: usize = 60;

/// The most room for the names of configs.
const NAMES: f64 = 235.0;

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

/// The plots, of at most 60 lines each; none if no config has a ratio.
pub(in crate::report) fn draw(versus: &Versus) -> Vec<String> {
    let marks = marks(versus);
    let [from, to] = &versus.names;
    let all = marks.len().div_ceil(MOST);
    let plot = |(chunk, number): (&[Mark<'_>], usize)| {
        let part = if all > 1 { format!(" ({number} of {all})") } else { String::new() };
        let title = format!("Throughput of {to} ÷ that of {from}{part}");
        of_marks(&title, chunk, versus)
    };
    marks.chunks(MOST).zip(1..).map(plot).collect()
}

fn of_marks(title: &str, marks: &[Mark<'_>], versus: &Versus) -> String {
    let mut sheet = Sheet::new(title, "ratio of throughputs with its interval, config by config (log scale)");
    let widest = |texts: &mut dyn Iterator<Item = String>| {
        texts.map(|text| text_width(&text, SMALL)).fold(0.0, f64::max)
    };
    let names = widest(&mut marks.iter().map(|mark| mark.name.to_owned())).min(NAMES);
    let right = WIDTH - MARGIN - GAP - widest(&mut marks.iter().map(numbers));
    let area = sheet.plot(MARGIN + names + GAP, right, marks.len() as f64 * STEP);
    let margin = versus.comparison.settings.margin;
    let x = axis(marks, margin, &area);
    grid(&mut sheet.svg, &x, &area, margin);
    for (index, mark) in marks.iter().enumerate() {
        draw_mark(&mut sheet.svg, mark, area.top + (index as f64 + 0.5) * STEP, &x, &area);
    }
    frame::border(&mut sheet.svg, &area);
    let verdicts = Verdict::ALL.map(|verdict| (look(Some(verdict)), verdict.as_str()));
    sheet.legend(&verdicts);
    notes(&mut sheet, versus);
    sheet.finish()
}

fn marks(versus: &Versus) -> Vec<Mark<'_>> {
    let compared =
        versus.lines.iter().filter_map(|line| Some((line.config.as_str(), line.result.as_ref().ok()?)));
    let mut marks: Vec<Mark<'_>> = compared
        .map(|(name, ConfigComparison { ratio, interval, verdict, .. })| Mark {
            name,
            ratio: *ratio,
            interval: *interval,
            verdict: Some(*verdict),
        })
        .collect();
    // The mean of one ratio is that ratio. Ratios that disagree have no mean.
    let has_mean = marks.len() > 1 && !versus.comparison.disagrees();
    if let Some(mean) = versus.comparison.geometric_mean.ok().filter(|_| has_mean) {
        let interval = mean.interval(CONFIDENCE).exp();
        marks.push(Mark { name: "geometric mean", ratio: mean.value.exp(), interval, verdict: None });
    }
    marks
}

fn axis(marks: &[Mark<'_>], margin: f64, area: &Area) -> Scale {
    let least = LEAST_SHARE.max(1.5 * margin);
    let low = marks.iter().map(|mark| mark.interval.low).fold(1.0 - least, f64::min);
    let high = marks.iter().map(|mark| mark.interval.high).fold(1.0 / (1.0 - least), f64::max);
    let pad = (high / low).powf(0.04);
    area.across(Kind::Log, low / pad, high * pad)
}

fn grid(svg: &mut Svg, x: &Scale, area: &Area, margin: f64) {
    let ticks = x.ticks().into_iter().map(|tick| (x.place(tick), decimals(tick, 4)));
    frame::axis_below(svg, area, &ticks.collect::<Vec<_>>());
    for edge in [1.0 - margin, 1.0 / (1.0 - margin)] {
        let at = x.place(edge);
        svg.line((at, area.top), (at, area.bottom), Stroke { colour: GREY, width: 1.0, dashes: "4 3" });
    }
    let one = x.place(1.0);
    svg.line((one, area.top), (one, area.bottom), Stroke::solid(INK, 1.2));
}

fn draw_mark(svg: &mut Svg, mark: &Mark<'_>, y: f64, x: &Scale, area: &Area) {
    let look = look(mark.verdict);
    let baseline = y + 4.0;
    let name = cut_within(mark.name, SMALL, area.left - GAP - MARGIN);
    svg.text((area.left - GAP, baseline), SMALL, Anchor::End, INK, &name);
    let [low, at, high] = [mark.interval.low, mark.ratio, mark.interval.high].map(|value| x.place(value));
    svg.line((low, y), (high, y), Stroke::solid(look.colour, 2.0));
    for end in [low, high] {
        svg.line((end, y - 4.0), (end, y + 4.0), Stroke::solid(look.colour, 1.6));
    }
    let verdict = mark.verdict.map_or(String::new(), |verdict| format!("\n{}", verdict.as_str()));
    let text = format!("{}\n{}, {} % interval{verdict}", mark.name, numbers(mark), level());
    svg.marker((at, y), look, &text);
    svg.text((area.right + GAP, baseline), SMALL, Anchor::Start, INK, &numbers(mark));
}

/// `1.312 (1.271 – 1.354)`
fn numbers(mark: &Mark<'_>) -> String {
    let [ratio, low, high] = ratio_texts(mark.ratio, mark.interval);
    format!("{ratio} ({low} – {high})")
}

fn look(verdict: Option<Verdict>) -> Look<'static> {
    let (shape, colour, is_filled) = match verdict {
        Some(Verdict::Faster) => (Shape::Triangle, colour(0), true),
        Some(Verdict::Slower) => (Shape::Wedge, colour(1), true),
        Some(Verdict::Same) => (Shape::Square, colour(2), true),
        Some(Verdict::CannotTell) => (Shape::Circle, GREY, false),
        None => (Shape::Diamond, INK, true),
    };
    Look { shape, radius: 4.5, colour, is_filled }
}

fn level() -> String {
    decimals(CONFIDENCE * 100.0, 1)
}

fn notes(sheet: &mut Sheet, versus: &Versus) {
    let margin = decimals(versus.comparison.settings.margin * 100.0, 2);
    let level = level();
    sheet.paragraph(
        GREY,
        &format!("Bars: each config's {level} % interval. Dashed: the margin of {margin} %."),
    );
    let mut results = versus.lines.iter().flat_map(|line| &line.result);
    let is_open = results.any(ConfigComparison::is_open_by_correction);
    if is_open {
        let configs = versus.comparison.configs.iter().flatten().count();
        sheet.paragraph(
            GREY,
            &format!(
                "Hollow beside 1: its own interval excludes 1, but not corrected for {configs} configs (Holm)."
            ),
        );
    }
    sheet.paragraph(GREY, &geometric_mean_text(versus).unwrap_or_default());
}
