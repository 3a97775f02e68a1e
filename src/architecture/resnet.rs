//! ResNet (He et al. 2015) as torchvision has it: in a bottleneck the stride stands at the 3 × 3 convolution ("v1.5").

use super::builder::{Builder, Node};
use super::{Initialisations, Network, Op, Window};

/// 3 × 3 twice.
pub(super) fn resnet18(input_size: u32, classes: u32) -> Network {
    resnet("resnet18", Block::Basic, [2, 2, 2, 2], input_size, classes)
}

/// 1 × 1, 3 × 3, 1 × 1.
pub(super) fn resnet50(input_size: u32, classes: u32) -> Network {
    resnet("resnet50", Block::Bottleneck, [3, 4, 6, 3], input_size, classes)
}

/// The residual block that a ResNet repeats.
#[derive(Clone, Copy)]
enum Block {
    Basic,
    Bottleneck,
}

impl Block {
    /// Channels of its output for each of its width.
    fn expansion(self) -> u64 {
        match self {
            Block::Basic => 1,
            Block::Bottleneck => 4,
        }
    }
}

fn resnet(name: &'static str, block: Block, blocks: [u64; 4], input_size: u32, classes: u32) -> Network {
    let mut net = Builder::new(input_size);
    let conv = net.push("conv1", Op::conv(64, Window::square(7, 2, 3)), &[net.input()]);
    let norm = net.push("bn1", Op::BatchNorm2d, &[conv]);
    let relu = net.push("relu", Op::Relu, &[norm]);
    let mut x = net.push("maxpool", Op::MaxPool2d(Window::square(3, 2, 1)), &[relu]);
    for (stage, (blocks, width)) in blocks.into_iter().zip([64, 128, 256, 512]).enumerate() {
        for index in 0..blocks {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            x = residual(&mut net, &format!("layer{}.{index}", stage + 1), block, width, stride, x);
        }
    }
    let pooled = net.push("avgpool", Op::AdaptiveAveragePool2d([1, 1]), &[x]);
    let flat = net.push("flatten", Op::Flatten, &[pooled]);
    net.linear("fc", u64::from(classes), flat);
    net.finish(name, Initialisations::RESNET)
}

/// One residual block: a chain of convolutions, added to its own input, which is projected where the shapes differ.
fn residual(net: &mut Builder, name: &str, block: Block, width: u64, stride: u64, input: Node) -> Node {
    let out = width * block.expansion();
    let chain = match block {
        Block::Basic => vec![(width, Window::square(3, stride, 1)), (out, Window::square(3, 1, 1))],
        Block::Bottleneck => vec![
            (width, Window::square(1, 1, 0)),
            (width, Window::square(3, stride, 1)),
            (out, Window::square(1, 1, 0)),
        ],
    };
    let last = chain.len();
    let mut x = input;
    for (number, (channels, window)) in (1..).zip(chain) {
        x = net.push(format!("{name}.conv{number}"), Op::conv(channels, window), &[x]);
        x = net.push(format!("{name}.bn{number}"), Op::BatchNorm2d, &[x]);
        if number < last {
            x = net.push(format!("{name}.relu{number}"), Op::Relu, &[x]);
        }
    }
    let mut identity = input;
    if stride != 1 || net.shape(input).channels() != out {
        let op = Op::conv(out, Window::square(1, stride, 0));
        identity = net.push(format!("{name}.downsample.0"), op, &[identity]);
        identity = net.push(format!("{name}.downsample.1"), Op::BatchNorm2d, &[identity]);
    }
    let sum = net.push(format!("{name}.add"), Op::Add, &[x, identity]);
    net.push(format!("{name}.relu{last}"), Op::Relu, &[sum])
}
