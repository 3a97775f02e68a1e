//! The operations of layers.

use super::shape::{Shape, Window};

/// The operation of a layer. Shapes are those of one image.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// The images themselves.
    Input(Shape),
    /// A two-dimensional convolution.
    Conv2d(Conv2d),
    /// Normalisation over batch, height and width, with a trainable scale and shift.
    BatchNorm2d {
        /// Added to the variance.
        epsilon: f64,
        /// The weight of a new batch in the running mean and variance.
        momentum: f64,
    },
    /// Normalisation over the channels of each pixel or token, with a trainable scale and shift.
    LayerNorm {
        /// Added to the variance.
        epsilon: f64,
    },
    /// A function of each element.
    Activate(Activation),
    /// The largest value in a window.
    MaxPool2d(Window),
    /// The mean over a window.
    AveragePool2d(Window),
    /// The means over equal windows, one per output pixel: height, width of the output.
    AdaptiveAveragePool2d([u64; 2]),
    /// A matrix product over the channels of each pixel or token.
    Linear {
        /// Channels of its output.
        out_features: u64,
        /// Whether it adds a bias.
        bias: bool,
    },
    /// Scaled dot-product attention (Vaswani et al. 2017). The channels of a token are its query, key and value, each
    /// divided among the heads.
    Attention {
        /// Number of independent heads.
        heads: u64,
    },
    /// Zeroes elements with this probability and scales up the others, in training.
    Dropout(f64),
    /// Zeroes whole images with this probability and scales up the others, in training (Huang et al. 2016).
    StochasticDepth(f64),
    /// The sum of two inputs of the same shape.
    Add,
    /// The product of feature maps with one factor per channel, which is the second input with one pixel.
    Multiply,
    /// The channels of several inputs of the same height and width.
    Concat,
    /// The product with one trainable factor per channel.
    Scale,
    /// Feature maps as one vector.
    Flatten,
    /// The pixels of feature maps, row by row, as tokens.
    Tokens,
    /// A trainable token before the others.
    ClassToken,
    /// A trainable vector added to each token.
    PositionEmbedding,
    /// The first token as a vector.
    FirstToken,
}

/// A two-dimensional convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// Channels of its output.
    pub out_channels: u64,
    /// Its window.
    pub window: Window,
    /// Number of independent groups of channels.
    pub groups: u64,
    /// Whether it adds a bias.
    pub bias: bool,
}

impl Conv2d {
    /// The same convolution in groups.
    pub const fn grouped(self, groups: u64) -> Self {
        Conv2d { groups, ..self }
    }

    /// The same convolution with a bias.
    pub const fn biased(self) -> Self {
        Conv2d { bias: true, ..self }
    }
}

impl From<Conv2d> for Op {
    fn from(conv: Conv2d) -> Op {
        Op::Conv2d(conv)
    }
}

/// A function of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// min(max(x, 0), 6).
    Relu6,
    /// x · relu6(x + 3) ÷ 6.
    Hardswish,
    /// relu6(x + 3) ÷ 6.
    Hardsigmoid,
    /// 1 ÷ (1 + e⁻ˣ).
    Sigmoid,
    /// x · sigmoid(x).
    Silu,
    /// x · Φ(x), Φ the normal distribution's, by the error function.
    Gelu,
}

impl Op {
    /// max(x, 0).
    pub const RELU: Op = Op::Activate(Activation::Relu);

    /// Batch normalisation with PyTorch's constants.
    pub const BATCH_NORM: Op = Op::BatchNorm2d { epsilon: 1e-5, momentum: 0.1 };

    /// A convolution without bias or groups.
    pub const fn conv(out_channels: u64, window: Window) -> Conv2d {
        Conv2d { out_channels, window, groups: 1, bias: false }
    }

