//! Parameters, FLOPs and arithmetic intensity of the networks.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::cost::{Described, FlopsConvention};
use crate::analysis::table::NOT_KNOWN;
use crate::text::{grouped, significant};

#[derive(Debug, Serialize)]
pub(super) struct ComplexityRow {
    model: String,
    parameters: String,
    forward_gmac: String,
    training_gflop: String,
    intensity: String,
}

/// One line per network, precision, batch and optimizer, because the intensity depends on all of them; and one for each
/// network whose worker counts.
pub(super) fn complexity(analysis: &Analysis<'_>) -> Vec<ComplexityRow> {
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for row in &analysis.rows {
        let Ok(cost) = &row.cost else { continue };
        let key = &row.config;
        let model = match cost.described() {
            Some(Described { input_size: size, optimizer, iterations_a_step, .. }) => {
                let shared = match iterations_a_step {
                    1 => String::new(),
                    n => format!(" every {n} iterations"),
                };
                let optimizer =
                    optimizer.map(|optimizer| format!(", {optimizer}{shared}")).unwrap_or_default();
                format!(
                    "{} {}, {size} × {size} pixels, batch {}{optimizer}",
                    key.model, key.precision, key.batch
                )
            }
            None => format!("{}, as its worker counts", key.model),
        };
        if !seen.insert(model.clone()) {
            continue;
        }
        let of_description =
            |text: &dyn Fn(&Described) -> String| cost.described().map_or_else(|| NOT_KNOWN.to_owned(), text);
        rows.push(ComplexityRow {
            model,
            parameters: cost.parameters().map_or_else(|| NOT_KNOWN.to_owned(), grouped),
            forward_gmac: of_description(&|network| format!("{:.3}", network.forward_macs as f64 / 1e9)),
            training_gflop: gflop_text(cost.training_flops()),
            intensity: of_description(&|network| {
                significant(cost.training_flops() / network.modelled_bytes, 3)
            }),
        });
    }
    rows
}

/// How the FLOPs of the rows are counted.
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
