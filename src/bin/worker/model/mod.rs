//! A network of `architecture` as tensors: parameters and forward pass.
//!
//! The description is followed layer by layer; nothing here knows a network by name. Activations that nobody else
//! reads are overwritten where torchvision's modules do the same (`inplace=True`), so that the memory and the time are
//! those of torchvision's own networks.

mod draw;
#[cfg(test)]
mod fixture_tests;
mod layout;
mod step;
mod weights;

use orchestrate::architecture::{Layer, Network, ParameterTensor, Role};
use tch::{Device, Kind, TchError, Tensor};

use crate::failure::WorkerError;
use step::{Step, sizes};

pub(crate) use layout::{Layout, in_format};

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
    /// The network with freshly drawn parameters, which follow from `tch::manual_seed`'s state.
    ///
    /// # Errors
    /// libtorch's, for want of memory most likely.
    pub(crate) fn new(network: &Network, device: Device, channels_last: bool) -> Result<Self, WorkerError> {
        let tensors: Vec<ParameterTensor> =
            network.layers().iter().flat_map(Layer::parameter_tensors).collect();
        let mut drawn = draw::draw(&tensors, draw::seed()?)?.into_iter();
        let start = |_: &ParameterTensor| Ok(drawn.next().expect("as many are drawn as there are"));
        Model::starting(network, device, channels_last, start)
    }

    /// The network with the parameters that `start` gives it, single precision on the processor.
    fn starting(
        network: &Network,
        device: Device,
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
                let placed = in_format(&start(&tensor)?, channels_last)?.f_to(device)?;
                model.add_parameter(&mut step, tensor, placed.f_set_requires_grad(true)?);
            }
            model.add_running_statistics(&mut step, layer, device)?;
            model.steps.push(step);
        }
        Ok(model)
    }

    /// Hands the layer one of its parameters.
    fn add_parameter(&mut self, step: &mut Step, tensor: ParameterTensor, values: Tensor) {
        self.parameters.push(values.shallow_clone());
        self.state.push((tensor.name, values.shallow_clone()));
        match tensor.role {
            Role::Weight => step.weight = Some(values),
            Role::Bias => step.bias = Some(values),
        }
    }

    /// Mean 0 and variance 1, where the layer keeps them.
    fn add_running_statistics(
        &mut self,
        step: &mut Step,
        layer: &Layer,
        device: Device,
    ) -> Result<(), TchError> {
        let Some([mean, variance]) = layer.running_statistics() else { return Ok(()) };
        let (channels, options) = (sizes(&[layer.output.channels()]), (Kind::Float, device));
        let start = [Tensor::f_zeros(&channels, options)?, Tensor::f_ones(&channels, options)?];
        self.state.extend([mean, variance].into_iter().zip(start.iter().map(Tensor::shallow_clone)));
        step.running = Some(start);
        Ok(())
    }

    /// Its trainable tensors.
    pub(crate) fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// The layout of the feature maps of the first forward pass, weights among them; `None` before it.
    pub(crate) fn feature_maps(&self) -> Option<Layout> {
        self.feature_maps
    }

    /// The network's output for `images` (batch × 3 × height × width): batch × classes, before softmax. In `training`,
    /// normalisation takes the batch's own statistics and keeps them, and dropout draws.
    ///
    /// # Errors
    /// libtorch's, for want of memory most likely.
    pub(crate) fn forward(&mut self, images: &Tensor, training: bool) -> Result<Tensor, TchError> {
        let mut activations: Vec<Option<Tensor>> = Vec::with_capacity(self.steps.len());
        let mut all_channels_last = true;
        for step in &self.steps {
            let output = if step.inputs.is_empty() {
                images.shallow_clone()
            } else {
                step.compute(&activations, training)?
            };
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
        Ok(output.expect("a network has a last layer, whose output nobody frees"))
    }
}

/// The layer at `index` without its tensors: what it reads, what it may write over, what it is the last to read.
fn schedule(layers: &[Layer], index: usize) -> Step {
    let layer = &layers[index];
    let readers = |index: usize| -> usize {
        let reads = layers.iter().flat_map(|layer| &layer.inputs);
        reads.filter(|&&input| input == index).count()
    };
    let mut free: Vec<usize> = layer.inputs.clone();
    free.dedup();
    free.retain(|input| !layers[index + 1..].iter().any(|layer| layer.inputs.contains(input)));
    // The first layer's output is the batch, which belongs to somebody else.
    let in_place = layer.inputs.first().is_some_and(|&input| input > 0 && readers(input) == 1);
    Step {
        op: layer.op.clone(),
        inputs: layer.inputs.clone(),
        weight: None,
        bias: None,
        running: None,
        in_place,
        free,
    }
}

