//! A config as every output shows it.

use super::meet::Pair;
use crate::analysis::compare::{Comparison, Pairing, Verdict, WouldDecide};
use crate::analysis::group::Row;
use crate::analysis::operators::{Breakdown, difference};
use crate::stats::Interval;
use crate::text::{LastDigit, significant};

/// The runs of a config on a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfSide {
    /// How many count.
    pub n: usize,
    /// The geometric mean of their throughputs, in samples per second.
    pub per_s: f64,
}

/// A config of either side.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The config, without what differs between the sides.
    pub config: String,
    /// Its runs on both sides, if it is compared.
    pub sides: Option<[OfSide; 2]>,
    /// What is told of it, or why nothing is.
    pub told: Result<Told, String>,
    /// Whether one side has no result for it.
    pub is_unknown: bool,
    /// Which operators account for the difference, if both sides have a profile: a clause about the second side.
    pub operators: Option<String>,
}

/// What is told of a config.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// The ratio of throughputs, second side ÷ first.
    pub ratio: f64,
    /// Its interval.
    pub interval: Interval,
    /// How the runs were compared.
    pub pairing: Pairing,
    /// Holm's p-value of "there is no difference".
    pub p_equal: f64,
    /// Holm's p-value of "the difference reaches the margin".
    pub p_beyond: f64,
    /// What is said.
    pub verdict: Verdict,
    /// How many repeats would decide.
    pub would_decide: Option<WouldDecide>,
}

impl OfSide {
    /// The runs of `row` that count, if there are any.
    pub fn of(row: &Row<'_>) -> Option<OfSide> {
        let statistics = row.statistics.as_ref().ok()?;
        Some(OfSide { n: statistics.n, per_s: statistics.geometric_mean })
    }
}

impl Told {
    /// What `comparison` tells of the config at `index`, or why it tells nothing.
    ///
    /// # Errors
    /// There are too few runs.
    pub fn of(comparison: &Comparison, index: usize) -> Result<Told, String> {
        let config = comparison.configs[index].as_ref().map_err(ToString::to_string)?;
        Ok(Told {
            ratio: config.ratio(),
            interval: config.interval,
            pairing: config.pairing,
            p_equal: config.p_equal,
            p_beyond: config.p_beyond,
            verdict: config.verdict,
            would_decide: comparison.would_decide(index),
        })
    }

    /// The ratio and the ends of its interval, to one digit: the second of half of the interval's width. An end that is
    /// not 1 is never printed as 1, so that the printed interval says what the numbers do.
    pub fn texts(&self) -> [String; 3] {
        ratio_texts(self.ratio, self.interval)
    }

    /// Whether nothing is decided although its own interval excludes 1: corrected for all configs of the table by
    /// Holm's method, it does not.
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

    /// The p-value of what is said, or of "there is no difference" if nothing is.
    pub fn p(&self) -> f64 {
        if self.verdict == Verdict::Same { self.p_beyond } else { self.p_equal }
    }
}

/// A ratio and the ends of its interval; see [`Told::texts`].
pub fn ratio_texts(ratio: f64, interval: Interval) -> [String; 3] {
    let Interval { low, high, .. } = interval;
    let digit =
        LastDigit::of_interval(low, high).map(|digit| digit.telling_apart(low, 1.0).telling_apart(high, 1.0));
    let text = |value: f64| digit.map_or_else(|| significant(value, 4), |digit| digit.text(value));
    [ratio, low, high].map(text)
}

/// Which operators account for the difference between the sides of `pair`.
fn operators(pair: &Pair<'_, '_>) -> Option<String> {
    let [from, to] = [pair.from, pair.to].map(|row| Some((Breakdown::of(row)?, row.config.batch)));
    let ((from, from_batch), (to, to_batch)) = (from?, to?);
    difference((&from, from_batch), (&to, to_batch))
}

impl Line {
    /// The config at `index` of `comparison`.
    pub(super) fn compared(pair: &Pair<'_, '_>, comparison: &Comparison, index: usize) -> Line {
        let told = Told::of(comparison, index);
        let sides = OfSide::of(pair.from).zip(OfSide::of(pair.to)).map(|(from, to)| [from, to]);
        let is_unknown = told.is_err();
        Line { config: pair.name.clone(), sides, told, is_unknown, operators: operators(pair) }
    }

    /// Whether one side is significantly faster.
    pub fn differs(&self) -> bool {
        let verdict = self.told.as_ref().map(|told| told.verdict);
        matches!(verdict, Ok(Verdict::Slower | Verdict::Faster))
    }

    /// A config that is not compared, for this `reason`.
    pub(super) fn apart(config: String, is_unknown: bool, reason: String) -> Line {
        Line { config, sides: None, told: Err(reason), is_unknown, operators: None }
    }
}
