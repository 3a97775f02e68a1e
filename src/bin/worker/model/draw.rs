//! The values that parameters start with.

use orchestrate::architecture::Distribution;
use tch::{Device, Kind, TchError, Tensor};

/// A tensor of this shape, drawn on the processor from `tch::manual_seed`'s state, so that a seed means the same weights
/// on every device.
///
/// # Errors
/// libtorch's, for want of memory most likely.
pub(super) fn draw(shape: &[i64], distribution: Distribution) -> Result<Tensor, TchError> {
    let mut tensor = Tensor::f_empty(shape, (Kind::Float, Device::Cpu))?;
    match distribution {
        Distribution::Constant(value) => tensor.f_fill_(value),
        Distribution::Normal { deviation } => tensor.f_normal_(0.0, deviation),
        Distribution::TruncatedNormal { deviation } => truncated_normal(&mut tensor, deviation),
        Distribution::Uniform { bound } => tensor.f_uniform_(-bound, bound),
    }
}

/// Normal within ±2, by the inverse of its distribution function as `torch.nn.init.trunc_normal_` has it.
fn truncated_normal(tensor: &mut Tensor, deviation: f64) -> Result<Tensor, TchError> {
    const CUT: f64 = 2.0;
    // erf(cut ÷ (deviation · √2)) is the share of the normal distribution within the cut.
    let within = Tensor::from(CUT / (deviation * std::f64::consts::SQRT_2)).f_erf()?.f_double_value(&[])?;
    let _ = tensor.f_uniform_(-within, within)?.f_erfinv_()?;
    tensor.f_mul_scalar_(deviation * std::f64::consts::SQRT_2)?.f_clamp_(-CUT, CUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_their_distribution() {
        tch::manual_seed(1);
        let size = [400, 500];
        let facts = |distribution| {
            let drawn = draw(&size, distribution).unwrap();
            let number = |tensor: Tensor| tensor.double_value(&[]);
            (number(drawn.mean(Kind::Float)), number(drawn.std(false)), number(drawn.abs().max()))
        };
        let (mean, deviation, _) = facts(Distribution::Normal { deviation: 0.3 });
        assert!(mean.abs() < 0.003 && (deviation - 0.3).abs() < 0.003, "{mean} {deviation}");
        let (mean, deviation, most) = facts(Distribution::Uniform { bound: 0.3 });
        assert!(mean.abs() < 0.002 && (deviation - 0.3 / 3.0_f64.sqrt()).abs() < 0.002, "{mean} {deviation}");
        assert!(most <= 0.3 && most > 0.299);
        // Cut at one and a half deviations: the rest has a variance of 0.5512 deviations squared.
        let (mean, deviation, most) = facts(Distribution::TruncatedNormal { deviation: 4.0 / 3.0 });
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((deviation - 4.0 / 3.0 * 0.5512_f64.sqrt()).abs() < 0.01, "{deviation}");
        assert!(most <= 2.0 && most > 1.99, "{most}");
        assert_eq!(facts(Distribution::Constant(0.25)), (0.25, 0.0, 0.25));
    }
}
