//! How large rounding errors are in a network, for bounds that are derived and not guessed.
//!
//! A dot product of n terms with unit roundoff u, in any order, equals the exact one of factors with relative errors of
//! about √n·u. See Higham and Mary, *A new approach to probabilistic rounding error analysis*, 2019. So the effect of
//! rounding is found in double precision: every factor gets a random relative error of that size.

use orchestrate::architecture::{Layer, Network};

use super::step::sizes;

/// An arithmetic that rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rounding {
    /// Single precision.
    Single,
    /// Factors are cut to the ten bits of TF32, and sums are kept in single precision.
    Tf32,
    /// Autocast to fp16: factors and results are rounded to it, and sums are kept in single precision.
    Float16,
    /// Autocast to bfloat16: factors and results are rounded to it, and sums are kept in single precision.
    Bfloat16,
}

impl Rounding {
    /// The size of the relative error of a factor in a dot product of `terms` products.
    ///
    /// A number that is rounded to p bits is off by at most 2⁻ᵖ of itself, and usually by half of that. GPUs cut
    /// numbers to TF32 instead of rounding them, which makes the largest error twice as large.
    pub(crate) fn error(self, terms: f64) -> f64 {
        match self {
            Rounding::Single => terms.sqrt() * 2.0_f64.powi(-24),
            Rounding::Tf32 => 2.0_f64.powi(-11),
            Rounding::Float16 => 2.0_f64.powi(-12),
            Rounding::Bfloat16 => 2.0_f64.powi(-9),
        }
    }
}

/// The number of terms in the longest sum when `network` trains on `batch` images. In the forward pass, a sum goes over
/// the inputs of an output. In the gradient of a weight, it goes over the pixels of all images.
pub(crate) fn longest_sum(network: &Network, batch: i64) -> i64 {
    let weights = network.layers().iter().flat_map(Layer::parameter_tensors);
    let inputs = weights.map(|tensor| sizes(&tensor.shape)[1..].iter().product());
    let pixels = network
        .layers()
        .iter()
        .map(|layer| batch * sizes(&[layer.output.elements() / layer.output.channels()])[0]);
    inputs.chain(pixels).max().expect("a network has layers")
}

#[cfg(test)]
mod tests {
    use orchestrate::architecture::network;

    use super::*;

    /// By the bits of each format: of a number between 1 and 2, the last one is worth twice the largest error.
    #[test]
    fn errors_are_half_of_the_largest_that_rounding_can_make() {
        for (rounding, largest) in [
            (Rounding::Bfloat16, f64::from(f32::from_bits(0x3F81_0000)) - 1.0),
            (Rounding::Float16, 2.0_f64.powi(-10)),
        ] {
            assert_eq!(rounding.error(4.0), largest / 4.0, "{rounding:?}");
        }
        assert_eq!(Rounding::Tf32.error(4.0), 2.0 * Rounding::Float16.error(4.0), "cut, not rounded");
        assert_eq!(Rounding::Single.error(4.0), f64::from(f32::EPSILON));
    }

    #[test]
    fn the_longest_sum_is_over_inputs_or_over_pixels() {
        let network = network("resnet18", 64, 10).unwrap();
        // 512 channels of 3 × 3; 8 images of 32 × 32 pixels, or of 64 × 64 as they come in.
        assert_eq!(longest_sum(&network, 1), 4608);
        assert_eq!(longest_sum(&network, 8), 8 * 64 * 64);
    }
}
