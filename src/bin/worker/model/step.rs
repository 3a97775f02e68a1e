//! One layer of a network as libtorch's operations.

use orchestrate::architecture::{Activation, Conv2d, Op, Window};
use tch::{TchError, Tensor};

use crate::shim::{self, Course};

/// One layer, with its tensors and its place in the schedule of activations.
#[derive(Debug)]
pub(super) struct Step {
    /// Its operation.
    pub(super) op: Op,
    /// The layers whose outputs it takes.
    pub(super) inputs: Vec<usize>,
    /// Its kernel, matrix, scale, or the parameter itself.
    pub(super) weight: Option<Tensor>,
    /// Its bias.
    pub(super) bias: Option<Tensor>,
    /// The running mean and variance of batch normalisation.
    pub(super) running: Option<[Tensor; 2]>,
    /// Whether it may overwrite its first input, because no other layer reads that.
    pub(super) in_place: bool,
    /// Whether it multiplies half precision in single precision.
    pub(super) wide: bool,
    /// Activations that no later step reads.
    pub(super) free: Vec<usize>,
}

impl Step {
    /// The layer's output, given those of the layers before it. In `training`, batch normalisation uses the statistics
    /// of the batch, and dropout is on.
    ///
    /// # Errors
    /// Errors of libtorch, most likely for lack of memory.
    pub(super) fn compute(&self, activations: &[Option<Tensor>], training: bool) -> Result<Tensor, TchError> {
        let take = |index: usize| -> &Tensor {
            activations[self.inputs[index]]
                .as_ref()
                .expect("an activation is freed only after its last reader")
        };
        let x = take(0);
        match &self.op {
            Op::Input(_) => Ok(x.shallow_clone()),
            Op::Conv2d(convolution) => self.convolve(convolution, x),
            Op::BatchNorm2d { epsilon, momentum } => {
                let [mean, variance] = self.running.as_ref().expect("a normalisation has running statistics");
                let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
                x.f_batch_norm(weight, bias, Some(mean), Some(variance), training, *momentum, *epsilon, true)
            }
            Op::LayerNorm { epsilon } => pixelwise(x, |x| {
                let channels = self.weight().size();
                x.f_layer_norm(channels, self.weight.as_ref(), self.bias.as_ref(), *epsilon, true)
            }),
            Op::Linear { .. } => pixelwise(x, |x| {
                let (weight, bias) = (self.weight(), self.bias.as_ref());
                if self.wide { shim::wide_linear(x, weight, bias) } else { x.f_linear(weight, bias) }
            }),
            Op::Activate(activation) => self.activate(*activation, x),
            Op::MaxPool2d(Window { kernel, stride, padding, ceil }) => {
                x.f_max_pool2d(sizes(kernel), sizes(stride), sizes(padding), [1_i64, 1], *ceil)
            }
            Op::AveragePool2d(Window { kernel, stride, padding, ceil }) => {
                x.f_avg_pool2d(sizes(kernel), sizes(stride), sizes(padding), *ceil, true, None::<i64>)
            }
            // Averages over windows of one pixel are the pixels themselves.
            Op::AdaptiveAveragePool2d(size) if x.size()[2..] == sizes(size)[..] => Ok(x.shallow_clone()),
            Op::AdaptiveAveragePool2d(size) => x.f_adaptive_avg_pool2d(sizes(size)),
            Op::Attention { heads } => {
                attention(x, i64::try_from(*heads).expect("heads are at most channels"))
            }
            Op::Dropout(probability) => x.f_dropout(*probability, training),
            Op::StochasticDepth(probability) => stochastic_depth(x, *probability, training),
            Op::Add if self.in_place => x.shallow_clone().f_add_(take(1)),
            Op::Add => x.f_add(take(1)),
            Op::Multiply => x.f_mul(take(1)),
            Op::Concat => {
                let inputs: Vec<&Tensor> = (0..self.inputs.len()).map(take).collect();
                Tensor::f_cat(&inputs, 1)
            }
            Op::Scale => x.f_mul(self.weight()),
            Op::Flatten => x.f_flatten(1, -1),
            Op::Tokens => x.f_flatten(2, 3)?.f_transpose(1, 2),
            Op::ClassToken => {
                let token = self.weight().f_expand([x.size()[0], -1, -1], true)?;
                Tensor::f_cat(&[&token, x], 1)
            }
            Op::PositionEmbedding => x.f_add(self.weight()),
            Op::FirstToken => x.f_select(1, 0),
        }
    }

    fn convolve(&self, convolution: &Conv2d, x: &Tensor) -> Result<Tensor, TchError> {
        let Conv2d { window: Window { stride, padding, .. }, groups, .. } = convolution;
        let (weight, bias) = (self.weight(), self.bias.as_ref());
        let (stride, padding, groups) = (stride.map(size), padding.map(size), size(*groups));
        if self.wide {
            return shim::wide_conv2d(x, weight, bias, Course { stride, padding, groups });
        }
        x.f_conv2d(weight, bias, stride, padding, [1_i64, 1], groups)
    }

