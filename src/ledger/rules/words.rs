//! Formatting of numbers in sentences, and recognition of ratios of small counts.

use crate::ledger::number::Number;
use crate::text::significant;

/// A computed number, with enough digits to be compared with a printed one.
pub(super) fn computed(value: f64) -> String {
    let digits = significant(value, 6);
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.').to_owned() } else { digits }
}

/// A number of the ledger as it was printed there, in units of `unit`.
pub(super) fn printed(number: Number, unit: f64) -> String {
    let (value, half_digit) = (number.value / unit, number.half_digit / unit);
    if half_digit <= 0.0 {
        return computed(value);
    }
    let decimals = (-(2.0 * half_digit).log10()).round().clamp(0.0, 12.0) as usize;
    format!("{value:.decimals$}")
}

/// A share as per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", significant(100.0 * share, 3))
}

/// The greatest count in a recognised ratio.
const GREATEST: u32 = 10;

/// The two smallest counts whose ratio is `ratio`, to `tolerance`. `None` if there are none, or both are equal.
pub(super) fn small_counts(ratio: f64, tolerance: f64) -> Option<(u32, u32)> {
    let pairs = (1..=GREATEST).flat_map(|q| (1..=GREATEST).map(move |p| (p, q)));
    pairs
        .filter(|(p, q)| p != q && (ratio * f64::from(*q) / f64::from(*p) - 1.0).abs() <= tolerance)
        .min_by_key(|(p, q)| p + q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_only_ratios_of_small_counts() {
        assert_eq!(small_counts(3.3322, 1e-3), Some((10, 3)));
        assert_eq!(small_counts(0.5, 1e-3), Some((1, 2)));
        assert_eq!(small_counts(1.0, 1e-3), None);
        assert_eq!(small_counts(0.667_4, 1e-3), None);
        assert_eq!(small_counts(1.2599, 1e-3), None);
    }

    #[test]
    fn numbers_are_printed_as_they_were_read() {
        let read = |text: &str, factor| printed(Number::parse(text).unwrap().times(factor), factor);
        assert_eq!(read("691.58", 1e9), "691.58");
        assert_eq!(read("0.10", 1.0), "0.10");
        assert_eq!(read("12", 1e-3), "12");
        assert_eq!(printed(Number::exactly(1.0 / 3.0), 1.0), "0.333333");
    }
}
