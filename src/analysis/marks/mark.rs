//! The marks and the numbers that each one carries. Their sentences are in `sentence`, their effects and explanations
//! in `declaration`.

use strum::{EnumIter, IntoEnumIterator, IntoStaticStr};

use crate::analysis::claim::Sentence;
use crate::job::Name;

/// A named doubt about a run, a row or a comparison of rows.
///
/// To add one, add a variant. The compiler then requires its name, its sentence, its declaration, and a test case of
/// its rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Other processes used the processors or the device while the job ran.
    Contended {
        /// The cause, with the number and the threshold.
        by: Sentence,
    },
    /// The job started although the machine was not as quiet or as cool as its limits ask.
    Unsettled {
        /// The state of the machine, with the last readings.
        by: Sentence,
    },
    /// Heat or hardware protection reduced the clocks.
    Throttled {
        /// The cause, with the number and the threshold.
        by: Sentence,
    },
    /// The host slept, or the worker was stopped, while the job ran.
    Suspended {
        /// Which of the two, with the number and the threshold.
        by: Sentence,
    },
    /// The control group's quota took processors from the run.
    QuotaThrottled {
        /// How many processors, on average over the window.
        held: f64,
        /// The quota, in processors, if it is known.
        quota: Option<f64>,
        /// The tolerated number of processors.
        threshold: f64,
    },
    /// Device memory was paged to the host.
    Spilled {
        /// The smaller batch of the comparison.
        batch: u32,
        /// The throughput at that batch, as a multiple of the run's.
        cliff: f64,
        /// How many processors the run kept busy.
        cores: f64,
        /// The share of their time that was spent in the kernel.
        system_share: f64,
        /// The tolerated cliff.
        threshold: f64,
    },
    /// The host wrote memory to swap, or read it back.
    Swapped {
        /// Bytes written to swap.
        out_bytes: u64,
        /// Bytes read from swap.
        in_bytes: u64,
        /// The tolerated amount, in MiB.
        threshold: f64,
    },
    /// The window was not synchronised with the device, so its seconds are meaningless.
    Unsynchronised,
    /// The board reached its power limit.
    PowerCapped {
        /// The number of samples at the limit.
        samples: u32,
        /// The number of all samples.
        of: u32,
        /// The tolerated share of them.
        threshold: f64,
    },
    /// There were more compute threads than processors to run them.
    Oversubscribed {
        /// The number of compute threads.
        threads: u32,
        /// The number of processors that the process could use.
        usable: u32,
    },
    /// The host ran on its battery.
    OnBattery,
    /// The loss was infinite or not a number.
    Diverged {
        /// The first such iteration of the window, from 0.
        iteration: u64,
    },
    /// Iterations became longer over the window, or shorter.
    Trend {
        /// The change from the window's start to its end, as a share of the median iteration.
        change: f64,
        /// Its confidence interval.
        interval: (f64, f64),
        /// The number of iterations.
        n: usize,
        /// The tolerated change.
        threshold: f64,
    },
    /// Every k-th iteration took longer or shorter than the others.
    Periodic {
        /// k.
        every: usize,
        /// Its median, as a multiple of that of the others.
        ratio: f64,
        /// The number of examined iterations.
        n: usize,
        /// The tolerated ratio, or its inverse.
        threshold: f64,
    },
    /// The iterations were of two kinds with hardly any between them, in no regular order.
    Bimodal {
        /// The median of the slower kind, as a multiple of that of the faster.
        ratio: f64,
        /// The number of iterations of the faster kind, and of the slower.
        numbers: (usize, usize),
        /// The tolerated ratio.
        threshold: f64,
    },
    /// The first measured iteration took much longer than the others.
    SlowFirst {
        /// Its seconds, as a multiple of the median of the others.
        ratio: f64,
        /// The tolerated ratio.
        threshold: f64,
    },
    /// A few iterations took much longer than the others.
    Stalls {
        /// The number of long iterations.
        stalled: usize,
        /// The number of iterations.
        n: usize,
        /// Their median, as a multiple of that of all.
        ratio: f64,
        /// Their time beyond the median, as a share of the time of all.
        cost: f64,
        /// The tolerated share.
        threshold: f64,
    },
    /// The iterations of a stretch of the window took longer or shorter than the others.
    LevelShift {
        /// Its first iteration and its last, counted from 1.
        places: (usize, usize),
        /// The number of iterations.
        n: usize,
        /// Their median, as a multiple of that of the others.
        ratio: f64,
        /// The time of the slower part beyond the median of the faster one, as a share of the time of all.
        cost: f64,
        /// The tolerated share.
        threshold: f64,
    },
    /// A clock changed within the window, or differed from that of the other runs of the row.
    ClockChanged {
        /// The change, with the number and the threshold.
        by: Sentence,
    },
    /// The runs of a row scatter.
    HighVariation {
        /// The coefficient of variation.
        cv: f64,
        /// Its lower bound at 95 %.
        at_least: f64,
        /// The number of runs.
        n: usize,
        /// The tolerated coefficient.
        threshold: f64,
    },
    /// The repeats of a machine's rows correlate, so an interval that assumes independence is too narrow.
    Autocorrelated {
        /// The correlation from one repeat to the next.
        correlation: f64,
        /// The number of rows that it was estimated from.
        rows: usize,
        /// The factor by which the interval of the row is too narrow.
        too_narrow: f64,
        /// The number of its runs.
        n: usize,
        /// The tolerated factor.
        threshold: f64,
    },
    /// A row and one of another env differ in undeclared settings.
    SettingsDiffer {
        /// The other env.
        env: Name,
        /// The differences, as `name this / that`.
        differences: Vec<String>,
    },
}

