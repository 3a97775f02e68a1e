//! The conventions by which training FLOPs are counted.

use std::fmt;

use crate::architecture::Macs;

/// A convention for counting training FLOPs. Every table of FLOPs names its convention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FlopsConvention {
    /// 2 FLOPs per MAC of the forward pass, the input gradients and the weight gradients, layer by layer.
    #[default]
    LayerByLayer,
    /// 2 × the FLOPs of the forward pass, which leaves out a third of a training step. Only for comparison with tables
    /// of the same convention.
    Seed1,
    /// 3 × the MACs of the forward pass, which is half of a training step. Only for comparison with tables of the same
    /// convention.
    Seed2,
}

impl FlopsConvention {
    /// Training FLOPs of one image. `macs` are those of a network or of one of its layers.
    pub fn training_flops(self, macs: Macs) -> u64 {
        match self {
            FlopsConvention::LayerByLayer => macs.training_flops(),
            FlopsConvention::Seed1 => 2 * 2 * macs.forward,
            FlopsConvention::Seed2 => 3 * macs.forward,
        }
    }

    /// The name on the command line and in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            FlopsConvention::LayerByLayer => "layer-by-layer",
            FlopsConvention::Seed1 => "seed1",
            FlopsConvention::Seed2 => "seed2",
        }
    }

    /// Whether the convention leaves out a part of the work, so that its numbers are only comparable with each other.
    pub fn leaves_out_work(self) -> bool {
        self != FlopsConvention::LayerByLayer
    }
}

impl fmt::Display for FlopsConvention {
    /// A sentence that explains the convention.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlopsConvention::LayerByLayer => {
                "Training FLOPs are 2 × the MACs of the forward pass, the input gradients and the weight gradients, \
                 counted layer by layer over convolutions, linear layers and attention; the first layer has no input \
                 gradient, and the optimizer is not counted (convention `layer-by-layer`)."
            }
            FlopsConvention::Seed1 => {
                "Training FLOPs are 2 × the FLOPs of the forward pass, which leaves out a third of the work; only to \
                 compare with tables that count so (convention `seed1`)."
            }
            FlopsConvention::Seed2 => {
                "Training FLOPs are 3 × the MACs of the forward pass, which is half of the work; only to compare with \
                 tables that count so (convention `seed2`)."
            }
        })
    }
}
