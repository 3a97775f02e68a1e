//! The number of digits to print, derived from the error of a number.

/// The significant digits of an error that are printed.
const OF_ERROR: i32 = 2;

/// The most decimals.
const MOST_DECIMALS: i32 = 12;

/// An error smaller than this share of its number is only rounding.
const ROUNDING: f64 = 1e-12;

/// The last printed digit of a number, by its decimals: 2 means hundredths, -1 means tens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastDigit(i32);

impl LastDigit {
    /// The second significant digit of `error`. A number and its error both end there: `1533.75 ± 0.56`, `12300 ± 340`.
    /// `None` if `error` is 0 or not a number.
    pub fn of_error(error: f64) -> Option<Self> {
        if !error.is_finite() || error <= 0.0 {
            return None;
        }
        let first = first_digit(error);
        let decimals = OF_ERROR - 1 - first;
        // 0.0996 rounds to 0.10, whose two digits count.
        let rounded = rounded(error, decimals);
        Some(LastDigit((OF_ERROR - 1 - first.max(first_digit(rounded))).min(MOST_DECIMALS)))
    }

    /// The digit to which an interval from `low` to `high` and its centre are printed. It is that of half its width, or
    /// a finer one if an end other than 0 would read as 0. `None` if the interval has no width.
    pub fn of_interval(low: f64, high: f64) -> Option<Self> {
        let half = (high - low) / 2.0;
        if half <= ROUNDING * high.abs().max(low.abs()) {
            return None;
        }
        Some(Self::of_error(half)?.distinguishing(low, 0.0).distinguishing(high, 0.0))
    }

    /// This digit, or the first finer one at which the texts of `value` and `other` differ, if the numbers differ.
    #[must_use]
    pub fn distinguishing(self, value: f64, other: f64) -> Self {
        let reads_differently = |digit: &LastDigit| digit.text(value) != digit.text(other);
        (self.0..=MOST_DECIMALS.max(self.0)).map(LastDigit).find(reads_differently).unwrap_or(self)
    }

    /// The number of decimals: 0 for whole numbers and tens.
    pub fn decimals(self) -> usize {
        self.0.max(0) as usize
    }

    /// `value` rounded to this digit.
    pub fn text(self, value: f64) -> String {
        let text = format!("{:.*}", self.0.max(0) as usize, rounded(value, self.0));
        unsigned_zero(text)
    }
}

/// `digits` of a number, without the sign of a negative number that reads as 0.
pub fn unsigned_zero(digits: String) -> String {
    if digits.trim_matches(['-', '0', '.']).is_empty() { digits.replace('-', "") } else { digits }
}

/// `value` and the `limit` that it exceeds, with `decimals`, or more if their texts would be equal.
pub fn beyond(value: f64, limit: f64, decimals: i32) -> [String; 2] {
    let digit = LastDigit(decimals).distinguishing(value, limit);
    [value, limit].map(|number| digit.text(number))
}

/// The power of ten of the first digit of `value`, which is greater than 0: 2 for hundreds, -1 for tenths.
fn first_digit(value: f64) -> i32 {
    let power = value.log10().floor() as i32;
    // Corrects the rounding of the logarithm.
    if 10f64.powi(power + 1) <= value { power + 1 } else { power }
}

/// `value` rounded to `decimals`. Negative ones round to tens, hundreds and so on.
fn rounded(value: f64, decimals: i32) -> f64 {
    if decimals >= 0 {
        return format!("{value:.*}", decimals as usize).parse().unwrap_or(value);
    }
    let unit = 10f64.powi(-decimals);
    (value / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// "1533.75 ± 0.56" was printed as "1534 ± 0.56".
    #[test]
    fn a_value_and_its_error_end_at_the_same_digit() {
        for (value, error, text) in [
            (1533.75, 0.56, "1533.75 ± 0.56"),
            (12_345.0, 340.0, "12350 ± 340"),
            (12_345.0, 99.6, "12350 ± 100"),
            (8.15, 0.0996, "8.15 ± 0.10"),
            (26.12, 1.0, "26.1 ± 1.0"),
            (26.12, 0.1, "26.12 ± 0.10"),
            (26.12, 1000.0, "0 ± 1000"),
            (0.001_234, 0.000_056, "0.001234 ± 0.000056"),
            (-0.04, 9.0, "0.0 ± 9.0"),
        ] {
            let digit = LastDigit::of_error(error).unwrap();
            assert_eq!(format!("{} ± {}", digit.text(value), digit.text(error)), text);
        }
    }

    #[test]
    fn values_without_scatter_have_no_error() {
        for error in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(LastDigit::of_error(error), None, "{error}");
        }
        assert_eq!(LastDigit::of_interval(10.0, 10.0), None);
        assert_eq!(LastDigit::of_interval(10.0, 10.0 + 1e-14), None);
    }

    #[test]
    fn the_ends_of_an_interval_end_at_the_same_digit_and_never_read_as_0() {
        let read = |low: f64, high: f64| {
            let digit = LastDigit::of_interval(low, high).unwrap();
            format!("{} to {}", digit.text(low), digit.text(high))
        };
        assert_eq!(read(26.004, 26.901), "26.00 to 26.90");
        assert_eq!(read(661.1, 1127.7), "660 to 1130");
        assert_eq!(read(0.41, 520.0), "0.4 to 520.0");
        assert_eq!(read(-0.002, 0.9), "-0.002 to 0.900");
        assert_eq!(read(0.0, 0.9), "0.00 to 0.90");
    }

    #[test]
    fn values_beyond_a_limit_are_printed_beyond_it() {
        assert_eq!(beyond(1.2, 0.2, 2), ["1.20", "0.20"]);
        assert_eq!(beyond(0.204, 0.2, 2), ["0.204", "0.200"]);
        assert_eq!(beyond(0.45, 0.300_000_000_000_000_04, 2), ["0.45", "0.30"]);
    }

    #[test]
    fn distinguishing_prints_different_numbers_differently() {
        let hundredths = LastDigit::of_error(0.5).unwrap();
        assert_eq!(hundredths.text(1.004), hundredths.text(1.0));
        let finer = hundredths.distinguishing(1.004, 1.0);
        assert_eq!((finer.text(1.004), finer.text(1.0)), ("1.004".to_owned(), "1.000".to_owned()));
        assert_eq!(hundredths.distinguishing(2.0, 1.0), hundredths);
        assert_eq!(hundredths.distinguishing(1.0, 1.0), hundredths);
    }

    proptest! {
        /// A printed value differs by at most half its last digit, and the error keeps two digits.
        #[test]
        fn printing_only_rounds(value in -1e9..1e9f64, exponent in -9.0..9.0f64) {
            let error = 10f64.powf(exponent);
            let digit = LastDigit::of_error(error).unwrap();
            let half = 0.5 * 10f64.powi(-digit.0) * (1.0 + 1e-6);
            for number in [value, error] {
                let read: f64 = digit.text(number).parse().unwrap();
                prop_assert!((read - number).abs() <= half + 1e-9 * number.abs(), "{number} reads as {read}");
            }
            let digits = digit.text(error).replace('.', "").trim_start_matches('0').to_owned();
            prop_assert_eq!(digits.trim_end_matches('0').len().max(2), 2, "{}", digits);
        }
    }
}
