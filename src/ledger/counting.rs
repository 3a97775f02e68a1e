//! Conventions by which ledgers count the FLOPs of a training step. They are inferred from the numbers, because ledgers
//! do not name them.

use strum::{EnumIter, IntoEnumIterator};

use crate::analysis::cost::FlopsConvention;
use crate::architecture::Macs;

/// A convention for the FLOPs of one sample's training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub(super) enum Counting {
    /// Layer by layer, as in `orchestrate`.
    LayerByLayer,
    /// 6 FLOPs per MAC of the forward pass.
    ThreeForward,
    /// 4 FLOPs per MAC.
    TwoForward,
    /// 3 per MAC: MACs mistaken for FLOPs.
    ThreeMacs,
    /// 2 per MAC: only the forward pass.
    Forward,
    /// 1 per MAC: only the MACs of the forward pass.
    Macs,
}

impl Counting {
    /// All conventions.
    pub(super) fn all() -> impl Iterator<Item = Counting> {
        Counting::iter()
    }

    /// The FLOPs of one sample of a network with `macs`.
    pub(super) fn flops(self, macs: Macs) -> f64 {
        let flops = match self {
            Counting::LayerByLayer => FlopsConvention::LayerByLayer.training_flops(macs),
            Counting::ThreeForward => 6 * macs.forward,
            Counting::TwoForward => FlopsConvention::Seed1.training_flops(macs),
            Counting::ThreeMacs => FlopsConvention::Seed2.training_flops(macs),
            Counting::Forward => 2 * macs.forward,
            Counting::Macs => macs.forward,
        };
        flops as f64
    }

    /// A phrase that completes "the FLOPs of a sample are".
    pub(super) fn text(self) -> &'static str {
        match self {
            Counting::LayerByLayer => "counted layer by layer, forward and backward",
            Counting::ThreeForward => "6 × the MACs of the forward pass",
            Counting::TwoForward => "4 × the MACs of the forward pass, which leaves out a third of the work",
            Counting::ThreeMacs => "3 × the MACs of the forward pass, which is half of the work",
            Counting::Forward => "2 × the MACs of the forward pass, which leaves out two thirds of the work",
            Counting::Macs => "the MACs of the forward pass alone, which is a sixth of the work",
        }
    }
}
