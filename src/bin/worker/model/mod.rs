//! A network of `architecture` as tensors: parameters and forward pass.
//!
//! The code follows the description layer by layer and does not depend on the names of networks. Activations without
//! another reader are overwritten where torchvision's modules do the same (`inplace=True`), so that memory and time
//! are those of torchvision's networks.

mod draw;
#[cfg(test)]
mod fixture_tests;
mod layout;
mod products;
mod rounding;
mod step;
mod weights;

use orchestrate::architecture::{Layer, Network, ParameterTensor, Role};
use tch::{Device, Kind, TchError, Tensor};

use crate::failure::WorkerError;
use step::{Step, sizes};

pub(crate) use layout::{Layout, in_format};
pub(crate) use products::Products;
pub(crate) use rounding::{Rounding, longest_sum};

/// A network that can be trained.
#[derive(Debug)]
pub(crate) struct Model {
    steps: Vec<Step>,
    parameters: Vec<Tensor>,
    /// Parameters and running statistics by their names in torchvision's state dict.
    state: Vec<(String, Tensor)>,
    feature_maps: Option<Layout>,
}

impl Model {
    /// The network with freshly drawn parameters, which follow from libtorch's seeded generator.
    ///
    /// # Errors
    /// Errors of libtorch, most likely for lack of memory.
    pub(crate) fn new(network: &Network, device: Device, channels_last: bool) -> Result<Self, WorkerError> {
        Model::of_type(network, (Kind::Float, device), channels_last)
    }

    /// The same with parameters of another type: the same values, as far as it has them.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub(crate) fn of_type(
        network: &Network,
        options: (Kind, Device),
        channels_last: bool,
    ) -> Result<Self, WorkerError> {
        let tensors: Vec<ParameterTensor> =
            network.layers().iter().flat_map(Layer::parameter_tensors).collect();
        let mut drawn = draw::draw(&tensors, draw::seed()?)?.into_iter();
        let start = |_: &ParameterTensor| {
            let values = drawn.next().expect("one is drawn per parameter");
            Ok(values.f_to_kind(options.0)?)
        };
        Model::starting(network, options, channels_last, start)
    }

    /// The network with the parameters that `start` returns: on the CPU, and of the type in `options`.
    fn starting(
        network: &Network,
        options: (Kind, Device),
        channels_last: bool,
        mut start: impl FnMut(&ParameterTensor) -> Result<Tensor, WorkerError>,
    ) -> Result<Self, WorkerError> {
        let layers = network.layers();
        let mut model = Model {
            steps: Vec::with_capacity(layers.len()),
            parameters: Vec::new(),
            state: Vec::new(),
            feature_maps: None,
        };
        for (index, layer) in layers.iter().enumerate() {
            let mut step = schedule(layers, index);
            for tensor in layer.parameter_tensors() {
                let placed = in_format(&start(&tensor)?, channels_last)?.f_to(options.1)?;
                model.add_parameter(&mut step, tensor, placed.f_set_requires_grad(true)?);
            }
            model.add_running_statistics(&mut step, layer, options)?;
            model.steps.push(step);
        }
        Ok(model)
    }

    /// Gives the layer one of its parameters.
    fn add_parameter(&mut self, step: &mut Step, tensor: ParameterTensor, values: Tensor) {
        self.parameters.push(values.shallow_clone());
        self.state.push((tensor.name, values.shallow_clone()));
        match tensor.role {
            Role::Weight => step.weight = Some(values),
            Role::Bias => step.bias = Some(values),
        }
    }

    /// Adds mean 0 and variance 1, if the layer has running statistics.
    fn add_running_statistics(
        &mut self,
        step: &mut Step,
        layer: &Layer,
        options: (Kind, Device),
    ) -> Result<(), TchError> {
        let Some([mean, variance]) = layer.running_statistics() else { return Ok(()) };
        let channels = sizes(&[layer.output.channels()]);
        let start = [Tensor::f_zeros(&channels, options)?, Tensor::f_ones(&channels, options)?];
        self.state.extend([mean, variance].into_iter().zip(start.iter().map(Tensor::shallow_clone)));
        step.running = Some(start);
        Ok(())
    }

    /// From now on, linear layers and convolutions multiply half precision as [`Products::Single`].
    pub(crate) fn multiply_wide(&mut self) {
        for step in &mut self.steps {
            step.wide = true;
        }
    }

    /// Its trainable tensors.
    pub(crate) fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// The layout of the feature maps and weights of the first forward pass; `None` before it.
    pub(crate) fn feature_maps(&self) -> Option<Layout> {
        self.feature_maps
    }

    /// The network's output for `images` (batch × 3 × height × width): batch × classes, before softmax. In `training`,
    /// batch normalisation uses and records the statistics of the batch, and dropout is on.
    ///
    /// # Errors
    /// Errors of libtorch, most likely for lack of memory.
    pub(crate) fn forward(&mut self, images: &Tensor, training: bool) -> Result<Tensor, TchError> {
        self.forward_through(images, training, |_, output| output)
    }

    /// The same, but passes every layer's index and output through `pass`.
    ///
    /// # Errors
    /// As [`Model::forward`].
    pub(crate) fn forward_through(
        &mut self,
        images: &Tensor,
        training: bool,
        mut pass: impl FnMut(usize, Tensor) -> Tensor,
    ) -> Result<Tensor, TchError> {
        let mut activations: Vec<Option<Tensor>> = Vec::with_capacity(self.steps.len());
        let mut all_channels_last = true;
        for (index, step) in self.steps.iter().enumerate() {
            let output = if step.inputs.is_empty() {
                images.shallow_clone()
            } else {
                step.compute(&activations, training)?
            };
            let output = pass(index, output);
            if self.feature_maps.is_none() {
                all_channels_last &=
                    [Some(&output), step.weight.as_ref()].into_iter().flatten().all(layout::is_channels_last);
            }
            for &index in &step.free {
                activations[index] = None;
            }
            activations.push(Some(output));
        }
        self.feature_maps.get_or_insert(if all_channels_last { Layout::ChannelsLast } else { Layout::Other });
        let output = activations.pop().flatten();
        Ok(output.expect("a network has a last layer, whose output is never freed"))
    }
}

