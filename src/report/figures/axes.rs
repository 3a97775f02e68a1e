//! Effect of each axis: a forest plot for each of its values, as `compare` draws it.

use crate::analysis::Analysis;
use crate::analysis::axes::Effect;
use crate::analysis::table::{Keys, effect_sections, effect_table};
use crate::analysis::versus::Line;
use crate::report::comparison::forest;
use crate::report::figure::{Drawing, Figure, further};

pub(in crate::report) const AXES: Figure = Figure {
    name: "axes",
    heading: "Effect of each axis",
    one_per: "value of an axis, but for its reference",
    needs: "It needs an axis with two values, and a config with three runs of both.",
    explanation: "\
A line is a config, with its network, batch and all else that the two sides have in common. Its marker is the ratio of
throughputs, and its bar the 95 % interval. The shape is the verdict of `orchestrate compare`. The last line is
the geometric mean of all ratios, if they do not disagree. A hollow circle beside 1 is left open by Holm's
correction for the number of configs; its bar is the interval of that config alone.",
    columns: effect_sections,
    keys: Keys::NONE,
    draw,
};

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    analysis.axes.iter().flat_map(of_effect).collect()
}

fn of_effect(effect: &Effect) -> Vec<Drawing> {
    let Effect { axis, place, .. } = effect;
    let [from, to] = &effect.versus.names;
    let svgs = forest::draw(&effect.versus);
    let parts = svgs.len();
    let drawing = |((svg, lines), part): ((String, Vec<&Line>), usize)| {
        // A second value and a second part must not be mistaken for each other.
        let of_part = if part > 1 { format!("+part{part}") } else { String::new() };
        let which = if parts > 1 { format!(" ({part} of {parts})") } else { String::new() };
        Drawing {
            of: format!("{axis}{}{of_part}", further(*place)),
            title: format!("Throughput of {to} ÷ that of {from}{which}"),
            svg,
            numbers: effect_table(effect, &lines),
        }
    };
    svgs.into_iter().zip(divided(effect, parts)).zip(1..).map(drawing).collect()
}

/// The lines of each of the `parts` of a plot. Those without a ratio, which are not drawn, are in the last one.
fn divided(effect: &Effect, parts: usize) -> Vec<Vec<&Line>> {
    let Some(last) = parts.checked_sub(1) else { return Vec::new() };
    let mut divided = vec![Vec::new(); parts];
    let mut drawn = 0;
    for line in &effect.versus.lines {
        let is_drawn = line.result.is_ok();
        let part = if is_drawn { last.min(drawn / forest::MOST) } else { last };
        divided[part].push(line);
        drawn += usize::from(is_drawn);
    }
    divided
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::job::{Key, ParamValue};

    /// Three runs of `key` with these values of parameters.
    fn runs(study: StudyBuilder, key: impl Fn(u32) -> Key, values: &[(&str, i64)]) -> StudyBuilder {
        (1..=3).fold(study, |study, repeat| {
            let mut key = key(repeat);
            for (name, value) in values {
                key.params.insert((*name).into(), ParamValue::Int(*value));
            }
            study.run_with(key, 10.0 + 0.1 * f64::from(repeat), |_| {})
        })
    }

    #[test]
    fn drawings_have_unique_names() {
        let mut study = StudyBuilder::new();
        for (lr, other) in [(1, 1), (2, 1), (3, 1), (1, 2)] {
            let key = |repeat| key("cpu", "resnet18", 4, repeat);
            study = runs(study, key, &[("lr", lr), ("lr_2", other)]);
        }
        let study = study.build();
        let drawings = draw(&analyse(&study));
        let names: Vec<&str> = drawings.iter().map(|drawing| drawing.of.as_str()).collect();
        assert_eq!(names, ["lr", "lr+2", "lr_2"]);
        assert!(drawings.iter().all(|drawing| AXES.owns(&format!("{}.svg", AXES.file_name(drawing)))));
    }

    /// 61 configs with a ratio, and one that a side never ran.
    #[test]
    fn a_long_plot_is_divided_with_numbers_for_each_part() {
        let mut study = StudyBuilder::new();
        for (batch, steps) in (1..=62).flat_map(|batch| [(batch, 1), (batch, 2)]) {
            let key = |repeat| key("cpu", "resnet18", batch, repeat);
            if (batch, steps) == (62, 2) {
                let mut key = key(1);
                key.params.insert("steps".into(), ParamValue::Int(2));
                study = study.not_run(key, "it never ran");
            } else {
                study = runs(study, key, &[("steps", steps)]);
            }
        }
        let study = study.build();
        let [first, second] = &draw(&analyse(&study))[..] else { panic!("two parts") };
        assert_eq!([&first.of, &second.of], ["steps", "steps+part2"]);
        let title = "Throughput of steps=2 ÷ that of steps=1";
        assert_eq!(
            [first.title.as_str(), second.title.as_str()],
            [1, 2].map(|part| format!("{title} ({part} of 2)"))
        );
        for (drawing, count, drawn) in [(first, 60, 60), (second, 2, 1)] {
            let rows = drawing.numbers.read().rows;
            let configs: Vec<&str> = rows.iter().map(|row| row[3].as_str()).collect();
            let is_drawn = |config: &&&str| drawing.svg.contains(&format!("<title>{config}\n"));
            assert_eq!(
                (configs.len(), configs.iter().filter(is_drawn).count()),
                (count, drawn),
                "{configs:?}"
            );
        }
    }
}
