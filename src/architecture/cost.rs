//! The cost of training, layer by layer: multiply-accumulates, FLOPs, and the bytes that are kept and moved.
//!
//! All follow one convention, which tables print with their numbers:
//! - 1 MAC is 2 FLOPs; only convolutions, linear layers and the two matrix products of attention count.
//! - Backward is the weight gradient and the input gradient, each with as many MACs as forward. Attention has no
//!   weights, but two inputs to each product. A layer without earlier parameters needs no input gradient.
//! - Moved bytes are modelled, not measured. Every layer reads its inputs and weights and writes its outputs once,
//!   forward and backward, without caches, fusion, second passes or the optimizer.

use std::iter::Sum;
use std::ops::Add;

use super::{Layer, Network, Op};

/// Multiply-accumulates of one image in the three parts of a training step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Macs {
    /// Those of the forward pass.
    pub forward: u64,
    /// Those of the gradient of the inputs.
    pub input_gradient: u64,
    /// Those of the gradient of the weights.
    pub weight_gradient: u64,
}

impl Macs {
    /// FLOPs of all three: 2 per MAC.
    pub fn training_flops(self) -> u64 {
        2 * (self.forward + self.input_gradient + self.weight_gradient)
    }
}

impl Add for Macs {
    type Output = Macs;

    fn add(self, other: Macs) -> Macs {
        Macs {
            forward: self.forward + other.forward,
            input_gradient: self.input_gradient + other.input_gradient,
            weight_gradient: self.weight_gradient + other.weight_gradient,
        }
    }
}

impl Sum for Macs {
    fn sum<I: Iterator<Item = Macs>>(parts: I) -> Macs {
        parts.fold(Macs::default(), Add::add)
    }
}

impl Network {
    /// MACs of one image's training step.
    pub fn macs(&self) -> Macs {
        self.layers().iter().map(Layer::macs).sum()
    }

    /// Multiply-accumulates of one image's forward pass, without biases, as torchvision publishes them.
    pub fn forward_macs(&self) -> u64 {
        self.macs().forward
    }

    /// FLOPs of one image's training step: forward, input gradient and weight gradient, with 2 per MAC. The first layer
    /// needs no input gradient. The optimizer is not counted.
    pub fn training_flops(&self) -> u64 {
        self.macs().training_flops()
    }

    /// Elements of the outputs of all layers for one image; see [`Layer::activation_elements`].
    pub fn activation_elements(&self) -> u64 {
        self.layers().iter().map(Layer::activation_elements).sum()
    }

    /// Bytes that one training iteration of `batch` images moves, with `element_bytes` per element. Every layer reads
    /// its inputs and weights and writes its outputs once, forward and backward. See [`Layer::modelled_elements`].
    pub fn modelled_bytes(&self, batch: u32, element_bytes: u32) -> u64 {
        let elements: u64 = self.layers().iter().map(|layer| layer.modelled_elements(batch)).sum();
        elements * u64::from(element_bytes)
    }
}

impl Layer {
    /// Multiply-accumulates of one image in this layer. For convolutions and linear layers, forward is the number of
    /// weights per output element, times the output elements. For attention of L tokens with C channels, it is L²·C for
    /// the scores and as many for the weighted values. All others have 0.
    pub fn macs(&self) -> Macs {
        match self.op {
            Op::Conv2d(_) | Op::Linear { .. } => {
                let (weight, _) = self.op.weight_and_bias(&self.input_shapes).expect("both have a weight");
                let forward = weight[1..].iter().product::<u64>() * self.output.elements();
                let input_gradient = if self.needs_input_gradient { forward } else { 0 };
                Macs { forward, input_gradient, weight_gradient: forward }
            }
            Op::Attention { .. } => {
                let forward = 2 * self.output.dimensions()[0] * self.output.elements();
                Macs { forward, input_gradient: 2 * forward, weight_gradient: 0 }
            }
            Op::Input(_)
            | Op::BatchNorm2d { .. }
            | Op::LayerNorm { .. }
            | Op::Activate(_)
            | Op::MaxPool2d(_)
            | Op::AveragePool2d(_)
            | Op::AdaptiveAveragePool2d(_)
            | Op::Dropout(_)
            | Op::StochasticDepth(_)
            | Op::Add
            | Op::Multiply
            | Op::Concat
            | Op::Scale
            | Op::Flatten
            | Op::Tokens
            | Op::ClassToken
            | Op::PositionEmbedding
            | Op::FirstToken => Macs::default(),
        }
    }

    /// Elements of this layer's output for one image, which it adds to the memory of a training step if nothing is
    /// freed or overwritten. 0 if the output is a view of the input.
    pub fn activation_elements(&self) -> u64 {
        match self.op {
            Op::Flatten | Op::Tokens | Op::FirstToken => 0,
            Op::Input(_)
            | Op::Conv2d(_)
            | Op::BatchNorm2d { .. }
            | Op::LayerNorm { .. }
            | Op::Activate(_)
            | Op::MaxPool2d(_)
            | Op::AveragePool2d(_)
            | Op::AdaptiveAveragePool2d(_)
            | Op::Linear { .. }
            | Op::Attention { .. }
            | Op::Dropout(_)
            | Op::StochasticDepth(_)
            | Op::Add
            | Op::Multiply
            | Op::Concat
            | Op::Scale
            | Op::ClassToken
            | Op::PositionEmbedding => self.output.elements(),
        }
    }

