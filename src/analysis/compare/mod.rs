//! Two sides compared config by config: which is faster, slower or the same, and what cannot be told. Callers say which
//! runs count, on which side a run is, and in which block; nothing here knows records.
//!
//! - **The number** is the ratio of throughputs, second side ÷ first: the mean of the differences of their logs.
//! - **Paired by block**, if three blocks or more hold both sides, and there are half as many as runs of the smaller
//!   side. What slowed a block then cancels. Otherwise by Welch.
//! - **The scatter** of a paired config is its own, shrunk across the table ([`crate::stats::shrink`]). Unpaired
//!   variances stay as they are: a slow block is in all of them, so they say less of each other than shrinking assumes.
//! - **Errors** are held by Holm's step-down over the table: in at most 5 % of tables is any *faster* or *slower*
//!   false, and in at most 5 % any *same*. A config cannot be wrong in both ways: without a difference, *same* is true.
//! - ***Same*** needs two one-sided tests to say that the ratio is within the margin. It takes precedence: a difference
//!   that is real and smaller than the margin is *same*.
//! - **Too few:** with fewer than three pairs, or three runs of each side, nothing is told.
//!
//! Margins and limits are shares of throughput lost: 2 % means down to 0.98 and up to 1 ÷ 0.98, so that swapped sides
//! swap the verdicts and change nothing else. `docs/statistics.md` says how often these rules are wrong.

mod gate;
mod geometric;
mod pairing;
mod table;
mod verdict;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use gate::{Gate, gate};
pub use table::compare;

use crate::stats::{Estimate, Interval, TooFew, Variance, p_alike};

/// The throughput of a run that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Samples per second; greater than 0.
    pub per_s: f64,
    /// The block, on a numbering common to both sides and all configs: runs of one block were made close in time.
    /// `None` if it belongs to none.
    pub block: Option<usize>,
}

/// The two sides of a config.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sides {
    /// The side that is compared with.
    pub from: Vec<Rate>,
    /// The side that is compared.
    pub to: Vec<Rate>,
}

/// What a comparison is to hold to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The loss of throughput that makes no difference, as a share.
    pub margin: f64,
    /// The probability that any verdict of a kind is false in a table.
    pub error: f64,
    /// The confidence of the intervals, each by itself.
    pub confidence: f64,
    /// The probability with which the repeats that [`Comparison::would_decide`] tells decide.
    pub power: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { margin: 0.02, error: 0.05, confidence: crate::stats::CONFIDENCE, power: 0.8 }
    }
}

/// What is said of a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second side is faster.
    Faster,
    /// The second side is slower.
    Slower,
    /// They differ by less than the margin.
    Same,
    /// The runs do not decide.
    CannotTell,
}

/// How the runs of a config were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// By so many blocks that hold both sides.
    ByBlock(usize),
    /// Not paired: the runs of each side.
    Unpaired {
        /// Those of the first.
        from: usize,
        /// Those of the second.
        to: usize,
    },
}

/// A config after the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// How its runs were compared.
    pub pairing: Pairing,
    /// The log of the ratio.
    pub log_ratio: Estimate,
    /// The ratio's interval, by itself: it is no wider because the table is long.
    pub interval: Interval,
    /// Holm's p-value of "there is no difference".
    pub p_equal: f64,
    /// Holm's p-value of "the difference reaches the margin".
    pub p_beyond: f64,
    /// What is said.
    pub verdict: Verdict,
    /// The variance of the log ratio times the repeats, if all repeats were alike.
    variance: f64,
}

/// How many repeats of each side would decide a config, if what was seen is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldDecide {
    /// The repeats, those that there are included.
    pub repeats: usize,
    /// What they would say.
    pub verdict: Verdict,
}

/// A comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What it holds to.
    pub settings: Settings,
    /// Each config, in the given order.
    pub configs: Vec<Result<Compared, TooFew>>,
    /// The variance of a paired difference that the configs have in common, if they were shrunk.
    pub prior: Option<Variance>,
    /// The log of the geometric mean of the ratios of all configs that have one.
    pub geometric_mean: Result<Estimate, TooFew>,
    /// The sides of each config.
    table: Vec<Sides>,
}

/// The probability that configs of one ratio are said to disagree.
const DISAGREE: f64 = 0.01;

impl Comparison {
    /// Whether the configs do not have one ratio: theirs differ by more than the margin in both directions, and by more
    /// than their errors.
    pub fn disagrees(&self) -> bool {
        let estimates: Vec<Estimate> =
            self.configs.iter().filter_map(|config| Some(config.as_ref().ok()?.log_ratio)).collect();
        let most = estimates.iter().map(|it| it.value).fold(f64::NEG_INFINITY, f64::max);
        let least = estimates.iter().map(|it| it.value).fold(f64::INFINITY, f64::min);
        let is_wide = most - least > 2.0 * distance(self.settings.margin);
        is_wide && p_alike(&estimates).is_none_or(|p| p <= DISAGREE)
    }
}

impl Compared {
    /// The ratio of throughputs, second side ÷ first.
    pub fn ratio(&self) -> f64 {
        self.log_ratio.value.exp()
    }
}

/// The log of the ratio that loses `share`, as a positive distance from 0.
fn distance(share: f64) -> f64 {
    -(-share).ln_1p()
}
