//! One layer: its operation, its shapes, its parameters, its multiply-accumulates.

use std::fmt;

/// The shape of one image's activation, without the batch: `[channels, height, width]` or `[features]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<u64>);

impl Shape {
    /// Feature maps.
    pub fn image(channels: u64, height: u64, width: u64) -> Self {
        Shape(vec![channels, height, width])
    }

    /// A vector.
    pub fn features(features: u64) -> Self {
        Shape(vec![features])
    }

    /// The extent of each dimension.
    pub fn dimensions(&self) -> &[u64] {
        &self.0
    }

    /// The product of the extents.
    pub fn elements(&self) -> u64 {
        self.0.iter().product()
    }

    /// Channels of feature maps, features of a vector.
    pub fn channels(&self) -> u64 {
        self.0[0]
    }

    /// Height and width; 1 × 1 for a vector.
    fn area(&self) -> [u64; 2] {
        match self.0[..] {
            [_, height, width] => [height, width],
            _ => [1, 1],
        }
    }
}

impl fmt::Display for Shape {
    /// `64×112×112`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&words.join("×"))
    }
}

/// A window that slides over feature maps. All pairs are height, width, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its extent.
    pub kernel: [u64; 2],
    /// How far it moves at a time.
    pub stride: [u64; 2],
    /// Border added on each side.
    pub padding: [u64; 2],
}

impl Window {
    /// A square window.
    pub const fn square(kernel: u64, stride: u64, padding: u64) -> Self {
        Window { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2] }
    }

    /// Height and width of what it leaves of `input`: ⌊(input + 2 · padding − kernel) ÷ stride⌋ + 1.
    pub fn output(&self, input: [u64; 2]) -> [u64; 2] {
        [0, 1].map(|axis| (input[axis] + 2 * self.padding[axis] - self.kernel[axis]) / self.stride[axis] + 1)
    }
}

/// What a layer computes. Shapes are those of one image.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// The images themselves.
    Input(Shape),
    /// A two-dimensional convolution.
    Conv2d {
        /// Channels of its output.
        out_channels: u64,
        /// Its window.
        window: Window,
        /// Groups of channels that do not see each other.
        groups: u64,
        /// Whether it adds a bias.
        bias: bool,
    },
    /// Normalisation over batch, height and width, with a trainable scale and shift (ε = 1e-5, momentum 0.1).
    BatchNorm2d,
    /// max(x, 0).
    Relu,
    /// min(max(x, 0), 6).
    Relu6,
    /// The largest value in a window.
    MaxPool2d(Window),
    /// The mean over as many windows of equal share as the output has pixels: height, width.
    AdaptiveAveragePool2d([u64; 2]),
    /// A matrix product.
    Linear {
        /// Features of its output.
        out_features: u64,
        /// Whether it adds a bias.
        bias: bool,
    },
    /// Zeroes elements with this probability and scales up the others.
    Dropout(f64),
    /// The sum of two inputs of the same shape.
    Add,
    /// Feature maps as one vector.
    Flatten,
}

impl Op {
    /// A convolution without bias or groups.
    pub const fn conv(out_channels: u64, window: Window) -> Op {
        Op::Conv2d { out_channels, window, groups: 1, bias: false }
    }

    /// The same convolution in groups; any other operation as it is.
    pub fn grouped(self, groups: u64) -> Op {
        match self {
            Op::Conv2d { out_channels, window, bias, .. } => {
                Op::Conv2d { out_channels, window, groups, bias }
            }
            other => other,
        }
    }

    /// The shape it makes of `inputs`.
    pub(super) fn output(&self, inputs: &[Shape]) -> Shape {
        if let Op::Input(shape) = self {
            return shape.clone();
        }
        let input = &inputs[0];
        match self {
            Op::Conv2d { out_channels, window, .. } => {
                let [height, width] = window.output(input.area());
                Shape::image(*out_channels, height, width)
            }
            Op::MaxPool2d(window) => {
                let [height, width] = window.output(input.area());
                Shape::image(input.channels(), height, width)
            }
            Op::AdaptiveAveragePool2d([height, width]) => Shape::image(input.channels(), *height, *width),
            Op::Linear { out_features, .. } => Shape::features(*out_features),
            Op::Flatten => Shape::features(input.elements()),
            Op::Input(_) | Op::BatchNorm2d | Op::Relu | Op::Relu6 | Op::Dropout(_) | Op::Add => input.clone(),
        }
    }
}

