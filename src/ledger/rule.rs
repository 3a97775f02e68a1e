//! The rules of an audit, with their general statements and thresholds, independent of any ledger.

use serde::{Serialize, Serializer};
use strum::{EnumIter, IntoEnumIterator, IntoStaticStr};

use super::severity::Severity;

/// The tolerance, beyond rounding, of attained FLOP/s ÷ (samples per second × FLOPs) and of other products, as a share.
pub(super) const SAME: f64 = 5e-3;
/// The tolerance, beyond rounding, of a reproduced mean over other lines or intensity, as a share.
pub(super) const REPRODUCED: f64 = 1e-3;
/// The ratio of throughput at the next larger batch below which there is a cliff.
pub(super) const CLIFF: f64 = 2.0;
/// The tolerance for points above their roof, as a share.
pub(super) const ABOVE_ROOF: f64 = 0.05;
/// The least plausible ratio of stated to published peaks.
pub(super) const OF_PEAKS: f64 = 0.5;
/// The least plausible standard deviation of runs, as a share of the mean.
pub(super) const LEAST_SPREAD: f64 = 1e-4;
/// The tolerance of a window's time over that of its iterations, as a share.
pub(super) const LEFT_OUT: f64 = 0.05;

/// A general statement about measurements that a ledger can violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "`Rule::facts` describes each, and the manual prints that")]
pub enum Rule {
    Merged,
    IterationCount,
    Flops,
    Intensity,
    Rate,
    MeanOfRates,
    SpreadOfOne,
    AboveRoof,
    OtherPeaks,
    Runs,
    Spread,
    NoSpread,
    Cliff,
    Profiled,
    UnequalWindows,
    Overlap,
    UnevenRates,
    LeftOut,
    OnRoof,
}

/// The declaration of a rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleFacts {
    /// The severity of a violation.
    pub severity: Severity,
    /// The statement, which is true for every sound ledger.
    pub statement: &'static str,
    /// The condition of a violation.
    pub threshold: &'static str,
}

impl Rule {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The table: the declaration of each rule.
    pub const fn facts(self) -> RuleFacts {
        use Severity::{Doubt, Error};
        let (severity, statement, threshold) = match self {
            Rule::Merged => (
                Error,
                "A number of one machine is not the mean of several machines.",
                "It is the mean of several machines' lines, weighted by their runs, to 0.1 %, and does not follow from \
                 its own.",
            ),
            Rule::IterationCount => (
                Error,
                "Samples, iterations, seconds and FLOPs of a line are about the same iterations.",
                "Counts differ, or a rate is off by p ÷ q, both at most 10, to 0.1 %.",
            ),
            Rule::Flops => (
                Error,
                "Attained FLOP/s are samples per second × the FLOPs of a sample, which a network fixes.",
                "More than 0.5 % off.",
            ),
            Rule::Intensity => (
                Error,
                "Intensities are attained FLOP/s ÷ one bandwidth in all lines of a machine, or in none.",
                "More than 0.1 % off, where three lines or more, and over half of them, agree.",
            ),
            Rule::Rate => (
                Error,
                "Samples per second are samples ÷ seconds.",
                "More than 0.5 % below; for a mean of runs, also by the square of their variation.",
            ),
            Rule::MeanOfRates => (
                Error,
                "Samples per second are not the mean of the iterations' rates.",
                "More than 0.5 % above, or 0.1 % from the mean of the rates where that is not samples ÷ seconds.",
            ),
            Rule::SpreadOfOne => {
                (Error, "One run has no spread.", "A standard deviation is stated for n = 1.")
            }
            Rule::AboveRoof => {
                (Error, "No point is above a roof of its device.", "More than 5 % above the roof.")
            }
            Rule::OtherPeaks => (
                Error,
                "The peaks are those of the device, dense, at that precision.",
                "More than 5 % above the published ones, or less than half of them.",
            ),
            Rule::Runs => (
                Doubt,
                "A design has one number of runs per config.",
                "Another number than more than half of the rows have.",
            ),
            Rule::Spread => (
                Doubt,
                "Runs of one config differ little.",
                "The lower bound at 95 % of the coefficient of variation is above 5 %, for n ≥ 3.",
            ),
            Rule::NoSpread => (
                Doubt,
                "Runs of one config differ.",
                "The standard deviation is 0, though a ten-thousandth of the mean would show.",
            ),
            Rule::Cliff => (
                Doubt,
                "A sample does not take more time in a larger batch.",
                "Less than half of the throughput at the next smaller batch.",
            ),
            Rule::Profiled => (
                Doubt,
                "Profiled runs are not timings.",
                "A label contains the name of a profiler or `prof`, and others of its config do not.",
            ),
            Rule::UnequalWindows => (
                Doubt,
                "Runs of one config measure the same number of iterations.",
                "Another number than more than half of the runs of its config have.",
            ),
            Rule::Overlap => (
                Doubt,
                "A machine runs one measurement at a time.",
                "Two windows on one host overlap by more than a second.",
            ),
            Rule::UnevenRates => (
                Doubt,
                "The rates of iterations are not averaged.",
                "Their mean is more than 0.5 % above samples ÷ seconds of the same iterations.",
            ),
            Rule::LeftOut => (
                Doubt,
                "A window contains all steps of a training, including the loading of data.",
                "From the first to the last time stamp, it takes over 5 % longer than its iterations.",
            ),
            Rule::OnRoof => (
                Doubt,
                "Counted bytes do not put a point exactly on the memory roof.",
                "Attained FLOP/s are intensity × bandwidth, to 0.1 %.",
            ),
        };
        RuleFacts { severity, statement, threshold }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The manual's table: one row per rule.
pub fn rules_table() -> String {
    let row = |rule: Rule| {
        let RuleFacts { severity, statement, threshold } = rule.facts();
        format!("| `{}` | {severity} | {statement} | {threshold} |\n", rule.name())
    };
    let rows: String = Rule::iter().map(row).collect();
    format!("| rule | severity | statement | violated if |\n|---|---|---|---|\n{rows}")
}
