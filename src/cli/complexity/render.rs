//! The output of `orchestrate complexity`: tables for people, CSV and JSON for programs.

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::analysis::complexity::{Complexity, LayerBatchCost, LayerCost};
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
    /// The optimizer whose state is counted.
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
         weights and writes its outputs once, forward and backward, without the optimizer.\n",
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

/// One row per network and batch. All numbers except the intensity are integers in base units.
///
/// # Errors
/// Writing to memory does not fail.
pub(super) fn summary_csv(networks: &[Complexity]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "network",
        "parameters",
        "parameter_bytes",
        "gradient_bytes",
        "optimizer_state_bytes",
        "forward_macs",
        "input_gradient_macs",
        "weight_gradient_macs",
        "forward_flops",
        "training_flops",
        "batch",
        "activation_bytes",
        "memory_estimate_bytes",
        "modelled_dram_bytes",
        "arithmetic_intensity",
    ])?;
    for network in networks {
        for batch in &network.batches {
            let numbers = [
                network.parameters,
                network.parameter_bytes,
                network.gradient_bytes,
                network.optimizer_state_bytes,
                network.forward_macs,
                network.input_gradient_macs,
                network.weight_gradient_macs,
                network.forward_flops,
                network.training_flops,
                batch.batch.into(),
                batch.activation_bytes,
                batch.memory_estimate_bytes,
                batch.modelled_dram_bytes,
            ];
            writer.write_field(network.network)?;
            numbers.iter().try_for_each(|number| writer.write_field(number.to_string()))?;
            writer.write_field(format!("{:.4}", batch.arithmetic_intensity))?;
            writer.write_record(None::<&[u8]>)?;
        }
    }
    text(writer)
}

/// One row per layer and batch. All numbers are integers in base units.
///
/// # Errors
/// Writing to memory does not fail.
pub(super) fn layer_csv(networks: &[Complexity]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "network",
        "layer",
        "op",
        "output",
        "parameters",
        "forward_macs",
        "input_gradient_macs",
        "weight_gradient_macs",
        "training_flops",
        "gradient_bytes",
        "optimizer_state_bytes",
        "batch",
        "activation_bytes",
        "modelled_dram_bytes",
    ])?;
    for network in networks {
        for layer in &network.layers {
            for batch in &layer.batches {
                let numbers = [
                    layer.parameters,
                    layer.forward_macs,
                    layer.input_gradient_macs,
                    layer.weight_gradient_macs,
                    layer.training_flops,
                    layer.gradient_bytes,
                    layer.optimizer_state_bytes,
                    batch.batch.into(),
                    batch.activation_bytes,
                    batch.modelled_dram_bytes,
                ];
                let words = [network.network, &layer.layer, layer.op, &layer.output];
                words.iter().try_for_each(|word| writer.write_field(word))?;
                numbers.iter().try_for_each(|number| writer.write_field(number.to_string()))?;
                writer.write_record(None::<&[u8]>)?;
            }
        }
    }
    text(writer)
}

fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8(bytes).expect("only UTF-8 was written"))
}
