//! Batch scaling: the gain over the least batch, with lines of equal efficiency, and the knee.

use crate::analysis::Analysis;
use crate::analysis::scaling::{Curve, Step};
use crate::analysis::table::{Keys, curve_sections, curve_table};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, Area, MARGIN, SMALL, Sheet, WIDTH};
use crate::report::hover::{self, row_anchor};
use crate::report::inks::{GREY, colour};
use crate::report::labels::{height_for, spread};
use crate::report::letters::{cut_within, text_width};
use crate::report::lines;
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{Anchor, Look, Stroke, Svg, ink_text, shape};
use crate::text::{decimals, significant};

pub(super) const SCALING: Figure = Figure {
    name: "scaling",
    heading: "Batch scaling",
    one_per: "five plots of at most seven lines, env by env",
    needs: "It needs two batches of a network that differ in nothing else, each with a run that counts.",
    explanation: "\
Each line is the gain from larger batches for one network, precision and set of parameters: the throughput ÷ that of
the least batch, on logarithmic axes. Dotted lines are lines of equal efficiency, which is that gain ÷ the ratio of the
batches. On the line of 100 %, twice the batch takes no more time, so the device had room.

A filled marker is the knee: the least batch after which every step adds less than 10 % per doubling of the batch.
Larger batches are hardly faster. A line without a filled marker still grows by 10 % or more at its end. Throughputs
decide, so with few runs that scatter, the knee can be off by a batch.

Lines of an env that begin at different batches are in different plots, because each gain is relative to the batch
at which its line begins.",
    columns: curve_sections,
    keys: Keys::OF_ROWS,
    draw,
};

const LEAST_HEIGHT: f64 = 190.0;

/// The most curves in a plot.
const MOST: usize = 7;

/// The most plots in a drawing.
const PLOTS: usize = 5;

/// The most room for names beside a plot.
const NAMES: f64 = 260.0;

/// The efficiencies that have a line.
const EFFICIENCIES: [f64; 4] = [1.0, 0.5, 0.25, 0.125];

/// An env, a batch, and the curves of that env that begin at that batch.
type Group<'r> = (&'r str, u32, Vec<&'r Curve>);

/// The curves of a plot.
struct Panel<'r> {
    heading: String,
    /// The batch at which all of its curves begin.
    first: u32,
    curves: Vec<&'r Curve>,
}

/// The plots, env by env. A gain is relative to the least batch of its curve, so the lines of equal efficiency fit only
/// curves that begin at the same batch.
fn panels<'r>(analysis: &'r Analysis<'_>) -> Vec<Panel<'r>> {
    let mut groups: Vec<Group<'r>> = Vec::new();
    for curve in &analysis.curves {
        let config = &analysis.rows[curve.steps[0].row].config;
        let (env, batch) = (config.env.as_str(), config.batch);
        match groups.iter_mut().find(|(of, first, _)| *of == env && *first == batch) {
            Some((_, _, curves)) => curves.push(curve),
            None => groups.push((env, batch, vec![curve])),
        }
    }
    let mut panels = Vec::new();
    for (env, first, curves) in &groups {
        let others_differ = groups.iter().any(|(of, batch, _)| of == env && batch != first);
        let heading = if others_differ { format!("{env}, from batch {first}") } else { (*env).to_owned() };
        panels.extend(curves.chunks(MOST).map(|chunk| Panel {
            heading: heading.clone(),
            first: *first,
            curves: chunk.to_vec(),
        }));
    }
    panels
}

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let panels = panels(analysis);
    let all = panels.len().div_ceil(PLOTS);
    let drawing = |(chunk, number): (&[Panel<'_>], usize)| {
        let part = if all > 1 { format!(" ({number} of {all})") } else { String::new() };
        let title = format!("Batch scaling{part}");
        let curves: Vec<&Curve> = chunk.iter().flat_map(|panel| &panel.curves).copied().collect();
        let svg = of_panels(&title, chunk, analysis);
        Drawing { of: number.to_string(), title, svg, numbers: curve_table(&curves, analysis) }
    };
    panels.chunks(PLOTS).zip(1..).map(drawing).collect()
}

