//! Parameters, FLOPs and arithmetic intensity of the networks.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::analysis::Analysis;
use crate::text::{grouped, significant};

#[derive(Debug, Serialize)]
pub(super) struct ComplexityRow {
    model: String,
    parameters: String,
    forward_gmac: String,
    training_gflop: String,
    intensity: String,
}

/// One line per network, precision and batch, because the intensity depends on all three.
pub(super) fn complexity(analysis: &Analysis<'_>) -> Vec<ComplexityRow> {
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for row in &analysis.rows {
        let Ok(cost) = &row.cost else { continue };
        let key = &row.config;
        let size = cost.input_size;
        let model = format!("{} {}, {size} × {size} pixels, batch {}", key.model, key.precision, key.batch);
        if !seen.insert(model.clone()) {
            continue;
        }
        rows.push(ComplexityRow {
            model,
            parameters: grouped(cost.parameters),
            forward_gmac: format!("{:.3}", cost.forward_macs as f64 / 1e9),
            training_gflop: format!("{:.3}", cost.training_flops as f64 / 1e9),
            intensity: significant(cost.training_flops as f64 / cost.modelled_bytes, 3),
        });
    }
    rows
}
