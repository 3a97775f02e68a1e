//! A network of `architecture` as tensors: initialisation and forward pass.
//!
//! The description is followed layer by layer; nothing here knows a network by name. Activations that nobody else
//! reads are overwritten where torchvision's modules do the same (`inplace=True`), so that the memory and the time are
//! those of torchvision's own networks.

use orchestrate::architecture::{Initialisation, Initialisations, Layer, Network, Op, Role, Window};
use tch::{Device, Kind, TchError, Tensor};

/// A network that can be trained.
#[derive(Debug)]
pub(crate) struct Model {
    steps: Vec<Step>,
    parameters: Vec<Tensor>,
    feature_maps: Option<Layout>,
}

/// The order of the elements of feature maps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All in NHWC order.
    ChannelsLast,
    /// Some, or all, not.
    Other,
}

/// One layer, with its tensors and what the schedule of activations says of it.
#[derive(Debug)]
struct Step {
    op: Op,
    inputs: Vec<usize>,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    /// Mean and variance that batch normalisation keeps for later inference.
    running: Option<(Tensor, Tensor)>,
    /// Whether it may write over its first input: nobody else reads that.
    in_place: bool,
    /// Activations that nobody reads after this step.
    free: Vec<usize>,
}

impl Model {
    /// The network with freshly drawn parameters: drawn on the processor from `tch::manual_seed`'s state, so that a
    /// seed means the same weights on every device.
    ///
    /// # Errors
    /// libtorch's, for want of memory most likely.
    pub(crate) fn new(network: &Network, device: Device, channels_last: bool) -> Result<Self, TchError> {
        let layers = network.layers();
        let readers = |index: usize| layers.iter().filter(|layer| layer.inputs.contains(&index)).count();
        let mut steps = Vec::with_capacity(layers.len());
        let mut parameters = Vec::new();
        for (index, layer) in layers.iter().enumerate() {
            let later = &layers[index + 1..];
            let mut free: Vec<usize> = layer.inputs.clone();
            free.dedup();
            free.retain(|input| !later.iter().any(|layer| layer.inputs.contains(input)));
            let in_place = layer.inputs.first().is_some_and(|&input| {
                input > 0
                    && readers(input) == 1
                    && layer.inputs.iter().filter(|&&other| other == input).count() == 1
            });
            let mut step = Step {
                op: layer.op.clone(),
                inputs: layer.inputs.clone(),
                weight: None,
                bias: None,
                running: None,
                in_place,
                free,
            };
            step.draw(layer, network.initialisations(), device, channels_last)?;
            parameters.extend([&step.weight, &step.bias].into_iter().flatten().map(Tensor::shallow_clone));
            steps.push(step);
        }
        Ok(Model { steps, parameters, feature_maps: None })
    }

    /// Its trainable tensors.
    pub(crate) fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// The layout of the feature maps of the first forward pass, weights among them; `None` before it.
    pub(crate) fn feature_maps(&self) -> Option<Layout> {
        self.feature_maps
    }