/// The names of the marks. CSV files and the manual use them in kebab case, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "they are the variants of `Mark`")]
pub enum MarkName {
    Contended,
    Unsettled,
    Throttled,
    QuotaThrottled,
    Suspended,
    Spilled,
    Swapped,
    Unsynchronised,
    PowerCapped,
    Oversubscribed,
    OnBattery,
    Diverged,
    Trend,
    Periodic,
    Bimodal,
    SlowFirst,
    Stalls,
    LevelShift,
    ClockChanged,
    HighVariation,
    Autocorrelated,
    SettingsDiffer,
}

impl From<&Mark> for MarkName {
    fn from(mark: &Mark) -> MarkName {
        match mark {
            Mark::Contended { .. } => MarkName::Contended,
            Mark::Unsettled { .. } => MarkName::Unsettled,
            Mark::Throttled { .. } => MarkName::Throttled,
            Mark::QuotaThrottled { .. } => MarkName::QuotaThrottled,
            Mark::Suspended { .. } => MarkName::Suspended,
            Mark::Spilled { .. } => MarkName::Spilled,
            Mark::Swapped { .. } => MarkName::Swapped,
            Mark::Unsynchronised => MarkName::Unsynchronised,
            Mark::PowerCapped { .. } => MarkName::PowerCapped,
            Mark::Oversubscribed { .. } => MarkName::Oversubscribed,
            Mark::OnBattery => MarkName::OnBattery,
            Mark::Diverged { .. } => MarkName::Diverged,
            Mark::Trend { .. } => MarkName::Trend,
            Mark::Periodic { .. } => MarkName::Periodic,
            Mark::Bimodal { .. } => MarkName::Bimodal,
            Mark::SlowFirst { .. } => MarkName::SlowFirst,
            Mark::Stalls { .. } => MarkName::Stalls,
            Mark::LevelShift { .. } => MarkName::LevelShift,
            Mark::ClockChanged { .. } => MarkName::ClockChanged,
            Mark::HighVariation { .. } => MarkName::HighVariation,
            Mark::Autocorrelated { .. } => MarkName::Autocorrelated,
            Mark::SettingsDiffer { .. } => MarkName::SettingsDiffer,
        }
    }
}

impl Mark {
    /// Its name in CSV files.
    pub fn name(&self) -> &'static str {
        MarkName::from(self).as_str()
    }
}

impl MarkName {
    /// Every mark, in the order in which the manual lists them.
    pub fn all() -> impl Iterator<Item = MarkName> {
        MarkName::iter()
    }

    /// The name in CSV files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The names of `marks` without duplicates, in their order.
pub fn mark_names<'m>(marks: impl IntoIterator<Item = &'m Mark>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for mark in marks {
        if !names.contains(&mark.name()) {
            names.push(mark.name());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_appears_once() {
        let contended = |by: &str| Mark::Contended { by: by.into() };
        let marks = [contended("a"), Mark::OnBattery, contended("b")];
        assert_eq!(mark_names(&marks), ["contended", "on-battery"]);
    }
}
