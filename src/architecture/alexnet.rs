//! AlexNet (Krizhevsky 2014, "One weird trick").

use super::builder::Builder;
use super::start::Start;
use super::{Op, Window};

/// Five convolutions, three linear layers.
pub(super) fn alexnet(net: &mut Builder, classes: u64) {
    net.starting(Start::DEFAULT, Start::DEFAULT);
    let pool = Op::MaxPool2d(Window::square(3, 2, 0));
    let conv = |channels, window| Op::from(Op::conv(channels, window).biased());
    let features = [
        conv(64, Window::square(11, 4, 2)),
        Op::RELU,
        pool.clone(),
        conv(192, Window::same(5, 1)),
        Op::RELU,
        pool.clone(),
        conv(384, Window::same(3, 1)),
        Op::RELU,
        conv(256, Window::same(3, 1)),
        Op::RELU,
        conv(256, Window::same(3, 1)),
        Op::RELU,
        pool,
    ];
    let mut x = net.input();
    for (index, op) in features.into_iter().enumerate() {
        x = net.push(format!("features.{index}"), op, &[x]);
    }
    x = net.push("avgpool", Op::AdaptiveAveragePool2d([6, 6]), &[x]);
    x = net.push("flatten", Op::Flatten, &[x]);
    for first in [0, 3] {
        x = net.push(format!("classifier.{first}"), Op::Dropout(0.5), &[x]);
        x = net.linear(format!("classifier.{}", first + 1), 4096, x);
        x = net.push(format!("classifier.{}", first + 2), Op::RELU, &[x]);
    }
    net.linear("classifier.6", classes, x);
}
