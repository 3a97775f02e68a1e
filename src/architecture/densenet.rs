//! DenseNet (Huang et al. 2016) of growth 32.

use super::builder::{Builder, Node};
use super::start::{Initialisation, Start};
use super::{Op, Window};

/// Channels that each layer adds.
const GROWTH: u64 = 32;

/// Four blocks of `layers`. Transitions between them keep half of the channels and a quarter of the pixels.
pub(super) fn densenet(net: &mut Builder, classes: u64, layers: [u64; 4]) {
    net.starting(
        Start::unbiased(Initialisation::KaimingNormalFanIn),
        Start::unbiased(Initialisation::UniformFanIn),
    );
    let mut x = net.push("features.conv0", Op::conv(64, Window::same(7, 2)), &[net.input()]);
    x = norm_relu(net, "features.norm0", "features.relu0", x);
    x = net.push("features.pool0", Op::MaxPool2d(Window::same(3, 2)), &[x]);
    for (block, layers) in (1..).zip(layers) {
        x = dense_block(net, &format!("features.denseblock{block}"), layers, x);
        if block < 4 {
            let name = format!("features.transition{block}");
            x = norm_relu(net, &format!("{name}.norm"), &format!("{name}.relu"), x);
            let half = net.channels(x) / 2;
            x = net.push(format!("{name}.conv"), Op::conv(half, Window::same(1, 1)), &[x]);
            x = net.push(format!("{name}.pool"), Op::AveragePool2d(Window::square(2, 2, 0)), &[x]);
        }
    }
    x = norm_relu(net, "features.norm5", "relu", x);
    x = net.pooled(x);
    net.linear("classifier", classes, x);
}

/// Each layer takes the outputs of all earlier ones.
fn dense_block(net: &mut Builder, name: &str, layers: u64, input: Node) -> Node {
    let mut seen = vec![input];
    for layer in 1..=layers {
        let name = format!("{name}.denselayer{layer}");
        let mut x = concat(net, &format!("{name}.cat"), &seen);
        x = norm_relu(net, &format!("{name}.norm1"), &format!("{name}.relu1"), x);
        x = net.push(format!("{name}.conv1"), Op::conv(4 * GROWTH, Window::same(1, 1)), &[x]);
        x = norm_relu(net, &format!("{name}.norm2"), &format!("{name}.relu2"), x);
        x = net.push(format!("{name}.conv2"), Op::conv(GROWTH, Window::same(3, 1)), &[x]);
        seen.push(x);
    }
    concat(net, &format!("{name}.cat"), &seen)
}

/// Concatenates `inputs`. A single input is returned without a copy.
fn concat(net: &mut Builder, name: &str, inputs: &[Node]) -> Node {
    match inputs {
        [only] => *only,
        _ => net.push(name, Op::Concat, inputs),
    }
}

fn norm_relu(net: &mut Builder, norm: &str, relu: &str, input: Node) -> Node {
    let x = net.push(norm, Op::BATCH_NORM, &[input]);
    net.push(relu, Op::RELU, &[x])
}