    fn weight(&self) -> &Tensor {
        self.weight.as_ref().expect("a layer of this kind has a weight")
    }

    /// Only a function whose gradient follows from its result can overwrite its input. Any other would have to copy it
    /// first.
    fn activate(&self, activation: Activation, x: &Tensor) -> Result<Tensor, TchError> {
        match activation {
            Activation::Relu if self.in_place => x.shallow_clone().f_relu_(),
            Activation::Relu => x.f_relu(),
            Activation::Relu6 if self.in_place => x.shallow_clone().f_relu6_(),
            Activation::Relu6 => x.f_relu6(),
            Activation::Hardswish => x.f_hardswish(),
            Activation::Hardsigmoid => x.f_hardsigmoid(),
            Activation::Sigmoid => x.f_sigmoid(),
            Activation::Silu => x.f_silu(),
            Activation::Gelu => x.f_gelu("none"),
        }
    }
}

/// `compute` over the channels: the last dimension, after a permutation for feature maps. Nothing is copied.
fn pixelwise(
    x: &Tensor,
    compute: impl FnOnce(&Tensor) -> Result<Tensor, TchError>,
) -> Result<Tensor, TchError> {
    if x.dim() == 4 { compute(&x.f_permute([0, 2, 3, 1])?)?.f_permute([0, 3, 1, 2]) } else { compute(x) }
}

/// Attention of tokens (batch × tokens × 3·channels: queries, keys, values): batch × tokens × channels.
fn attention(x: &Tensor, heads: i64) -> Result<Tensor, TchError> {
    let [batch, tokens, packed] = x.size()[..] else {
        unreachable!("attention takes tokens, as the description of the network says");
    };
    let channels = packed / 3;
    let parts =
        x.f_view([batch, tokens, 3, heads, channels / heads])?.f_permute([2, 0, 3, 1, 4])?.f_unbind(0)?;
    let [query, key, value] = &parts[..] else {
        unreachable!("the dimension that was taken apart has three")
    };
    let (mask, dropout, causal) = (None::<Tensor>, 0.0, false);
    let values =
        Tensor::f_scaled_dot_product_attention(query, key, value, mask, dropout, causal, None::<f64>, false)?;
    values.f_transpose(1, 2)?.f_reshape([batch, tokens, channels])
}

/// torchvision's `stochastic_depth` in mode `row`: keeps each whole image with probability 1 − `probability`, and
/// divides it by that.
fn stochastic_depth(x: &Tensor, probability: f64, training: bool) -> Result<Tensor, TchError> {
    if !training || probability == 0.0 {
        return Ok(x.shallow_clone());
    }
    let kept = 1.0 - probability;
    let mut shape = vec![1; x.dim()];
    shape[0] = x.size()[0];
    let mut noise = Tensor::f_empty(&shape, (x.f_kind()?, x.device()))?.f_bernoulli_float_(kept)?;
    x.f_mul(&noise.f_div_scalar_(kept)?)
}

/// Extents in libtorch's type.
pub(super) fn sizes(extents: &[u64]) -> Vec<i64> {
    extents.iter().copied().map(size).collect()
}

fn size(extent: u64) -> i64 {
    i64::try_from(extent).expect("no extent comes near 2^63")
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    /// Attention by its definition: softmax of scaled products.
    #[test]
    fn attention_is_that_of_the_paper() {
        let (batch, tokens, heads, width) = (2, 5, 3, 4);
        tch::manual_seed(3);
        let x = Tensor::randn([batch, tokens, 3 * heads * width], (Kind::Float, Device::Cpu));
        let found = attention(&x, heads).unwrap();
        let channels = heads * width;
        for head in 0..heads {
            let part = |which: i64| x.narrow(2, which * channels + head * width, width);
            let scores = part(0).matmul(&part(1).transpose(1, 2)) / (width as f64).sqrt();
            let expected = scores.softmax(-1, Kind::Float).matmul(&part(2));
            let difference = found.narrow(2, head * width, width) - expected;
            assert!(difference.abs().max().double_value(&[]) < 1e-5);
        }
    }

    #[test]
    fn stochastic_depth_keeps_or_drops_whole_images() {
        tch::manual_seed(5);
        let images = 2000;
        let x = Tensor::ones([images, 2, 3, 3], (Kind::Float, Device::Cpu));
        let out = stochastic_depth(&x, 0.2, true).unwrap();
        let means = Vec::<f32>::try_from(out.mean_dim([1, 2, 3].as_slice(), false, Kind::Float)).unwrap();
        assert!(means.iter().all(|mean| *mean == 0.0 || (mean - 1.25).abs() < 1e-6), "{means:?}");
        // Binomial with mean 1600 and standard deviation 18; the seed is fixed.
        let kept = means.iter().filter(|mean| **mean > 0.0).count();
        assert!((1520..1680).contains(&kept), "{kept}");
        for (probability, training) in [(0.2, false), (0.0, true)] {
            assert_eq!(stochastic_depth(&x, probability, training).unwrap(), x);
        }
    }
}
