//! VGG (Simonyan and Zisserman 2014), with and without batch normalisation.

use super::builder::{Builder, NORMAL_HEAD};
use super::start::Start;
use super::{Op, Window};

/// Convolutions of 3 × 3 in five stages of `convolutions` each, three linear layers.
pub(super) fn vgg(net: &mut Builder, classes: u64, convolutions: [u64; 5], batch_norm: bool) {
    net.starting(Start::KAIMING, NORMAL_HEAD);
    let mut x = net.input();
    let mut names = (0..).map(|index| format!("features.{index}"));
    let mut name = || names.next().expect("there is always another number");
    for (channels, convolutions) in [64, 128, 256, 512, 512].into_iter().zip(convolutions) {
        for _ in 0..convolutions {
            x = net.push(name(), Op::conv(channels, Window::same(3, 1)).biased(), &[x]);
            if batch_norm {
                x = net.push(name(), Op::BATCH_NORM, &[x]);
            }
            x = net.push(name(), Op::RELU, &[x]);
        }
        x = net.push(name(), Op::MaxPool2d(Window::square(2, 2, 0)), &[x]);
    }
    x = net.push("avgpool", Op::AdaptiveAveragePool2d([7, 7]), &[x]);
    x = net.push("flatten", Op::Flatten, &[x]);
    for first in [0, 3] {
        x = net.linear(format!("classifier.{first}"), 4096, x);
        x = net.push(format!("classifier.{}", first + 1), Op::RELU, &[x]);
        x = net.push(format!("classifier.{}", first + 2), Op::Dropout(0.5), &[x]);
    }
    net.linear("classifier.6", classes, x);
}
