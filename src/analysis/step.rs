//! Bytes and FLOPs of an optimizer's step, per parameter.
//!
//! A fused step reads the parameter, its gradient and the optimizer's state, and writes all but the gradient, each
//! once. All are in single precision, for any precision of the layers. The operations are those of the algorithms
//! that PyTorch's manual prints for `torch.optim.SGD` (Sutskever et al. 2013) and `torch.optim.AdamW` (Loshchilov and
//! Hutter 2019), with weight decay and without the factors that are the same for all parameters. A root and a division
//! count as one operation each.

use crate::job::Optimizer;

/// Bytes of a parameter, of its gradient and of each number of the optimizer's state. All are in single
/// precision, even if activations are in half precision.
pub(super) const PARAMETER_BYTES: u64 = 4;

/// The numbers of state that `optimizer` keeps per parameter: the momentum, or the means of the gradient and of its
/// square.
pub(super) fn numbers_kept(optimizer: Optimizer) -> u64 {
    match optimizer {
        Optimizer::Sgd => 1,
        Optimizer::AdamW => 2,
    }
}

/// Bytes that a step of `optimizer` reads and writes per parameter: 20 for SGD with momentum, 28 for AdamW.
pub fn step_bytes(optimizer: Optimizer) -> u64 {
    let read = 1 + 1 + numbers_kept(optimizer);
    let written = 1 + numbers_kept(optimizer);
    PARAMETER_BYTES * (read + written)
}

/// FLOPs of a step of `optimizer` per parameter. No convention counts them as training FLOPs.
pub fn step_flops(optimizer: Optimizer) -> u64 {
    match optimizer {
        // g + λ·p, μ·b + g, p − η·b: a product and a sum each.
        Optimizer::Sgd => 2 + 2 + 2,
        // p·(1 − ηλ); β₁·m + (1 − β₁)·g; β₂·v + (1 − β₂)·g·g; √v·c + ε; p − α·m ÷ that.
        Optimizer::AdamW => 1 + 3 + 4 + 3 + 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::network;

    #[test]
    fn a_step_reads_and_writes_each_number_once() {
        let of = |optimizer| (step_bytes(optimizer), step_flops(optimizer));
        assert_eq!((of(Optimizer::Sgd), of(Optimizer::AdamW)), ((20, 6), (28, 14)));
    }

    /// The former error of the modelled traffic of VGG-16: 26 % at 16 images, 71 % at 4.
    #[test]
    fn vgg16_moves_a_quarter_more_with_its_optimizer() {
        let network = network("vgg16", 224, 1000).unwrap();
        let step = (step_bytes(Optimizer::Sgd) * network.parameters()) as f64;
        let more = |batch| step / network.modelled_bytes(batch, 4) as f64;
        assert!(
            (more(16) - 0.26).abs() < 0.005 && (more(4) - 0.71).abs() < 0.005,
            "{} {}",
            more(16),
            more(4)
        );
    }
}
