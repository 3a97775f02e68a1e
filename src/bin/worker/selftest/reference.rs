//! The expected course of a training: that of the same training in double precision on the processor, exactly
//! and with rounding errors.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use orchestrate::job::{Device, Optimizer};
use tch::{Kind, Reduction, TchError, Tensor, no_grad};

use super::course::{Course, Expected};
use super::session::{Clock, Halt};
use crate::arguments::Training;
use crate::batches::Batches;
use crate::device::OpenDevice;
use crate::model::{Model, Rounding, longest_sum};
use crate::optimizer::Optimizer as Rule;
use crate::request::{Backend, Request};

/// The number of draws of errors.
const DRAWS: u64 = 4;

/// The courses that were computed already: without errors, and by the errors that every factor got.
#[derive(Debug, Default)]
pub(super) struct References {
    exact: BTreeMap<Optimizer, Course>,
    disturbed: BTreeMap<(Optimizer, Rounding), Vec<Course>>,
}

impl References {
    /// The expected course of the first `iterations` of `training`, which `request` describes, in an arithmetic that
    /// rounds like this. Every call must be about the same network and batch.
    ///
    /// # Errors
    /// [`Halt::NotRun`] if the time limit is reached.
    pub(super) fn of(
        &mut self,
        training: &Training,
        request: &Request,
        rounding: Rounding,
        iterations: usize,
        clock: Clock,
    ) -> Result<Expected, Halt> {
        let rule = request.optimizer;
        let run = Run { training, request, iterations, clock };
        let exact = match self.exact.entry(rule) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(unknown) => unknown.insert(run.course(None)?).clone(),
        };
        let disturbed = match self.disturbed.entry((rule, rounding)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(unknown) => unknown.insert(run.draws(rounding)?).clone(),
        };
        Ok(Expected { exact, disturbed })
    }
}

/// Random relative errors.
#[derive(Clone, Copy, Debug)]
struct Errors {
    /// Their standard deviation.
    size: f64,
    /// Which of the draws this is.
    draw: u64,
}

impl Errors {
    /// Factors for `tensor`: uniform around 1, so the variance is a third of the square of half their range.
    fn factors(self, tensor: &Tensor) -> Result<Tensor, TchError> {
        let half = self.size * 3.0_f64.sqrt();
        no_grad(|| tensor.f_empty_like()?.f_uniform_(1.0 - half, 1.0 + half))
    }
}

/// A training in double precision.
struct Run<'a> {
    training: &'a Training,
    request: &'a Request,
    iterations: usize,
    clock: Clock,
}

impl Run<'_> {
    /// The courses of a few trainings with errors of the size that `rounding` makes.
    fn draws(&self, rounding: Rounding) -> Result<Vec<Course>, Halt> {
        let terms = longest_sum(&self.request.network, self.training.batch_size.into()) as f64;
        let size = rounding.error(terms);
        (0..DRAWS).map(|draw| self.course(Some(Errors { size, draw }))).collect()
    }

    /// The course of all iterations, with `errors` in all factors. Weights and images are those that
    /// [`crate::train::Trainer`] begins with.
    fn course(&self, errors: Option<Errors>) -> Result<Course, Halt> {
        let (cpu, seed) = (OpenDevice::open(Backend::Only(Device::Cpu))?, self.training.parameters.seed);
        tch::manual_seed(i64::try_from(seed).unwrap_or(i64::MAX));
        let mut model = Model::of_type(&self.request.network, (Kind::Double, cpu.tch()), false)?;
        let optimizer = Rule::with_rule(self.request.optimizer, model.parameters(), false)?;
        let batch = Batches::open(self.training, &cpu)?.next()?;
        let images = batch.images().f_to_kind(Kind::Double)?;
        if let Some(errors) = errors {
            tch::manual_seed(i64::try_from(errors.draw).unwrap_or(i64::MAX));
        }
        let start = Start::of(model.parameters())?;
        let mut course = Course::default();
        for _ in 0..self.iterations {
            self.clock.go_on()?;
            let exact = errors.map(|errors| disturb(model.parameters(), errors)).transpose()?;
            let logits = match errors {
                None => model.forward(&images, true)?,
                Some(errors) => model.forward_through(&images, true, |_, output| {
                    let factors = errors.factors(&output).expect("as much memory as for the output");
                    output * factors
                })?,
            };
            let loss =
                logits.f_cross_entropy_loss(batch.labels(), None::<Tensor>, Reduction::Mean, -100, 0.0)?;
            optimizer.backward(&loss, 1.0)?;
            if let (Some(errors), Some(exact)) = (errors, exact) {
                restore(model.parameters(), &exact, errors)?;
            }
            optimizer.step()?;
            course.losses.push(loss.f_double_value(&[])?);
            course.distances.push(start.distance(model.parameters())?);
        }
        Ok(course)
    }
}

/// The values that parameters began with.
pub(super) struct Start(Vec<Tensor>);

impl Start {
    /// Those that `parameters` have now.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(super) fn of(parameters: &[Tensor]) -> Result<Self, TchError> {
        Ok(Start(parameters.iter().map(copied).collect::<Result<_, _>>()?))
    }

    /// How far all `parameters` together are from there now.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(super) fn distance(&self, parameters: &[Tensor]) -> Result<f64, TchError> {
        let mut squares = 0.0;
        for (start, parameter) in self.0.iter().zip(parameters) {
            let apart = copied(parameter)?.f_sub(start)?;
            squares += apart.f_square()?.f_sum(Kind::Double)?.f_double_value(&[])?;
        }
        Ok(squares.sqrt())
    }
}

/// A copy in double precision on the processor. It is converted there, because Apple GPUs know no double precision.
fn copied(parameter: &Tensor) -> Result<Tensor, TchError> {
    let there = parameter.f_detach()?.f_to_device_(tch::Device::Cpu, parameter.f_kind()?, false, true)?;
    there.f_to_kind(Kind::Double)
}

/// Puts errors on all parameters. Returns their exact values, because an arithmetic of few bits computes with rounded
/// copies of them.
fn disturb(parameters: &[Tensor], errors: Errors) -> Result<Vec<Tensor>, TchError> {
    no_grad(|| {
        let disturb = |parameter: &Tensor| {
            let exact = parameter.f_detach_copy()?;
            let _ = parameter.shallow_clone().f_mul_(&errors.factors(parameter)?)?;
            Ok(exact)
        };
        parameters.iter().map(disturb).collect()
    })
}

/// Gives all parameters their exact values back, and puts errors on their gradients.
fn restore(parameters: &[Tensor], exact: &[Tensor], errors: Errors) -> Result<(), TchError> {
    no_grad(|| {
        for (parameter, exact) in parameters.iter().zip(exact) {
            parameter.shallow_clone().f_copy_(exact)?;
            let mut gradient = parameter.grad();
            let _ = gradient.f_mul_(&errors.factors(&gradient)?)?;
        }
        Ok(())
    })
}
