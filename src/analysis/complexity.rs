//! The cost of a network before it runs: operations, memory and modelled traffic, in total and per layer.
//!
//! All numbers are computed from the network's description, without a measurement. `orchestrate complexity` prints
//! [`Complexity`] as a table, as CSV and, in exactly this form, as JSON.

use serde::Serialize;

use super::cost::{FlopsConvention, element_bytes};
use super::step::{PARAMETER_BYTES, numbers_kept, step_bytes, step_flops};
use crate::architecture::{Layer, Macs, Network};
use crate::job::{Optimizer, Precision};

/// The rules by which a network's cost is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counting<'a> {
    /// Batch sizes, each counted separately.
    pub batches: &'a [u32],
    /// The precision, which determines the bytes of an activation.
    pub precision: Precision,
    /// The optimizer whose state and step are counted.
    pub optimizer: Optimizer,
    /// The convention for counting training FLOPs.
    pub convention: FlopsConvention,
}

/// The cost of a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Complexity {
    /// Its name, as torchvision spells it.
    pub network: &'static str,
    /// Trainable parameters.
    pub parameters: u64,
    /// Bytes of the parameters in single precision.
    pub parameter_bytes: u64,
    /// Bytes of their gradients.
    pub gradient_bytes: u64,
    /// Bytes of the optimizer's state.
    pub optimizer_state_bytes: u64,
    /// Bytes that a step of the optimizer reads and writes: see [`step_bytes`].
    pub optimizer_step_bytes: u64,
    /// FLOPs of a step of the optimizer, which are in no other number: see [`step_flops`].
    pub optimizer_step_flops: u64,
    /// MACs of one image's forward pass.
    pub forward_macs: u64,
    /// MACs of one image's input gradients.
    pub input_gradient_macs: u64,
    /// MACs of one image's weight gradients.
    pub weight_gradient_macs: u64,
    /// FLOPs of one image's forward pass: 2 per MAC.
    pub forward_flops: u64,
    /// FLOPs of one image's training step, by the requested convention.
    pub training_flops: u64,
    /// The name of the convention.
    pub flops_convention: &'static str,
    /// The numbers that depend on the batch.
    pub batches: Vec<BatchCost>,
    /// The layers in order of execution; empty if they were not requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerCost>,
}

/// The cost of an iteration of one batch size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BatchCost {
    /// Images.
    pub batch: u32,
    /// Bytes of all layers' outputs, if none is freed or overwritten.
    pub activation_bytes: u64,
    /// Parameters, gradients, optimizer state and activations together. This is an estimate: real allocators use up to
    /// twice as much or as little, because workspaces add memory and reused buffers save some.
    pub memory_estimate_bytes: u64,
    /// Modelled DRAM traffic of a training iteration that ends with a step of the optimizer: see
    /// [`Network::modelled_bytes`] and [`step_bytes`].
    pub modelled_dram_bytes: u64,
    /// Training FLOPs ÷ modelled DRAM bytes.
    pub arithmetic_intensity: f64,
}

/// The cost of one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerCost {
    /// Its name within the network.
    pub layer: String,
    /// Its operation.
    pub op: &'static str,
    /// The shape of its output for one image.
    pub output: String,
    /// Trainable parameters.
    pub parameters: u64,
    /// MACs of one image's forward pass.
    pub forward_macs: u64,
    /// MACs of one image's input gradient.
    pub input_gradient_macs: u64,
    /// MACs of one image's weight gradient.
    pub weight_gradient_macs: u64,
    /// FLOPs of one image's training step, by the requested convention.
    pub training_flops: u64,
    /// Bytes of its parameters' gradients.
    pub gradient_bytes: u64,
    /// Bytes of the optimizer's state for its parameters.
    pub optimizer_state_bytes: u64,
    /// The numbers that depend on the batch.
    pub batches: Vec<LayerBatchCost>,
}