    /// The name of torchvision's or PyTorch's module or function for it.
    pub fn word(&self) -> &'static str {
        match self {
            Op::Input(_) => "Input",
            Op::Conv2d(_) => "Conv2d",
            Op::BatchNorm2d { .. } => "BatchNorm2d",
            Op::LayerNorm { .. } => "LayerNorm",
            Op::Activate(activation) => activation.word(),
            Op::MaxPool2d(_) => "MaxPool2d",
            Op::AveragePool2d(_) => "AvgPool2d",
            Op::AdaptiveAveragePool2d(_) => "AdaptiveAvgPool2d",
            Op::Linear { .. } => "Linear",
            Op::Attention { .. } => "Attention",
            Op::Dropout(_) => "Dropout",
            Op::StochasticDepth(_) => "StochasticDepth",
            Op::Add => "Add",
            Op::Multiply => "Multiply",
            Op::Concat => "Concat",
            Op::Scale => "Scale",
            Op::Flatten => "Flatten",
            Op::Tokens => "Tokens",
            Op::ClassToken => "ClassToken",
            Op::PositionEmbedding => "PositionEmbedding",
            Op::FirstToken => "FirstToken",
        }
    }

    /// The probability with which it zeroes elements or images in training, if it does.
    pub(super) fn drop_probability(&mut self) -> Option<&mut f64> {
        match self {
            Op::Dropout(probability) | Op::StochasticDepth(probability) => Some(probability),
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

    /// The shape of its output for `inputs`.
    pub(super) fn output(&self, inputs: &[Shape]) -> Shape {
        if let Op::Input(shape) = self {
            return shape.clone();
        }
        let input = &inputs[0];
        let slid = |window: &Window, channels: u64| {
            let [height, width] = window.output(input.area());
            Shape::image(channels, height, width)
        };
        match self {
            Op::Conv2d(conv) => slid(&conv.window, conv.out_channels),
            Op::MaxPool2d(window) | Op::AveragePool2d(window) => slid(window, input.channels()),
            Op::AdaptiveAveragePool2d([height, width]) => Shape::image(input.channels(), *height, *width),
            Op::Linear { out_features, .. } => input.with_channels(*out_features),
            Op::Attention { .. } => input.with_channels(input.channels() / 3),
            Op::Concat => input.with_channels(inputs.iter().map(Shape::channels).sum()),
            Op::Flatten => Shape::features(input.elements()),
            Op::Tokens => Shape::tokens(input.area().iter().product(), input.channels()),
            Op::ClassToken => Shape::tokens(input.dimensions()[0] + 1, input.channels()),
            Op::FirstToken => Shape::features(input.channels()),
            Op::Input(_)
            | Op::BatchNorm2d { .. }
            | Op::LayerNorm { .. }
            | Op::Activate(_)
            | Op::Dropout(_)
            | Op::StochasticDepth(_)
            | Op::Add
            | Op::Multiply
            | Op::Scale
            | Op::PositionEmbedding => input.clone(),
        }
    }

    /// The shape of its weight in PyTorch's order, and whether it also has a bias with one number per output channel.
    /// `None` if it has no parameters.
    pub(super) fn weight_and_bias(&self, inputs: &[Shape]) -> Option<(Vec<u64>, bool)> {
        let input = inputs.first()?;
        let channels = input.channels();
        match self {
            Op::Conv2d(Conv2d { out_channels, window, groups, bias }) => {
                let [height, width] = window.kernel;
                Some((vec![*out_channels, channels / groups, height, width], *bias))
            }
            Op::Linear { out_features, bias } => Some((vec![*out_features, channels], *bias)),
            Op::BatchNorm2d { .. } | Op::LayerNorm { .. } => Some((vec![channels], true)),
            Op::Scale => Some((vec![channels, 1, 1], false)),
            Op::ClassToken => Some((vec![1, 1, channels], false)),
            Op::PositionEmbedding => Some((vec![1, input.dimensions()[0], channels], false)),
            Op::Input(_)
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
            | Op::FirstToken => None,
        }
    }
}

impl Activation {
    /// The name of PyTorch's module for it.
    pub fn word(self) -> &'static str {
        match self {
            Activation::Relu => "ReLU",
            Activation::Relu6 => "ReLU6",
            Activation::Hardswish => "Hardswish",
            Activation::Hardsigmoid => "Hardsigmoid",
            Activation::Sigmoid => "Sigmoid",
            Activation::Silu => "SiLU",
            Activation::Gelu => "GELU",
        }
    }
}