/// The layer at `index` without its tensors: its inputs, whether it may overwrite them, and the last uses of inputs.
fn schedule(layers: &[Layer], index: usize) -> Step {
    let layer = &layers[index];
    let readers = |index: usize| -> usize {
        let reads = layers.iter().flat_map(|layer| &layer.inputs);
        reads.filter(|&&input| input == index).count()
    };
    let mut free: Vec<usize> = layer.inputs.clone();
    free.dedup();
    free.retain(|input| !layers[index + 1..].iter().any(|layer| layer.inputs.contains(input)));
    // The first layer's output is the batch, which must not change.
    let in_place = layer.inputs.first().is_some_and(|&input| input > 0 && readers(input) == 1);
    Step {
        op: layer.op.clone(),
        inputs: layer.inputs.clone(),
        weight: None,
        bias: None,
        running: None,
        in_place,
        wide: false,
        free,
    }
}

/// Makes libtorch compute with `OMP_NUM_THREADS` threads, or one. Tests run in parallel, and with a pool of threads
/// each, they would only wait for one another.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the environment sets the number of threads of a test")]
fn use_test_threads() {
    let threads = std::env::var("OMP_NUM_THREADS").ok().and_then(|threads| threads.parse().ok());
    tch::set_num_threads(threads.unwrap_or(1));
}

#[cfg(test)]
mod tests {
    use orchestrate::architecture::{Op, network};

    use super::*;

    #[test]
    fn tensors_are_those_of_the_description() {
        for name in ["mobilenet_v3_small", "convnext_tiny"] {
            let network = network(name, 64, 10).unwrap();
            let model = Model::new(&network, Device::Cpu, true).unwrap();
            let shapes: Vec<Vec<i64>> = network
                .layers()
                .iter()
                .flat_map(Layer::parameter_tensors)
                .map(|tensor| sizes(&tensor.shape))
                .collect();
            assert_eq!(model.parameters().iter().map(Tensor::size).collect::<Vec<_>>(), shapes, "{name}");
            assert!(model.parameters().iter().all(|tensor| tensor.requires_grad() && tensor.is_leaf()));
        }
    }

    /// The results of such layers are in single precision, even if the network is in double precision.
    #[test]
    fn wide_layers_multiply_in_single_precision() {
        let network = network("mobilenet_v3_small", 32, 4).unwrap();
        let mut model = Model::of_type(&network, (Kind::Double, Device::Cpu), true).unwrap();
        let images = Tensor::randn([2, 3, 32, 32], (Kind::Double, Device::Cpu));
        for wide in [false, true] {
            if wide {
                model.multiply_wide();
            }
            let mut single = Vec::new();
            let look = |index: usize, output: Tensor| {
                if matches!(network.layers()[index].op, Op::Conv2d(_) | Op::Linear { .. }) {
                    single.push(output.to_kind(Kind::Float).to_kind(Kind::Double) == output);
                }
                output
            };
            let _ = tch::no_grad(|| model.forward_through(&images, false, look)).unwrap();
            assert!(single.len() > 50 && single.iter().all(|single| *single == wide), "{wide}: {single:?}");
        }
    }

    #[test]
    fn feature_maps_have_the_requested_layout() {
        let network = network("mobilenet_v3_small", 32, 4).unwrap();
        let images = Tensor::zeros([2, 3, 32, 32], (Kind::Float, Device::Cpu));
        for (channels_last, layout) in [(false, Layout::Other), (true, Layout::ChannelsLast)] {
            let mut model = Model::new(&network, Device::Cpu, channels_last).unwrap();
            let images = in_format(&images, channels_last).unwrap();
            let _ = tch::no_grad(|| model.forward(&images, false)).unwrap();
            assert_eq!(model.feature_maps(), Some(layout));
        }
    }
}
