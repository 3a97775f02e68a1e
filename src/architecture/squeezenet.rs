//! SqueezeNet (Iandola et al. 2016).

use super::builder::{Builder, NORMAL_HEAD, Node};
use super::start::{Initialisation, Start};
use super::{Op, Window};

/// The two versions, which differ in their first convolution and in where they halve the image.
#[derive(Clone, Copy)]
pub(super) enum Version {
    /// The paper's version.
    V1_0,
    /// A version with 2.4 times fewer operations.
    V1_1,
}

/// Channels of the eight fire modules: squeezed, then expanded by each of two convolutions.
const FIRES: [(u64, u64); 8] =
    [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)];

/// Fire modules with pooling between them. The last convolution has one channel per class.
pub(super) fn squeezenet(net: &mut Builder, classes: u64, version: Version) {
    let start = Start::unbiased(Initialisation::KaimingUniformFanIn);
    net.starting(start, start);
    // The fire modules before which the image is halved.
    let (stem, halvings) = match version {
        Version::V1_0 => (Op::conv(96, Window::square(7, 2, 0)), [0, 3, 7]),
        Version::V1_1 => (Op::conv(64, Window::square(3, 2, 0)), [0, 2, 4]),
    };
    let mut x = net.push("features.0", stem.biased(), &[net.input()]);
    x = net.push("features.1", Op::RELU, &[x]);
    let mut index = 2;
    for (fire_index, (squeezed, expanded)) in FIRES.into_iter().enumerate() {
        if halvings.contains(&fire_index) {
            let pool = Op::MaxPool2d(Window::square(3, 2, 0).ceil());
            x = net.push(format!("features.{index}"), pool, &[x]);
            index += 1;
        }
        x = fire(net, &format!("features.{index}"), squeezed, expanded, x);
        index += 1;
    }
    x = net.push("classifier.0", Op::Dropout(0.5), &[x]);
    let last = Op::conv(classes, Window::square(1, 1, 0)).biased();
    x = net.push_starting("classifier.1", last, &[x], NORMAL_HEAD);
    x = net.push("classifier.2", Op::RELU, &[x]);
    x = net.push("classifier.3", Op::AdaptiveAveragePool2d([1, 1]), &[x]);
    net.push("flatten", Op::Flatten, &[x]);
}

/// Few channels by 1 × 1, then many by 1 × 1 and as many by 3 × 3, side by side.
fn fire(net: &mut Builder, name: &str, squeezed: u64, expanded: u64, input: Node) -> Node {
    let mut conv = |name: String, channels, kernel, input| {
        let x = net.push(name.clone(), Op::conv(channels, Window::same(kernel, 1)).biased(), &[input]);
        net.push(format!("{name}_activation"), Op::RELU, &[x])
    };
    let squeeze = conv(format!("{name}.squeeze"), squeezed, 1, input);
    let narrow = conv(format!("{name}.expand1x1"), expanded, 1, squeeze);
    let wide = conv(format!("{name}.expand3x3"), expanded, 3, squeeze);
    net.push(format!("{name}.cat"), Op::Concat, &[narrow, wide])
}
