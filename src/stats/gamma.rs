//! The derivatives of the logarithm of the gamma function.

/// From here on the asymptotic series are exact to a double.
const ASYMPTOTIC: f64 = 16.0;

/// The first derivative of ln Γ at a positive `x`.
pub(super) fn digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < ASYMPTOTIC {
        below -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    // Bernoulli's numbers B₂ₖ ÷ 2k, for k from 1.
    let terms =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32_760.0, 1.0 / 12.0];
    below + x.ln() - 0.5 / x - square * polynomial(&terms, square)
}

/// The second derivative of ln Γ at a positive `x`.
pub(super) fn trigamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < ASYMPTOTIC {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    // Bernoulli's numbers B₂ₖ, for k from 1.
    let terms = [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0];
    below + 1.0 / x + 0.5 * square + square / x * polynomial(&terms, square)
}

/// The third derivative of ln Γ at a positive `x`.
fn tetragamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < ASYMPTOTIC {
        below -= 2.0 / (x * x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    // (2k + 1) B₂ₖ, for k from 1.
    let terms = [0.5, -1.0 / 6.0, 1.0 / 6.0, -0.3, 5.0 / 6.0, -691.0 / 210.0, 17.5];
    below - square - square / x - square * square * polynomial(&terms, square)
}

/// The positive number whose [`trigamma`] is the positive `y`, by Newton's iteration (Smyth 2004, appendix). It works
/// on 1 ÷ trigamma, which is convex and nearly linear, and so converges from below for any `y`.
pub(super) fn inverse_trigamma(y: f64) -> f64 {
    let mut x = 0.5 + 1.0 / y;
    for _ in 0..50 {
        let there = trigamma(x);
        let step = there * (1.0 - there / y) / tetragamma(x);
        x += step;
        if step.abs() <= 1e-13 * x {
            break;
        }
    }
    x
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}
