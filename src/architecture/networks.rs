//! The networks by name: their list, whether one works on given images, and their descriptions.

use std::fmt;

use super::builder::Builder;
use super::network::Network;
use super::resnet::Block;
use super::{
    alexnet, convnext, densenet, efficientnet, mobilenet_v2, mobilenet_v3, resnet, squeezenet, vgg, vit,
};
use Images::{AtLeast, Patches};

/// Passes the table of networks to the macro `$rows`. Only this table lists them.
///
/// A row is `name, images, description;`: torchvision's name, the images that the network works on, and the function
/// that pushes its layers for a number of classes. A macro that makes one test per network only needs the names.
#[macro_export]
#[doc(hidden)]
macro_rules! architecture_for_each_network {
    ($rows:ident) => {
        $rows! {
            alexnet, AtLeast(63), alexnet::alexnet;
            convnext_tiny, AtLeast(32), convnext::convnext_tiny;
            densenet121, AtLeast(29), |net, classes| densenet::densenet(net, classes, [6, 12, 24, 16]);
            densenet169, AtLeast(29), |net, classes| densenet::densenet(net, classes, [6, 12, 32, 32]);
            efficientnet_b0, AtLeast(1), efficientnet::efficientnet_b0;
            mobilenet_v2, AtLeast(1), mobilenet_v2::mobilenet_v2;
            mobilenet_v3_large, AtLeast(1), mobilenet_v3::large;
            mobilenet_v3_small, AtLeast(1), mobilenet_v3::small;
            resnet18, AtLeast(1), |net, classes| resnet::resnet(net, classes, Block::Basic, [2, 2, 2, 2]);
            resnet34, AtLeast(1), |net, classes| resnet::resnet(net, classes, Block::Basic, [3, 4, 6, 3]);
            resnet50, AtLeast(1), |net, classes| resnet::resnet(net, classes, Block::BOTTLENECK, [3, 4, 6, 3]);
            resnet101, AtLeast(1), |net, classes| resnet::resnet(net, classes, Block::BOTTLENECK, [3, 4, 23, 3]);
            resnet152, AtLeast(1), |net, classes| resnet::resnet(net, classes, Block::BOTTLENECK, [3, 8, 36, 3]);
            resnext50_32x4d, AtLeast(1), |net, classes| resnet::resnet(net, classes, Block::RESNEXT, [3, 4, 6, 3]);
            squeezenet1_0, AtLeast(21), |net, classes| squeezenet::squeezenet(net, classes, squeezenet::Version::V1_0);
            squeezenet1_1, AtLeast(17), |net, classes| squeezenet::squeezenet(net, classes, squeezenet::Version::V1_1);
            vgg11, AtLeast(32), |net, classes| vgg::vgg(net, classes, [1, 1, 2, 2, 2], false);
            vgg11_bn, AtLeast(32), |net, classes| vgg::vgg(net, classes, [1, 1, 2, 2, 2], true);
            vgg13, AtLeast(32), |net, classes| vgg::vgg(net, classes, [2, 2, 2, 2, 2], false);
            vgg13_bn, AtLeast(32), |net, classes| vgg::vgg(net, classes, [2, 2, 2, 2, 2], true);
            vgg16, AtLeast(32), |net, classes| vgg::vgg(net, classes, [2, 2, 3, 3, 3], false);
            vgg16_bn, AtLeast(32), |net, classes| vgg::vgg(net, classes, [2, 2, 3, 3, 3], true);
            vgg19, AtLeast(32), |net, classes| vgg::vgg(net, classes, [2, 2, 4, 4, 4], false);
            vgg19_bn, AtLeast(32), |net, classes| vgg::vgg(net, classes, [2, 2, 4, 4, 4], true);
            vit_b_16, Patches(vit::PATCH), vit::vit_b_16;
            wide_resnet50_2, AtLeast(1), |net, classes| resnet::resnet(net, classes, Block::WIDE, [3, 4, 6, 3]);
        }
    };
}

pub use architecture_for_each_network as for_each_network;

macro_rules! names {
    ($($name:ident, $images:expr, $describe:expr;)*) => { &[$(stringify!($name)),*] };
}

macro_rules! rows {
    ($($name:ident, $images:expr, $describe:expr;)*) => {
        &[$(Row { name: stringify!($name), images: $images, describe: $describe }),*]
    };
}

/// The names of the networks, as in torchvision.
pub const NETWORKS: &[&str] = for_each_network!(names);

const TABLE: &[Row] = for_each_network!(rows);

