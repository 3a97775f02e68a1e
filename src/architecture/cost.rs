//! What training costs, layer by layer: FLOPs and modelled bytes.
//!
//! Both follow one convention, which tables print beside their numbers:
//! - 1 MAC is 2 FLOPs; only convolutions and linear layers count.
//! - Backward is the weight gradient and the input gradient, each as many MACs as forward. A layer before which nothing
//!   has parameters needs no input gradient.
//! - Bytes are modelled, not measured: every layer reads its inputs and weights and writes its outputs once, forward
//!   and backward; no cache, no fusion, no second pass, no optimizer.

use super::{Layer, Network, Op};

impl Network {
    /// FLOPs of one image's training step: forward, input gradient, weight gradient, 2 for each MAC; the first layer
    /// needs no input gradient. The optimizer is not counted.
    pub fn training_flops(&self) -> u64 {
        self.layers().iter().map(Layer::training_flops).sum()
    }

    /// Bytes that one training iteration of `batch` images moves if every layer reads its inputs and weights and
    /// writes its outputs once, forward and backward, at `element_bytes` an element. See [`Layer::modelled_elements`].
    pub fn modelled_bytes(&self, batch: u32, element_bytes: u32) -> u64 {
        let elements: u64 = self.layers().iter().map(|layer| layer.modelled_elements(batch)).sum();
        elements * u64::from(element_bytes)
    }
}

impl Layer {
    /// FLOPs of one image's training step in this layer.
    pub fn training_flops(&self) -> u64 {
        let passes = if self.needs_input_gradient { 3 } else { 2 };
        2 * passes * self.macs()
    }

    /// Elements that this layer moves in one training iteration of `batch` images.
    ///
    /// Forward reads inputs and weights and writes outputs. Backward reads the output's gradient, the weights and what
    /// forward kept for it (inputs, or a mask or indices of the output's size), and writes the gradients of weights
    /// and, where needed, inputs. A sum hands its gradient on without touching it; flattening moves nothing.
    pub fn modelled_elements(&self, batch: u32) -> u64 {
        let inputs: u64 = self.input_shapes.iter().map(|shape| shape.elements()).sum();
        let output = self.output.elements();
        let kept = match self.op {
            Op::Input(_) | Op::Flatten => return 0,
            Op::Add => return u64::from(batch) * (inputs + output),
            Op::Conv2d { .. } | Op::Linear { .. } | Op::BatchNorm2d => inputs,
            Op::Relu | Op::Relu6 | Op::Dropout(_) | Op::MaxPool2d(_) => output,
            Op::AdaptiveAveragePool2d(_) => 0,
        };
        let input_gradient = if self.needs_input_gradient { inputs } else { 0 };
        let weights = self.parameters();
        let weights_backward = if self.needs_input_gradient { 2 * weights } else { weights };
        let activations = (inputs + output) + (output + kept + input_gradient);
        u64::from(batch) * activations + weights + weights_backward
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Initialisations, Op, Window, builder::Builder, network};

    /// The factors of METHOD: training is not quite three times forward.
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
    fn modelled_bytes_of_a_tiny_network_add_up_by_hand() {
        let mut net = Builder::new(32);
        let conv = net.push("conv", Op::conv(4, Window::square(1, 1, 0)), &[net.input()]);
        let relu = net.push("relu", Op::Relu, &[conv]);
        let sum = net.push("add", Op::Add, &[relu, relu]);
        let flat = net.push("flatten", Op::Flatten, &[sum]);
        net.linear("fc", 10, flat);
        let net = net.finish("tiny", Initialisations::RESNET);
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
    }

    #[test]
    fn weights_do_not_grow_with_the_batch() {
        let network = network("vgg16", 224, 1000).unwrap();
        let [one, two, three] = [1, 2, 3].map(|batch| network.modelled_bytes(batch, 4));
        assert_eq!(two - one, three - two);
        assert_eq!(network.modelled_bytes(5, 2) * 2, network.modelled_bytes(5, 4));
    }
}
