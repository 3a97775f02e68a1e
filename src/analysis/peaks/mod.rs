//! The ceilings of a device: what its vendor says, or what was measured on it.
//!
//! [`file`](parse) mirrors the YAML of `peaks/*.yaml`, [`MeasuredFile`] that of `peaks/measured/*.yaml`; [`Peaks`] is what
//! they mean once checked. A [`Catalogue`] is all of
//! them, and chooses for a device the one that is exactly for it, or says why there is none. "RTX 4090 Laptop GPU" never
//! gets the peaks of "RTX 4090": names are compared whole.

mod choose;
mod file;
mod measured;
mod suspicion;

use std::fmt;

use crate::job::{Device, Precision};
use crate::protocol::LeftOut;

pub use choose::{Catalogue, NoPeaks, Wanted};
pub use file::{PEAKS_SCHEMA, PeaksError, parse};
pub use measured::{MEASURED_SCHEMA, METHOD, MeasuredFile, parse_measured};
pub use suspicion::suspicions;

/// The ceilings of one device, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Peaks {
    /// The file's name without `.yaml`; measured ones begin with `measured/`.
    pub name: String,
    /// What people call the device.
    pub device: String,
    /// `cpu`, `mps` or `cuda`.
    pub backend: String,
    /// Names of the device, exactly as the driver or the system reports them, that these ceilings are for.
    pub names: Vec<String>,
    /// Who says so.
    pub origin: Origin,
    /// At most one a precision.
    pub flops: Vec<Ceiling>,
    /// Precisions that have none, where it is known why.
    pub left_out: Vec<LeftOut>,
    /// Bytes a second between the device and its memory, where known.
    pub bandwidth: Option<Range>,
    /// Clocks that the figures are for.
    pub clocks: Option<String>,
    /// Where the figures come from.
    pub source: String,
    /// When they were taken down or measured: `2026-10` or `2026-10-31`.
    pub date: String,
    /// How far they can be trusted.
    pub confidence: Confidence,
    /// Anything else to know.
    pub note: Option<String>,
    /// What made the figures doubtful when they were measured, a sentence each.
    pub warnings: Vec<String>,
}

/// Who says what the ceilings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The vendor's data sheet, or a page that quotes it.
    Vendor,
    /// Somebody measured it and published the number.
    Published,
    /// `orchestrate peaks measure`, on this very host.
    Measured {
        /// The host's name.
        host: String,
        /// The device, as it was asked for on that host.
        device: Device,
        /// The device's UUID, where it has one.
        uuid: Option<String>,
        /// Compute threads, on a processor.
        threads: Option<u32>,
        /// Whether little time was spent on it.
        quick: bool,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Vendor => f.write_str("vendor"),
            Origin::Published => f.write_str("published measurement"),
            Origin::Measured { host, threads, quick, .. } => {
                write!(f, "measured {}on {host}", if *quick { "quickly " } else { "" })?;
                match threads {
                    None => Ok(()),
                    Some(1) => f.write_str(" with 1 thread"),
                    Some(n) => write!(f, " with {n} threads"),
                }
            }
        }
    }
}

/// How far figures can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Several sources agree, or we measured it.
    High,
    /// One source, or a figure that depends on a setting such as a power limit.
    Medium,
}

/// The most operations a second at one precision, dense.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// The arithmetic.
    pub precision: Precision,
    /// FLOP/s.
    pub flops_per_s: Range,
    /// What products are added up in: `fp32`, `fp16`.
    pub accumulate: String,
}

/// A figure, or what it lies between where it depends on something that is not known, such as a laptop's power limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least it may be.
    pub low: f64,
    /// The most it may be; what roofs are drawn at, so that a share of the peak is never overstated.
    pub high: f64,
}

impl Range {
    /// A figure that is known.
    pub fn exactly(value: f64) -> Self {
        Range { low: value, high: value }
    }

    /// Whether low and high differ.
    pub fn is_wide(self) -> bool {
        self.low < self.high
    }
}

impl Peaks {
    /// The ceiling for `precision`, if these peaks have one. There is no guessing from another precision.
    pub fn ceiling(&self, precision: Precision) -> Option<&Ceiling> {
        self.flops.iter().find(|ceiling| ceiling.precision == precision)
    }

    /// Why there is no ceiling for `precision`, where that is known.
    pub fn reason_without(&self, precision: Precision) -> Option<&str> {
        let left_out = self.left_out.iter().find(|left_out| left_out.precision == precision)?;
        Some(&left_out.reason)
    }

    /// FLOPs a byte from which on the compute roof is the lower one, at `precision`.
    pub fn knee(&self, precision: Precision) -> Option<f64> {
        Some(self.ceiling(precision)?.flops_per_s.high / self.bandwidth?.high)
    }

    /// The most FLOP/s that a program of `intensity` FLOPs a byte can reach at `precision`.
    pub fn attainable(&self, precision: Precision, intensity: f64) -> Option<f64> {
        Some(self.ceiling(precision)?.flops_per_s.high.min(intensity * self.bandwidth?.high))
    }
}