/// A row of the table.
struct Row {
    name: &'static str,
    images: Images,
    /// Pushes the layers for this number of classes.
    describe: fn(&mut Builder, u64),
}

/// The square images that a network works on, by their side in pixels.
#[derive(Clone, Copy)]
enum Images {
    /// This side or more. Smaller images vanish on the way through the network.
    AtLeast(u32),
    /// A multiple of this side of a patch.
    Patches(u32),
}

/// The largest side of images, in pixels, so that no count comes close to overflowing 64 bits.
pub const GREATEST_INPUT_SIZE: u32 = 4096;

/// Why there is no such network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNetwork {
    /// The name is unknown.
    #[error("`{0}` is not a network of the shipped worker")]
    UnknownName(String),
    /// The images are too small or too large.
    #[error(
        "{name} does not work on images of {input_size} pixels: expected {least} to {GREATEST_INPUT_SIZE}"
    )]
    InputSize {
        /// The network.
        name: &'static str,
        /// The side of the images, in pixels.
        input_size: u32,
        /// The smallest side that it can work on.
        least: u32,
    },
    /// The images cannot be divided into patches.
    #[error("{name} does not work on images of {input_size} pixels: expected a multiple of {patch}")]
    Patches {
        /// The network.
        name: &'static str,
        /// The side of the images, in pixels.
        input_size: u32,
        /// Side of a patch, in pixels.
        patch: u32,
    },
    /// There are no classes.
    #[error("a network of 0 classes cannot be trained: expected 1 or more")]
    NoClasses,
}

/// The network called `name` for square RGB images of `input_size` pixels and `classes` classes.
///
/// # Errors
/// No network has this name, or it does not work on such images.
pub fn network(name: &str, input_size: u32, classes: u32) -> Result<Network, NoNetwork> {
    checked(name, input_size, classes).map(|row| row.build(input_size, classes))
}

/// The name of the network, if it exists and works on such images. Cheaper than building it.
///
/// # Errors
/// As [`network`].
pub fn check(name: &str, input_size: u32, classes: u32) -> Result<&'static str, NoNetwork> {
    checked(name, input_size, classes).map(|row| row.name)
}

fn checked(name: &str, input_size: u32, classes: u32) -> Result<&'static Row, NoNetwork> {
    let row = TABLE.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| NoNetwork::UnknownName(name.to_owned()))?;
    if classes == 0 {
        return Err(NoNetwork::NoClasses);
    }
    row.check_images(input_size).map(|()| row)
}

impl Row {
    fn check_images(&self, input_size: u32) -> Result<(), NoNetwork> {
        let Row { name, images, .. } = *self;
        let (AtLeast(least) | Patches(least)) = images;
        if !(least..=GREATEST_INPUT_SIZE).contains(&input_size) {
            return Err(NoNetwork::InputSize { name, input_size, least });
        }
        match images {
            Patches(patch) if !input_size.is_multiple_of(patch) => {
                Err(NoNetwork::Patches { name, input_size, patch })
            }
            AtLeast(_) | Patches(_) => Ok(()),
        }
    }

    fn build(&self, input_size: u32, classes: u32) -> Network {
        let mut net = Builder::new(input_size);
        (self.describe)(&mut net, u64::from(classes));
        net.finish(self.name)
    }
}

/// The networks as a Markdown table, for the manual.
pub fn markdown() -> String {
    const INPUT_SIZE: u32 = 224;
    const CLASSES: u32 = 1000;
    let rows = TABLE.iter().map(|row| {
        let network = row.build(INPUT_SIZE, CLASSES);
        let parameters = network.parameters() as f64 / 1e6;
        let macs = network.forward_macs() as f64 / 1e9;
        format!("| `{}` | {parameters:.3} | {macs:.3} | {} |\n", row.name, row.images)
    });
    format!(
        "| network | parameters, millions | MACs per image, billions | side of the images, pixels |\n\
         |---|--:|--:|---|\n\
         {}\n\
         Parameters and MACs are those for {CLASSES} classes and images of {INPUT_SIZE} × {INPUT_SIZE} pixels.\n",
        rows.collect::<String>()
    )
}

