//! MobileNetV3 (Howard et al. 2019).

use super::builder::{Builder, NORMAL_HEAD, Node};
use super::start::Start;
use super::{Activation, Op, Window};

/// One row of the paper's tables 1 and 2.
struct Block {
    kernel: u64,
    expanded: u64,
    channels: u64,
    squeeze: bool,
    activation: Activation,
    stride: u64,
}

const fn block(
    kernel: u64,
    expanded: u64,
    channels: u64,
    squeeze: bool,
    activation: Activation,
    stride: u64,
) -> Block {
    Block { kernel, expanded, channels, squeeze, activation, stride }
}

const RE: Activation = Activation::Relu;
const HS: Activation = Activation::Hardswish;

const LARGE: [Block; 15] = [
    block(3, 16, 16, false, RE, 1),
    block(3, 64, 24, false, RE, 2),
    block(3, 72, 24, false, RE, 1),
    block(5, 72, 40, true, RE, 2),
    block(5, 120, 40, true, RE, 1),
    block(5, 120, 40, true, RE, 1),
    block(3, 240, 80, false, HS, 2),
    block(3, 200, 80, false, HS, 1),
    block(3, 184, 80, false, HS, 1),
    block(3, 184, 80, false, HS, 1),
    block(3, 480, 112, true, HS, 1),
    block(3, 672, 112, true, HS, 1),
    block(5, 672, 160, true, HS, 2),
    block(5, 960, 160, true, HS, 1),
    block(5, 960, 160, true, HS, 1),
];

const SMALL: [Block; 11] = [
    block(3, 16, 16, true, RE, 2),
    block(3, 72, 24, false, RE, 2),
    block(3, 88, 24, false, RE, 1),
    block(5, 96, 40, true, HS, 2),
    block(5, 240, 40, true, HS, 1),
    block(5, 240, 40, true, HS, 1),
    block(5, 120, 48, true, HS, 1),
    block(5, 144, 48, true, HS, 1),
    block(5, 288, 96, true, HS, 2),
    block(5, 576, 96, true, HS, 1),
    block(5, 576, 96, true, HS, 1),
];

/// torchvision's constants for these networks.
const NORM: Op = Op::BatchNorm2d { epsilon: 1e-3, momentum: 0.01 };

/// `mobilenet_v3_large`.
pub(super) fn large(net: &mut Builder, classes: u64) {
    mobilenet_v3(net, classes, &LARGE, 1280);
}

/// `mobilenet_v3_small`.
pub(super) fn small(net: &mut Builder, classes: u64) {
    mobilenet_v3(net, classes, &SMALL, 1024);
}

fn mobilenet_v3(net: &mut Builder, classes: u64, blocks: &[Block], hidden: u64) {
    net.starting(Start::KAIMING, NORMAL_HEAD);
    let mut x = net.input();
    x = net.conv_norm("features.0", Op::conv(16, Window::same(3, 2)), NORM, Some(Op::Activate(HS)), x);
    for (index, block) in (1..).zip(blocks) {
        x = inverted_residual(net, &format!("features.{index}"), block, x);
    }
    let last = Op::conv(6 * net.channels(x), Window::same(1, 1));
    x = net.conv_norm(&format!("features.{}", blocks.len() + 1), last, NORM, Some(Op::Activate(HS)), x);
    x = net.pooled(x);
    x = net.linear("classifier.0", hidden, x);
    x = net.push("classifier.1", Op::Activate(HS), &[x]);
    x = net.push("classifier.2", Op::Dropout(0.2), &[x]);
    net.linear("classifier.3", classes, x);
}

/// Expand (unless the width is equal), convolve each channel separately, weight the channels, project.
fn inverted_residual(net: &mut Builder, name: &str, block: &Block, input: Node) -> Node {
    let mut parts = (0..).map(|part| format!("{name}.block.{part}"));
    let mut part = || parts.next().expect("there is always another number");
    let activation = Op::Activate(block.activation);
    let before = net.channels(input);
    let mut x = input;
    if block.expanded != before {
        let expand = Op::conv(block.expanded, Window::same(1, 1));
        x = net.conv_norm(&part(), expand, NORM, Some(activation.clone()), x);
    }
    let depthwise =
        Op::conv(block.expanded, Window::same(block.kernel, block.stride)).grouped(block.expanded);
    x = net.conv_norm(&part(), depthwise, NORM, Some(activation), x);
    if block.squeeze {
        let squeezed = make_divisible(block.expanded / 4);
        x = net.squeeze_excitation(&part(), squeezed, Op::RELU, Op::Activate(Activation::Hardsigmoid), x);
    }
    x = net.conv_norm(&part(), Op::conv(block.channels, Window::same(1, 1)), NORM, None, x);
    if block.stride == 1 && before == block.channels {
        x = net.push(format!("{name}.add"), Op::Add, &[x, input]);
    }
    x
}

/// The nearest multiple of 8 that is at least nine tenths of the width (torchvision's `_make_divisible`).
fn make_divisible(channels: u64) -> u64 {
    let near = ((channels + 4) / 8 * 8).max(8);
    if near * 10 < channels * 9 { near + 8 } else { near }
}
