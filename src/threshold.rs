//! The thresholds of marks and findings, with their units and evidence.
//! `matrix` calls it to check thresholds that a user changes, `plan` to save them, and `analysis` to apply them.
//! It never reads a record, and does not know which mark a threshold raises.
//!
//! To add a threshold, add a variant to [`Threshold`]: the compiler then requires its facts and a test of its rule.

mod values;

use std::ops::RangeInclusive;

use strum::{EnumCount, EnumIter, IntoEnumIterator, IntoStaticStr};

use crate::text::decimals;

pub use values::{Thresholds, UnknownThreshold};

/// A threshold with which a number is compared. A matrix can change it: `thresholds: { high_variation: 0.1 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumCount, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[expect(missing_docs, reason = "`Threshold::facts` describes each, and the manual prints that")]
pub enum Threshold {
    ForeignCores,
    ForeignShare,
    ForeignAbove,
    OverlapS,
    Switches,
    SwitchesFloor,
    SystemShare,
    ThrottledShare,
    ThrottleEvents,
    QuotaHeld,
    SuspendedS,
    SpillCliff,
    SpillCores,
    SpillSystemShare,
    SwappedMib,
    Trend,
    Periodic,
    Bimodal,
    SlowFirst,
    Stalls,
    LevelShift,
    ClockWithin,
    ClockBetween,
    HighVariation,
    Autocorrelated,
    DataWaitShare,
    DataGap,
    BlockShift,
    ExecutedFlops,
    ReportedFlops,
    CountedFlops,
    ExclusionBias,
}

/// The declaration of a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Its value, unless a matrix changes it.
    pub value: f64,
    /// The unit of the value.
    pub unit: Unit,
    /// Whether a number that equals the threshold passes it.
    pub passed: Passed,
    /// The number that is compared with it, to complete "raised by".
    pub compared: &'static str,
    /// The evidence for the value, in one sentence.
    pub evidence: &'static str,
}

/// Which numbers pass a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Numbers above it.
    Above,
    /// Numbers above it and equal to it.
    From,
}

/// The unit of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share: 0.05 is printed as 5 %.
    Share,
    /// A factor.
    Times,
    /// Seconds.
    Seconds,
    /// Processors.
    Processors,
    /// Events per second.
    PerSecond,
    /// Events per minute.
    PerMinute,
    /// Mebibytes.
    Mebibytes,
}

impl Unit {
    /// `value` with its unit and at most four decimals: `5 %`, `1.2 ×`, `16 MiB`.
    pub fn text(self, value: f64) -> String {
        format!("{}{}", decimals(self.scale() * value, 4), self.suffix())
    }

    /// The factor by which a value is multiplied before it is printed.
    pub fn scale(self) -> f64 {
        if self == Unit::Share { 100.0 } else { 1.0 }
    }

    /// The unit as it is printed, with the space before it.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Share => " %",
            Unit::Times => " ×",
            Unit::Seconds => " s",
            Unit::Processors => " processors",
            Unit::PerSecond => " per second",
            Unit::PerMinute => " per minute",
            Unit::Mebibytes => " MiB",
        }
    }

    /// The values that a matrix may set.
    pub fn range(self) -> RangeInclusive<f64> {
        match self {
            Unit::Share => 0.0..=1.0,
            Unit::Times => 1.0..=1_000.0,
            Unit::Seconds => 0.0..=86_400.0,
            Unit::Processors => 0.0..=10_000.0,
            Unit::PerSecond | Unit::PerMinute | Unit::Mebibytes => 0.0..=1e6,
        }
    }
}

impl Threshold {
    /// Every threshold, grouped by mark.
    pub fn all() -> impl Iterator<Item = Threshold> + Clone {
        Threshold::iter()
    }

    /// Its name in a matrix and in the manual, such as `high_variation`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The threshold called `name`.
    pub fn named(name: &str) -> Option<Threshold> {
        Threshold::all().find(|threshold| threshold.name() == name)
    }

    /// `value` with the unit of this threshold: `5 %`.
    pub fn text(self, value: f64) -> String {
        self.facts().unit.text(value)
    }

