//! What each axis brings: a forest plot for each of its values, as `compare` draws it.

use crate::analysis::Analysis;
use crate::analysis::axes::Effect;
use crate::analysis::table::{Keys, effect_sections, effect_table};
use crate::report::comparison::forest;
use crate::report::figure::{Drawing, Figure};

pub(in crate::report) const AXES: Figure = Figure {
    name: "axes",
    heading: "What each axis brings",
    one_per: "value of an axis, but for its reference",
    needs: "It needs an axis with two values, and a config with three runs of both.",
    explanation: "\
A line is a config, with its network, batch and all else that the two sides have in common. Its marker is the ratio of
throughputs, and its bar the 95 % interval. The shape is the verdict that `orchestrate compare` gives. The last line is
the geometric mean of all ratios.",
    columns: effect_sections,
    keys: Keys::NONE,
    draw,
};

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    analysis.axes.iter().flat_map(of_effect).collect()
}

fn of_effect(effect: &Effect) -> Vec<Drawing> {
    let Effect { axis, place, .. } = effect;
    let of = if *place == 1 { axis.clone() } else { format!("{axis}_{place}") };
    let [from, to] = &effect.versus.names;
    let drawing = |(svg, part): (String, usize)| Drawing {
        of: if part == 1 { of.clone() } else { format!("{of}_part{part}") },
        title: format!("Throughput of {to} ÷ that of {from}"),
        svg,
        numbers: effect_table(effect),
    };
    forest::draw(&effect.versus).into_iter().zip(1..).map(drawing).collect()
}
