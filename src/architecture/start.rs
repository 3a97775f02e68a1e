//! The start values of parameters, as in torchvision's constructors.

/// A rule for the start values of a parameter. *fan-in* and *fan-out* are those of the layer's weight in PyTorch: the
/// second and the first extent of its shape, each times the kernel's area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initialisation {
    /// The same value everywhere.
    Constant(f64),
    /// A normal distribution with this standard deviation.
    Normal(f64),
    /// A normal distribution with this standard deviation, with values beyond ±2 drawn again (`trunc_normal_`).
    TruncatedNormal(f64),
    /// He's normal distribution for ReLU (He et al. 2015): deviation √(2 ÷ fan-out).
    KaimingNormalFanOut,
    /// The same by fan-in: deviation √(2 ÷ fan-in).
    KaimingNormalFanIn,
    /// He's uniform distribution for ReLU: within ±√(6 ÷ fan-in).
    KaimingUniformFanIn,
    /// Glorot's uniform distribution (Glorot and Bengio 2010): within ±√(6 ÷ (fan-in + fan-out)).
    XavierUniform,
    /// PyTorch's default: uniform within ±1 ÷ √fan-in.
    UniformFanIn,
    /// Uniform within ±1 ÷ √fan-out.
    UniformFanOut,
    /// LeCun's normal distribution, cut at ±2: deviation √(1 ÷ fan-in).
    LecunTruncatedNormal,
}

/// The distribution of the start values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every element has this value.
    Constant(f64),
    /// Normal around 0.
    Normal {
        /// Standard deviation.
        deviation: f64,
    },
    /// Normal around 0, drawn again until it is within ±2.
    TruncatedNormal {
        /// Standard deviation before the cut.
        deviation: f64,
    },
    /// Uniform in `-bound .. bound`.
    Uniform {
        /// Half the width.
        bound: f64,
    },
}

impl Initialisation {
    /// The distribution for a tensor of the layer whose weight has this shape, in PyTorch's order: output channels,
    /// input channels of a group, kernel.
    pub(super) fn distribution(self, weight: &[u64]) -> Distribution {
        let area: u64 = weight.iter().skip(2).product();
        let fan_in = (weight.get(1).copied().unwrap_or(1) * area) as f64;
        let fan_out = (weight[0] * area) as f64;
        match self {
            Initialisation::Constant(value) => Distribution::Constant(value),
            Initialisation::Normal(deviation) => Distribution::Normal { deviation },
            Initialisation::TruncatedNormal(deviation) => Distribution::TruncatedNormal { deviation },
            Initialisation::KaimingNormalFanOut => Distribution::Normal { deviation: (2.0 / fan_out).sqrt() },
            Initialisation::KaimingNormalFanIn => Distribution::Normal { deviation: (2.0 / fan_in).sqrt() },
            Initialisation::KaimingUniformFanIn => Distribution::Uniform { bound: (6.0 / fan_in).sqrt() },
            Initialisation::XavierUniform => {
                Distribution::Uniform { bound: (6.0 / (fan_in + fan_out)).sqrt() }
            }
            Initialisation::UniformFanIn => Distribution::Uniform { bound: 1.0 / fan_in.sqrt() },
            Initialisation::UniformFanOut => Distribution::Uniform { bound: 1.0 / fan_out.sqrt() },
            Initialisation::LecunTruncatedNormal => {
                Distribution::TruncatedNormal { deviation: (1.0 / fan_in).sqrt() }
            }
        }
    }
}

/// How the weight and the bias of a layer start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// The rule for its weight.
    pub weight: Initialisation,
    /// The rule for its bias.
    pub bias: Initialisation,
}

impl Start {
    /// A weight by this rule, a bias of 0.
    pub(super) const fn unbiased(weight: Initialisation) -> Self {
        Start { weight, bias: Initialisation::Constant(0.0) }
    }

    /// Scale 1 and shift 0, for a normalisation.
    pub(super) const IDENTITY: Self = Start::unbiased(Initialisation::Constant(1.0));

    /// PyTorch's default for convolutions and linear layers.
    pub(super) const DEFAULT: Self =
        Start { weight: Initialisation::UniformFanIn, bias: Initialisation::UniformFanIn };

    /// The rule of most of torchvision's convolutions.
    pub(super) const KAIMING: Self = Start::unbiased(Initialisation::KaimingNormalFanOut);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fans_are_pytorchs() {
        // 8 outputs of 3 inputs under a kernel of 5 × 7: fan-in 105, fan-out 280.
        let weight = [8, 3, 5, 7];
        let deviation = |rule: Initialisation| match rule.distribution(&weight) {
            Distribution::Normal { deviation } | Distribution::TruncatedNormal { deviation } => deviation,
            Distribution::Uniform { bound } => bound,
            Distribution::Constant(value) => value,
        };
        for (rule, expected) in [
            (Initialisation::Constant(0.5), 0.5),
            (Initialisation::Normal(0.01), 0.01),
            (Initialisation::TruncatedNormal(0.02), 0.02),
            (Initialisation::KaimingNormalFanOut, (2.0_f64 / 280.0).sqrt()),
            (Initialisation::KaimingNormalFanIn, (2.0_f64 / 105.0).sqrt()),
            (Initialisation::KaimingUniformFanIn, (6.0_f64 / 105.0).sqrt()),
            (Initialisation::XavierUniform, (6.0_f64 / 385.0).sqrt()),
            (Initialisation::UniformFanIn, 1.0 / 105.0_f64.sqrt()),
            (Initialisation::UniformFanOut, 1.0 / 280.0_f64.sqrt()),
            (Initialisation::LecunTruncatedNormal, (1.0_f64 / 105.0).sqrt()),
        ] {
            assert_eq!(deviation(rule), expected, "{rule:?}");
        }
    }
}