impl fmt::Display for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AtLeast(1) => f.write_str("any"),
            AtLeast(least) => write!(f, "{least} or more"),
            Patches(patch) => write!(f, "a multiple of {patch}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Op, Shape};
    use super::*;

    fn imagenet(name: &str) -> Network {
        network(name, 224, 1000).unwrap()
    }

    #[test]
    fn network_finds_exactly_the_listed_names() {
        for &name in NETWORKS {
            assert_eq!(imagenet(name).name(), name);
        }
        let message = |name, size, classes| network(name, size, classes).unwrap_err().to_string();
        assert_eq!(message("resnet51", 224, 1000), "`resnet51` is not a network of the shipped worker");
        assert_eq!(
            message("alexnet", 62, 1000),
            "alexnet does not work on images of 62 pixels: expected 63 to 4096"
        );
        assert_eq!(
            message("vit_b_16", 225, 1000),
            "vit_b_16 does not work on images of 225 pixels: expected a multiple of 16"
        );
        assert_eq!(network("resnet18", 224, 0), Err(NoNetwork::NoClasses));
        assert!(network("resnet18", GREATEST_INPUT_SIZE + 1, 10).is_err());
    }

    #[test]
    fn the_least_images_leave_at_least_one_pixel() {
        for row in TABLE {
            let something_left =
                |size: &u32| row.build(*size, 10).layers().iter().all(|layer| layer.output.elements() > 0);
            let (AtLeast(least) | Patches(least)) = row.images;
            assert_eq!((1..=224).find(something_left), Some(least), "{}", row.name);
        }
    }

    #[test]
    fn the_markdown_has_costs_and_image_sizes() {
        let table = markdown();
        for row in [
            "| `alexnet` | 61.101 | 0.714 | 63 or more |",
            "| `resnet50` | 25.557 | 4.089 | any |",
            "| `vit_b_16` | 86.568 | 17.564 | a multiple of 16 |",
        ] {
            assert!(table.lines().any(|line| line == row), "{row} in {table}");
        }
        assert_eq!(table.lines().filter(|line| line.starts_with("| `")).count(), NETWORKS.len());
    }

    #[test]
    fn without_dropout_changes_probabilities_only() {
        for &name in NETWORKS {
            let (with, without) = (imagenet(name), imagenet(name).without_dropout());
            assert_eq!(without.layers().len(), with.layers().len(), "{name}");
            for (without, with) in without.layers().iter().zip(with.layers()) {
                match (&without.op, &with.op) {
                    (Op::Dropout(now), Op::Dropout(_))
                    | (Op::StochasticDepth(now), Op::StochasticDepth(_)) => {
                        assert_eq!(*now, 0.0, "{name}: {}", with.name);
                    }
                    _ => assert_eq!(without, with, "{name}"),
                }
            }
        }
    }

    #[test]
    fn layers_come_after_their_inputs_and_have_unique_names() {
        for &name in NETWORKS {
            let network = imagenet(name);
            let mut names = BTreeSet::new();
            for (index, layer) in network.layers().iter().enumerate() {
                assert!(layer.inputs.iter().all(|&input| input < index), "{name}: {}", layer.name);
                assert!(names.insert(&layer.name), "{name}: two layers are called {}", layer.name);
                assert_eq!(layer.inputs.is_empty(), index == 0, "{name}: {}", layer.name);
            }
            assert_eq!(network.layers().last().unwrap().output, Shape::features(1000), "{name}");
        }
    }

    #[test]
    fn combined_inputs_have_compatible_shapes() {
        for &name in NETWORKS {
            for layer in imagenet(name).layers() {
                let shapes = &layer.input_shapes;
                let fits = match layer.op {
                    Op::Input(_) => shapes.is_empty(),
                    Op::Add => shapes.len() == 2 && shapes[0] == shapes[1],
                    Op::Multiply => {
                        shapes.len() == 2 && shapes[1] == Shape::image(shapes[0].channels(), 1, 1)
                    }
                    Op::Concat => {
                        shapes.len() > 1 && shapes.iter().all(|shape| shape.area() == shapes[0].area())
                    }
                    Op::Conv2d(_)
                    | Op::BatchNorm2d { .. }
                    | Op::LayerNorm { .. }
                    | Op::Activate(_)
                    | Op::MaxPool2d(_)
                    | Op::AveragePool2d(_)
                    | Op::AdaptiveAveragePool2d(_)
                    | Op::Linear { .. }
                    | Op::Attention { .. }
                    | Op::Dropout(_)
                    | Op::StochasticDepth(_)
                    | Op::Scale
                    | Op::Flatten
                    | Op::Tokens
                    | Op::ClassToken
                    | Op::PositionEmbedding
                    | Op::FirstToken => shapes.len() == 1,
                };
                assert!(fits, "{name}: {} of {shapes:?}", layer.name);
            }
        }
    }
}
