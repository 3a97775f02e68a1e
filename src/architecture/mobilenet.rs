//! MobileNetV2 (Sandler et al. 2018), width 1.0.

use super::builder::{Builder, Node};
use super::{Initialisations, Network, Op, Window};

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
pub(super) fn mobilenet_v2(input_size: u32, classes: u32) -> Network {
    let mut net = Builder::new(input_size);
    let stem = Op::conv(32, Window::square(3, 2, 1));
    let mut x = net.input();
    x = conv_norm_relu6(&mut net, "features.0", stem, x);
    let mut index = 0;
    for (expansion, channels, blocks, first_stride) in STAGES {
        for block in 0..blocks {
            index += 1;
            let stride = if block == 0 { first_stride } else { 1 };
            x = inverted_residual(&mut net, &format!("features.{index}"), expansion, channels, stride, x);
        }
    }
    let head = Op::conv(1280, Window::square(1, 1, 0));
    x = conv_norm_relu6(&mut net, &format!("features.{}", index + 1), head, x);
    x = net.push("avgpool", Op::AdaptiveAveragePool2d([1, 1]), &[x]);
    x = net.push("flatten", Op::Flatten, &[x]);
    x = net.push("classifier.0", Op::Dropout(0.2), &[x]);
    net.linear("classifier.1", u64::from(classes), x);
    net.finish("mobilenet_v2", Initialisations::NORMAL_HEAD)
}

/// Expand (unless by 1), convolve each channel alone, project; added to its input where the shapes agree.
fn inverted_residual(
    net: &mut Builder,
    name: &str,
    expansion: u64,
    channels: u64,
    stride: u64,
    input: Node,
) -> Node {
    let before = net.shape(input).channels();
    let hidden = before * expansion;
    let mut part = 0;
    let mut x = input;
    if expansion != 1 {
        x = conv_norm_relu6(
            net,
            &format!("{name}.conv.{part}"),
            Op::conv(hidden, Window::square(1, 1, 0)),
            x,
        );
        part += 1;
    }
    let depthwise = Op::conv(hidden, Window::square(3, stride, 1)).grouped(hidden);
    x = conv_norm_relu6(net, &format!("{name}.conv.{part}"), depthwise, x);
    let project = Op::conv(channels, Window::square(1, 1, 0));
    x = net.push(format!("{name}.conv.{}", part + 1), project, &[x]);
    x = net.push(format!("{name}.conv.{}", part + 2), Op::BatchNorm2d, &[x]);
    if stride == 1 && before == channels {
        x = net.push(format!("{name}.add"), Op::Add, &[x, input]);
    }
    x
}

/// torchvision's `Conv2dNormActivation`.
fn conv_norm_relu6(net: &mut Builder, name: &str, conv: Op, input: Node) -> Node {
    let conv = net.push(format!("{name}.0"), conv, &[input]);
    let norm = net.push(format!("{name}.1"), Op::BatchNorm2d, &[conv]);
    net.push(format!("{name}.2"), Op::Relu6, &[norm])
}
