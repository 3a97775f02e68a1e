//! The limits of a row, and the shares of a roof that decide between them.

use std::fmt;

/// The share of a roof from which a point counts as at it.
pub const AT_ROOF: f64 = 0.6;

/// The share of both roofs below which a point counts as far from them.
pub const FAR_FROM_ROOF: f64 = 0.3;

/// The limit of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// The host: the device waits for it.
    Host,
    /// Memory that spilled: it was paged between the device and the host.
    Spilled,
    /// The compute roof: the point is at it.
    Compute,
    /// The bandwidth roof: the point is at it.
    Memory,
    /// Latency: the point is far from both roofs.
    Latency,
    /// The implementation of the operators: they are at neither roof, and not far from both.
    Kernel,
    /// Several of them, each for a large share of the time.
    Mixed,
    /// Unknown, for lack of evidence.
    Unknown,
}

impl Bound {
    /// Every bound, in the order of tables.
    pub const ALL: [Bound; 8] = [
        Bound::Compute,
        Bound::Memory,
        Bound::Kernel,
        Bound::Latency,
        Bound::Host,
        Bound::Spilled,
        Bound::Mixed,
        Bound::Unknown,
    ];
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Host => "host-bound",
            Bound::Spilled => "spilled",
            Bound::Compute => "compute-bound",
            Bound::Memory => "memory-bound",
            Bound::Latency => "latency-bound",
            Bound::Kernel => "kernel-bound",
            Bound::Mixed => "mixed",
            Bound::Unknown => "unknown",
        })
    }
}
