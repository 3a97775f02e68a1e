//! The work of an operator: its FLOPs and its compulsory bytes.

use super::count::{product, sum};

/// The work of one call of an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations, 2 per multiply-accumulate. `None` if the operator is unknown, or its shapes do not
    /// determine them.
    pub flops: Option<u64>,
    /// Compulsory bytes: each input read once and each output written once, whatever is in caches. `None` if the
    /// operator is unknown, or its shapes do not determine its output.
    pub bytes: Option<u64>,
}

impl Work {
    /// The work of an operator that leaves all work to others, or has none.
    pub(super) const ZERO: Work = Work { flops: Some(0), bytes: Some(0) };

    /// The work of an unknown operator.
    pub(super) const UNKNOWN: Work = Work { flops: None, bytes: None };

    /// The work of `macs` multiply-accumulates.
    pub(super) fn multiplying(macs: Option<u64>, bytes: Option<u64>) -> Work {
        Work { flops: product([macs, Some(2)]), bytes }
    }

    /// The work of an operator without matrix products that reads and writes tensors of these bytes.
    pub(super) fn moving(tensors: impl IntoIterator<Item = Option<u64>>) -> Work {
        Work { flops: Some(0), bytes: sum(tensors) }
    }
}
