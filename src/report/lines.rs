//! The lines of an env with their names, and their division among plots.

use crate::analysis::group::Row;
use crate::analysis::{self, Analysis};
use crate::job::{ModelName, Precision};

/// The most lines in a plot. More could not be distinguished.
pub(super) const MOST: usize = 7;

/// Rows that differ only in the batch.
pub(super) struct Line<'r, 'a> {
    pub(super) model: &'r ModelName,
    pub(super) precision: Precision,
    /// Its name in its plot, whose heading may contain the network.
    pub(super) name: String,
    /// Each with its index among the analysis's rows.
    pub(super) rows: Vec<(usize, &'r Row<'a>)>,
}

impl Line<'_, '_> {
    /// Its name with the network.
    pub(super) fn full_name(&self) -> String {
        let model = self.model.to_string();
        if self.name.starts_with(&model) { self.name.clone() } else { format!("{model} {}", self.name) }
    }
}

/// The lines of `env`, in the order of their first rows.
pub(super) fn lines<'r, 'a>(env: &str, analysis: &'r Analysis<'a>) -> Vec<Line<'r, 'a>> {
    let line = |line: &analysis::line::Line| {
        let mut rows: Vec<(usize, &'r Row<'a>)> =
            line.rows.iter().map(|index| (*index, &analysis.rows[*index])).collect();
        // A curve goes from small batches to large ones, independent of their order in tables.
        rows.sort_by_key(|(_, row)| row.config.batch);
        let (_, first) = *rows.first().filter(|(_, row)| row.config.env == env)?;
        let (model, precision) = (&first.config.model, first.config.precision);
        Some(Line { model, precision, name: name(line, analysis), rows })
    };
    analysis.lines.iter().filter_map(line).collect()
}

/// The name of `line` in a figure of one env: its network, its precision, and its distinction from others.
pub(super) fn name(line: &analysis::line::Line, analysis: &Analysis<'_>) -> String {
    let row = &analysis.rows[line.rows[0]];
    format!("{} {}{}{}", row.config.model, row.config.precision, row.distinction_in_env, line.distinction)
}

/// `lines` divided among plots, each with its heading. A few are all in one, without a heading. More have one plot per
/// network, or several if a network has many lines.
pub(super) fn panels<'r, 'a>(lines: Vec<Line<'r, 'a>>) -> Vec<(String, Vec<Line<'r, 'a>>)> {
    if lines.len() <= MOST {
        return if lines.is_empty() { Vec::new() } else { vec![(String::new(), lines)] };
    }
    let mut found: Vec<(String, Vec<Line<'r, 'a>>)> = Vec::new();
    for mut line in lines {
        let model = line.model.to_string();
        let rest = line.name.strip_prefix(&model).map(|rest| rest.trim_start().to_owned());
        line.name = rest.unwrap_or(line.name);
        match found.last_mut().filter(|(name, lines)| *name == model && lines.len() < MOST) {
            Some((_, lines)) => lines.push(line),
            None => found.push((model, vec![line])),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::job::ParamValue;

    #[test]
    fn few_lines_share_a_plot_and_of_many_each_network_has_its_own() {
        let study = |variants: i64| {
            let mut study = StudyBuilder::new();
            for (model, variant) in ["resnet18", "vgg16"]
                .into_iter()
                .flat_map(|model| (0..variants).map(move |variant| (model, variant)))
            {
                for batch in [4, 16] {
                    let mut key = key("cpu", model, batch, 1);
                    key.params.insert("channels".into(), ParamValue::Int(variant));
                    study = study.run_with(key, 10.0, |_| {});
                }
            }
            study.build()
        };
        let found = |variants| -> Vec<(String, usize, String)> {
            let study = study(variants);
            let analysis = analyse(&study);
            let panels = panels(lines("cpu", &analysis));
            panels.iter().map(|(name, lines)| (name.clone(), lines.len(), lines[0].name.clone())).collect()
        };
        let few = found(3);
        assert_eq!(few.len(), 1);
        assert_eq!((few[0].0.as_str(), few[0].1), ("", 6));
        assert!(few[0].2.starts_with("resnet18 fp32"), "{few:?}");
        let many = found(8);
        let sizes: Vec<(&str, usize)> = many.iter().map(|(name, lines, _)| (name.as_str(), *lines)).collect();
        assert_eq!(sizes, [("resnet18", 7), ("resnet18", 1), ("vgg16", 7), ("vgg16", 1)]);
        assert!(many[0].2.starts_with("fp32"), "{many:?}");
    }

    /// Settings that differ only between envs are not in the names of lines.
    #[test]
    fn names_contain_the_parameters_that_vary_within_their_env() {
        let mut study = StudyBuilder::new();
        for (env, iters) in [("cpu", 9), ("gpu", 1000)] {
            for channels in [1, 2] {
                let mut key = key(env, "resnet18", 4, 1);
                key.params.insert("channels".into(), ParamValue::Int(channels));
                key.params.insert("iters".into(), ParamValue::Int(iters));
                study = study.run_with(key, 10.0, |_| {});
            }
        }
        let study = study.build();
        let analysis = analyse(&study);
        for env in ["cpu", "gpu"] {
            let names: Vec<String> = lines(env, &analysis).into_iter().map(|line| line.name).collect();
            assert_eq!(names, ["resnet18 fp32 channels=1", "resnet18 fp32 channels=2"]);
        }
        let labels: Vec<String> = analysis.rows.iter().map(Row::label).collect();
        assert_eq!(
            labels[0], "cpu_resnet18_fp32_bs4 channels=1 iters=9",
            "a label distinguishes the rows of all envs"
        );
    }

    /// The first run of each batch is that of another machine, so the rows of one machine have several numbers.
    #[test]
    fn a_line_joins_the_runs_of_one_machine() {
        let on = |host: &'static str| {
            move |record: &mut crate::record::Record| record.provenance.host.hostname = host.into()
        };
        let study = StudyBuilder::new()
            .run_with(key("gpu", "resnet18", 8, 1), 10.0, on("a"))
            .run_with(key("gpu", "resnet18", 8, 2), 80.0, on("b"))
            .run_with(key("gpu", "resnet18", 16, 1), 90.0, on("b"))
            .run_with(key("gpu", "resnet18", 16, 2), 11.0, on("a"))
            .build();
        let analysis = analyse(&study);
        let lines = lines("gpu", &analysis);
        let found = lines.iter().map(|line| {
            (
                line.name.as_str(),
                line.rows.iter().filter_map(|(_, row)| row.samples_per_s()).collect::<Vec<_>>(),
            )
        });
        let expected = [("resnet18 fp32 on a", vec![10.0, 11.0]), ("resnet18 fp32 on b", vec![80.0, 90.0])];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
