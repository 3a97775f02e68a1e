//! A config of a comparison as every output shows it: `resnet18 fp32 bs16`, its two throughputs and their ratio.

use super::meet::Pair;
use crate::analysis::compare::{Comparison, Pairing, Verdict, WouldDecide};
use crate::analysis::group::Row;
use crate::analysis::operators::{Breakdown, difference};
use crate::stats::Interval;
use crate::text::{LastDigit, significant};

/// The runs of a config on one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfSide {
    /// The number of runs that count.
    pub n: usize,
    /// The geometric mean of their throughputs, in samples per second.
    pub per_s: f64,
}

/// A config of either side.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The name of the config, without the terms that differ between the sides.
    pub config: String,
    /// The runs on both sides, if the config is compared.
    pub sides: Option<[OfSide; 2]>,
    /// The comparison, or the reason why there is none.
    pub result: Result<ConfigComparison, String>,
    /// Whether one side has no result for the config.
    pub is_unknown: bool,
    /// The operators that account for the difference, if both sides have a profile: a clause about the second side.
    pub operators: Option<String>,
}

/// The comparison of one config.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigComparison {
    /// The ratio of throughputs, second side ÷ first.
    pub ratio: f64,
    /// The confidence interval of the ratio.
    pub interval: Interval,
    /// Whether the runs were paired by block.
    pub pairing: Pairing,
    /// Holm's p-value of "there is no difference".
    pub p_equal: f64,
    /// Holm's p-value of "the difference reaches the margin".
    pub p_beyond: f64,
    /// The verdict, corrected for all configs of the table.
    pub verdict: Verdict,
    /// The number of repeats that would probably decide.
    pub would_decide: Option<WouldDecide>,
}

impl OfSide {
    /// The runs of `row` that count; `None` without any.
    pub fn of(row: &Row<'_>) -> Option<OfSide> {
        let statistics = row.statistics.as_ref().ok()?;
        Some(OfSide { n: statistics.n, per_s: statistics.geometric_mean })
    }
}

impl ConfigComparison {
    /// The config at `index` of `comparison`.
    ///
    /// # Errors
    /// The config has too few runs; the text gives their numbers.
    pub fn of(comparison: &Comparison, index: usize) -> Result<ConfigComparison, String> {
        let config = comparison.configs[index].as_ref().map_err(ToString::to_string)?;
        Ok(ConfigComparison {
            ratio: config.ratio(),
            interval: config.interval,
            pairing: config.pairing,
            p_equal: config.p_equal,
            p_beyond: config.p_beyond,
            verdict: config.verdict,
            would_decide: comparison.would_decide(index),
        })
    }

    /// The ratio and the ends of its interval, rounded to the same digit: the second digit of half of the interval's
    /// width. An end other than 1 is never printed as 1, so that the printed interval contains 1 only if the exact one
    /// does.
    pub fn texts(&self) -> [String; 3] {
        ratio_texts(self.ratio, self.interval)
    }

    /// Whether the config is undecided only because of Holm's correction for all configs of the table: its uncorrected
    /// interval excludes 1.
    pub fn is_open_by_correction(&self) -> bool {
        let excludes_one = self.interval.low > 1.0 || self.interval.high < 1.0;
        self.verdict == Verdict::CannotTell && excludes_one
    }

    /// `5 blocks`, or `3 and 4 runs`.
    pub fn pairing_text(&self) -> String {
        match self.pairing {
            Pairing::ByBlock(blocks) => format!("{blocks} blocks"),
            Pairing::Unpaired { from, to } => format!("{from} and {to} runs"),
        }
    }

    /// The p-value of the verdict. For `cannot tell`, that of "there is no difference".
    pub fn p(&self) -> f64 {
        if self.verdict == Verdict::Same { self.p_beyond } else { self.p_equal }
    }
}

/// A ratio and the ends of its interval as texts; see [`ConfigComparison::texts`].
pub fn ratio_texts(ratio: f64, interval: Interval) -> [String; 3] {
    let Interval { low, high, .. } = interval;
    let digit = LastDigit::of_interval(low, high)
        .map(|digit| digit.distinguishing(low, 1.0).distinguishing(high, 1.0));
    let text = |value: f64| digit.map_or_else(|| significant(value, 4), |digit| digit.text(value));
    [ratio, low, high].map(text)
}

/// The operators that account for the difference between the sides of `pair`.
fn operators(pair: &Pair<'_, '_>) -> Option<String> {
    let [from, to] = [pair.from, pair.to].map(|row| Some((Breakdown::of(row)?, row.config.batch)));
    let ((from, from_batch), (to, to_batch)) = (from?, to?);
    difference((&from, from_batch), (&to, to_batch))
}

impl Line {
    /// The config at `index` of `comparison`.
    pub(super) fn compared(pair: &Pair<'_, '_>, comparison: &Comparison, index: usize) -> Line {
        let result = ConfigComparison::of(comparison, index);
        let sides = OfSide::of(pair.from).zip(OfSide::of(pair.to)).map(|(from, to)| [from, to]);
        let is_unknown = result.is_err();
        Line { config: pair.name.clone(), sides, result, is_unknown, operators: operators(pair) }
    }

    /// Whether one side is significantly faster.
    pub fn differs(&self) -> bool {
        let verdict = self.result.as_ref().map(|comparison| comparison.verdict);
        matches!(verdict, Ok(Verdict::Slower | Verdict::Faster))
    }

    /// A config that is not compared, for this `reason`.
    pub(super) fn not_compared(config: String, is_unknown: bool, reason: String) -> Line {
        Line { config, sides: None, result: Err(reason), is_unknown, operators: None }
    }
}
