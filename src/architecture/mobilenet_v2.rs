//! MobileNetV2 (Sandler et al. 2018), width 1.0.

use super::builder::{Builder, NORMAL_HEAD, Node};
use super::start::Start;
use super::{Activation, Conv2d, Op, Window};

/// The paper's table 2: expansion, channels, blocks, stride of the first block.
const STAGES: [(u64, u64, u64, u64); 7] = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

/// Inverted residuals of depth-wise convolutions.
pub(super) fn mobilenet_v2(net: &mut Builder, classes: u64) {
    net.starting(Start::KAIMING, NORMAL_HEAD);
    let mut x = net.input();
    x = conv_norm_relu6(net, "features.0", Op::conv(32, Window::same(3, 2)), x);
    let mut index = 0;
    for (expansion, channels, blocks, first_stride) in STAGES {
        for block in 0..blocks {
            index += 1;
            let stride = if block == 0 { first_stride } else { 1 };
            x = inverted_residual(net, &format!("features.{index}"), expansion, channels, stride, x);
        }
    }
    let head = Op::conv(1280, Window::same(1, 1));
    x = conv_norm_relu6(net, &format!("features.{}", index + 1), head, x);
    x = net.pooled(x);
    x = net.push("classifier.0", Op::Dropout(0.2), &[x]);
    net.linear("classifier.1", classes, x);
}

/// Expand (unless by 1), convolve each channel separately, project. The input is added if the shapes agree.
fn inverted_residual(
    net: &mut Builder,
    name: &str,
    expansion: u64,
    channels: u64,
    stride: u64,
    input: Node,
) -> Node {
    let before = net.channels(input);
    let hidden = before * expansion;
    let mut part = 0;
    let mut x = input;
    if expansion != 1 {
        x = conv_norm_relu6(net, &format!("{name}.conv.{part}"), Op::conv(hidden, Window::same(1, 1)), x);
        part += 1;
    }
    let depthwise = Op::conv(hidden, Window::same(3, stride)).grouped(hidden);
    x = conv_norm_relu6(net, &format!("{name}.conv.{part}"), depthwise, x);
    x = net.push(format!("{name}.conv.{}", part + 1), Op::conv(channels, Window::same(1, 1)), &[x]);
    x = net.push(format!("{name}.conv.{}", part + 2), Op::BATCH_NORM, &[x]);
    if stride == 1 && before == channels {
        x = net.push(format!("{name}.add"), Op::Add, &[x, input]);
    }
    x
}

fn conv_norm_relu6(net: &mut Builder, name: &str, conv: Conv2d, input: Node) -> Node {
    net.conv_norm(name, conv, Op::BATCH_NORM, Some(Op::Activate(Activation::Relu6)), input)
}
