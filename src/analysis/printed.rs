//! Throughput as printed in every table: a number and its interval end at the same digit, and a missing interval is
//! replaced by the reason. "± 0" is never printed.

use super::group::Statistics;
use crate::stats::Interval;
use crate::text::{LastDigit, significant};

/// Replaces an interval or an error if too few runs count.
pub const TOO_FEW: &str = "n too small";

/// Replaces it if all runs have the same throughput.
const NO_SCATTER: &str = "no scatter";

/// The digits of a number without an interval.
const DIGITS: usize = 4;

/// The statistics of a row in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// The geometric mean.
    pub geometric_mean: String,
    /// Its interval, `26.00 to 26.90`, or why there is none.
    pub interval: String,
}

impl Throughput {
    /// The texts of `statistics`. The interval determines the last digit of the geometric mean.
    pub fn of(statistics: &Statistics) -> Self {
        let interval = statistics.interval.ok();
        Throughput {
            geometric_mean: beside(statistics.geometric_mean, interval),
            interval: interval_text(interval),
        }
    }
}

/// `value` as it is printed beside `interval`.
pub fn beside(value: f64, interval: Option<Interval>) -> String {
    known_to(value, digit(interval))
}

/// `26.00 to 26.90`, or why there is no interval.
pub fn interval_text(interval: Option<Interval>) -> String {
    match (interval, digit(interval)) {
        (None, _) => TOO_FEW.to_owned(),
        (Some(interval), None) if interval.high.is_finite() => NO_SCATTER.to_owned(),
        (Some(interval), digit) => ends(interval, digit),
    }
}

fn digit(interval: Option<Interval>) -> Option<LastDigit> {
    interval.and_then(|interval| LastDigit::of_interval(interval.low, interval.high))
}

fn known_to(value: f64, digit: Option<LastDigit>) -> String {
    digit.map_or_else(|| significant(value, DIGITS), |digit| digit.text(value))
}

fn ends(interval: Interval, digit: Option<LastDigit>) -> String {
    format!("{} to {}", known_to(interval.low, digit), known_to(interval.high, digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(rates: &[f64]) -> [String; 2] {
        let Throughput { geometric_mean, interval } = Throughput::of(&Statistics::of(rates).unwrap());
        [geometric_mean, interval]
    }

    #[test]
    fn a_throughput_and_its_interval_end_at_the_same_digit() {
        assert_eq!(printed(&[1533.751]), ["1534", "n too small"]);
        assert_eq!(printed(&[1533.751, 1534.55]), ["1534", "n too small"]);
        assert_eq!(printed(&[1533.751, 1533.19, 1534.31]), ["1533.8", "1532.4 to 1535.1"]);
        assert_eq!(printed(&[10.0, 10.1, 9.9, 10.2, 9.8, 10.05]), ["10.01", "9.86 to 10.16"]);
    }

    /// A mistake of the seed reports: "± 0.00".
    #[test]
    fn runs_without_scatter_have_words_and_no_error_of_0() {
        assert_eq!(printed(&[8.0; 2]), ["8.000", "n too small"]);
        assert_eq!(printed(&[8.0; 3]), ["8.000", "no scatter"]);
        assert_eq!(printed(&[8.0; 6])[1], "no scatter");
    }

    /// Three runs that scatter by a factor of four have a huge interval.
    #[test]
    fn a_wide_interval_is_printed_as_wide_as_it_is() {
        assert_eq!(printed(&[5.0, 10.0, 20.0]), ["10", "2 to 56"]);
        assert_eq!(printed(&[1e-280, 10.0, 1e280])[1], "0 to inf");
    }
}
