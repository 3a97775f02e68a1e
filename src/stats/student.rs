//! Student's distribution for any number of degrees of freedom, including infinity.

use std::sync::OnceLock;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::CONFIDENCE;

/// The tails of the intervals that every row has.
const USUAL_TAIL: f64 = (1.0 - CONFIDENCE) / 2.0;

/// Their quantiles by degrees of freedom, computed on first use. That takes longer than the rest of an
/// interval, and most rows have equal numbers of runs.
static USUAL: [OnceLock<f64>; 64] = [const { OnceLock::new() }; 64];

/// The value that a Student's t exceeds with probability `tail`, below ½.
pub(super) fn upper_quantile(tail: f64, freedom: f64) -> f64 {
    debug_assert!(tail > 0.0 && tail < 0.5, "a tail is less than a half");
    let is_usual = tail.to_bits() == USUAL_TAIL.to_bits() && freedom.fract() == 0.0;
    match USUAL.get(freedom as usize).filter(|_| is_usual) {
        Some(known) => *known.get_or_init(|| computed(tail, freedom)),
        None => computed(tail, freedom),
    }
}

fn computed(tail: f64, freedom: f64) -> f64 {
    if freedom.is_finite() { -law(freedom).inverse_cdf(tail) } else { -normal().inverse_cdf(tail) }
}

/// The probability that a Student's t exceeds `t`.
pub(super) fn upper_tail(t: f64, freedom: f64) -> f64 {
    if freedom.is_finite() { law(freedom).sf(t) } else { normal().sf(t) }
}

fn law(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("there are degrees of freedom")
}

fn normal() -> Normal {
    Normal::new(0.0, 1.0).expect("the standard normal distribution exists")
}
