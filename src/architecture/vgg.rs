//! VGG (Simonyan and Zisserman 2014), without batch normalisation.

use super::builder::Builder;
use super::{Initialisations, Network, Op, Window};

/// Thirteen convolutions of 3 × 3 in five stages, three linear layers.
pub(super) fn vgg16(input_size: u32, classes: u32) -> Network {
    let mut net = Builder::new(input_size);
    let mut x = net.input();
    let mut index = 0;
    for (channels, convolutions) in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)] {
        for _ in 0..convolutions {
            x = net.biased_conv(format!("features.{index}"), channels, Window::square(3, 1, 1), x);
            x = net.push(format!("features.{}", index + 1), Op::Relu, &[x]);
            index += 2;
        }
        x = net.push(format!("features.{index}"), Op::MaxPool2d(Window::square(2, 2, 0)), &[x]);
        index += 1;
    }
    x = net.push("avgpool", Op::AdaptiveAveragePool2d([7, 7]), &[x]);
    x = net.push("flatten", Op::Flatten, &[x]);
    for first in [0, 3] {
        x = net.linear(format!("classifier.{first}"), 4096, x);
        x = net.push(format!("classifier.{}", first + 1), Op::Relu, &[x]);
        x = net.push(format!("classifier.{}", first + 2), Op::Dropout(0.5), &[x]);
    }
    net.linear("classifier.6", u64::from(classes), x);
    net.finish("vgg16", Initialisations::NORMAL_HEAD)
}