/// The cost of one layer in an iteration of one batch size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayerBatchCost {
    /// Images.
    pub batch: u32,
    /// Bytes of its output.
    pub activation_bytes: u64,
    /// Modelled DRAM traffic: forward, backward, and the optimizer's step.
    pub modelled_dram_bytes: u64,
}

impl Complexity {
    /// Counts the cost of `network`, with its layers if `with_layers`.
    pub fn of(network: &Network, counting: &Counting<'_>, with_layers: bool) -> Complexity {
        let parameters = network.parameters();
        let Macs { forward, input_gradient, weight_gradient } = network.macs();
        let fixed_bytes = Bytes::of(parameters, counting.optimizer);
        let training_flops = counting.convention.training_flops(network.macs());
        let batches = counting.batches.iter().map(|&batch| {
            let element_bytes = element_bytes(counting.precision);
            let activation_bytes =
                u64::from(batch) * u64::from(element_bytes) * network.activation_elements();
            let modelled_dram_bytes = network.modelled_bytes(batch, element_bytes) + fixed_bytes.step;
            BatchCost {
                batch,
                activation_bytes,
                memory_estimate_bytes: fixed_bytes.all() + activation_bytes,
                modelled_dram_bytes,
                arithmetic_intensity: u64::from(batch) as f64 * training_flops as f64
                    / modelled_dram_bytes as f64,
            }
        });
        let layers = network.layers().iter().filter(|_| with_layers);
        Complexity {
            network: network.name(),
            parameters,
            parameter_bytes: fixed_bytes.parameters,
            gradient_bytes: fixed_bytes.gradients,
            optimizer_state_bytes: fixed_bytes.optimizer_state,
            optimizer_step_bytes: fixed_bytes.step,
            optimizer_step_flops: step_flops(counting.optimizer) * parameters,
            forward_macs: forward,
            input_gradient_macs: input_gradient,
            weight_gradient_macs: weight_gradient,
            forward_flops: 2 * forward,
            training_flops,
            flops_convention: counting.convention.as_str(),
            batches: batches.collect(),
            layers: layers.map(|layer| LayerCost::of(layer, counting)).collect(),
        }
    }
}

impl LayerCost {
    fn of(layer: &Layer, counting: &Counting<'_>) -> LayerCost {
        let parameters = layer.parameters();
        let macs = layer.macs();
        let fixed_bytes = Bytes::of(parameters, counting.optimizer);
        let element_bytes = u64::from(element_bytes(counting.precision));
        let batches = counting.batches.iter().map(|&batch| LayerBatchCost {
            batch,
            activation_bytes: u64::from(batch) * element_bytes * layer.activation_elements(),
            modelled_dram_bytes: element_bytes * layer.modelled_elements(batch) + fixed_bytes.step,
        });
        LayerCost {
            layer: layer.name.clone(),
            op: layer.op.word(),
            output: layer.output.to_string(),
            parameters,
            forward_macs: macs.forward,
            input_gradient_macs: macs.input_gradient,
            weight_gradient_macs: macs.weight_gradient,
            training_flops: counting.convention.training_flops(macs),
            gradient_bytes: fixed_bytes.gradients,
            optimizer_state_bytes: fixed_bytes.optimizer_state,
            batches: batches.collect(),
        }
    }
}

/// Bytes that do not depend on the batch.
struct Bytes {
    parameters: u64,
    gradients: u64,
    optimizer_state: u64,
    /// Bytes that a step of the optimizer reads and writes.
    step: u64,
}

impl Bytes {
    fn of(parameters: u64, optimizer: Optimizer) -> Bytes {
        let bytes = PARAMETER_BYTES * parameters;
        Bytes {
            parameters: bytes,
            gradients: bytes,
            optimizer_state: numbers_kept(optimizer) * bytes,
            step: step_bytes(optimizer) * parameters,
        }
    }

    /// Their total memory.
    fn all(&self) -> u64 {
        self.parameters + self.gradients + self.optimizer_state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::{NETWORKS, network};

    fn counting(precision: Precision, optimizer: Optimizer) -> Counting<'static> {
        Counting { batches: &[1, 16], precision, optimizer, convention: FlopsConvention::default() }
    }

