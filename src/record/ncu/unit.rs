//! The units of Nsight Compute's metrics: `byte`, `Mbyte`, `ns`, `usecond`, `inst`, `Ginst`, ….
//!
//! Whatever the unit, a value becomes a whole number of bytes, nanoseconds or events. Prefixes are decimal: a `Kbyte`
//! of Nsight Compute has 1000 bytes.

/// What a unit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dimension {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Time,
    /// Events of any kind: instructions, operations.
    Count,
}

/// A unit: what it counts and how many of the base unit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// What it counts.
    pub(super) dimension: Dimension,
    /// Bytes, nanoseconds or events in one of it.
    pub(super) factor: u64,
}

/// Reads a unit. `None` for a rate or a share, which no sum over kernels can be made of.
pub(super) fn parse_unit(word: &str) -> Option<Unit> {
    let word = word.trim();
    if let Some(factor) = nanoseconds(word) {
        return Some(Unit { dimension: Dimension::Time, factor });
    }
    if word.contains(['%', '/']) {
        return None;
    }
    let (factor, base) = prefix(word);
    let dimension = if matches!(base, "byte" | "bytes") { Dimension::Bytes } else { Dimension::Count };
    Some(Unit { dimension, factor })
}

/// Nanoseconds in a unit of time.
fn nanoseconds(word: &str) -> Option<u64> {
    match word {
        "ns" | "nsecond" | "nanosecond" => Some(1),
        "us" | "µs" | "usecond" | "microsecond" => Some(1_000),
        "ms" | "msecond" | "millisecond" => Some(1_000_000),
        "s" | "sec" | "second" => Some(1_000_000_000),
        _ => None,
    }
}

/// The factor of a decimal prefix, and the word behind it. Base units are small letters, so a capital is a prefix.
fn prefix(word: &str) -> (u64, &str) {
    let factor = match word.chars().next() {
        Some('K') => 1_000,
        Some('M') => 1_000_000,
        Some('G') => 1_000_000_000,
        Some('T') => 1_000_000_000_000,
        Some('P') => 1_000_000_000_000_000,
        _ => return (1, word),
    };
    (factor, &word[1..])
}

/// A value of `factor` base units each, as a whole number of them. `plain` is digits, perhaps with a decimal point.
/// `None` if it is no such number or too great.
pub(super) fn to_base(plain: &str, factor: u64) -> Option<u64> {
    if let Ok(whole) = plain.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    // A fraction is a rounded value already; what lies beyond the 53 bits of a float was not printed.
    let value = plain.parse::<f64>().ok()? * factor as f64;
    (value < 2f64.powi(63)).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_with_their_prefixes() {
        for (word, dimension, factor) in [
            ("byte", Dimension::Bytes, 1),
            ("Kbyte", Dimension::Bytes, 1_000),
            ("Gbyte", Dimension::Bytes, 1_000_000_000),
            ("ns", Dimension::Time, 1),
            ("usecond", Dimension::Time, 1_000),
            ("ms", Dimension::Time, 1_000_000),
            ("second", Dimension::Time, 1_000_000_000),
            ("", Dimension::Count, 1),
            ("inst", Dimension::Count, 1),
            ("Minst", Dimension::Count, 1_000_000),
            ("K", Dimension::Count, 1_000),
        ] {
            assert_eq!(parse_unit(word), Some(Unit { dimension, factor }), "{word}");
        }
        assert_eq!(parse_unit("%"), None);
        assert_eq!(parse_unit("Gbyte/second"), None);
    }

    #[test]
    fn values_become_whole_numbers_of_the_base() {
        assert_eq!(to_base("18014398509481985", 1), Some(18_014_398_509_481_985));
        assert_eq!(to_base("21.06", 1_000), Some(21_060));
        assert_eq!(to_base("1.22", 1_000_000), Some(1_220_000));
        assert_eq!(to_base("18446744073709551615", 1_000), None);
        assert_eq!(to_base("99999999999999999999999.5", 1), None);
        assert_eq!(to_base("", 1), None);
    }
}
