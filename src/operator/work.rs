//! What an operator has to do.

use super::count::{product, sum};

/// What one call of an operator has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations, 2 per multiply-accumulate. `None` if the operator is unknown, or its shapes do not
    /// determine them.
    pub flops: Option<u64>,
    /// Compulsory bytes: each input read once and each output written once, whatever caches hold. `None` if the
    /// operator is unknown, or its shapes do not determine its output.
    pub bytes: Option<u64>,
}

impl Work {
    /// That of an operator that leaves all work to others, or has none.
    pub(super) const NOTHING: Work = Work { flops: Some(0), bytes: Some(0) };

    /// That of an operator of which nothing is known.
    pub(super) const UNKNOWN: Work = Work { flops: None, bytes: None };

    /// That of `macs` multiply-accumulates.
    pub(super) fn multiplying(macs: Option<u64>, bytes: Option<u64>) -> Work {
        Work { flops: product([macs, Some(2)]), bytes }
    }

    /// That of an operator that multiplies no matrices, and reads and writes `tensors` of so many bytes.
    pub(super) fn moving(tensors: impl IntoIterator<Item = Option<u64>>) -> Work {
        Work { flops: Some(0), bytes: sum(tensors) }
    }
}
