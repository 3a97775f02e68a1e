//! Lines by batch: the rows of an env that differ in the batch alone, and how they divide among plots.

use crate::analysis::Analysis;
use crate::analysis::group::Row;
use crate::job::{ModelName, Precision};

use super::hover;

/// The most lines in a plot. More could not be told apart.
const MOST: usize = 7;

/// The rows of one network, precision and set of parameters, by batch.
pub(super) struct Line<'r, 'a> {
    pub(super) model: &'r ModelName,
    pub(super) precision: Precision,
    /// Its name in its plot, which may say the network already.
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

/// The lines of `env`, in the order of the rows.
pub(super) fn lines<'r, 'a>(env: &str, analysis: &'r Analysis<'a>) -> Vec<Line<'r, 'a>> {
    let mut found: Vec<Line<'r, 'a>> = Vec::new();
    for (index, row) in analysis.rows.iter().enumerate().filter(|(_, row)| row.config.env == env) {
        let name = format!("{} {}{}", row.config.model, row.config.precision, hover::suffix(row));
        match found.iter_mut().find(|line| line.name == name) {
            Some(line) => line.rows.push((index, row)),
            None => found.push(Line {
                model: &row.config.model,
                precision: row.config.precision,
                name,
                rows: vec![(index, row)],
            }),
        }
    }
    found
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
}
