//! ResNet (He et al. 2015) as in torchvision: the stride of a bottleneck is in the 3 × 3 convolution ("v1.5").
//! Wide ResNet (Zagoruyko and Komodakis 2016) widens that convolution, ResNeXt (Xie et al. 2016) also divides it.

use super::builder::{Builder, Node};
use super::{Conv2d, Op, Window};

/// The residual block that a ResNet repeats.
#[derive(Clone, Copy)]
pub(super) enum Block {
    /// 3 × 3 twice.
    Basic,
    /// 1 × 1, 3 × 3, 1 × 1.
    Bottleneck {
        /// Channels of each group of the 3 × 3 convolution in the first stage; 64 in a plain ResNet.
        width: u64,
        /// Groups of the 3 × 3 convolution.
        groups: u64,
    },
}

impl Block {
    /// A plain ResNet's.
    pub(super) const BOTTLENECK: Block = Block::Bottleneck { width: 64, groups: 1 };

    /// ResNeXt's of 32 groups of 4 channels.
    pub(super) const RESNEXT: Block = Block::Bottleneck { width: 4, groups: 32 };

    /// Wide ResNet's, twice as wide.
    pub(super) const WIDE: Block = Block::Bottleneck { width: 128, groups: 1 };

    /// Its convolutions for a stage of `planes` channels.
    fn convolutions(self, planes: u64, stride: u64) -> Vec<Conv2d> {
        match self {
            Block::Basic => {
                vec![Op::conv(planes, Window::same(3, stride)), Op::conv(planes, Window::same(3, 1))]
            }
            Block::Bottleneck { width, groups } => {
                let inner = planes * width / 64 * groups;
                vec![
                    Op::conv(inner, Window::same(1, 1)),
                    Op::conv(inner, Window::same(3, stride)).grouped(groups),
                    Op::conv(4 * planes, Window::same(1, 1)),
                ]
            }
        }
    }

    /// Channels of its output in a stage of `planes` channels.
    fn out_channels(self, planes: u64) -> u64 {
        match self {
            Block::Basic => planes,
            Block::Bottleneck { .. } => 4 * planes,
        }
    }
}

/// `blocks` in each of four stages.
pub(super) fn resnet(net: &mut Builder, classes: u64, block: Block, blocks: [u64; 4]) {
    let conv = net.push("conv1", Op::conv(64, Window::same(7, 2)), &[net.input()]);
    let norm = net.push("bn1", Op::BATCH_NORM, &[conv]);
    let relu = net.push("relu", Op::RELU, &[norm]);
    let mut x = net.push("maxpool", Op::MaxPool2d(Window::same(3, 2)), &[relu]);
    for (stage, (blocks, planes)) in blocks.into_iter().zip([64, 128, 256, 512]).enumerate() {
        for index in 0..blocks {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            x = residual(net, &format!("layer{}.{index}", stage + 1), block, planes, stride, x);
        }
    }
    let x = net.pooled(x);
    net.linear("fc", classes, x);
}

/// One residual block: a chain of convolutions, added to its input, which is projected if the shapes differ.
fn residual(net: &mut Builder, name: &str, block: Block, planes: u64, stride: u64, input: Node) -> Node {
    let chain = block.convolutions(planes, stride);
    let last = chain.len();
    let mut x = input;
    for (number, conv) in (1..).zip(chain) {
        x = net.push(format!("{name}.conv{number}"), conv, &[x]);
        x = net.push(format!("{name}.bn{number}"), Op::BATCH_NORM, &[x]);
        if number < last {
            x = net.push(format!("{name}.relu{number}"), Op::RELU, &[x]);
        }
    }
    let mut identity = input;
    if stride != 1 || net.channels(input) != block.out_channels(planes) {
        let op = Op::conv(block.out_channels(planes), Window::square(1, stride, 0));
        identity = net.push(format!("{name}.downsample.0"), op, &[identity]);
        identity = net.push(format!("{name}.downsample.1"), Op::BATCH_NORM, &[identity]);
    }
    let sum = net.push(format!("{name}.add"), Op::Add, &[x, identity]);
    net.push(format!("{name}.relu{last}"), Op::RELU, &[sum])
}
