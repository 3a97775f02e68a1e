//! SGD with momentum or AdamW, and the loss scale that fp16 needs.

use std::cell::OnceCell;

use orchestrate::job;
use tch::{Kind, TchError, Tensor, no_grad};

use super::failure::WorkerError;
use super::shim::{self, AdamW, Moments, Scale, Sgd};

/// PyTorch's usual choice for these networks, for short bursts from fresh weights.
const SGD: Sgd = Sgd { learning_rate: 0.01, momentum: 0.9, weight_decay: 1e-4 };

/// The defaults of `torch.optim.AdamW`.
const ADAMW: AdamW = AdamW { learning_rate: 1e-3, betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 1e-2 };

/// The first loss scale of PyTorch's GradScaler.
const FIRST_SCALE: f64 = 65536.0;

/// An optimizer of all parameters of a model.
#[derive(Debug)]
pub(crate) struct Optimizer {
    parameters: Vec<Tensor>,
    rule: job::Optimizer,
    /// Made by the first step, as in PyTorch, so that training starts without waiting for it.
    state: OnceCell<State>,
    scale: Option<Scale>,
}

/// What an optimizer remembers between steps, by its rule.
#[derive(Debug)]
enum State {
    /// Momenta.
    Sgd(Vec<Tensor>),
    AdamW(Moments),
}

impl Optimizer {
    /// An optimizer of `parameters` by `rule`, with a loss scale if `scaled`.
    ///
    /// # Errors
    /// Errors of libtorch, most likely for lack of memory.
    pub(crate) fn with_rule(
        rule: job::Optimizer,
        parameters: &[Tensor],
        scaled: bool,
    ) -> Result<Self, TchError> {
        let scale = if scaled { Some(first_scale(device(parameters))?) } else { None };
        let parameters = parameters.iter().map(Tensor::shallow_clone).collect();
        Ok(Optimizer { parameters, rule, state: OnceCell::new(), scale })
    }

    /// SGD, for tests.
    #[cfg(test)]
    pub(crate) fn new(parameters: &[Tensor], scaled: bool) -> Result<Self, TchError> {
        Self::with_rule(job::Optimizer::Sgd, parameters, scaled)
    }

    /// Adds the gradients of `loss`, times `share`, to those the parameters have.
    ///
    /// # Errors
    /// Errors of libtorch, most likely for lack of memory.
    pub(crate) fn backward(&self, loss: &Tensor, share: f64) -> Result<(), TchError> {
        let mut loss = loss.shallow_clone();
        if share != 1.0 {
            loss = loss.f_mul_scalar(share)?;
        }
        if let Some(scale) = &self.scale {
            loss = loss.f_mul(&scale.factor)?;
        }
        loss.f_backward()
    }

    /// One step; afterwards no parameter has a gradient.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn step(&self) -> Result<(), WorkerError> {
        let scale = self.scale.as_ref();
        if self.state.get().is_none() {
            // Nobody else can have set it: only this thread uses the cell.
            let _ = self.state.set(State::new(self.rule, &self.parameters)?);
        }
        match self.state.get().expect("it has just been made") {
            State::Sgd(momenta) => shim::sgd_step(SGD, &self.parameters, momenta, scale),
            State::AdamW(moments) => shim::adamw_step(ADAMW, &self.parameters, moments, scale),
        }
    }

    /// The rule that its steps followed or, before the first step, will follow.
    pub(crate) fn rule(&self) -> job::Optimizer {
        match self.state.get() {
            Some(State::Sgd(_)) => job::Optimizer::Sgd,
            Some(State::AdamW(_)) => job::Optimizer::AdamW,
            None => self.rule,
        }
    }

    /// The current loss scale, if there is one.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn loss_scale(&self) -> Result<Option<f64>, TchError> {
        self.scale.as_ref().map(|scale| scale.factor.f_double_value(&[0])).transpose()
    }

    /// The optimizer and its constants as a phrase, for the measurement.
    pub(crate) fn describe(&self) -> String {
        let scaled = if self.scale.is_some() { ", dynamic loss scale" } else { "" };
        match self.rule {
            job::Optimizer::Sgd => {
                let Sgd { learning_rate, momentum, weight_decay } = SGD;
                format!(
                    "fused SGD, learning rate {learning_rate}, momentum {momentum}, weight decay {weight_decay}{scaled}"
                )
            }
            job::Optimizer::AdamW => {
                let AdamW { learning_rate, betas: [first, second], epsilon, weight_decay } = ADAMW;
                format!(
                    "fused AdamW, learning rate {learning_rate}, betas {first} and {second}, epsilon {epsilon:e}, \
                     weight decay {weight_decay}{scaled}"
                )
            }
        }
    }
}