    /// The table: the declaration of each threshold.
    pub const fn facts(self) -> Facts {
        use Passed::{Above, From};
        use Unit::{Mebibytes, PerMinute, PerSecond, Processors, Seconds, Share, Times};
        let (value, unit, passed, compared, evidence) = match self {
            Threshold::ForeignCores => (
                0.2,
                Processors,
                Above,
                "the processors that other processes kept busy, unless the machine was calibrated, or that the \
                 hypervisor gave to other guests",
                "A choice: the work of an idle system was at most 0.04 where it was measured, far below a steady \
                 quarter of a processor.",
            ),
            Threshold::ForeignShare => (
                0.05,
                Share,
                Above,
                "the same as a share of the usable processors, where that allows more than `foreign_cores`",
                "A choice: the system's own work grows with the number of its processors.",
            ),
            Threshold::ForeignAbove => (
                0.1,
                Processors,
                Above,
                "the processors that other processes kept busy, above the median of the other runs of the row, or \
                 above those of the calibrated machine when it was idle",
                "Undisturbed runs on one virtual machine had at most 0.04 in all; a tenth of a processor costs a run \
                 on all of them about a tenth of its throughput.",
            ),
            Threshold::OverlapS => (
                1.0,
                Seconds,
                Above,
                "the seconds that two jobs ran on one host at the same time",
                "Clocks are not exact, and the end of a process is noticed a moment later.",
            ),
            Threshold::Switches => (
                3.0,
                Times,
                Above,
                "the involuntary context switches per second, against the median of the other runs of the row",
                "Undisturbed runs on one laptop had about 75,000, two simultaneous matrices about 490,000, 6.5 times \
                 as many.",
            ),
            Threshold::SwitchesFloor => (
                100.0,
                PerSecond,
                Above,
                "the involuntary context switches per usable processor, independent of the other runs",
                "A second busy thread takes the processor from the first some hundreds of times per second.",
            ),
            Threshold::SystemShare => (
                0.13,
                Share,
                Above,
                "the share of processor time spent in the system, above the median of the other runs of the row",
                "Undisturbed runs on one laptop spent 18 to 20 %, two simultaneous ones 45 to 65 %; this is halfway.",
            ),
            Threshold::ThrottledShare => (
                0.05,
                Share,
                Above,
                "the share of the time for which a processor was throttled by heat, or of the samples in which the \
                 driver reduced the clocks for one reason",
                "A choice: at half the clock, this share of the time costs a fortieth of the throughput.",
            ),
            Threshold::ThrottleEvents => (
                1.0,
                PerMinute,
                Above,
                "the number of times that heat throttled a processor, per usable processor, where the duration is not \
                 counted; one is tolerated",
                "A choice: a laptop's processor does so now and then as it leaves its highest clocks.",
            ),
            Threshold::SpillCliff => (
                4.0,
                Times,
                Above,
                "the throughput at the next smaller batch, against that of the run",
                "Spills were 5 to 45 times slower; without one, throughput hardly falls at all.",
            ),
            Threshold::SpillCores => (
                0.75,
                Processors,
                From,
                "the processors that the run kept busy",
                "A driver that pages memory keeps one processor busy; it was 1.03 where a spill was observed.",
            ),
            Threshold::SpillSystemShare => (
                0.4,
                Share,
                From,
                "the share of its processor time that the run spent in the system",
                "It was 63 % where a spill was observed.",
            ),
            Threshold::QuotaHeld => (
                0.05,
                Processors,
                Above,
                "how many processors the quota of the control group took from the run, on average over the window",
                "A choice: a job within its quota loses nothing, and one busy thread too many loses a whole processor.",
            ),
            Threshold::SuspendedS => (
                0.5,
                Seconds,
                Above,
                "the seconds for which the host slept, or the worker was stopped, while the job ran",
                "A choice: sensors sample once per second, so one sample of a stopped worker exceeds it.",
            ),
            Threshold::SwappedMib => (
                16.0,
                Mebibytes,
                Above,
                "the memory that the host wrote to swap and read from it, together",
                "A choice: a few pages are swapped out whenever memory is allocated; this is four thousand of them.",
            ),
            Threshold::Trend => (
                0.1,
                Share,
                Above,
                "the change of the iterations' seconds over the window, against their median, in either direction",
                "A choice: in simulations of 30 iterations with 10 % of scatter, 0.4 % of windows pass it, and 1.1 % \
                 if neighbours correlate by 0.5.",
            ),
            Threshold::Periodic => (
                1.2,
                Times,
                Above,
                "the median of every k-th iteration, against that of the others, in either direction",
                "A choice: chance rarely makes a period, so the factor only excludes periods that are too small to \
                 matter.",
            ),
            Threshold::Bimodal => (
                1.2,
                Times,
                Above,
                "the median of the slower iterations, against that of the faster ones",
                "A choice: the same factor as `periodic`, for kinds of iterations in irregular order.",
            ),
            Threshold::SlowFirst => (
                2.0,
                Times,
                Above,
                "the first measured iteration, against the median of the others",
                "On one virtual machine, one iteration in ten took 50 % longer; this is beyond it.",
            ),
            Threshold::Stalls => (
                0.05,
                Share,
                Above,
                "the time that single long iterations took beyond the median, against the time of the window",
                "A choice: in simulations of 50 iterations with 10 % of scatter no window passes it; of those in which 10 % \
                 of the iterations take 3 × as long, 97 % do.",
            ),
            Threshold::LevelShift => (
                0.05,
                Share,
                Above,
                "the time that the slower part of a window took beyond the median of the faster one, against the time \
                 of the window",
                "A choice: in simulations of 50 iterations with 5 % of scatter, 0.1 % of level windows are marked, and 97 % \
                 of those whose second half takes 15 % longer.",
            ),
            Threshold::ClockWithin => (
                0.1,
                Share,
                Above,
                "the range of the middle four fifths of a clock's readings within the window, against their mean",
                "A choice: a clock with 2 % of scatter never passed it in simulations, in windows of 6 readings or 600.",
            ),
            Threshold::ClockBetween => (
                0.05,
                Share,
                Above,
                "the distance of a clock's mean from that of the other runs of the row, in either direction",
                "A choice: throughput that is bound by compute follows the clock.",
            ),
            Threshold::HighVariation => (
                0.05,
                Share,
                Above,
                "the lower bound at 95 % of the coefficient of variation of a row's runs",
                "A choice: of simulated rows of three runs with a true CV of 3 %, none are marked; with 10 %, 46 %; \
                 with 20 %, 82 %.",
            ),
            Threshold::Autocorrelated => (
                1.2,
                Times,
                Above,
                "the standard error of a row's mean if its repeats correlate as those of its machine do, against that \
                 of independent ones",
                "A choice: of simulated machines with 40 independent rows of five runs, 1 % have a marked row; with a \
                 correlation of 0.7 from repeat to repeat, 97 %.",
            ),
            Threshold::DataWaitShare => (
                0.1,
                Share,
                Above,
                "the share of the window that a run waited for data",
                "A choice: a tenth of the window is a tenth of the throughput.",
            ),
            Threshold::DataGap => (
                0.05,
                Share,
                Above,
                "how much slower training on files is than on synthetic data, and the ends of its interval",
                "A choice: the same as `high_variation`.",
            ),
            Threshold::BlockShift => (
                0.01,
                Share,
                Above,
                "the distance of the runs of a block from those of the other blocks of their machine, in either direction",
                "A choice: of simulated machines with 12 rows in 5 blocks and a CV of 1 %, fewer than 1 % have a block \
                 that passes it by chance.",
            ),
            Threshold::ExecutedFlops => (
                0.05,
                Share,
                Above,
                "the distance of the FLOPs that a device executed from those of the network, in either direction",
                "A choice: it leaves room for padding and for work that no layer describes.",
            ),
            Threshold::ReportedFlops => (
                0.05,
                Share,
                Above,
                "the distance of the FLOPs that a worker reports from those of the network, in either direction",
                "A choice: 3 × the forward pass, as many scripts count, is up to 3.4 % more than the layers take, but \
                 7.3 % for squeezenet1_0.",
            ),
            Threshold::CountedFlops => (
                0.01,
                Share,
                Above,
                "the distance of the FLOPs that a worker's library counted from those that are used, in either direction",
                "Both count products and convolutions one by one, and agree to 0.1 % on the networks of torchvision.",
            ),
            Threshold::ExclusionBias => (
                0.02,
                Share,
                Above,
                "how much slower or faster the runs that marks leave out are than the others of their rows",
                "A choice: less would hardly change a table.",
            ),
        };
        Facts { value, unit, passed, compared, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_is_declared_in_sentences_and_within_its_range() {
        for threshold in Threshold::all() {
            let (name, facts) = (threshold.name(), threshold.facts());
            assert!(facts.unit.range().contains(&facts.value), "{name}: {}", facts.value);
            assert!(facts.evidence.ends_with('.') && facts.evidence.len() > 20, "{name} has no evidence");
            assert!(!facts.compared.is_empty() && !facts.compared.ends_with('.'), "{name} compares nothing");
            assert_eq!(Threshold::named(name), Some(threshold));
        }
        assert_eq!(Threshold::named("high-variation"), None);
    }
}
