//! Floating-point numbers in keys.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A finite 64-bit float. Two are equal if their bits are: `0.0` and `-0.0` are different numbers for a worker, and
/// different bytes for a hash. JSON has no NaN or infinities, so a key cannot contain them.
#[derive(Clone, Copy, Debug)]
pub struct Finite(f64);

impl Finite {
    /// `value`, unless it is NaN or infinite.
    pub fn new(value: f64) -> Option<Finite> {
        value.is_finite().then_some(Finite(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The number in canonical JSON: the fewest digits that read back to the same bits, laid out as
    /// `-12.5`, `100.0`, `0.00001`, `1e-6` or `1.5e+16`.
    ///
    /// Ids are hashes of this text. Printers of floats agree on the number of digits, but differ in the layout and in
    /// the last digit of a number halfway between two texts. So both are fixed here.
    pub fn canonical(self) -> String {
        if self.0 == 0.0 {
            return if self.0.is_sign_negative() { "-0.0" } else { "0.0" }.to_owned();
        }
        let shortest = shortest(self.0.abs());
        let (mantissa, exponent) = shortest.split_once('e').expect("`{:e}` writes an `e`");
        let exponent: i32 = exponent.parse().expect("`{:e}` writes a whole number after the `e`");
        let digits = mantissa.replace('.', "");
        let sign = if self.0 < 0.0 { "-" } else { "" };
        format!("{sign}{}", laid_out(&digits, exponent))
    }
}

/// The fewest digits that read back to `value`, as `1.25e-7`. Among several such texts, the nearest to `value` is
/// chosen, and of two equally near ones the one with an even last digit.
fn shortest(value: f64) -> String {
    let short = format!("{value:e}");
    let decimals = short.find('e').unwrap_or(0).saturating_sub(2);
    // With a precision, the standard library rounds the exact value, and halves to even. Just above a power of two, the
    // nearest text can belong to the neighbour below.
    let nearest = format!("{value:.decimals$e}");
    if nearest.parse() == Ok(value) { nearest } else { short }
}

/// `digits` with the point after the first one, times ten to the power of `exponent`.
fn laid_out(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1);
    match usize::try_from(exponent) {
        Ok(exponent @ 0..=15) if digits.len() <= exponent + 1 => format!("{digits:0<0$}.0", exponent + 1),
        Ok(exponent @ 0..=15) => format!("{}.{}", &digits[..=exponent], &digits[exponent + 1..]),
        Err(_) if exponent >= -5 => {
            let zeros = exponent.unsigned_abs() as usize - 1;
            format!("0.{}{digits}", "0".repeat(zeros))
        }
        Ok(_) | Err(_) => {
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{first}{point}{rest}e{sign}{}", exponent.abs())
        }
    }
}

impl PartialEq for Finite {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Finite {}

/// As [`f64::total_cmp`], which also distinguishes `-0.0` from `0.0`.
impl Ord for Finite {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Finite {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Display for Finite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Finite {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Finite {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Finite::new(value).ok_or_else(|| serde::de::Error::custom("expected a finite number"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(value: f64) -> String {
        Finite::new(value).unwrap().canonical()
    }

    /// If this test fails, jobs with such numbers would be measured again. Do not change an expected text.
    #[test]
    fn golden_numbers() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-12.5, "-12.5"),
            (0.1, "0.1"),
            (0.0025118864315095794, "0.0025118864315095794"),
            (0.00001, "0.00001"),
            (0.000012345, "0.000012345"),
            (0.000001, "1e-6"),
            (1.5e-7, "1.5e-7"),
            (1e3, "1000.0"),
            (123456.75, "123456.75"),
            (9007199254740993.0, "9007199254740992.0"),
            (1e15, "1000000000000000.0"),
            (1.25e15, "1250000000000000.0"),
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (18446744073709551615.0, "1.8446744073709552e+19"),
            (1e100, "1e+100"),
            (-2.5e-100, "-2.5e-100"),
            // Halfway between .2 and .3; the nearest of as many digits to 2^-44 is 801.
            (8281137333434490.0 / 8.0, "1035142166679311.2"),
            (2f64.powi(-44), "5.684341886080802e-14"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::from_bits(1), "5e-324"),
        ] {
            assert_eq!(canonical(value), text);
        }
    }

    #[test]
    fn nan_and_infinities_are_rejected() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Finite::new(value), None);
        }
        assert_ne!(Finite::new(0.0), Finite::new(-0.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_text_reads_back_to_the_same_bits(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let text = canonical(value);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits, "{}", text);
            let json: f64 = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(json.to_bits(), bits, "{}", text);
        }
    }
}
