//! EfficientNet-B0 (Tan and Le 2019).

use super::builder::{Builder, Node};
use super::start::{Initialisation, Start};
use super::{Activation, Op, Window};

/// The paper's table 1: expansion, kernel, stride of the first block, channels, blocks.
const STAGES: [(u64, u64, u64, u64, u64); 7] = [
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
];

/// The probability that a block after the last one would be skipped.
const STOCHASTIC_DEPTH: f64 = 0.2;

const SILU: Op = Op::Activate(Activation::Silu);

/// Inverted residuals with squeeze and excitation. Deeper ones are skipped more often.
pub(super) fn efficientnet_b0(net: &mut Builder, classes: u64) {
    net.starting(Start::KAIMING, Start::unbiased(Initialisation::UniformFanOut));
    let blocks_in_all: u64 = STAGES.iter().map(|stage| stage.4).sum();
    let mut x = net.input();
    x = net.conv_norm("features.0", Op::conv(32, Window::same(3, 2)), Op::BATCH_NORM, Some(SILU), x);
    let mut depth = 0;
    for (stage, (expansion, kernel, first_stride, channels, blocks)) in (1..).zip(STAGES) {
        for index in 0..blocks {
            let block = MbConv {
                expansion,
                kernel,
                stride: if index == 0 { first_stride } else { 1 },
                channels,
                left_out: STOCHASTIC_DEPTH * f64::from(depth) / blocks_in_all as f64,
            };
            x = block.push(net, &format!("features.{stage}.{index}"), x);
            depth += 1;
        }
    }
    x = net.conv_norm("features.8", Op::conv(1280, Window::same(1, 1)), Op::BATCH_NORM, Some(SILU), x);
    x = net.pooled(x);
    x = net.push("classifier.0", Op::Dropout(0.2), &[x]);
    net.linear("classifier.1", classes, x);
}

/// torchvision's `MBConv`.
struct MbConv {
    expansion: u64,
    kernel: u64,
    stride: u64,
    channels: u64,
    left_out: f64,
}

impl MbConv {
    fn push(&self, net: &mut Builder, name: &str, input: Node) -> Node {
        let mut parts = (0..).map(|part| format!("{name}.block.{part}"));
        let mut part = || parts.next().expect("there is always another number");
        let before = net.channels(input);
        let expanded = before * self.expansion;
        let mut x = input;
        if expanded != before {
            let expand = Op::conv(expanded, Window::same(1, 1));
            x = net.conv_norm(&part(), expand, Op::BATCH_NORM, Some(SILU), x);
        }
        let depthwise = Op::conv(expanded, Window::same(self.kernel, self.stride)).grouped(expanded);
        x = net.conv_norm(&part(), depthwise, Op::BATCH_NORM, Some(SILU), x);
        let gate = Op::Activate(Activation::Sigmoid);
        x = net.squeeze_excitation(&part(), (before / 4).max(1), SILU, gate, x);
        x = net.conv_norm(&part(), Op::conv(self.channels, Window::same(1, 1)), Op::BATCH_NORM, None, x);
        if self.stride == 1 && before == self.channels {
            x = net.push(format!("{name}.stochastic_depth"), Op::StochasticDepth(self.left_out), &[x]);
            x = net.push(format!("{name}.add"), Op::Add, &[x, input]);
        }
        x
    }
}
