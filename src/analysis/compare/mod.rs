//! Comparison of two sides config by config, with the verdicts *faster*, *slower*, *same* and *cannot tell*. The input
//! is a table of [`Sides`], the throughputs of both sides with their blocks; callers choose the runs. The output is a
//! [`Comparison`].
//!
//! - **The number** is the ratio of throughputs, second side ÷ first: the mean of the differences of their logs.
//! - **Paired by block**, if three blocks or more contain both sides, and there are half as many as runs of the smaller
//!   side. A slow block then cancels. Otherwise by Welch.
//! - **The scatter** of a paired config is its own, shrunk across the table ([`crate::stats::shrink`]). Unpaired
//!   variances are not shrunk: they share the slow blocks, so they are less independent than shrinking assumes.
//! - **Errors** are limited by Holm's step-down over the table: at most 5 % of tables have a false *faster* or
//!   *slower*, and at most 5 % a false *same*. A config cannot be wrong in both ways: without a difference, *same* is
//!   true.
//! - ***Same*** needs two one-sided tests that the ratio is within the margin. It takes precedence: a significant
//!   difference that is smaller than the margin is *same*.
//! - **Too few:** with fewer than three pairs, or three runs of each side, the result is [`TooFew`].
//!
//! Margins and limits are shares of throughput lost: 2 % means down to 0.98 and up to 1 ÷ 0.98, so that swapped sides
//! merely swap the verdicts. `docs/statistics.md` lists the error rates of these rules.

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
    /// `None` without a block.
    pub block: Option<usize>,
}

/// The two sides of a config.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sides {
    /// The baseline side.
    pub from: Vec<Rate>,
    /// The side that is compared with it.
    pub to: Vec<Rate>,
}

/// The settings of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The loss of throughput that counts as no difference, as a share.
    pub margin: f64,
    /// The probability that any verdict of a kind is false in a table.
    pub error: f64,
    /// The confidence of each interval, without correction.
    pub confidence: f64,
    /// The probability of a decision with the repeats of [`Comparison::would_decide`].
    pub power: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { margin: 0.02, error: 0.05, confidence: crate::stats::CONFIDENCE, power: 0.8 }
    }
}

/// The verdict on a config.
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
    /// By this number of blocks that contain both sides.
    ByBlock(usize),
    /// Not paired; the numbers of runs.
    Unpaired {
        /// On the first side.
        from: usize,
        /// On the second side.
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
    /// The ratio's interval, not corrected for the length of the table.
    pub interval: Interval,
    /// Holm's p-value of "there is no difference".
    pub p_equal: f64,
    /// Holm's p-value of "the difference reaches the margin".
    pub p_beyond: f64,
    /// The verdict, corrected for the length of the table.
    pub verdict: Verdict,
    /// The variance of the log ratio times the repeats, if all repeats are equal.
    variance: f64,
}

/// How many repeats of each side would decide a config, if the observed ratio and scatter are true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldDecide {
    /// The repeats, including the existing ones.
    pub repeats: usize,
    /// The verdict with them.
    pub verdict: Verdict,
}

/// A comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Its settings.
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

/// The probability that configs of one ratio are reported to disagree.
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
