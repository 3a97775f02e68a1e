//! Networks as data: one description of a network from which its trainable module, its parameters, its MACs and its
//! modelled memory traffic all follow. Shared with the worker.
//!
//! A [`Network`] is a list of [`Layer`]s in the order of execution, each with an [`Op`] and the layers whose outputs
//! it takes, so that every directed graph can be said: a chain, a residual block, a concatenation. Layers with
//! parameters carry the names of torchvision's state dict. Adding a network is adding a description (see `vgg.rs` for
//! a short one) and its name to [`NETWORKS`]; adding an operation is adding an [`Op`] with its shape and its
//! parameters.
//!
//! A shape is that of one image; whatever depends on the batch is multiplied by it.

mod builder;
mod cost;
mod layer;
mod mobilenet;
mod resnet;
mod vgg;

pub use layer::{Initialisation, Initialisations, Layer, Op, ParameterTensor, Role, Shape, Window};

/// Names of the networks, as torchvision spells them.
pub const NETWORKS: &[&str] = &["resnet18", "resnet50", "vgg16", "mobilenet_v2"];

/// The smallest images, in pixels, that every network can halve five times.
pub const LEAST_INPUT_SIZE: u32 = 32;

/// The network called `name` for square RGB images of `input_size` pixels and `classes` classes.
///
/// `None` if there is no such network, if the images are smaller than [`LEAST_INPUT_SIZE`], or without classes.
pub fn network(name: &str, input_size: u32, classes: u32) -> Option<Network> {
    if input_size < LEAST_INPUT_SIZE || classes == 0 {
        return None;
    }
    match name {
        "resnet18" => Some(resnet::resnet18(input_size, classes)),
        "resnet50" => Some(resnet::resnet50(input_size, classes)),
        "vgg16" => Some(vgg::vgg16(input_size, classes)),
        "mobilenet_v2" => Some(mobilenet::mobilenet_v2(input_size, classes)),
        _ => None,
    }
}

/// A network: its layers in the order of execution. The first is its input, the last its output.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    name: &'static str,
    initialisations: Initialisations,
    layers: Vec<Layer>,
}

impl Network {
    /// Its name, as torchvision spells it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How its weights start.
    pub fn initialisations(&self) -> Initialisations {
        self.initialisations
    }

    /// Its layers in the order of execution: the first is the input, the last the output, and every layer comes after
    /// those whose outputs it takes.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Trainable parameters.
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(Layer::parameters).sum()
    }

    /// Multiply-accumulates of one image's forward pass: convolutions and linear layers, without their biases, as
    /// torchvision publishes them.
    pub fn forward_macs(&self) -> u64 {
        self.layers.iter().map(Layer::macs).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn imagenet(name: &str) -> Network {
        network(name, 224, 1000).unwrap()
    }

    /// torchvision 0.26, `weights.meta["num_params"]`; for mobilenet_v2 the sum over its state dict.
    #[test]
    fn parameters_are_torchvisions() {
        for (name, parameters) in [
            ("resnet18", 11_689_512),
            ("resnet50", 25_557_032),
            ("vgg16", 138_357_544),
            ("mobilenet_v2", 3_504_872),
        ] {
            assert_eq!(imagenet(name).parameters(), parameters, "{name}");
        }
    }

    /// torchvision publishes GMAC rounded to three places (`weights.meta["_ops"]`), which for a small network is less
    /// than 0.1 %: both the exact number and its rounding are held.
    #[test]
    fn macs_are_torchvisions() {
        for (name, exact, published) in [
            ("resnet18", 1_814_073_344, "1.814"),
            ("resnet50", 4_089_184_256, "4.089"),
            ("vgg16", 15_470_264_320, "15.470"),
            ("mobilenet_v2", 300_774_272, "0.301"),
        ] {
            let macs = imagenet(name).forward_macs();
            assert_eq!(macs, exact, "{name}");
            assert_eq!(format!("{:.3}", macs as f64 / 1e9), published, "{name}");
        }
    }

    #[test]
    fn every_name_has_a_network_and_no_other_word_has() {
        for &name in NETWORKS {
            assert_eq!(imagenet(name).name(), name);
        }
        assert_eq!(network("resnet51", 224, 1000), None);
        assert_eq!(network("resnet18", 31, 1000), None);
        assert_eq!(network("resnet18", 224, 0), None);
    }

    #[test]
    fn layers_come_after_their_inputs_and_have_names_of_their_own() {
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

    /// Names from torchvision's own state dicts.
    #[test]
    fn parameter_names_are_torchvisions() {
        for (name, some, tensors) in [
            ("resnet18", &["conv1.weight", "bn1.bias", "layer2.0.downsample.1.weight", "fc.bias"][..], 62),
            (
                "resnet50",
                &["layer1.0.conv3.weight", "layer4.2.bn3.bias", "layer3.0.downsample.0.weight"],
                161,
            ),
            (
                "vgg16",
                &["features.0.weight", "features.28.bias", "classifier.3.weight", "classifier.6.bias"],
                32,
            ),
            (
                "mobilenet_v2",
                &[
                    "features.0.0.weight",
                    "features.1.conv.1.weight",
                    "features.1.conv.2.bias",
                    "features.17.conv.3.weight",
                    "features.18.0.weight",
                    "classifier.1.bias",
                ],
                158,
            ),
        ] {
            let network = imagenet(name);
            let all: BTreeSet<String> = network
                .layers()
                .iter()
                .flat_map(|layer| {
                    layer.parameter_tensors().into_iter().map(|tensor| layer.tensor_name(&tensor))
                })
                .collect();
            assert_eq!(all.len(), tensors, "{name}");
            for one in some {
                assert!(all.contains(*one), "{name}: {one}");
            }
        }
    }

    /// A convolution of which every output pixel's products are counted one by one.
    #[test]
    fn shapes_and_macs_agree_with_counting() {
        let window = Window { kernel: [3, 5], stride: [2, 1], padding: [1, 2] };
        let (height, width) = (9_i64, 7_i64);
        let mut outputs = 0;
        for top in (-1..=height + 1 - 3).step_by(2) {
            for left in -2..=width + 2 - 5 {
                assert!(top + 3 <= height + 1 && left + 5 <= width + 2);
                outputs += 1;
            }
        }
        let [out_height, out_width] = window.output([9, 7]);
        assert_eq!(out_height * out_width, outputs);
        let mut builder = builder::Builder::new(32);
        let image = builder.input();
        let conv = builder.push("conv", Op::conv(8, window).grouped(1), &[image]);
        let network = builder.finish("tiny", Initialisations::RESNET);
        let layer = &network.layers()[conv.index()];
        let [height, width] = window.output([32, 32]);
        assert_eq!(layer.output, Shape::image(8, height, width));
        assert_eq!(layer.macs(), 8 * height * width * 3 * 3 * 5);
        assert_eq!(layer.parameters(), 8 * 3 * 3 * 5);
    }
}
