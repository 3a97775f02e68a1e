//! Reproduces keys as older versions misread them, before every float was read back to the same bits.
//!
//! Until November 2026, one float in five was read from JSON as a neighbouring float. A plan with such a float then
//! declared another key, which ran in its own directory. This file reproduces the old reading in order to recognise
//! such directories.

use super::{Finite, Key, ParamValue};

/// The maximum number of times that a key can have been written and misread again. Most keys do not change after the
/// first time.
const MOST: usize = 16;

impl Key {
    /// The keys that older versions could have made from this one by reading and writing it repeatedly. Empty for most
    /// keys, since only floats were misread.
    pub fn misreadings(&self) -> Vec<Key> {
        let mut found: Vec<Key> = Vec::new();
        if !self.params.values().any(|value| matches!(value, ParamValue::Float(_))) {
            return found;
        }
        while found.len() < MOST
            && let Some(next) = found.last().unwrap_or(self).misread()
            && next != *self
            && !found.contains(&next)
        {
            found.push(next);
        }
        found
    }

    /// This key as an older version read it; `None` if it could not.
    fn misread(&self) -> Option<Key> {
        let mut key = self.clone();
        for value in key.params.values_mut() {
            if let ParamValue::Float(number) = value {
                *number = misread(*number)?;
            }
        }
        Some(key)
    }

    /// How this key was misread as `other`, such as `lr=0.1 as 0.2`.
    pub fn misread_as(&self, other: &Key) -> String {
        let differing = self.params.iter().filter_map(|(name, value)| {
            let other = other.params.get(name).filter(|other| *other != value)?;
            Some(format!("{name}={value} as {other}"))
        });
        differing.collect::<Vec<_>>().join(", ")
    }
}

/// `value` as `serde_json` without its feature `float_roundtrip` read it: the digits as an integer, then a
/// multiplication or division by a power of ten, each of which rounds.
fn misread(value: Finite) -> Option<Finite> {
    let text = value.canonical();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: u64 = format!("{}{fraction}", whole.trim_start_matches('-')).parse().ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let exponent = exponent - i32::try_from(fraction.len()).ok()?;
    let magnitude = scaled(digits as f64, exponent)?;
    Finite::new(if whole.starts_with('-') { -magnitude } else { magnitude })
}

/// `value` times ten to the power of `exponent`; `None` if that is too large.
fn scaled(value: f64, exponent: i32) -> Option<f64> {
    let power = |exponent: u32| format!("1e{exponent}").parse::<f64>().ok();
    match exponent {
        0.. => power(exponent.unsigned_abs()).map(|power| value * power).filter(|value| value.is_finite()),
        -308.. => power(exponent.unsigned_abs()).map(|power| value / power),
        _ => scaled(value / 1e308, exponent + 308),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values observed before the change.
    #[test]
    fn numbers_are_misread_as_they_were() {
        let misread = |value| misread(Finite::new(value).unwrap()).map(Finite::get);
        assert_eq!(misread(0.0025118864315095794), Some(0.002511886431509579));
        assert_eq!(misread(0.002511886431509579), Some(0.002511886431509579));
        for read_right in [0.0, -0.0, 0.1, -1.5, 1e3, 1e16, 1e-7, 5e-324, f64::MAX] {
            assert_eq!(misread(read_right).map(f64::to_bits), Some(read_right.to_bits()), "{read_right}");
        }
    }

    #[test]
    fn keys_without_such_numbers_were_read_correctly() {
        let with = |value: f64| {
            let lr = ParamValue::Float(Finite::new(value).unwrap());
            Key { params: [("lr".to_owned(), lr)].into(), ..Key::example() }
        };
        assert_eq!(Key::example().misreadings(), []);
        assert_eq!(with(0.1).misreadings(), []);
        let (declared, misread) = (with(0.0025118864315095794), with(0.002511886431509579));
        assert_eq!(declared.misreadings(), std::slice::from_ref(&misread));
        assert_eq!(declared.misread_as(&misread), "lr=0.0025118864315095794 as 0.002511886431509579");
    }
}
