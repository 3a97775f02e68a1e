//! The initial values of parameters.

use std::sync::Mutex;
use std::thread;

use orchestrate::architecture::{Distribution, ParameterTensor};
use orchestrate::random::SplitMix64;
use statrs::function::erf::erf;
use tch::{Device, Kind, TchError, Tensor};

use super::step::sizes;
use crate::failure::WorkerError;
use crate::shim::{self, Random};

/// Elements that one generator draws, in about a millisecond. The values depend on this number.
const CHUNK: i64 = 1 << 18;

/// A number from libtorch's seeded generator.
///
/// # Errors
/// Errors of libtorch.
pub(super) fn seed() -> Result<u64, TchError> {
    let seed = Tensor::f_randint(i64::MAX, [1_i64], (Kind::Int64, Device::Cpu))?.f_int64_value(&[0])?;
    Ok(seed.unsigned_abs())
}

/// Draws `tensors` on the CPU, with as many threads as libtorch computes with. Each piece of each tensor has its own
/// generator, so a seed gives the same weights on every device and with any number of threads.
///
/// All are drawn before libtorch's own threads have any work: after their work, they spin for a while on the processors
/// that the drawing needs.
///
/// # Errors
/// Errors of libtorch, most likely for lack of memory.
pub(super) fn draw(tensors: &[ParameterTensor], seed: u64) -> Result<Vec<Tensor>, WorkerError> {
    let empty = |tensor: &ParameterTensor| Tensor::f_empty(sizes(&tensor.shape), (Kind::Float, Device::Cpu));
    let drawn: Vec<Tensor> = tensors.iter().map(empty).collect::<Result<_, _>>()?;
    let mut pieces = Vec::new();
    // A bijection without a pattern.
    let mixed = |number| SplitMix64::new(number).draw();
    for ((number, tensor), values) in (0..).zip(tensors).zip(&drawn) {
        let Some(random) = random(tensor.start) else { continue };
        for (chunk, part) in (0..).zip(values.f_view([-1])?.f_split(CHUNK, 0)?) {
            pieces.push(Piece { part, random, seed: mixed(mixed(seed ^ mixed(number)) ^ mixed(chunk)) });
        }
    }
    draw_pieces(pieces)?;
    let finished = tensors.iter().zip(drawn).map(|(tensor, values)| finish(values, tensor.start));
    Ok(finished.collect::<Result<_, _>>()?)
}

/// A part of a tensor, and what to draw it from.
struct Piece {
    part: Tensor,
    random: Random,
    seed: u64,
}

/// Draws all pieces; each thread takes the next one.
fn draw_pieces(pieces: Vec<Piece>) -> Result<(), WorkerError> {
    let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1);
    let helpers = threads.min(pieces.len()).saturating_sub(1);
    let work = Mutex::new(pieces.into_iter());
    let draw_some = || -> Result<(), WorkerError> {
        loop {
            // Code that holds the lock cannot panic.
            let next = work.lock().expect("the lock is never poisoned").next();
            let Some(Piece { part, random, seed }) = next else { return Ok(()) };
            shim::draw(&part, random, seed)?;
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> = (0..helpers).map(|_| scope.spawn(draw_some)).collect();
        let own = draw_some();
        let others = others.into_iter().map(|other| other.join().expect("drawing does not panic"));
        others.fold(own, Result::and)
    })
}

/// The random distribution of the pieces of a tensor; `None` if all values are the same.
fn random(distribution: Distribution) -> Option<Random> {
    match distribution {
        Distribution::Constant(_) => None,
        Distribution::Normal { deviation } => Some(Random::Normal(deviation)),
        Distribution::TruncatedNormal { deviation } => Some(Random::Uniform(share_within(CUT / deviation))),
        Distribution::Uniform { bound } => Some(Random::Uniform(bound)),
    }
}

/// The last step after a tensor is drawn.
fn finish(mut values: Tensor, distribution: Distribution) -> Result<Tensor, TchError> {
    match distribution {
        Distribution::Constant(value) => values.f_fill_(value),
        Distribution::TruncatedNormal { deviation } => truncated_normal(&mut values, deviation),
        Distribution::Normal { .. } | Distribution::Uniform { .. } => Ok(values),
    }
}

/// Where a truncated normal distribution ends.
const CUT: f64 = 2.0;

/// Turns values that are uniform within the share inside the cut into normal ones, by the inverse of the distribution
/// function. `torch.nn.init.trunc_normal_` does the same.
fn truncated_normal(uniform: &mut Tensor, deviation: f64) -> Result<Tensor, TchError> {
    uniform.f_erfinv_()?.f_mul_scalar_(deviation * std::f64::consts::SQRT_2)?.f_clamp_(-CUT, CUT)
}

/// The share of a normal distribution within this many standard deviations.
fn share_within(deviations: f64) -> f64 {
    erf(deviations / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use orchestrate::architecture::Role;

    use super::*;

    /// Two tensors of this shape.
    fn drawn(threads: i32, shape: [u64; 2], start: Distribution) -> [Tensor; 2] {
        tch::set_num_threads(threads);
        let tensor =
            ParameterTensor { name: "weight".into(), role: Role::Weight, shape: shape.to_vec(), start };
        draw(&[tensor.clone(), tensor], 1).unwrap().try_into().unwrap()
    }

    #[test]
    fn values_follow_their_distribution() {
        let facts = |distribution| {
            let [drawn, _] = drawn(1, [700, 1000], distribution);
            let number = |tensor: Tensor| tensor.double_value(&[]);
            (number(drawn.mean(Kind::Float)), number(drawn.std(false)), number(drawn.abs().max()))
        };
        let (mean, deviation, _) = facts(Distribution::Normal { deviation: 0.3 });
        assert!(mean.abs() < 0.002 && (deviation - 0.3).abs() < 0.002, "{mean} {deviation}");
        let (mean, deviation, most) = facts(Distribution::Uniform { bound: 0.3 });
        assert!(mean.abs() < 0.001 && (deviation - 0.3 / 3.0_f64.sqrt()).abs() < 0.001, "{mean} {deviation}");
        // Rounded to single precision.
        assert!(most <= f64::from(0.3_f32) && most > 0.299, "{most}");
        // Cut at one and a half deviations: the rest has a variance of 0.5512 deviations squared.
        let (mean, deviation, most) = facts(Distribution::TruncatedNormal { deviation: 4.0 / 3.0 });
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((deviation - 4.0 / 3.0 * 0.5512_f64.sqrt()).abs() < 0.01, "{deviation}");
        assert!(most <= 2.0 && most > 1.99, "{most}");
        assert_eq!(facts(Distribution::Constant(0.25)), (0.25, 0.0, 0.25));
    }

    #[test]
    fn values_do_not_depend_on_the_number_of_threads() {
        let shape = [3, CHUNK.unsigned_abs() - 5];
        let normal = Distribution::Normal { deviation: 1.0 };
        let ([first, second], [again, _]) = (drawn(1, shape, normal), drawn(4, shape, normal));
        assert_eq!(first, again);
        tch::set_num_threads(1);
        // All tensors and all chunks differ.
        let close = |one: &Tensor, other: &Tensor| {
            one.isclose(other, 0.0, 0.0, false).sum(Kind::Int64).int64_value(&[]) > one.numel() as i64 / 100
        };
        let chunk = |index| first.view([-1]).narrow(0, index * CHUNK, CHUNK);
        assert!(!close(&first, &second));
        assert!(!close(&chunk(0), &chunk(1)));
    }
}