/// What a parameter is to its layer; torchvision's last word of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A kernel, a matrix, a scale.
    Weight,
    /// What is added.
    Bias,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Weight => "weight",
            Role::Bias => "bias",
        })
    }
}

/// One trainable tensor of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterTensor {
    /// What it is to its layer.
    pub role: Role,
    /// Its shape, in PyTorch's order: output channels first.
    pub shape: Vec<u64>,
}

/// The values that a weight starts with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initialisation {
    /// Kaiming's normal distribution for ReLU by fan-out: deviation √(2 ÷ (outputs · kernel area)); bias 0.
    KaimingNormalFanOut,
    /// A normal distribution of this deviation; bias 0.
    Normal(f64),
    /// PyTorch's default: weight and bias uniform within ±1 ÷ √inputs.
    UniformFanIn,
}

/// How a network's weights start, as torchvision's constructors have it. Scales start at 1, shifts at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Initialisations {
    /// Of convolutions.
    pub convolution: Initialisation,
    /// Of linear layers.
    pub linear: Initialisation,
}

impl Initialisations {
    /// torchvision's ResNets.
    pub const RESNET: Self = Initialisations {
        convolution: Initialisation::KaimingNormalFanOut,
        linear: Initialisation::UniformFanIn,
    };

    /// torchvision's VGGs and MobileNetV2.
    pub const NORMAL_HEAD: Self = Initialisations {
        convolution: Initialisation::KaimingNormalFanOut,
        linear: Initialisation::Normal(0.01),
    };
}

/// One layer of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its name within the network; that of torchvision's module if it has parameters.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// The layers whose outputs it takes, by their place in [`super::Network::layers`].
    pub inputs: Vec<usize>,
    /// The shapes it takes, one an input.
    pub input_shapes: Vec<Shape>,
    /// The shape it makes.
    pub output: Shape,
    /// Whether training needs the gradient of its input: whether anything before it has parameters.
    pub needs_input_gradient: bool,
}

impl Layer {
    /// Its trainable tensors, in the order of torchvision's state dict.
    pub fn parameter_tensors(&self) -> Vec<ParameterTensor> {
        let (weight, bias) = match &self.op {
            Op::Conv2d { out_channels, window, groups, bias } => {
                let [height, width] = window.kernel;
                let fan_in = self.input_shapes[0].channels() / groups;
                (vec![*out_channels, fan_in, height, width], bias.then_some(*out_channels))
            }
            Op::Linear { out_features, bias } => {
                (vec![*out_features, self.input_shapes[0].channels()], bias.then_some(*out_features))
            }
            Op::BatchNorm2d => (vec![self.output.channels()], Some(self.output.channels())),
            _ => return Vec::new(),
        };
        let bias = bias.map(|length| ParameterTensor { role: Role::Bias, shape: vec![length] });
        [ParameterTensor { role: Role::Weight, shape: weight }].into_iter().chain(bias).collect()
    }

    /// The name of one of its tensors in torchvision's state dict.
    pub fn tensor_name(&self, tensor: &ParameterTensor) -> String {
        format!("{}.{}", self.name, tensor.role)
    }

    /// Trainable parameters.
    pub fn parameters(&self) -> u64 {
        self.parameter_tensors().iter().map(|tensor| tensor.shape.iter().product::<u64>()).sum()
    }

    /// Multiply-accumulates of one image's forward pass: for convolutions and linear layers the weights that each
    /// output element sees, times the output elements; 0 for all others.
    pub fn macs(&self) -> u64 {
        match &self.op {
            Op::Conv2d { .. } | Op::Linear { .. } => {
                let weight: u64 = self.parameter_tensors()[0].shape[1..].iter().product();
                weight * self.output.elements()
            }
            _ => 0,
        }
    }
}