    /// The network's output for `images` (batch × 3 × height × width) in training: batch × classes, before softmax.
    ///
    /// # Errors
    /// libtorch's, for want of memory most likely.
    pub(crate) fn forward(&mut self, images: &Tensor) -> Result<Tensor, TchError> {
        let mut activations: Vec<Option<Tensor>> = Vec::with_capacity(self.steps.len());
        let mut all_channels_last = true;
        for step in &self.steps {
            let output = match step.op {
                Op::Input(_) => images.shallow_clone(),
                _ => step.compute(&mut activations)?,
            };
            if self.feature_maps.is_none() {
                all_channels_last &= [Some(&output), step.weight.as_ref()]
                    .into_iter()
                    .flatten()
                    .all(|tensor| is_channels_last(&tensor.size(), &tensor.stride()));
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

impl Step {
    /// Draws the layer's tensors.
    fn draw(
        &mut self,
        layer: &Layer,
        initialisations: Initialisations,
        device: Device,
        channels_last: bool,
    ) -> Result<(), TchError> {
        for tensor in layer.parameter_tensors() {
            let shape = sizes(&tensor.shape);
            let drawn = match (&layer.op, tensor.role) {
                (Op::Conv2d { .. }, role) => draw(initialisations.convolution, role, &shape, layer)?,
                (Op::Linear { .. }, role) => draw(initialisations.linear, role, &shape, layer)?,
                (_, Role::Weight) => Tensor::f_ones(&shape, (Kind::Float, Device::Cpu))?,
                (_, Role::Bias) => Tensor::f_zeros(&shape, (Kind::Float, Device::Cpu))?,
            };
            let placed = in_format(&drawn, channels_last)?.f_to(device)?.f_set_requires_grad(true)?;
            match tensor.role {
                Role::Weight => self.weight = Some(placed),
                Role::Bias => self.bias = Some(placed),
            }
        }
        if layer.op == Op::BatchNorm2d {
            let channels = sizes(&[layer.output.channels()]);
            let options = (Kind::Float, device);
            self.running = Some((Tensor::f_zeros(&channels, options)?, Tensor::f_ones(&channels, options)?));
        }
        Ok(())
    }

    /// The layer's output, given those of the layers before it.
    fn compute(&self, activations: &mut [Option<Tensor>]) -> Result<Tensor, TchError> {
        let take = |index: usize| -> &Tensor {
            activations[index].as_ref().expect("an activation is freed only after its last reader")
        };
        let x = take(self.inputs[0]);
        match &self.op {
            Op::Input(_) => Ok(x.shallow_clone()),
            Op::Conv2d { window: Window { stride, padding, .. }, groups, .. } => {
                let weight = self.weight.as_ref().expect("a convolution has a weight");
                let groups = i64::try_from(*groups).expect("groups are at most channels");
                x.f_conv2d(weight, self.bias.as_ref(), sizes(stride), sizes(padding), [1_i64, 1], groups)
            }
            Op::BatchNorm2d => {
                let (mean, variance) = self.running.as_ref().expect("a normalisation has running statistics");
                let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
                x.f_batch_norm(weight, bias, Some(mean), Some(variance), true, 0.1, 1e-5, true)
            }
            Op::Relu if self.in_place => x.shallow_clone().f_relu_(),
            Op::Relu => x.f_relu(),
            Op::Relu6 if self.in_place => x.shallow_clone().f_relu6_(),
            Op::Relu6 => x.f_relu6(),
            Op::MaxPool2d(Window { kernel, stride, padding }) => {
                x.f_max_pool2d(sizes(kernel), sizes(stride), sizes(padding), [1_i64, 1], false)
            }
            // Averages over windows of one pixel are the pixels.
            Op::AdaptiveAveragePool2d(size) if x.size()[2..] == sizes(size)[..] => Ok(x.shallow_clone()),
            Op::AdaptiveAveragePool2d(size) => x.f_adaptive_avg_pool2d(sizes(size)),
            Op::Linear { .. } => {
                let weight = self.weight.as_ref().expect("a linear layer has a weight");
                x.f_linear(weight, self.bias.as_ref())
            }
            Op::Dropout(probability) => x.f_dropout(*probability, true),
            Op::Add if self.in_place => x.shallow_clone().f_add_(take(self.inputs[1])),
            Op::Add => x.f_add(take(self.inputs[1])),
            Op::Flatten => x.f_flatten(1, -1),
        }
    }
}

/// A parameter drawn on the processor.
fn draw(
    initialisation: Initialisation,
    role: Role,
    shape: &[i64],
    layer: &Layer,
) -> Result<Tensor, TchError> {
    let mut tensor = Tensor::f_zeros(shape, (Kind::Float, Device::Cpu))?;
    let weight = &layer.parameter_tensors()[0].shape;
    match (initialisation, role) {
        (Initialisation::KaimingNormalFanOut, Role::Weight) => {
            let fan_out = weight[0] * weight[2..].iter().product::<u64>();
            tensor.f_normal_(0.0, (2.0 / fan_out as f64).sqrt())
        }
        (Initialisation::Normal(deviation), Role::Weight) => tensor.f_normal_(0.0, deviation),
        (Initialisation::UniformFanIn, _) => {
            let bound = 1.0 / (weight[1..].iter().product::<u64>() as f64).sqrt();
            tensor.f_uniform_(-bound, bound)
        }
        (Initialisation::KaimingNormalFanOut | Initialisation::Normal(_), Role::Bias) => Ok(tensor),
    }
}

/// `tensor` with its elements in NHWC order if it has four dimensions and `channels_last` asks for it.
pub(crate) fn in_format(tensor: &Tensor, channels_last: bool) -> Result<Tensor, TchError> {
    let size = tensor.size();
    let [_, channels, height, width] = size[..] else { return Ok(tensor.shallow_clone()) };
    if !channels_last {
        return Ok(tensor.shallow_clone());
    }
    let stride = [height * width * channels, 1, width * channels, channels];
    let mut nhwc = Tensor::f_empty_strided(&size, stride, (tensor.f_kind()?, tensor.device()))?;
    nhwc.f_copy_(tensor)?;
    Ok(nhwc)
}

/// Whether elements of one pixel lie side by side. Of fewer than four dimensions, or where one channel or one pixel
/// leaves nothing to tell, nothing contradicts it.
fn is_channels_last(size: &[i64], stride: &[i64]) -> bool {
    let [_, channels, height, width] = size[..] else { return true };
    if channels == 1 || height * width == 1 {
        return true;
    }
    stride[1] == 1 && (width == 1 || stride[3] == channels) && (height == 1 || stride[2] == width * channels)
}

/// Extents as libtorch counts them.
fn sizes(extents: &[u64]) -> Vec<i64> {
    extents.iter().map(|&extent| i64::try_from(extent).expect("no extent comes near 2^63")).collect()
}

#[cfg(test)]
mod tests {
    use orchestrate::architecture::{NETWORKS, network};

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
        for &name in NETWORKS {
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

    /// Dropout draws, so the networks with it are compared by their shape alone.
    #[test]
    fn memory_format_changes_no_number() {
        for &name in NETWORKS {
            let images = pattern(&[8, 3, 64, 64]);
            let [planar, packed] = [false, true].map(|channels_last| {
                let mut model = tiny(name, channels_last);
                fill(&model);
                let output = model.forward(&in_format(&images, channels_last).unwrap()).unwrap();
                let layout = if channels_last { Layout::ChannelsLast } else { Layout::Other };
                assert_eq!(model.feature_maps(), Some(layout), "{name}");
                assert_eq!(output.size(), [8, 10]);
                output.sum(Kind::Float).backward();
                assert!(model.parameters().iter().all(|parameter| parameter.grad().defined()), "{name}");
                output
            });
            if name.starts_with("resnet") {
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
        let loss = |model: &mut Model| model.forward(&images).unwrap().cross_entropy_for_logits(&labels);
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
            let loss = model.forward(&images).unwrap().cross_entropy_for_logits(&labels);
            optimizer.backward(&loss, 1.0).unwrap();
            optimizer.step().unwrap();
            let loss = loss.double_value(&[]);
            assert!((loss - expected).abs() < 1e-3 * expected, "{loss}, PyTorch {expected}");
        }
    }

    /// As torchvision's constructors: √(2 ÷ fan-out), and ±1 ÷ √inputs.
    #[test]
    fn weights_start_as_torchvisions() {
        tch::manual_seed(1);
        let model = Model::new(&network("resnet18", 32, 1000).unwrap(), Device::Cpu, false).unwrap();
        let deviation = |tensor: &Tensor| tensor.std(false).double_value(&[]);
        let by_shape = |shape: &[i64]| {
            model
                .parameters()
                .iter()
                .find(|tensor| tensor.size() == shape)
                .expect("resnet18 has such a tensor")
        };
        let conv = deviation(by_shape(&[512, 512, 3, 3]));
        assert!((conv / (2.0_f64 / (512.0 * 9.0)).sqrt() - 1.0).abs() < 0.01, "{conv}");
        let head = by_shape(&[1000, 512]);
        let bound = 1.0 / 512.0_f64.sqrt();
        assert!(head.abs().max().double_value(&[]) <= bound);
        assert!((deviation(head) / (bound / 3.0_f64.sqrt()) - 1.0).abs() < 0.01);
    }

    #[test]
    fn strides_tell_the_layout() {
        let planar = pattern(&[2, 3, 4, 5]);
        let packed = in_format(&planar, true).unwrap();
        assert_eq!(packed.stride(), [60, 1, 15, 3]);
        assert!(is_channels_last(&packed.size(), &packed.stride()));
        assert!(!is_channels_last(&planar.size(), &planar.stride()));
        assert_eq!((&planar - &packed).abs().max().double_value(&[]), 0.0);
        assert!(is_channels_last(&[2, 3, 1, 1], &[3, 1, 1, 1]));
    }
}
