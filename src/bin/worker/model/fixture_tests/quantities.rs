//! The quantities of the fixture: results of one forward and one backward pass, by name.

use tch::{Device, Kind, Reduction, Tensor};

use super::{FIXTURE, Quantities};
use crate::model::Model;

/// The only quantity that needs a second forward pass.
pub(super) const AFTER_A_STEP: &str = "loss after a step";

/// The quantities that `expected` names, of one forward and one backward pass. `forward` returns the logits.
pub(super) fn quantities(
    model: &mut Model,
    expected: &Quantities,
    mut forward: impl FnMut(&mut Model) -> Tensor,
) -> Quantities {
    model.parameters().iter().for_each(|parameter| parameter.shallow_clone().zero_grad());
    let logits = forward(model);
    let loss = loss(&logits);
    loss.backward();
    let mut found = Quantities::new();
    for name in expected.keys().filter(|name| *name != AFTER_A_STEP) {
        let numbers = match name.as_str() {
            "logits" => doubles(&logits),
            "loss" => doubles(&loss),
            name => of_tensors(model, name),
        };
        found.insert(name.clone(), numbers);
    }
    if expected.contains_key(AFTER_A_STEP) {
        found.insert(AFTER_A_STEP.to_owned(), loss_after_a_step(model, loss.double_value(&[]), forward));
    }
    found
}

/// The mean cross-entropy of logits against the fixture's labels.
pub(super) fn loss(logits: &Tensor) -> Tensor {
    let images = Tensor::arange(FIXTURE.batch, (Kind::Int64, Device::Cpu));
    let labels = (images * 3).remainder(i64::from(FIXTURE.classes));
    logits.cross_entropy_loss::<Tensor>(&labels, None, Reduction::Mean, -100, 0.0)
}

/// The loss after a step down the gradient. If the loss were a plane, the step would remove a fixed share of it.
fn loss_after_a_step(
    model: &mut Model,
    present: f64,
    mut forward: impl FnMut(&mut Model) -> Tensor,
) -> Vec<f64> {
    let rate = FIXTURE.step * present / sum_of_squared_gradients(model);
    tch::no_grad(|| {
        for parameter in model.parameters() {
            // In place: the gradients are not read again, and those of a large network take a gigabyte.
            let step = parameter.grad().g_mul_scalar_(rate);
            let _ = parameter.shallow_clone().g_sub_(&step);
        }
        doubles(&loss(&forward(model)))
    })
}

/// The numbers of a model's tensors: norms of gradients, the root mean square of running statistics, and for a single
/// one also its first four values.
fn of_tensors(model: &Model, quantity: &str) -> Vec<f64> {
    let named = |wanted: &str| -> &Tensor {
        let (_, tensor) =
            model.state.iter().find(|(name, _)| name == wanted).expect("a name of the state dict");
        tensor
    };
    if quantity == "gradient of all" {
        return vec![sum_of_squared_gradients(model).sqrt()];
    }
    if let Some(name) = quantity.strip_prefix("gradient of ") {
        return vec![sum_of_squares(&named(name).grad()).sqrt()];
    }
    if let Some(word) = quantity.strip_prefix("all ") {
        let all = model.state.iter().filter(|(name, _)| name.ends_with(word)).map(|(_, tensor)| tensor);
        return vec![root_mean_square(all)];
    }
    let statistic = named(quantity);
    [vec![root_mean_square([statistic])], doubles(&statistic.narrow(0, 0, 4))].concat()
}

fn root_mean_square<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> f64 {
    let (mut squares, mut count) = (0.0, 0);
    for tensor in tensors {
        squares += sum_of_squares(tensor);
        count += tensor.numel();
    }
    (squares / count as f64).sqrt()
}

fn sum_of_squared_gradients(model: &Model) -> f64 {
    model.parameters().iter().map(|parameter| sum_of_squares(&parameter.grad())).sum()
}

/// In double precision, because a sum of millions of squares would lose too many digits in single precision. One part
/// at a time, because libtorch first converts everything, which is slow for the gigabyte of a large network.
fn sum_of_squares(tensor: &Tensor) -> f64 {
    const PART: i64 = 1 << 20;
    let parts = tensor.detach().flatten(0, -1).split(PART, 0);
    parts.iter().map(|part| part.norm_scalaropt_dtype(2.0, Kind::Double).double_value(&[]).powi(2)).sum()
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.detach().to_kind(Kind::Double).flatten(0, -1)).unwrap()
}
