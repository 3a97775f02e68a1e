//! Rules that compute the work of an operator from its inputs.

use super::inputs::Inputs;
use super::work::Work;
use super::{attention, convolution};
use Rule::{Attend, AttendBack, Convolve, ConvolveBack, Of};

/// Computes the work of a call from its inputs.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    Of(fn(&Inputs<'_>) -> Work),
    Convolve(&'static convolution::Forward),
    ConvolveBack(&'static convolution::Backward),
    Attend(&'static attention::Places),
    AttendBack(&'static attention::Places),
}

impl Rule {
    pub(super) fn work(self, inputs: &Inputs<'_>) -> Work {
        match self {
            Of(rule) => rule(inputs),
            Convolve(places) => convolution::forward(inputs, places),
            ConvolveBack(places) => convolution::backward(inputs, places),
            Attend(places) => attention::forward(inputs, places),
            AttendBack(places) => attention::backward(inputs, places),
        }
    }
}

/// The rule of an operator that leaves all work to others, of a view and of an allocation.
pub(super) fn no_work(_: &Inputs<'_>) -> Work {
    Work::ZERO
}

/// The rule of an operator whose inputs do not show its work.
pub(super) fn unknown(_: &Inputs<'_>) -> Work {
    Work::UNKNOWN
}
