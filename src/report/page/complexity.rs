//! Parameters, FLOPs and arithmetic intensity of the networks.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::cost::{Described, FlopsConvention};
use crate::analysis::group::Row;
use crate::analysis::table::NOT_KNOWN;
use crate::job::Key;
use crate::text::{grouped, significant};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct ComplexityRow {
    model: String,
    parameters: String,
    forward_gmac: String,
    training_gflop: String,
    intensity: String,
}

/// One line per network, precision, batch and optimizer, because the intensity depends on all of them; and one per
/// network whose worker counts. If the numbers of such a line depend on further parameters, there is a line for each
/// of their values, which also names them.
pub(super) fn complexity(analysis: &Analysis<'_>) -> Vec<ComplexityRow> {
    let lines = analysis.rows.iter().filter_map(|row| Some((row, complexity_row(row)?)));
    let mut lines: Vec<(&Row<'_>, ComplexityRow)> = lines.collect();
    // The label distinguishes lines with equal parameters: other envs, and the rows of a config.
    let additions: [fn(&Row<'_>) -> String; 2] = [parameters_text, |row| format!(" ({})", row.label())];
    for addition in additions {
        let ambiguous = ambiguous_texts(&lines);
        for (row, line) in &mut lines {
            if ambiguous.contains(&line.model) {
                line.model += &addition(row);
            }
        }
    }
    let mut seen = BTreeSet::new();
    lines.into_iter().map(|(_, line)| line).filter(|line| seen.insert(line.clone())).collect()
}

/// The texts of lines whose numbers differ.
fn ambiguous_texts(lines: &[(&Row<'_>, ComplexityRow)]) -> BTreeSet<String> {
    let mut known: BTreeMap<&str, &ComplexityRow> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (_, line) in lines {
        let first: &ComplexityRow = known.entry(line.model.as_str()).or_insert(line);
        if first != line {
            found.insert(line.model.clone());
        }
    }
    found
}

/// `, classes=10`: the parameters that vary between configs.
fn parameters_text(row: &Row<'_>) -> String {
    if row.distinction.is_empty() { String::new() } else { format!(",{}", row.distinction) }
}

/// The line of a row; `None` if its cost is unknown.
fn complexity_row(row: &Row<'_>) -> Option<ComplexityRow> {
    let cost = row.cost.as_ref().ok()?;
    let of_description =
        |text: &dyn Fn(&Described) -> String| cost.described().map_or_else(|| NOT_KNOWN.to_owned(), text);
    Some(ComplexityRow {
        model: network_text(&row.config, cost.described()),
        parameters: cost.parameters().map_or_else(|| NOT_KNOWN.to_owned(), grouped),
        forward_gmac: of_description(&|network| format!("{:.3}", network.forward_macs as f64 / 1e9)),
        training_gflop: gflop_text(cost.training_flops()),
        intensity: of_description(&|network| significant(cost.training_flops() / network.modelled_bytes, 3)),
    })
}

/// `resnet18 fp32, 224 × 224 pixels, batch 16, sgd`
fn network_text(key: &Key, described: Option<&Described>) -> String {
    let Some(Described { input_size: size, optimizer, iterations_per_step, .. }) = described else {
        return format!("{}, as its worker counts", key.model);
    };
    let shared = match iterations_per_step {
        1 => String::new(),
        n => format!(" every {n} iterations"),
    };
    let optimizer = optimizer.map(|optimizer| format!(", {optimizer}{shared}")).unwrap_or_default();
    format!("{} {}, {size} × {size} pixels, batch {}{optimizer}", key.model, key.precision, key.batch)
}

/// The counting of the FLOPs of the rows, as a text.
pub(super) fn convention_text(analysis: &Analysis<'_>, convention: FlopsConvention) -> String {
    let costs = || analysis.rows.iter().filter_map(|row| row.cost.as_ref().ok());
    let is_reported = costs().any(|cost| cost.described().is_none());
    let own = "A worker's own count is used as it is.";
    match (is_reported, costs().all(|cost| cost.described().is_none())) {
        (false, _) => convention.to_string(),
        (true, true) => own.to_owned(),
        (true, false) => format!("{convention} {own}"),
    }
}

/// `flops` in GFLOP, with three decimals, or three digits if that is little.
fn gflop_text(flops: f64) -> String {
    let gflop = flops / 1e9;
    if gflop >= 0.1 { format!("{gflop:.3}") } else { significant(gflop, 3) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::job::{ParamValue, WorkerTemplate};

    /// The networks of the table, each with a number of it.
    fn lines(study: StudyBuilder, number: fn(&ComplexityRow) -> String) -> Vec<String> {
        let study = study.build();
        let rows = complexity(&analyse(&study));
        rows.iter().map(|row| format!("{}: {}", row.model, number(row))).collect()
    }

    fn with(mut key: Key, name: &str, value: i64) -> Key {
        key.params.insert(name.into(), ParamValue::Int(value));
        key
    }

    /// A run of a custom worker that counts `flops` per sample.
    fn counted(study: StudyBuilder, config: Key, flops: f64) -> StudyBuilder {
        let worker = WorkerTemplate::Command(["train.py".into()].into());
        study.run_with(Key { worker, ..config }, 10.0, |record| {
            record.measurement.as_mut().unwrap().details.flops_per_sample = Some(flops);
        })
    }

    #[test]
    fn each_count_of_a_worker_has_a_line() {
        let of = |length| with(key("cpu", "gpt", 16, 1), "seq_len", length);
        let both = |flops| {
            let study = counted(StudyBuilder::new(), of(128), 2.5e9);
            lines(counted(study, of(1024), flops), |row| row.training_gflop.clone())
        };
        assert_eq!(
            both(20e9),
            [
                "gpt, as its worker counts, seq_len=128: 2.500",
                "gpt, as its worker counts, seq_len=1024: 20.000"
            ]
        );
        assert_eq!(both(2.5e9), ["gpt, as its worker counts: 2.500"], "the parameter does not matter");
    }

    #[test]
    fn counts_with_equal_parameters_have_the_labels_of_their_rows() {
        let study = counted(StudyBuilder::new(), key("a", "gpt", 16, 1), 2.5e9);
        let study = counted(study, key("b", "gpt", 16, 1), 5e9);
        assert_eq!(
            lines(study, |row| row.training_gflop.clone()),
            [
                "gpt, as its worker counts (a_gpt_fp32_bs16): 2.500",
                "gpt, as its worker counts (b_gpt_fp32_bs16): 5.000"
            ]
        );
    }

    /// 990 classes are 990 × (512 + 1) parameters of the last layer.
    #[test]
    fn networks_of_other_classes_have_a_line_each() {
        let of = |classes| with(key("cpu", "resnet18", 16, 1), "classes", classes);
        let network = "resnet18 fp32, 224 × 224 pixels, batch 16, sgd";
        let both = StudyBuilder::new().run_with(of(10), 10.0, |_| {}).run_with(of(1000), 10.0, |_| {});
        assert_eq!(
            lines(both, |row| row.parameters.clone()),
            [format!("{network}, classes=10: 11,181,642"), format!("{network}, classes=1000: 11,689,512")]
        );
        let one = StudyBuilder::new().runs("cpu", "resnet18", 16, &[10.0, 10.1]);
        assert_eq!(lines(one, |row| row.parameters.clone()), [format!("{network}: 11,689,512")]);
    }
}
