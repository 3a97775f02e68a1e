//! Throughput as every table prints it: a number and its interval end at the same digit, and where there is no
//! interval, words say why. "± 0" is never printed.

use super::group::Statistics;
use crate::stats::Interval;
use crate::text::{LastDigit, significant, with_error};

/// What stands in the place of an interval or of an error if too few runs count.
pub const TOO_FEW: &str = "n too small";

/// What stands there if all runs have the same throughput.
const NO_SCATTER: &str = "no scatter";

/// The digits of a number without an interval.
const DIGITS: usize = 4;

/// The statistics of a row in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// The median.
    pub median: String,
    /// The geometric mean.
    pub geometric_mean: String,
    /// The interval of the geometric mean, `26.00 to 26.90`, or why there is none.
    pub interval: String,
    /// The same for the interval of the median, with its coverage.
    pub median_interval: String,
    /// The mean and the standard deviation: `26.12 ± 0.45`.
    pub mean_and_sd: String,
}

impl Throughput {
    /// Of `statistics`. The ends of the interval say up to which digit the median and the geometric mean are known.
    pub fn of(statistics: &Statistics) -> Self {
        let interval = statistics.interval.ok();
        let median_interval = match statistics.median_interval {
            Ok(own) => {
                let coverage = significant(100.0 * own.coverage, 3);
                format!("{} ({coverage} %)", ends(own, digit(interval)))
            }
            Err(_) => TOO_FEW.to_owned(),
        };
        Throughput {
            median: known_to(statistics.median, digit(interval)),
            geometric_mean: known_to(statistics.geometric_mean, digit(interval)),
            interval: interval_text(interval),
            median_interval,
            mean_and_sd: mean_and_sd(statistics),
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

fn mean_and_sd(statistics: &Statistics) -> String {
    let without = |why: &str| format!("{} ({why})", significant(statistics.mean, DIGITS));
    match statistics.sd {
        Ok(sd) => with_error(statistics.mean, sd).unwrap_or_else(|| without(NO_SCATTER)),
        Err(_) => without("one run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(rates: &[f64]) -> [String; 5] {
        let Throughput { median, geometric_mean, interval, median_interval, mean_and_sd } =
            Throughput::of(&Statistics::of(rates).unwrap());
        [median, geometric_mean, interval, median_interval, mean_and_sd]
    }

    #[test]
    fn a_throughput_and_its_interval_end_at_the_same_digit() {
        let small = "n too small";
        assert_eq!(printed(&[1533.751]), ["1534", "1534", small, small, "1534 (one run)"]);
        assert_eq!(printed(&[1533.751, 1534.55]), ["1534", "1534", small, small, "1534.15 ± 0.56"]);
        assert_eq!(
            printed(&[1533.751, 1533.19, 1534.31]),
            ["1533.8", "1533.8", "1532.4 to 1535.1", small, "1533.75 ± 0.56"]
        );
        assert_eq!(
            printed(&[10.0, 10.1, 9.9, 10.2, 9.8, 10.05]),
            ["10.03", "10.01", "9.86 to 10.16", "9.80 to 10.20 (96.9 %)", "10.01 ± 0.14"]
        );
    }

    /// A mistake of the seed reports: "± 0.00".
    #[test]
    fn runs_without_scatter_have_words_and_no_error_of_0() {
        let none = "no scatter";
        assert_eq!(
            printed(&[8.0; 2]),
            ["8.000", "8.000", "n too small", "n too small", "8.000 (no scatter)"]
        );
        assert_eq!(printed(&[8.0; 3])[2..], [none, "n too small", "8.000 (no scatter)"]);
        assert_eq!(printed(&[8.0; 6])[2..4], [none, "8.000 to 8.000 (96.9 %)"]);
        for n in 1..8 {
            assert!(!printed(&vec![0.1 * 3.0; n]).join(" ").contains('±'), "n = {n}");
        }
    }

    /// Three runs that scatter by a factor of four say next to nothing.
    #[test]
    fn a_wide_interval_is_printed_as_wide_as_it_is() {
        assert_eq!(printed(&[5.0, 10.0, 20.0])[..3], ["10", "10", "2 to 56"]);
        assert_eq!(printed(&[1e-280, 10.0, 1e280])[2], "0 to inf");
    }
}
