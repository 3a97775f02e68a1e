//! The output of `orchestrate complexity`: tables, CSV and JSON.

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::analysis::complexity::{BatchCost, Complexity, LayerBatchCost, LayerCost};
use crate::analysis::step::{step_bytes, step_flops};
use crate::cli::output::{Layout, table, table_text};
use crate::job::{Optimizer, Precision};

/// Version of the JSON. 1: the first.
pub(super) const SCHEMA: u32 = 1;

/// The JSON document.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// The version of the format.
    pub(super) schema: u32,
    /// How training FLOPs were counted, as a sentence.
    pub(super) convention: String,
    /// Height and width of the images, in pixels.
    pub(super) input_size: u32,
    /// Number of classes.
    pub(super) classes: u32,
    /// The precision.
    pub(super) precision: Precision,
    /// The optimizer whose state and step are counted.
    #[serde(serialize_with = "word")]
    pub(super) optimizer: Optimizer,
    /// The networks, in the requested order.
    pub(super) networks: Vec<Complexity>,
}

fn word<S: serde::Serializer>(optimizer: &Optimizer, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(optimizer.as_str())
}

/// The notes under every table: the conventions of its numbers.
fn notes(summary: &Summary) -> String {
    format!(
        "Images of {size} × {size} pixels, {classes} classes, {precision}. 1 MAC is 2 FLOPs; MACs and FLOPs are per \
         image.\n{convention}\nMemory is an estimate: parameters, gradients and {optimizer} state in single \
         precision, and the outputs of all layers.\nDRAM traffic is modelled: each layer reads its inputs and \
         weights and writes its outputs once, forward and backward, and {optimizer} step moves {step} bytes per \
         parameter. Its {step_flops} FLOPs per parameter are not among the training FLOPs.\n",
        step = step_bytes(summary.optimizer),
        step_flops = step_flops(summary.optimizer),
        size = summary.input_size,
        classes = summary.classes,
        precision = summary.precision,
        convention = summary.convention,
        optimizer = match summary.optimizer {
            Optimizer::Sgd => "SGD's",
            Optimizer::AdamW => "AdamW's",
        },
    )
}

/// One row per network and batch.
pub(super) fn summary_table(summary: &Summary, layout: Layout) -> String {
    let header = [
        "network",
        "params (M)",
        "MACs (G)",
        "forward GFLOP",
        "training GFLOP",
        "÷ forward",
        "batch",
        "activations (MB)",
        "memory (MB)",
        "DRAM (GB)",
        "FLOP/byte",
    ];
    let mut table = table(header.map(str::to_owned).to_vec(), layout);
    for network in &summary.networks {
        for batch in &network.batches {
            table.add_row([
                network.network.to_owned(),
                scaled(network.parameters, 1e6, 3),
                scaled(network.forward_macs, 1e9, 3),
                scaled(network.forward_flops, 1e9, 3),
                scaled(network.training_flops, 1e9, 3),
                format!("{:.3}", network.training_flops as f64 / network.forward_flops as f64),
                batch.batch.to_string(),
                scaled(batch.activation_bytes, 1e6, 1),
                scaled(batch.memory_estimate_bytes, 1e6, 1),
                scaled(batch.modelled_dram_bytes, 1e9, 3),
                format!("{:.1}", batch.arithmetic_intensity),
            ]);
        }
    }
    right_aligned(&mut table, 1);
    format!("{}\n{}", table_text(&table), notes(summary))
}

/// The name, layers and totals of a network.
pub(super) fn layer_listing(summary: &Summary, complexity: &Complexity, layout: Layout) -> String {
    let mut header: Vec<String> = [
        "layer",
        "op",
        "output",
        "params",
        "forward MMAC",
        "input gradient MMAC",
        "weight gradient MMAC",
        "training MFLOP",
        "gradients (kB)",
        "optimizer (kB)",
    ]
    .map(str::to_owned)
    .to_vec();
    for batch in &complexity.batches {
        header.push(format!("activation (MB), batch {}", batch.batch));
        header.push(format!("DRAM (MB), batch {}", batch.batch));
    }
    let mut table = table(header, layout);
    for layer in &complexity.layers {
        table.add_row(layer_cells(layer));
    }
    right_aligned(&mut table, 3);
    format!("{}\n\n{}\n{}\n", complexity.network, table_text(&table), totals(summary, complexity))
}

fn layer_cells(layer: &LayerCost) -> Vec<String> {
    let mut cells = vec![
        layer.layer.clone(),
        layer.op.to_owned(),
        layer.output.clone(),
        layer.parameters.to_string(),
        scaled(layer.forward_macs, 1e6, 3),
        scaled(layer.input_gradient_macs, 1e6, 3),
        scaled(layer.weight_gradient_macs, 1e6, 3),
        scaled(layer.training_flops, 1e6, 3),
        scaled(layer.gradient_bytes, 1e3, 1),
        scaled(layer.optimizer_state_bytes, 1e3, 1),
    ];
    for LayerBatchCost { activation_bytes, modelled_dram_bytes, .. } in &layer.batches {
        cells.extend([scaled(*activation_bytes, 1e6, 3), scaled(*modelled_dram_bytes, 1e6, 3)]);
    }
    cells
}

