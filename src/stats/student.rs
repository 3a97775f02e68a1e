//! Student's distribution at any number of degrees of freedom, infinity included.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The value that a Student's t exceeds with probability `tail`, below ½.
pub(super) fn upper_quantile(tail: f64, freedom: f64) -> f64 {
    debug_assert!(tail > 0.0 && tail < 0.5, "a tail is less than a half");
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