    #[test]
    fn a_network_is_the_sum_of_its_layers() {
        for &name in NETWORKS {
            let network = network(name, 224, 1000).unwrap();
            let whole = Complexity::of(&network, &counting(Precision::Fp32, Optimizer::Sgd), true);
            let sum = |part: fn(&LayerCost) -> u64| whole.layers.iter().map(part).sum::<u64>();
            assert_eq!(sum(|layer| layer.parameters), whole.parameters, "{name}");
            assert_eq!(sum(|layer| layer.forward_macs), whole.forward_macs, "{name}");
            assert_eq!(sum(|layer| layer.training_flops), whole.training_flops, "{name}");
            for (index, batch) in whole.batches.iter().enumerate() {
                let sum = |part: fn(&LayerBatchCost) -> u64| {
                    whole.layers.iter().map(|layer| part(&layer.batches[index])).sum::<u64>()
                };
                assert_eq!(sum(|layer| layer.activation_bytes), batch.activation_bytes, "{name}");
                assert_eq!(sum(|layer| layer.modelled_dram_bytes), batch.modelled_dram_bytes, "{name}");
            }
        }
    }

    /// The layers of resnet50 came to 24.30 GFLOP where the whole was 16.36.
    #[test]
    fn layers_are_counted_by_the_convention_of_the_whole() {
        let network = network("resnet50", 224, 1000).unwrap();
        for convention in [FlopsConvention::LayerByLayer, FlopsConvention::Seed1, FlopsConvention::Seed2] {
            let counting = Counting { convention, ..counting(Precision::Fp32, Optimizer::Sgd) };
            let whole = Complexity::of(&network, &counting, true);
            let sum: u64 = whole.layers.iter().map(|layer| layer.training_flops).sum();
            assert_eq!((sum, whole.flops_convention), (whole.training_flops, convention.as_str()));
        }
    }

    /// For resnet18 with its 11 689 512 parameters: AdamW's state has two numbers per parameter instead of one.
    #[test]
    fn bytes_follow_from_precision_and_optimizer() {
        let network = network("resnet18", 224, 1000).unwrap();
        let sgd = Complexity::of(&network, &counting(Precision::Fp32, Optimizer::Sgd), false);
        let adamw = Complexity::of(&network, &counting(Precision::Amp, Optimizer::AdamW), false);
        assert_eq!(sgd.parameter_bytes, 46_758_048);
        assert_eq!((sgd.optimizer_state_bytes, adamw.optimizer_state_bytes), (46_758_048, 93_516_096));
        assert_eq!(sgd.batches[1].activation_bytes, 2 * adamw.batches[1].activation_bytes);
        assert_eq!(sgd.batches[1].activation_bytes, 16 * sgd.batches[0].activation_bytes);
        assert_eq!(sgd.batches[0].memory_estimate_bytes, 3 * 46_758_048 + sgd.batches[0].activation_bytes);
        assert_eq!(
            (sgd.optimizer_step_bytes, adamw.optimizer_step_bytes),
            (20 * 11_689_512, 28 * 11_689_512)
        );
        assert_eq!((sgd.optimizer_step_flops, adamw.optimizer_step_flops), (6 * 11_689_512, 14 * 11_689_512));
        let layers = network.modelled_bytes(16, 4);
        assert_eq!(sgd.batches[1].modelled_dram_bytes, layers + sgd.optimizer_step_bytes);
        assert!(sgd.layers.is_empty());
        assert_eq!(sgd.forward_flops, 2 * sgd.forward_macs);
        assert_eq!(sgd.batches[1].activation_bytes, 16 * 4 * network.activation_elements());
        let batch = &sgd.batches[1];
        let flops = batch.arithmetic_intensity * batch.modelled_dram_bytes as f64;
        assert!((flops / (16.0 * sgd.training_flops as f64) - 1.0).abs() < 1e-12);
    }
}
