//! The ceilings of a device, as published by its vendor or as measured on it.
//!
//! [`file`](parse) mirrors the YAML of `peaks/*.yaml`, and [`MeasuredFile`] that of `peaks/measured/*.yaml`. Both
//! are converted to checked [`Peaks`]. A [`Catalogue`] contains all peaks and chooses those for exactly one device, or
//! returns the reason why there are none. Names are compared as a whole, so an "RTX 4090 Laptop GPU" never gets the
//! peaks of an "RTX 4090".

mod choose;
mod file;
mod measured;
mod suspicion;
mod units;

use std::fmt;

use crate::job::{Device, Precision};
use crate::protocol::LeftOut;
use crate::stats;
use crate::text::significant;

pub use choose::{Catalogue, NoPeaks, Wanted};
pub use file::{PEAKS_SCHEMA, PeaksError, parse};
pub use measured::{MEASURED_SCHEMA, METHOD, MeasuredFile, parse_measured};
pub use suspicion::suspicions;

/// The ceilings of one device, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Peaks {
    /// The file's name without `.yaml`; measured ones start with `measured/`.
    pub name: String,
    /// The device's usual name.
    pub device: String,
    /// `cpu`, `mps` or `cuda`.
    pub backend: String,
    /// The names of the devices that these ceilings are for, exactly as the driver or the system reports them.
    pub names: Vec<String>,
    /// The origin of the ceilings.
    pub origin: Origin,
    /// At most one ceiling per precision.
    pub flops: Vec<Ceiling>,
    /// Precisions without a ceiling, if the reason is known.
    pub left_out: Vec<LeftOut>,
    /// Bytes per second between the device and its memory, if known.
    pub bandwidth: Option<Range>,
    /// The scatter of the samples of the bandwidth, if it was measured here.
    pub bandwidth_spread: Option<Spread>,
    /// The caches whose bandwidth was measured here, the nearest to the units first.
    pub caches: Vec<CacheCeiling>,
    /// The total capacity of all caches in bytes, if known.
    pub cache_bytes: Option<u64>,
    /// Clocks that the figures are for.
    pub clocks: Option<String>,
    /// The document or method behind the figures.
    pub source: String,
    /// The date of the figures or of the measurement: `2026-10` or `2026-10-31`.
    pub date: String,
    /// The reliability of the figures.
    pub confidence: Confidence,
    /// A remark.
    pub note: Option<String>,
    /// Doubts about the figures from the time of the measurement, one sentence each.
    pub warnings: Vec<String>,
}

/// The origin of ceilings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The vendor's data sheet, or a page that quotes it.
    Vendor,
    /// A published measurement.
    Published,
    /// `orchestrate peaks measure`, on the same host.
    Measured {
        /// The host's name.
        host: String,
        /// The device, by its name on that host.
        device: Device,
        /// The device's UUID, if it has one.
        uuid: Option<String>,
        /// The number of compute threads, on a CPU.
        threads: Option<u32>,
        /// Whether the measurement was short.
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

/// The reliability of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Several sources agree, or we measured it.
    High,
    /// One source, or a figure that depends on a setting such as a power limit.
    Medium,
    /// Sources disagree, or the figure is doubted in its own note.
    Low,
    /// Computed from units, instructions per cycle and clocks, neither measured nor published.
    Estimate,
}

impl Confidence {
    /// Its word in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
            Confidence::Estimate => "estimate",
        }
    }

    /// Whether a share of such a peak needs a warning.
    pub fn is_doubtful(self) -> bool {
        matches!(self, Confidence::Low | Confidence::Estimate)
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The scatter of the samples behind a measured ceiling. The ceiling is the best of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The number of samples.
    pub n: usize,
    /// Their median.
    pub median: f64,
    /// Their median absolute deviation, if there are at least two.
    pub mad: Option<f64>,
}

impl Spread {
    /// The scatter of the valid ones among `samples`; `None` if there are none.
    pub(super) fn of(samples: &[f64]) -> Option<Spread> {
        let valid: Vec<f64> = samples.iter().copied().filter(|it| it.is_finite() && *it > 0.0).collect();
        Some(Spread { n: valid.len(), median: stats::median(&valid).ok()?, mad: stats::mad(&valid).ok() })
    }

    /// The text after the best sample, in units of `unit`: `best of 3, median 240.0, MAD 1.2`.
    pub fn text(&self, unit: f64) -> String {
        let mad = self.mad.map(|mad| format!(", MAD {}", significant(mad / unit, 2))).unwrap_or_default();
        format!("best of {}, median {}{mad}", self.n, significant(self.median / unit, 4))
    }
}

/// The most operations per second at one precision, dense.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// The precision.
    pub precision: Precision,
    /// FLOP/s: the denominator of a share of the peak.
    pub flops_per_s: Range,
    /// The kind of the ceiling.
    pub kind: CeilingKind,
    /// The rates that libraries attain, if they were measured here.
    pub attainable: Attainable,
    /// The number format in which products are added up: `fp32`, `fp16`.
    pub accumulate: String,
    /// The scatter of its samples, if it was measured here.
    pub spread: Option<Spread>,
    /// The clock that it is for, in MHz. If both are ranges, the lower figure is for the lower clock. A measured figure
    /// is for some clock in the observed range. `None` if unknown.
    pub clock_mhz: Option<Range>,
}

