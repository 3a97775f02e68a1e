//! Throughput by batch size of the fastest settings: one line per network, that of its fastest config.

use super::throughput::{notes, plot, rates};
use crate::analysis::Analysis;
use crate::analysis::group::{Row, unit};
use crate::analysis::table::{Keys, run_sections, runs_table};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::Sheet;
use crate::report::inks::GREY;
use crate::report::lines::{Line, MOST, lines};
use crate::text::count_text;

pub(in crate::report) const FASTEST: Figure = Figure {
    name: "fastest",
    heading: "Fastest settings by batch size",
    one_per: "env",
    needs: "It needs a run with a throughput.",
    explanation: "\
A network has one line: that of the precision and the parameters of its fastest config. A marker is the throughput of a
row, a bar the 95 % interval of its geometric mean, and a small disc a run. A hollow disc is left out of the statistics.
If an env has more than seven networks, the first seven are drawn.",
    columns: run_sections,
    keys: Keys::RUNS,
    draw,
};

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let mut envs: Vec<&str> = analysis.rows.iter().map(|row| row.config.env.as_str()).collect();
    envs.dedup();
    envs.into_iter().filter_map(|env| of_env(env, analysis)).collect()
}

/// The fastest settings on `env`; `None` if no run of it has a throughput.
fn of_env(env: &str, analysis: &Analysis<'_>) -> Option<Drawing> {
    let mut lines: Vec<Line<'_, '_>> = lines(env, analysis);
    lines.retain(|line| {
        line.rows.iter().any(|(index, _)| analysis.fastest.contains(index))
            && line.rows.iter().any(|(_, row)| rates(row).next().is_some())
    });
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    let indices: Vec<usize> = lines.iter().flat_map(|line| &line.rows).map(|(index, _)| *index).collect();
    let rows: Vec<&Row<'_>> = indices.iter().map(|index| &analysis.rows[*index]).collect();
    if rows.is_empty() {
        return None;
    }
    let title = format!("Fastest settings, {env}");
    let common = take_common(&mut lines);
    let axes = format!("{} per s over batch size (log scale){common}", unit(rows.iter().copied()));
    let mut sheet = Sheet::narrow(&title, &axes);
    plot(&mut sheet, "", &lines);
    notes(&mut sheet, &rows);
    if more > 0 {
        sheet.paragraph(GREY, &format!("{} not drawn.", count_text(more, "more network")));
    }
    Some(Drawing { of: env.to_owned(), title, svg: sheet.finish(), numbers: runs_table(&indices, analysis) })
}

/// Takes the settings out of the names of `lines` if all have the same, and returns them: `, fp32 compile=true`.
fn take_common(lines: &mut [Line<'_, '_>]) -> String {
    let settings = |line: &Line<'_, '_>| {
        let model = line.model.to_string();
        line.name.strip_prefix(&model).unwrap_or(&line.name).trim().to_owned()
    };
    let common = settings(&lines[0]);
    if lines.iter().any(|line| settings(line) != common) {
        return String::new();
    }
    for line in lines {
        line.name = line.model.to_string();
    }
    format!(", {common}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::job::Precision;

    #[test]
    fn a_network_has_the_line_of_its_fastest_config() {
        let mut study =
            StudyBuilder::new().run("gpu", "vgg16", 8, 1, 5.0).not_run(key("cpu", "vgg16", 8, 1), "no time");
        for (precision, rate) in [(Precision::Fp32, 10.0), (Precision::Bf16, 20.0)] {
            for batch in [4, 8] {
                let mut key = key("gpu", "resnet18", batch, 1);
                key.precision = precision;
                study = study.run_with(key, rate, |_| {});
            }
        }
        let study = study.build();
        let drawings = draw(&analyse(&study));
        assert_eq!(drawings.len(), 1, "an env without a throughput has no drawing");
        let svg = &drawings[0].svg;
        assert!(svg.contains("resnet18 bf16") && !svg.contains("resnet18 fp32"), "{svg}");
        assert!(svg.contains("vgg16 fp32"), "{svg}");
        assert_eq!(drawings[0].numbers.read().rows.len(), 3);
    }

    #[test]
    fn common_settings_are_printed_once() {
        let study =
            StudyBuilder::new().run("gpu", "vgg16", 8, 1, 5.0).run("gpu", "resnet18", 8, 1, 9.0).build();
        let svg = &draw(&analyse(&study))[0].svg;
        assert_eq!(svg.matches("fp32</text>").count(), 1, "{svg}");
        assert!(svg.contains("batch size (log scale), fp32") && svg.contains(">vgg16</text>"), "{svg}");
    }
}
