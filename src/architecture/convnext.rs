//! ConvNeXt-T (Liu et al. 2022).

use super::builder::{Builder, Node};
use super::start::{Initialisation, Start};
use super::{Activation, Op, Window};

/// Channels and blocks of the four stages.
const STAGES: [(u64, u64); 4] = [(96, 3), (192, 3), (384, 9), (768, 3)];

/// The probability that the last block is skipped.
const STOCHASTIC_DEPTH: f64 = 0.1;

/// The start value of the layer scale.
const LAYER_SCALE: f64 = 1e-6;

const NORM: Op = Op::LayerNorm { epsilon: 1e-6 };

/// Depth-wise convolutions of 7 × 7 and linear layers over the channels of each pixel.
pub(super) fn convnext_tiny(net: &mut Builder, classes: u64) {
    let start = Start::unbiased(Initialisation::TruncatedNormal(0.02));
    net.starting(start, start);
    let last = STAGES.iter().map(|stage| stage.1).sum::<u64>() - 1;
    let stem = Op::conv(STAGES[0].0, Window::square(4, 4, 0)).biased();
    let mut x = net.conv_norm("features.0", stem, NORM, None, net.input());
    let (mut feature, mut depth) = (1, 0);
    for (stage, (channels, blocks)) in STAGES.into_iter().enumerate() {
        if stage > 0 {
            x = net.push(format!("features.{feature}.0"), NORM, &[x]);
            let halve = Op::conv(channels, Window::square(2, 2, 0)).biased();
            x = net.push(format!("features.{feature}.1"), halve, &[x]);
            feature += 1;
        }
        for index in 0..blocks {
            let left_out = STOCHASTIC_DEPTH * f64::from(depth) / last as f64;
            x = block(net, &format!("features.{feature}.{index}"), left_out, x);
            depth += 1;
        }
        feature += 1;
    }
    x = net.push("avgpool", Op::AdaptiveAveragePool2d([1, 1]), &[x]);
    x = net.push("classifier.0", NORM, &[x]);
    x = net.push("classifier.1", Op::Flatten, &[x]);
    net.linear("classifier.2", classes, x);
}

/// torchvision's `CNBlock`; `block.1` and `block.6` are the permutations around the operations on channels.
fn block(net: &mut Builder, name: &str, left_out: f64, input: Node) -> Node {
    let channels = net.channels(input);
    let depthwise = Op::conv(channels, Window::same(7, 1)).grouped(channels).biased();
    let mut x = net.push(format!("{name}.block.0"), depthwise, &[input]);
    x = net.push(format!("{name}.block.2"), NORM, &[x]);
    x = net.linear(format!("{name}.block.3"), 4 * channels, x);
    x = net.push(format!("{name}.block.4"), Op::Activate(Activation::Gelu), &[x]);
    x = net.linear(format!("{name}.block.5"), channels, x);
    let start = Start::unbiased(Initialisation::Constant(LAYER_SCALE));
    x = net.push_starting(format!("{name}.layer_scale"), Op::Scale, &[x], start);
    x = net.push(format!("{name}.stochastic_depth"), Op::StochasticDepth(left_out), &[x]);
    net.push(format!("{name}.add"), Op::Add, &[x, input])
}