#[cfg(test)]
mod tests {
    use orchestrate::architecture::network;

    use super::*;

    fn tiny(name: &str, channels_last: bool) -> Model {
        // Tests run side by side: a pool of threads for each would only make them wait for one another.
        tch::set_num_threads(1);
        Model::new(&network(name, 64, 10).unwrap(), Device::Cpu, channels_last).unwrap()
    }

    /// Numbers from -1 to 1 that look random and are exactly the same everywhere.
    fn pattern(size: &[i64]) -> Tensor {
        let n = Tensor::arange(size.iter().product::<i64>(), (Kind::Int64, Device::Cpu));
        let mixed = (&n * &n * 7919 + &n * 104_729).remainder(65_537);
        (mixed.to_kind(Kind::Float) / 32_768.0 - 1.0).reshape(size)
    }

    fn fill(model: &Model) {
        tch::no_grad(|| {
            for parameter in model.parameters() {
                let scale = (2.0 / (parameter.numel() as f64 / parameter.size()[0] as f64).max(4.0)).sqrt();
                let values = if parameter.dim() == 1 {
                    pattern(&parameter.size()) * 0.1 + 1.0
                } else {
                    pattern(&parameter.size()) * scale
                };
                parameter.shallow_clone().copy_(&values);
            }
        });
    }

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

    #[test]
    fn memory_format_changes_no_number() {
        for name in ["resnet18", "squeezenet1_1"] {
            let images = pattern(&[8, 3, 64, 64]);
            let [planar, packed] = [false, true].map(|channels_last| {
                let mut model = tiny(name, channels_last);
                fill(&model);
                let output = model.forward(&in_format(&images, channels_last).unwrap(), true).unwrap();
                let layout = if channels_last { Layout::ChannelsLast } else { Layout::Other };
                assert_eq!(model.feature_maps(), Some(layout), "{name}");
                assert_eq!(output.size(), [8, 10]);
                output.sum(Kind::Float).backward();
                assert!(model.parameters().iter().all(|parameter| parameter.grad().defined()), "{name}");
                output
            });
            // Dropout draws in the order of memory, so that squeezenet's numbers cannot be the same.
            if name == "resnet18" {
                let difference = (&planar - &packed).abs().max().double_value(&[]);
                assert!(difference < 1e-3 * planar.abs().max().double_value(&[]), "{name}: {difference}");
            }
        }
    }

    /// The slope of the loss along its gradient, against the difference quotient.
    #[test]
    fn gradients_are_slopes() {
        let images = pattern(&[8, 3, 64, 64]);
        let labels = Tensor::arange(8, (Kind::Int64, Device::Cpu));
        let mut model = tiny("resnet18", true);
        fill(&model);
        let loss =
            |model: &mut Model| model.forward(&images, true).unwrap().cross_entropy_for_logits(&labels);
        loss(&mut model).backward();
        let gradients: Vec<Tensor> = model.parameters().iter().map(Tensor::grad).collect();
        let square: f64 = gradients.iter().map(|g| g.square().sum(Kind::Double).double_value(&[])).sum();
        let step = 1e-2 / square.sqrt();
        let moved = |model: &mut Model, by: f64| {
            tch::no_grad(|| {
                for (parameter, gradient) in model.parameters().iter().zip(&gradients) {
                    let _ = parameter.shallow_clone().g_add_(&(gradient * by));
                }
                loss(model).double_value(&[])
            })
        };
        let above = moved(&mut model, step);
        let below = moved(&mut model, -2.0 * step);
        let slope = (above - below) / (2.0 * step);
        assert!((slope / square - 1.0).abs() < 0.05, "slope {slope}, gradient squared {square}");
    }

    /// Three steps of PyTorch 2.11.0 with torchvision 0.26.0 from the same pattern of weights and pixels: the losses that
    /// `torch.optim.SGD(lr=0.01, momentum=0.9, weight_decay=1e-4)` gives. The numbers are as PyTorch printed them.
    #[test]
    fn losses_are_pytorchs() {
        let images = in_format(&pattern(&[8, 3, 64, 64]), true).unwrap();
        let labels = Tensor::arange(8, (Kind::Int64, Device::Cpu));
        let mut model = tiny("resnet18", true);
        fill(&model);
        let optimizer = crate::optimizer::Optimizer::new(model.parameters(), false).unwrap();
        for expected in [3.367_926_6, 1.272_442_3, 1.070_759_4] {
            let loss = model.forward(&images, true).unwrap().cross_entropy_for_logits(&labels);
            optimizer.backward(&loss, 1.0).unwrap();
            optimizer.step().unwrap();
            let loss = loss.double_value(&[]);
            assert!((loss - expected).abs() < 1e-3 * expected, "{loss}, PyTorch {expected}");
        }
    }
}
