//! The units of Nsight Compute's metrics: `byte`, `Mbyte`, `ns`, `usecond`, `inst`, `Ginst`, ….
//!
//! Every value becomes a whole number of bytes, nanoseconds or events. Prefixes are decimal: a `Kbyte` of Nsight
//! Compute has 1000 bytes.

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

/// A unit: what it counts, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// What it counts.
    pub(super) dimension: Dimension,
    /// Bytes, nanoseconds or events per unit.
    pub(super) factor: u64,
}

/// Parses a unit; `None` for rates and percentages, which cannot be summed over kernels.
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

/// Nanoseconds per unit of time.
fn nanoseconds(word: &str) -> Option<u64> {
    match word {
        "ns" | "nsecond" | "nanosecond" => Some(1),
        "us" | "µs" | "usecond" | "microsecond" => Some(1_000),
        "ms" | "msecond" | "millisecond" => Some(1_000_000),
        "s" | "sec" | "second" => Some(1_000_000_000),
        _ => None,
    }
}

/// The factor of a decimal prefix, and the rest of the word. Base units are lower case, so a capital letter is a
/// prefix.
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

/// Converts a value in units of `factor` to whole base units. `plain` is digits, perhaps with a decimal point. `None`
/// if it is not, or if the result is too large.
pub(super) fn to_base(plain: &str, factor: u64) -> Option<u64> {
    if let Ok(whole) = plain.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    // A printed fraction is rounded already, so the 53 bits of a float lose nothing.
    let value = plain.parse::<f64>().ok()? * factor as f64;
    (value < 2f64.powi(63)).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_parsed_with_their_prefixes() {
        for (word, dimension, factor) in [
            ("byte", Dimension::Bytes, 1),
            ("Kbyte", Dimension::Bytes, 1_000),
            ("Gbyte", Dimension::Bytes, 1_000_000_000),
            ("Tbyte", Dimension::Bytes, 1_000_000_000_000),
            ("Pbyte", Dimension::Bytes, 1_000_000_000_000_000),
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
        assert_eq!(to_base("9223372036854775808.0", 1), None, "too large");
        assert_eq!(parse_unit("Gbyte/second"), None);
    }

    #[test]
    fn values_become_whole_base_units() {
        assert_eq!(to_base("18014398509481985", 1), Some(18_014_398_509_481_985));
        assert_eq!(to_base("21.06", 1_000), Some(21_060));
        assert_eq!(to_base("1.22", 1_000_000), Some(1_220_000));
        assert_eq!(to_base("18446744073709551615", 1_000), None);
        assert_eq!(to_base("99999999999999999999999.5", 1), None);
        assert_eq!(to_base("", 1), None);
    }
}