fn of_panels(title: &str, panels: &[Panel<'_>], analysis: &Analysis<'_>) -> String {
    let axes = "throughput ÷ that of the least batch, over batch size (log scales)";
    let mut sheet = Sheet::new(title, axes);
    for panel in panels {
        sheet.heading(&panel.heading);
        plot(&mut sheet, panel, analysis);
    }
    sheet.paragraph(
        GREY,
        "Dotted: equal efficiency. Filled: the knee, after which a doubling adds less than 10 %.",
    );
    sheet.finish()
}

fn name(curve: &Curve, analysis: &Analysis<'_>) -> String {
    let knee = curve.knee_row().map(|knee| format!(", knee {}", analysis.rows[knee].config.batch));
    let line = lines::name(&analysis.lines[curve.line], analysis);
    format!("{line}{}", knee.unwrap_or(", no knee".to_owned()))
}

fn plot(sheet: &mut Sheet, panel: &Panel<'_>, analysis: &Analysis<'_>) {
    let curves = &panel.curves;
    let names: Vec<String> = curves.iter().map(|curve| name(curve, analysis)).collect();
    let room = names.iter().map(|name| text_width(name, SMALL)).fold(0.0, f64::max).min(NAMES);
    let batch = |step: &Step| analysis.rows[step.row].config.batch;
    let steps = || curves.iter().flat_map(|curve| &curve.steps);
    let most = steps().map(|step| step.gain).fold(1.0, f64::max);
    let least = steps().map(|step| step.gain).fold(1.0, f64::min);
    // The percentages of the efficiencies are in the room above all curves.
    let above = (1.15 * most / least).powf(0.16).max(1.25);
    let scale = |area: &Area| area.upwards(Kind::Log, least / 1.15, most * above);
    let anywhere = Area { left: 0.0, top: 0.0, right: 1.0, bottom: 1.0 };
    let left = frame::left_of(&scale(&anywhere));
    let area = sheet.plot(left, WIDTH - MARGIN - room - 24.0, height_for(curves.len(), LEAST_HEIGHT));
    let y = scale(&area);
    let batches: Vec<u32> = steps().map(batch).collect();
    let (x, ticks) = frame::batch_axis(&area, &batches);
    frame::value_axis(&mut sheet.svg, &area, &y);
    frame::axis_below(&mut sheet.svg, &area, &ticks);
    equal_efficiency(&mut sheet.svg, &area, f64::from(panel.first), &x, &y);
    for (index, curve) in curves.iter().enumerate() {
        draw_curve(&mut sheet.svg, curve, index, analysis, &x, &y);
    }
    frame::border(&mut sheet.svg, &area);
    let wanted: Vec<f64> =
        curves.iter().filter_map(|curve| Some(y.place(curve.steps.last()?.gain))).collect();
    let places = spread(&wanted, area.top + 6.0, area.bottom - 4.0);
    for (index, (text, at)) in names.iter().zip(places).enumerate() {
        sheet.svg.marker((area.right + 10.0, at), look(index, false), "");
        let text = cut_within(text, SMALL, WIDTH - MARGIN - area.right - 20.0);
        ink_text(&mut sheet.svg, (area.right + 20.0, at + 4.0), SMALL, Anchor::Start, &text);
    }
}

/// Lines of equal efficiency for curves that begin at the batch `first`, each with its percentage at the upper edge.
fn equal_efficiency(svg: &mut Svg, area: &Area, first: f64, x: &Scale, y: &Scale) {
    let mut free = area.left + 3.0;
    for efficiency in EFFICIENCIES {
        let gain = |batch: f64| efficiency * batch / first;
        let from = x.low.max(first * y.low / efficiency);
        let to = x.high.min(first * y.high / efficiency);
        if from >= to {
            continue;
        }
        let [start, end] = [from, to].map(|batch| (x.place(batch), y.place(gain(batch))));
        svg.line(start, end, Stroke { colour: GREY, width: 1.0, dashes: "1 3" });
        let text = format!("{} %", decimals(100.0 * efficiency, 1));
        let begins = end.0 - 5.0 - text_width(&text, SMALL);
        if end.1 < area.top + 1.0 && begins >= free {
            svg.text((end.0 - 5.0, area.top + 13.0), SMALL, Anchor::End, GREY, &text);
            free = end.0;
        }
    }
}

fn look(index: usize, is_filled: bool) -> Look<'static> {
    Look { shape: shape(index), radius: 4.6, colour: colour(index), is_filled }
}