/// The source of a compute ceiling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CeilingKind {
    /// Multiply-adds in registers, measured with this instruction set.
    Instruction(String),
    /// Units × operations per clock × clock: a data sheet, or these words.
    Theoretical(Option<String>),
    /// The fastest measured matrix product or convolution. The units might be faster.
    Product,
}

impl fmt::Display for CeilingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CeilingKind::Instruction(isa) => write!(f, "instructions ({isa})"),
            CeilingKind::Theoretical(None) => f.write_str("theoretical"),
            CeilingKind::Theoretical(Some(units)) => write!(f, "theoretical ({units})"),
            CeilingKind::Product => f.write_str("fastest product"),
        }
    }
}

/// The best that libraries attain, in FLOP/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attainable {
    /// By a matrix product.
    pub product: Option<f64>,
    /// By a convolution.
    pub convolution: Option<f64>,
}

impl Attainable {
    /// The better of both.
    pub fn best(self) -> Option<f64> {
        [self.product, self.convolution].into_iter().flatten().max_by(f64::total_cmp)
    }
}

/// The bandwidth of a cache.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheCeiling {
    /// `L1`, `L2` or `L3`.
    pub level: String,
    /// Bytes per second, of all threads together.
    pub bytes_per_s: f64,
    /// The capacity in bytes of all caches of this level and of those above it; `None` if unknown.
    pub capacity: Option<u64>,
}

impl Ceiling {
    /// A ceiling without further facts.
    #[cfg(test)]
    pub(crate) fn of(precision: Precision, flops_per_s: Range) -> Ceiling {
        Ceiling {
            precision,
            flops_per_s,
            kind: CeilingKind::Product,
            attainable: Attainable::default(),
            accumulate: "fp32".into(),
            spread: None,
            clock_mhz: None,
        }
    }

    /// The ceiling at a clock of `mhz`, since it is proportional to the clock. `None` if the clock of the figure is
    /// unknown.
    pub fn at_clock(&self, mhz: f64) -> Option<Range> {
        let clock = self.clock_mhz?;
        let [one, other] = [self.flops_per_s.low / clock.low, self.flops_per_s.high / clock.high];
        Some(Range { low: one.min(other), high: one.max(other) }.times(mhz))
    }
}

/// A figure, or a range if it depends on something unknown, such as a laptop's power limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lower end.
    pub low: f64,
    /// The upper end. Roofs are drawn here, so that a share of the peak is never overstated.
    pub high: f64,
}

impl Range {
    /// A known figure.
    pub fn exactly(value: f64) -> Self {
        Range { low: value, high: value }
    }

    /// Whether low and high differ.
    pub fn is_wide(self) -> bool {
        self.low < self.high
    }

    /// Both ends, `factor` times as high.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Range { low: self.low * factor, high: self.high * factor }
    }

    /// Its low end times the low end of `factor`, and the same of the high ends.
    #[must_use]
    pub fn scaled(self, factor: Range) -> Self {
        Range { low: self.low * factor.low, high: self.high * factor.high }
    }

    /// `value` as a share of this ceiling.
    #[must_use]
    pub fn share(self, value: f64) -> Self {
        Range::exactly(value).over(self)
    }

    /// Its share of `ceiling`, from low ÷ high to high ÷ low. If a value is between the ends of a ceiling, the ceiling
    /// was at least as high at that time, so the share is at most 1.
    #[must_use]
    pub fn over(self, ceiling: Range) -> Self {
        let most = self.high / ceiling.low;
        let high = if self.high <= ceiling.high { most.min(1.0) } else { most };
        Range { low: self.low / ceiling.high, high }
    }

    /// Both ends.
    pub fn ends(self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// Both ends with `digits` significant digits: `29.2 to 49.5`, or one number if that is the same.
    pub fn text(self, digits: usize) -> String {
        let [low, high] = [self.low, self.high].map(|end| significant(end, digits));
        if low == high { high } else { format!("{low} to {high}") }
    }
}

impl Peaks {
    /// The ceiling for `precision`, if these peaks have one. It is never guessed from another precision.
    pub fn ceiling(&self, precision: Precision) -> Option<&Ceiling> {
        self.flops.iter().find(|ceiling| ceiling.precision == precision)
    }

    /// Why there is no ceiling for `precision`, if known.
    pub fn reason_without(&self, precision: Precision) -> Option<&str> {
        let left_out = self.left_out.iter().find(|left_out| left_out.precision == precision)?;
        Some(&left_out.reason)
    }

    /// The intensity in FLOPs per byte from which the compute roof is the lower one, at `precision`.
    pub fn knee(&self, precision: Precision) -> Option<f64> {
        Some(self.ceiling(precision)?.flops_per_s.high / self.bandwidth?.high)
    }
}