    /// Elements that this layer moves in one training iteration of `batch` images.
    ///
    /// Forward reads inputs and weights and writes outputs. Backward reads the output's gradient, the weights and what
    /// forward kept: inputs, or a mask or indices of the output's size. It writes the gradients of weights and, if
    /// needed, inputs. Sums and concatenations pass their gradient on unchanged. Attention keeps its inputs and its
    /// output but never its scores (Dao et al. 2022). Changes of shape do not move any elements.
    pub fn modelled_elements(&self, batch: u32) -> u64 {
        let inputs: u64 = self.input_shapes.iter().map(|shape| shape.elements()).sum();
        let (output, weights) = (self.output.elements(), self.parameters());
        let kept = match self.op {
            Op::Input(_) | Op::Flatten | Op::Tokens | Op::FirstToken => return 0,
            Op::Add | Op::Concat => return u64::from(batch) * (inputs + output),
            // The gradient is a part of the output's; the weight's is its sum over the batch.
            Op::ClassToken | Op::PositionEmbedding => {
                return u64::from(batch) * (inputs + output + weights) + 2 * weights;
            }
            Op::Conv2d(_)
            | Op::Linear { .. }
            | Op::BatchNorm2d { .. }
            | Op::LayerNorm { .. }
            | Op::Scale
            | Op::Multiply => inputs,
            Op::Activate(_) | Op::Dropout(_) | Op::MaxPool2d(_) => output,
            Op::Attention { .. } => inputs + output,
            Op::AveragePool2d(_) | Op::AdaptiveAveragePool2d(_) | Op::StochasticDepth(_) => 0,
        };
        let input_gradient = if self.needs_input_gradient { inputs } else { 0 };
        let weights_backward = if self.needs_input_gradient { 2 * weights } else { weights };
        let activations = (inputs + output) + (output + kept + input_gradient);
        u64::from(batch) * activations + weights + weights_backward
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Window, builder::Builder, network};
    use super::*;

    /// Training costs not quite three times as much as forward.
    #[test]
    fn training_is_less_than_three_forwards_by_the_first_layers_input_gradient() {
        for (name, factor) in
            [("resnet50", "2.971"), ("vgg16", "2.994"), ("mobilenet_v2", "2.964"), ("resnet18", "2.935")]
        {
            let network = network(name, 224, 1000).unwrap();
            let forward = 2 * network.forward_macs();
            assert_eq!(format!("{:.3}", network.training_flops() as f64 / forward as f64), factor, "{name}");
        }
    }

    #[test]
    fn macs_are_exact() {
        for (name, exact) in [
            ("resnet18", 1_814_073_344),
            ("resnet50", 4_089_184_256),
            ("vgg16", 15_470_264_320),
            ("mobilenet_v2", 300_774_272),
        ] {
            assert_eq!(network(name, 224, 1000).unwrap().forward_macs(), exact, "{name}");
        }
    }

    #[test]
    fn modelled_bytes_of_a_tiny_network_add_up_by_hand() {
        let mut net = Builder::new(32);
        let conv = net.push("conv", Op::conv(4, Window::square(1, 1, 0)), &[net.input()]);
        let relu = net.push("relu", Op::RELU, &[conv]);
        let sum = net.push("add", Op::Add, &[relu, relu]);
        let flat = net.push("flatten", Op::Flatten, &[sum]);
        net.linear("fc", 10, flat);
        let net = net.finish("tiny");
        let pixels: u64 = 32 * 32;
        // Forward: 3 in, 4 out. Backward: 4 gradient, 3 kept, no input gradient. 12 weights read, 12 gradients written.
        let conv = |batch: u64| batch * pixels * (3 + 4 + 4 + 3) + 12 + 12;
        // Forward: 4 in, 4 out. Backward: 4 gradient, 4 kept, 4 input gradient.
        let relu = |batch: u64| batch * pixels * 20;
        let add = |batch: u64| batch * pixels * 12;
        let weights = 4 * pixels * 10 + 10;
        let fc = |batch: u64| batch * (4 * pixels + 10 + 10 + 4 * pixels + 4 * pixels) + 3 * weights;
        for batch in [1, 7] {
            let elements: u64 = conv(batch) + relu(batch) + add(batch) + fc(batch);
            assert_eq!(net.modelled_bytes(u32::try_from(batch).unwrap(), 4), 4 * elements);
        }
        // Conv, ReLU and sum of 4 channels, 10 classes, and the images.
        assert_eq!(net.activation_elements(), pixels * (3 + 4 + 4 + 4) + 10);
    }

    #[test]
    fn attention_is_two_products_forward_and_four_backward() {
        let mut net = Builder::new(32);
        let conv = net.push("conv", Op::conv(12, Window::square(16, 16, 0)), &[net.input()]);
        let tokens = net.push("tokens", Op::Tokens, &[conv]);
        let attention = net.push("attention", Op::Attention { heads: 2 }, &[tokens]);
        let net = net.finish("tiny");
        let layer = &net.layers()[attention.index()];
        // 4 tokens of 4 channels: 4 × 4 scores of 4 products, and 4 × 4 values of 4.
        assert_eq!(layer.output.dimensions(), [4, 4]);
        assert_eq!(layer.macs(), Macs { forward: 128, input_gradient: 256, weight_gradient: 0 });
    }

    #[test]
    fn weights_do_not_grow_with_the_batch() {
        let network = network("vgg16", 224, 1000).unwrap();
        let [one, two, three] = [1, 2, 3].map(|batch| network.modelled_bytes(batch, 4));
        assert_eq!(two - one, three - two);
        assert_eq!(network.modelled_bytes(5, 2) * 2, network.modelled_bytes(5, 4));
    }
}
