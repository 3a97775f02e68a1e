//! Builds a network layer by layer. Every push computes the shape, so a description never repeats a size.

use super::layer::Layer;
use super::op::{Conv2d, Op};
use super::shape::{Shape, Window};
use super::start::Start;
use super::{Network, start::Initialisation};

/// The output of a layer that was pushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node(usize);

impl Node {
    /// The layer's index in the network.
    #[cfg(test)]
    pub(super) fn index(self) -> usize {
        self.0
    }
}

/// A network under construction.
pub(super) struct Builder {
    layers: Vec<Layer>,
    convolution: Start,
    linear: Start,
}

impl Builder {
    /// A network with only its input: square RGB images. Convolutions start by He's rule and linear layers by PyTorch's
    /// default, unless [`Builder::starting`] changes this.
    pub(super) fn new(input_size: u32) -> Self {
        let mut builder = Builder { layers: Vec::new(), convolution: Start::KAIMING, linear: Start::DEFAULT };
        let size = u64::from(input_size);
        builder.push("input", Op::Input(Shape::image(3, size, size)), &[]);
        builder
    }

    /// Sets the start values of the parameters of later layers.
    pub(super) fn starting(&mut self, convolution: Start, linear: Start) {
        (self.convolution, self.linear) = (convolution, linear);
    }

    /// The images.
    pub(super) fn input(&self) -> Node {
        Node(0)
    }

    /// The shape of a layer's output.
    pub(super) fn shape(&self, node: Node) -> &Shape {
        &self.layers[node.0].output
    }

    /// Channels of a layer's output.
    pub(super) fn channels(&self, node: Node) -> u64 {
        self.shape(node).channels()
    }

    /// Adds a layer that takes the outputs of `inputs`.
    pub(super) fn push(&mut self, name: impl Into<String>, op: impl Into<Op>, inputs: &[Node]) -> Node {
        let op = op.into();
        let start = match op {
            Op::Conv2d(_) => self.convolution,
            Op::Linear { .. } => self.linear,
            Op::BatchNorm2d { .. }
            | Op::LayerNorm { .. }
            | Op::Scale
            | Op::ClassToken
            | Op::PositionEmbedding
            // No earlier layer has parameters.
            | Op::Input(_)
            | Op::Activate(_)
            | Op::MaxPool2d(_)
            | Op::AveragePool2d(_)
            | Op::AdaptiveAveragePool2d(_)
            | Op::Attention { .. }
            | Op::Dropout(_)
            | Op::StochasticDepth(_)
            | Op::Add
            | Op::Multiply
            | Op::Concat
            | Op::Flatten
            | Op::Tokens
            | Op::FirstToken => Start::IDENTITY,
        };
        self.push_starting(name, op, inputs, start)
    }

    /// The same, with its own start.
    pub(super) fn push_starting(
        &mut self,
        name: impl Into<String>,
        op: impl Into<Op>,
        inputs: &[Node],
        start: Start,
    ) -> Node {
        let op = op.into();
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
            start,
        });
        Node(self.layers.len() - 1)
    }

    /// A linear layer with a bias.
    pub(super) fn linear(&mut self, name: impl Into<String>, features: u64, input: Node) -> Node {
        self.push(name, Op::Linear { out_features: features, bias: true }, &[input])
    }

    /// The mean of each channel as a vector, as in most networks before the classifier.
    pub(super) fn pooled(&mut self, input: Node) -> Node {
        let pooled = self.push("avgpool", Op::AdaptiveAveragePool2d([1, 1]), &[input]);
        self.push("flatten", Op::Flatten, &[pooled])
    }

    /// torchvision's `Conv2dNormActivation`: a convolution without bias, `norm`, and an optional function, called
    /// `name.0`, `name.1` and `name.2`.
    pub(super) fn conv_norm(
        &mut self,
        name: &str,
        conv: Conv2d,
        norm: Op,
        then: Option<Op>,
        input: Node,
    ) -> Node {
        let conv = self.push(format!("{name}.0"), conv, &[input]);
        let norm = self.push(format!("{name}.1"), norm, &[conv]);
        match then {
            Some(op) => self.push(format!("{name}.2"), op, &[norm]),
            None => norm,
        }
    }

    /// torchvision's `SqueezeExcitation` (Hu et al. 2018): each channel times a factor, which two small convolutions
    /// compute from the means of all channels. `inner` is between the two, `gate` after them.
    pub(super) fn squeeze_excitation(
        &mut self,
        name: &str,
        squeezed: u64,
        inner: Op,
        gate: Op,
        input: Node,
    ) -> Node {
        let channels = self.channels(input);
        let point = |channels| Op::conv(channels, Window::square(1, 1, 0)).biased();
        let mut x = self.push(format!("{name}.avgpool"), Op::AdaptiveAveragePool2d([1, 1]), &[input]);
        x = self.push(format!("{name}.fc1"), point(squeezed), &[x]);
        x = self.push(format!("{name}.activation"), inner, &[x]);
        x = self.push(format!("{name}.fc2"), point(channels), &[x]);
        x = self.push(format!("{name}.scale_activation"), gate, &[x]);
        self.push(format!("{name}.multiply"), Op::Multiply, &[input, x])
    }

    /// The network. Its output is the last pushed layer.
    pub(super) fn finish(self, name: &'static str) -> Network {
        Network { name, layers: self.layers }
    }
}

/// The start of linear layers in several networks: a small normal distribution, and a bias of 0.
pub(super) const NORMAL_HEAD: Start = Start::unbiased(Initialisation::Normal(0.01));
