//! One layer: its operation, its shapes, its parameters.

use super::op::Op;
use super::shape::Shape;
use super::start::{Distribution, Start};

/// The role of a tensor in its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A kernel, a matrix, a scale.
    Weight,
    /// An addend.
    Bias,
}

/// One trainable tensor of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterTensor {
    /// Its name in torchvision's state dict.
    pub name: String,
    /// Its role in the layer.
    pub role: Role,
    /// Its shape, in PyTorch's order: output channels first.
    pub shape: Vec<u64>,
    /// The distribution of its start values.
    pub start: Distribution,
}

impl ParameterTensor {
    /// The product of its extents.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// One layer of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its name within the network. If it has parameters, this is the name of torchvision's module or of the parameter
    /// itself.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// The layers whose outputs it takes, by their index in [`super::Network::layers`].
    pub inputs: Vec<usize>,
    /// The shapes of its inputs.
    pub input_shapes: Vec<Shape>,
    /// The shape of its output.
    pub output: Shape,
    /// Whether training needs the gradient of its inputs, because an earlier layer has parameters.
    pub needs_input_gradient: bool,
    /// How its parameters start.
    pub(super) start: Start,
}

impl Layer {
    /// Its trainable tensors, in the order of torchvision's state dict.
    pub fn parameter_tensors(&self) -> Vec<ParameterTensor> {
        let Some((weight, has_bias)) = self.op.weight_and_bias(&self.input_shapes) else { return Vec::new() };
        let bias = has_bias.then(|| ParameterTensor {
            name: self.tensor_name("bias"),
            role: Role::Bias,
            shape: vec![weight[0]],
            start: self.start.bias.distribution(&weight),
        });
        let start = self.start.weight.distribution(&weight);
        let weight =
            ParameterTensor { name: self.tensor_name("weight"), role: Role::Weight, shape: weight, start };
        [weight].into_iter().chain(bias).collect()
    }

    /// The names in torchvision's state dict of a batch normalisation's running mean and variance, each with one number
    /// per channel. `None` for any other layer.
    pub fn running_statistics(&self) -> Option<[String; 2]> {
        match self.op {
            Op::BatchNorm2d { .. } => {
                Some(["running_mean", "running_var"].map(|word| self.tensor_name(word)))
            }
            Op::Input(_)
            | Op::Conv2d(_)
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
            | Op::Flatten
            | Op::Tokens
            | Op::ClassToken
            | Op::PositionEmbedding
            | Op::FirstToken => None,
        }
    }

    /// Trainable parameters.
    pub fn parameters(&self) -> u64 {
        self.parameter_tensors().iter().map(ParameterTensor::elements).sum()
    }

    /// A module's tensor is called `module.tensor`. PyTorch has two exceptions: a parameter outside a module has only
    /// a name without a module, and attention's packed projection is `in_proj_weight`, which is not a module either.
    fn tensor_name(&self, word: &str) -> String {
        match self.op {
            Op::Scale | Op::ClassToken | Op::PositionEmbedding => self.name.clone(),
            Op::Linear { .. } if self.name.ends_with(".in_proj") => format!("{}_{word}", self.name),
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
            | Op::Flatten
            | Op::Tokens
            | Op::FirstToken => format!("{}.{word}", self.name),
        }
    }
}