fn draw_curve(svg: &mut Svg, curve: &Curve, index: usize, analysis: &Analysis<'_>, x: &Scale, y: &Scale) {
    let dashes = ["", "6 3", "2 3"][index % 3];
    let at = |step: &Step| (x.place(f64::from(analysis.rows[step.row].config.batch)), y.place(step.gain));
    let points: Vec<(f64, f64)> = curve.steps.iter().map(at).collect();
    svg.polyline(&points, Stroke { colour: colour(index), width: 1.8, dashes });
    for (place, step) in curve.steps.iter().enumerate() {
        let growth =
            step.growth.map(|growth| format!("\n{:+.1} % per doubling of the batch", 100.0 * growth));
        let text = format!(
            "{}\n{} × the least batch, efficiency {} %{}",
            hover::of_row(&analysis.rows[step.row]),
            significant(step.gain, 3),
            decimals(100.0 * step.efficiency, 0),
            growth.unwrap_or_default()
        );
        let anchor = row_anchor(&analysis.rows[step.row]);
        svg.linked_marker(at(step), look(index, curve.knee == Some(place)), &text, &anchor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::StudyBuilder;

    /// A plot: its heading, the batch at which its curves begin, and their networks.
    type PanelTexts = (String, u32, Vec<String>);

    /// Twice the batch trains twice as fast.
    fn perfect(study: StudyBuilder, env: &str, model: &str, batches: &[u32]) -> StudyBuilder {
        batches.iter().fold(study, |study, batch| study.runs(env, model, *batch, &[f64::from(*batch)]))
    }

    /// A regression test: perfect scaling from batch 32 on was on the line of 50 % if another curve began at 16.
    #[test]
    fn the_curves_of_a_plot_begin_at_the_same_batch() {
        let study = perfect(StudyBuilder::new(), "cpu", "alexnet", &[32, 64]);
        let study = perfect(study, "cpu", "resnet18", &[16, 32]);
        let study = perfect(study, "cpu", "vgg16", &[32, 64]);
        let study = perfect(study, "gpu", "resnet18", &[16, 32]).build();
        let analysis = analyse(&study);
        let model = |curve: &&Curve| analysis.rows[curve.steps[0].row].config.model.to_string();
        let found: Vec<PanelTexts> = panels(&analysis)
            .into_iter()
            .map(|panel| (panel.heading, panel.first, panel.curves.iter().map(model).collect()))
            .collect();
        let panel = |heading: &str, first: u32, models: &[&str]| -> PanelTexts {
            (heading.to_owned(), first, models.iter().map(|model| (*model).to_owned()).collect())
        };
        let expected = [
            panel("cpu, from batch 32", 32, &["alexnet", "vgg16"]),
            panel("cpu, from batch 16", 16, &["resnet18"]),
            panel("gpu", 16, &["resnet18"]),
        ];
        assert_eq!(found, expected);
        let drawings = draw(&analysis);
        let [drawing] = &drawings[..] else { panic!("{} drawings", drawings.len()) };
        for heading in ["cpu, from batch 32", "cpu, from batch 16", "gpu"] {
            assert!(drawing.svg.contains(&format!(">{heading}</text>")), "{heading}");
        }
        assert_eq!(drawing.numbers.read().rows.len(), 8);
    }

    /// Curves of perfect scaling are on the line of 100 %, at any first batch.
    #[test]
    fn perfect_scaling_is_on_the_line_of_100_percent() {
        let study = perfect(StudyBuilder::new(), "cpu", "resnet18", &[16, 32]);
        let study = perfect(study, "cpu", "vgg16", &[32, 64]).build();
        let drawings = draw(&analyse(&study));
        let lines = || drawings[0].svg.lines();
        let curves: Vec<&str> = lines().filter(|line| line.starts_with("<polyline")).collect();
        let dotted: Vec<&str> = lines().filter(|line| line.contains("stroke-dasharray=\"1 3\"")).collect();
        // The first of the dotted lines of each plot is that of 100 %.
        let per_plot = dotted.len() / curves.len();
        assert_eq!((curves.len(), dotted.len()), (2, 2 * per_plot));
        for (curve, line) in curves.iter().zip(dotted.iter().step_by(per_plot)) {
            let [x1, y1, x2, y2] = ["x1", "y1", "x2", "y2"].map(|name| number_of(line, name));
            for point in attribute(curve, "points").split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                let on_line = y1 + (y2 - y1) * (x - x1) / (x2 - x1);
                assert!((y - on_line).abs() < 0.1, "{curve} and {line}");
            }
        }
    }

    fn attribute<'s>(element: &'s str, name: &str) -> &'s str {
        let (_, rest) = element.split_once(&format!(" {name}=\"")).unwrap();
        rest.split('"').next().unwrap()
    }

    fn number_of(element: &str, name: &str) -> f64 {
        attribute(element, name).parse().unwrap()
    }
}
