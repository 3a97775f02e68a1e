//! Puts a network together layer by layer: every push works out the shape, so that a description says no size twice.

use super::{Initialisations, Layer, Network, Op, Shape, Window};

/// The output of a layer already pushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node(usize);

impl Node {
    /// The layer's place in the network.
    #[cfg(test)]
    pub(super) fn index(self) -> usize {
        self.0
    }
}

/// A network under construction.
pub(super) struct Builder {
    layers: Vec<Layer>,
}

impl Builder {
    /// A network that so far has only its input: square RGB images.
    pub(super) fn new(input_size: u32) -> Self {
        let mut builder = Builder { layers: Vec::new() };
        let size = u64::from(input_size);
        builder.push("input", Op::Input(Shape::image(3, size, size)), &[]);
        builder
    }

    /// The images.
    pub(super) fn input(&self) -> Node {
        Node(0)
    }

    /// The shape of a layer's output.
    pub(super) fn shape(&self, node: Node) -> &Shape {
        &self.layers[node.0].output
    }

    /// Adds a layer that takes the outputs of `inputs`.
    pub(super) fn push(&mut self, name: impl Into<String>, op: Op, inputs: &[Node]) -> Node {
        let before = || inputs.iter().map(|input| &self.layers[input.0]);
        let input_shapes: Vec<Shape> = before().map(|layer| layer.output.clone()).collect();
        let needs_input_gradient =
            before().any(|layer| layer.needs_input_gradient || !layer.parameter_tensors().is_empty());
        let output = op.output(&input_shapes);
        self.layers.push(Layer {
            name: name.into(),
            op,
            inputs: inputs.iter().map(|input| input.0).collect(),
            input_shapes,
            output,
            needs_input_gradient,
        });
        Node(self.layers.len() - 1)
    }

    /// A convolution with a bias.
    pub(super) fn biased_conv(&mut self, name: String, channels: u64, window: Window, input: Node) -> Node {
        self.push(name, Op::Conv2d { out_channels: channels, window, groups: 1, bias: true }, &[input])
    }

    /// A linear layer with a bias.
    pub(super) fn linear(&mut self, name: impl Into<String>, features: u64, input: Node) -> Node {
        self.push(name, Op::Linear { out_features: features, bias: true }, &[input])
    }

    /// The network. Its output is the layer pushed last.
    pub(super) fn finish(self, name: &'static str, initialisations: Initialisations) -> Network {
        Network { name, initialisations, layers: self.layers }
    }
}