fn totals(summary: &Summary, complexity: &Complexity) -> String {
    let mut text = format!(
        "parameters: {}\nforward: {} MACs, {} FLOPs\ntraining: {} FLOPs\n",
        complexity.parameters, complexity.forward_macs, complexity.forward_flops, complexity.training_flops
    );
    for batch in &complexity.batches {
        text.push_str(&format!(
            "batch {}: activations {} MB, memory {} MB, DRAM traffic {} GB, {:.1} FLOP/byte\n",
            batch.batch,
            scaled(batch.activation_bytes, 1e6, 1),
            scaled(batch.memory_estimate_bytes, 1e6, 1),
            scaled(batch.modelled_dram_bytes, 1e9, 3),
            batch.arithmetic_intensity
        ));
    }
    text.push_str(&notes(summary));
    text
}

fn scaled(value: u64, unit: f64, places: usize) -> String {
    format!("{:.places$}", value as f64 / unit)
}

fn right_aligned(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A column of `summary.csv`: its name and its cell.
type OfNetwork = (&'static str, fn(&Complexity, &BatchCost) -> String);

/// All numbers but the intensity are integers in base units.
const OF_NETWORKS: &[OfNetwork] = &[
    ("network", |network, _| network.network.to_owned()),
    ("parameters", |network, _| network.parameters.to_string()),
    ("parameter_bytes", |network, _| network.parameter_bytes.to_string()),
    ("gradient_bytes", |network, _| network.gradient_bytes.to_string()),
    ("optimizer_state_bytes", |network, _| network.optimizer_state_bytes.to_string()),
    ("optimizer_step_bytes", |network, _| network.optimizer_step_bytes.to_string()),
    ("optimizer_step_flops", |network, _| network.optimizer_step_flops.to_string()),
    ("forward_macs", |network, _| network.forward_macs.to_string()),
    ("input_gradient_macs", |network, _| network.input_gradient_macs.to_string()),
    ("weight_gradient_macs", |network, _| network.weight_gradient_macs.to_string()),
    ("forward_flops", |network, _| network.forward_flops.to_string()),
    ("training_flops", |network, _| network.training_flops.to_string()),
    ("flops_convention", |network, _| network.flops_convention.to_owned()),
    ("batch", |_, batch| batch.batch.to_string()),
    ("activation_bytes", |_, batch| batch.activation_bytes.to_string()),
    ("memory_estimate_bytes", |_, batch| batch.memory_estimate_bytes.to_string()),
    ("modelled_dram_bytes", |_, batch| batch.modelled_dram_bytes.to_string()),
    ("arithmetic_intensity", |_, batch| format!("{:.4}", batch.arithmetic_intensity)),
];

/// One row per network and batch.
///
/// # Errors
/// Writing to memory does not fail.
pub(super) fn summary_csv(networks: &[Complexity]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(OF_NETWORKS.iter().map(|(name, _)| name))?;
    for network in networks {
        for batch in &network.batches {
            writer.write_record(OF_NETWORKS.iter().map(|(_, cell)| cell(network, batch)))?;
        }
    }
    text(writer)
}

/// A column of a network's CSV file: its name and its cell.
type OfLayer = (&'static str, fn(&Complexity, &LayerCost, &LayerBatchCost) -> String);

/// All numbers are integers in base units.
const OF_LAYERS: &[OfLayer] = &[
    ("network", |network, _, _| network.network.to_owned()),
    ("layer", |_, layer, _| layer.layer.clone()),
    ("op", |_, layer, _| layer.op.to_owned()),
    ("output", |_, layer, _| layer.output.clone()),
    ("parameters", |_, layer, _| layer.parameters.to_string()),
    ("forward_macs", |_, layer, _| layer.forward_macs.to_string()),
    ("input_gradient_macs", |_, layer, _| layer.input_gradient_macs.to_string()),
    ("weight_gradient_macs", |_, layer, _| layer.weight_gradient_macs.to_string()),
    ("training_flops", |_, layer, _| layer.training_flops.to_string()),
    ("flops_convention", |network, _, _| network.flops_convention.to_owned()),
    ("gradient_bytes", |_, layer, _| layer.gradient_bytes.to_string()),
    ("optimizer_state_bytes", |_, layer, _| layer.optimizer_state_bytes.to_string()),
    ("batch", |_, _, batch| batch.batch.to_string()),
    ("activation_bytes", |_, _, batch| batch.activation_bytes.to_string()),
    ("modelled_dram_bytes", |_, _, batch| batch.modelled_dram_bytes.to_string()),
];

/// One row per layer and batch.
///
/// # Errors
/// Writing to memory does not fail.
pub(super) fn layer_csv(networks: &[Complexity]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(OF_LAYERS.iter().map(|(name, _)| name))?;
    for network in networks {
        for layer in &network.layers {
            for batch in &layer.batches {
                writer.write_record(OF_LAYERS.iter().map(|(_, cell)| cell(network, layer, batch)))?;
            }
        }
    }
    text(writer)
}

fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8(bytes).expect("only UTF-8 was written"))
}