impl State {
    /// The state before the first step.
    fn new(rule: job::Optimizer, parameters: &[Tensor]) -> Result<Self, TchError> {
        let zeros =
            || no_grad(|| parameters.iter().map(Tensor::f_zeros_like).collect::<Result<Vec<_>, TchError>>());
        Ok(match rule {
            job::Optimizer::Sgd => State::Sgd(zeros()?),
            job::Optimizer::AdamW => State::AdamW(Moments {
                first: zeros()?,
                second: zeros()?,
                step: Tensor::f_zeros([1_i64], (Kind::Float, device(parameters)))?,
            }),
        })
    }
}

/// The device of `parameters`.
fn device(parameters: &[Tensor]) -> tch::Device {
    parameters.first().map_or(tch::Device::Cpu, Tensor::device)
}

/// The first state of PyTorch's GradScaler.
fn first_scale(device: tch::Device) -> Result<Scale, TchError> {
    let factor = Tensor::f_ones([1_i64], (Kind::Float, device))?.f_mul_scalar(FIRST_SCALE)?;
    Ok(Scale { factor, growth_tracker: Tensor::f_zeros([1_i64], (Kind::Int, device))? })
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

    /// The rule of the AdamW paper as PyTorch's documentation writes it, by hand.
    #[test]
    fn adamw_follows_the_rule() {
        let start = [1.0_f32, -2.0];
        let weight = parameter(&start);
        let weights = [weight.shallow_clone()];
        let optimizer = Optimizer::with_rule(job::Optimizer::AdamW, &weights, false).unwrap();
        let (mut p, mut m, mut v) = (start.map(f64::from), [0.0; 2], [0.0; 2]);
        for step in 1..=4 {
            let factor = f64::from(step) - 2.5;
            optimizer.backward(&((&weight * &weight).sum(Kind::Float) * factor), 1.0).unwrap();
            optimizer.step().unwrap();
            for index in 0..2 {
                let gradient = factor * 2.0 * p[index];
                p[index] *= 1.0 - 1e-3 * 1e-2;
                m[index] = 0.9 * m[index] + 0.1 * gradient;
                v[index] = 0.999 * v[index] + 0.001 * gradient * gradient;
                let (mean, square) =
                    (m[index] / (1.0 - 0.9_f64.powi(step)), v[index] / (1.0 - 0.999_f64.powi(step)));
                p[index] -= 1e-3 * mean / (square.sqrt() + 1e-8);
            }
            assert!(!weight.grad().defined());
        }
        for (got, expected) in values(&weight).into_iter().zip(p) {
            assert!((f64::from(got) - expected).abs() < 1e-6, "{got} {expected}");
        }
    }

    #[test]
    fn a_loss_scale_changes_nothing_but_skips_what_overflowed() {
        for rule in [job::Optimizer::Sgd, job::Optimizer::AdamW] {
            let (plain, scaled) = (parameter(&[1.0, -2.0]), parameter(&[1.0, -2.0]));
            let optimizers = [(&plain, false), (&scaled, true)].map(|(weight, has_scale)| {
                Optimizer::with_rule(rule, &[weight.shallow_clone()], has_scale).unwrap()
            });
            let train = |index: usize, weight: &Tensor| {
                optimizers[index].backward(&(weight * weight).sum(Kind::Float), 1.0).unwrap();
                optimizers[index].step().unwrap();
            };
            train(0, &plain);
            train(1, &scaled);
            assert_eq!(values(&plain), values(&scaled), "{rule}");
            let before = values(&scaled);
            optimizers[1].backward(&(&scaled * f64::INFINITY).sum(Kind::Float), 1.0).unwrap();
            optimizers[1].step().unwrap();
            assert_eq!(values(&scaled), before, "{rule}");
            assert_eq!(optimizers[1].loss_scale().unwrap(), Some(FIRST_SCALE / 2.0));
            assert_eq!(optimizers[0].loss_scale().unwrap(), None);
            // The skipped step left no trace.
            train(0, &plain);
            train(1, &scaled);
            assert_eq!(values(&plain), values(&scaled), "{rule}");
        }
    }

    #[test]
    fn an_optimizer_says_what_it_is() {
        let weights = [parameter(&[1.0])];
        for (rule, name) in [(job::Optimizer::Sgd, "fused SGD, "), (job::Optimizer::AdamW, "fused AdamW, ")] {
            let optimizer = Optimizer::with_rule(rule, &weights, false).unwrap();
            assert_eq!(optimizer.rule(), rule);
            assert!(optimizer.describe().starts_with(name), "{}", optimizer.describe());
        }
    }
}
