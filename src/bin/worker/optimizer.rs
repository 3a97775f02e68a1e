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

/// A rule with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Sgd(Sgd),
    AdamW(AdamW),
}

/// An optimizer of all parameters of a model.
#[derive(Debug)]
pub(crate) struct Optimizer {
    parameters: Vec<Tensor>,
    rule: Rule,
    /// Made by the first step, as in PyTorch, so that training starts without waiting for it.
    state: OnceCell<State>,
    scale: Option<Scale>,
}

/// The constants of an optimizer and what it keeps between steps.
#[derive(Debug)]
enum State {
    /// With momenta.
    Sgd(Sgd, Vec<Tensor>),
    AdamW(AdamW, Moments),
}

impl Rule {
    /// The rule of this name, with the constants above.
    fn of(name: job::Optimizer) -> Self {
        match name {
            job::Optimizer::Sgd => Rule::Sgd(SGD),
            job::Optimizer::AdamW => Rule::AdamW(ADAMW),
        }
    }

    fn name(self) -> job::Optimizer {
        match self {
            Rule::Sgd(_) => job::Optimizer::Sgd,
            Rule::AdamW(_) => job::Optimizer::AdamW,
        }
    }

    /// Its constants as a phrase.
    fn describe(self) -> String {
        match self {
            Rule::Sgd(Sgd { learning_rate, momentum, weight_decay }) => format!(
                "fused SGD, learning rate {learning_rate}, momentum {momentum}, weight decay {weight_decay}"
            ),
            Rule::AdamW(AdamW { learning_rate, betas: [first, second], epsilon, weight_decay }) => format!(
                "fused AdamW, learning rate {learning_rate}, betas {first} and {second}, epsilon {epsilon:e}, \
                 weight decay {weight_decay}"
            ),
        }
    }
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
        Self::following(Rule::of(rule), parameters, scaled)
    }

    /// As [`Optimizer::with_rule`], with any constants.
    fn following(rule: Rule, parameters: &[Tensor], scaled: bool) -> Result<Self, TchError> {
        let scale = if scaled { Some(first_scale(device(parameters))?) } else { None };
        let parameters = parameters.iter().map(Tensor::shallow_clone).collect();
        Ok(Optimizer { parameters, rule, state: OnceCell::new(), scale })
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
            // It cannot be set already: only this thread uses the cell.
            let _ = self.state.set(State::new(self.rule, &self.parameters)?);
        }
        match self.state.get().expect("it has just been made") {
            State::Sgd(sgd, momenta) => shim::sgd_step(*sgd, &self.parameters, momenta, scale),
            State::AdamW(adamw, moments) => shim::adamw_step(*adamw, &self.parameters, moments, scale),
        }
    }

    /// The rule that its steps followed or, before the first step, will follow.
    pub(crate) fn rule(&self) -> job::Optimizer {
        self.followed().name()
    }

    fn followed(&self) -> Rule {
        match self.state.get() {
            Some(State::Sgd(sgd, _)) => Rule::Sgd(*sgd),
            Some(State::AdamW(adamw, _)) => Rule::AdamW(*adamw),
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

    /// The optimizer and the constants of its steps as a phrase, for the measurement.
    pub(crate) fn describe(&self) -> String {
        let scaled = if self.scale.is_some() { ", dynamic loss scale" } else { "" };
        format!("{}{scaled}", self.followed().describe())
    }
}

impl State {
    /// The state before the first step.
    fn new(rule: Rule, parameters: &[Tensor]) -> Result<Self, TchError> {
        let zeros =
            || no_grad(|| parameters.iter().map(Tensor::f_zeros_like).collect::<Result<Vec<_>, TchError>>());
        Ok(match rule {
            Rule::Sgd(sgd) => State::Sgd(sgd, zeros()?),
            Rule::AdamW(adamw) => {
                let (first, second) = (zeros()?, zeros()?);
                let step = Tensor::f_zeros([1_i64], (Kind::Float, device(parameters)))?;
                State::AdamW(adamw, Moments { first, second, step })
            }
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

    /// The numbers of a phrase.
    fn numbers(phrase: &str) -> Vec<f64> {
        let words = phrase.split([' ', ',']);
        words.filter_map(|word| word.parse().ok()).collect()
    }

    /// Takes some steps from `start`, whose gradients are these multiples of the weights. Returns the weights, and the
    /// constants that the optimizer says it used.
    fn take_steps(rule: Rule, start: [f32; 2], multiples: &[f64]) -> (Vec<f32>, Vec<f64>) {
        let weight = parameter(&start);
        let optimizer = Optimizer::following(rule, &[weight.shallow_clone()], false).unwrap();
        let before = optimizer.describe();
        for multiple in multiples {
            let loss = (&weight * &weight).sum(Kind::Float) * *multiple;
            optimizer.backward(&loss, 0.5).unwrap();
            optimizer.step().unwrap();
            assert!(!weight.grad().defined());
        }
        assert_eq!(optimizer.describe(), before);
        (values(&weight), numbers(&before))
    }

    fn assert_close(found: &[f32], expected: &[f64], rule: Rule) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{rule:?}: {found} {expected}");
        }
    }

    /// PyTorch's documented rule, by hand, with the constants that are reported: g ← g + λp; v ← μv + g; p ← p − ηv.
    #[test]
    fn sgd_follows_its_rule_with_the_reported_constants() {
        let start = [1.0_f32, -2.0];
        let multiples = [1.0, 2.0, 3.0];
        let other = Sgd { learning_rate: 0.02, momentum: 0.7, weight_decay: 0.3 };
        for rule in [Rule::of(job::Optimizer::Sgd), Rule::Sgd(other)] {
            let (found, constants) = take_steps(rule, start, &multiples);
            let [rate, momentum, decay] = constants[..] else { panic!("{constants:?}") };
            let (mut p, mut v) = (start.map(f64::from), [0.0; 2]);
            for multiple in multiples {
                for index in 0..2 {
                    let gradient = multiple * p[index] + decay * p[index];
                    v[index] = momentum * v[index] + gradient;
                    p[index] -= rate * v[index];
                }
            }
            assert_close(&found, &p, rule);
        }
    }

    /// The rule of the AdamW paper as PyTorch's documentation writes it, by hand, with the constants that are reported.
    #[test]
    fn adamw_follows_its_rule_with_the_reported_constants() {
        let start = [1.0_f32, -2.0];
        let multiples = [-1.5, -0.5, 0.5, 1.5];
        let other = AdamW { learning_rate: 0.02, betas: [0.7, 0.8], epsilon: 0.1, weight_decay: 0.3 };
        for rule in [Rule::of(job::Optimizer::AdamW), Rule::AdamW(other)] {
            let (found, constants) = take_steps(rule, start, &multiples);
            let [rate, first, second, epsilon, decay] = constants[..] else { panic!("{constants:?}") };
            let (mut p, mut m, mut v) = (start.map(f64::from), [0.0; 2], [0.0; 2]);
            for (multiple, step) in multiples.into_iter().zip(1..) {
                for index in 0..2 {
                    let gradient = multiple * p[index];
                    p[index] *= 1.0 - rate * decay;
                    m[index] = first * m[index] + (1.0 - first) * gradient;
                    v[index] = second * v[index] + (1.0 - second) * gradient * gradient;
                    let (mean, square) =
                        (m[index] / (1.0 - first.powi(step)), v[index] / (1.0 - second.powi(step)));
                    p[index] -= rate * mean / (square.sqrt() + epsilon);
                }
            }
            assert_close(&found, &p, rule);
        }
    }

    #[test]
    fn a_loss_scale_only_skips_steps_that_overflow() {
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
    fn an_optimizer_describes_its_rule_and_constants() {
        let sgd = "fused SGD, learning rate 0.01, momentum 0.9, weight decay 0.0001";
        let adamw = "fused AdamW, learning rate 0.001, betas 0.9 and 0.999, epsilon 1e-8, weight decay 0.01";
        let weights = [parameter(&[1.0])];
        for (rule, phrase) in [(job::Optimizer::Sgd, sgd), (job::Optimizer::AdamW, adamw)] {
            for (scaled, end) in [(false, ""), (true, ", dynamic loss scale")] {
                let optimizer = Optimizer::with_rule(rule, &weights, scaled).unwrap();
                assert_eq!(optimizer.rule(), rule);
                assert_eq!(optimizer.describe(), format!("{phrase}{end}"));
            }
        }
    }
}
