//! SGD with momentum, and the loss scale that fp16 needs.

use tch::{Kind, TchError, Tensor, no_grad};

use super::failure::WorkerError;
use super::shim::{self, Sgd};

/// PyTorch's usual choice for these networks, for short bursts from fresh weights.
const SGD: Sgd = Sgd { learning_rate: 0.01, momentum: 0.9, weight_decay: 1e-4 };

/// The first loss scale of PyTorch's GradScaler.
const FIRST_SCALE: f64 = 65536.0;

/// SGD with momentum over all parameters of a model.
#[derive(Debug)]
pub(crate) struct Optimizer {
    parameters: Vec<Tensor>,
    momenta: Vec<Tensor>,
    scale: Option<LossScale>,
}

/// What the loss is multiplied by so that gradients do not vanish in fp16, and since how many steps it has been good.
#[derive(Debug)]
struct LossScale {
    scale: Tensor,
    growth_tracker: Tensor,
}

impl Optimizer {
    /// An optimizer of `parameters`, with a loss scale if `scaled`.
    ///
    /// # Errors
    /// libtorch's, for want of memory most likely.
    pub(crate) fn new(parameters: &[Tensor], scaled: bool) -> Result<Self, TchError> {
        let momenta =
            no_grad(|| parameters.iter().map(Tensor::f_zeros_like).collect::<Result<Vec<_>, TchError>>())?;
        let device = parameters.first().map_or(tch::Device::Cpu, Tensor::device);
        let scale = scaled
            .then(|| -> Result<LossScale, TchError> {
                let scale = Tensor::f_ones([1_i64], (Kind::Float, device))?.f_mul_scalar(FIRST_SCALE)?;
                Ok(LossScale { scale, growth_tracker: Tensor::f_zeros([1_i64], (Kind::Int, device))? })
            })
            .transpose()?;
        let parameters = parameters.iter().map(Tensor::shallow_clone).collect();
        Ok(Optimizer { parameters, momenta, scale })
    }

    /// Adds the gradients of `loss`, times `share`, to those the parameters have.
    ///
    /// # Errors
    /// libtorch's, for want of memory most likely.
    pub(crate) fn backward(&self, loss: &Tensor, share: f64) -> Result<(), TchError> {
        let mut loss = loss.shallow_clone();
        if share != 1.0 {
            loss = loss.f_mul_scalar(share)?;
        }
        if let Some(LossScale { scale, .. }) = &self.scale {
            loss = loss.f_mul(scale)?;
        }
        loss.f_backward()
    }

    /// One step; afterwards no parameter has a gradient.
    ///
    /// # Errors
    /// libtorch's.
    pub(crate) fn step(&self) -> Result<(), WorkerError> {
        let scale = self.scale.as_ref().map(|scale| (&scale.scale, &scale.growth_tracker));
        shim::sgd_step(SGD, &self.parameters, &self.momenta, scale)
    }

    /// What it does, as one phrase for the measurement.
    pub(crate) fn describe(&self) -> String {
        let Sgd { learning_rate, momentum, weight_decay } = SGD;
        let scaled = if self.scale.is_some() { ", dynamic loss scale" } else { "" };
        format!(
            "fused SGD, learning rate {learning_rate}, momentum {momentum}, weight decay {weight_decay}{scaled}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(values: &[f32]) -> Tensor {
        Tensor::from_slice(values).set_requires_grad(true)
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(&tensor.detach()).unwrap()
    }

    /// PyTorch's documented rule, by hand: g ← g + λp; v ← μv + g; p ← p − ηv.
    #[test]
    fn steps_follow_the_rule() {
        let start = [1.0_f32, -2.0];
        let weight = parameter(&start);
        let optimizer = Optimizer::new(&[weight.shallow_clone()], false).unwrap();
        let (mut p, mut v) = (start.map(f64::from), [0.0; 2]);
        for step in 1..=3 {
            let factor = f64::from(step);
            let loss = (&weight * &weight).sum(Kind::Float) * factor;
            optimizer.backward(&loss, 0.5).unwrap();
            optimizer.step().unwrap();
            for index in 0..2 {
                let gradient = 0.5 * factor * 2.0 * p[index] + 1e-4 * p[index];
                v[index] = 0.9 * v[index] + gradient;
                p[index] -= 0.01 * v[index];
            }
            assert!(!weight.grad().defined());
        }
        for (got, expected) in values(&weight).into_iter().zip(p) {
            assert!((f64::from(got) - expected).abs() < 1e-6, "{got} {expected}");
        }
    }

    #[test]
    fn a_loss_scale_changes_nothing_but_skips_what_overflowed() {
        let (plain, scaled) = (parameter(&[1.0, -2.0]), parameter(&[1.0, -2.0]));
        let optimizers = [
            Optimizer::new(&[plain.shallow_clone()], false).unwrap(),
            Optimizer::new(&[scaled.shallow_clone()], true).unwrap(),
        ];
        for (optimizer, weight) in optimizers.iter().zip([&plain, &scaled]) {
            optimizer.backward(&(weight * weight).sum(Kind::Float), 1.0).unwrap();
            optimizer.step().unwrap();
        }
        assert_eq!(values(&plain), values(&scaled));
        let before = values(&scaled);
        optimizers[1].backward(&(&scaled * f64::INFINITY).sum(Kind::Float), 1.0).unwrap();
        optimizers[1].step().unwrap();
        assert_eq!(values(&scaled), before);
        let scale = &optimizers[1].scale.as_ref().unwrap().scale;
        assert_eq!(scale.double_value(&[0]), FIRST_SCALE / 2.0);
    }
}
