//! A number as printed in a file: its value, and the rounding error that its last digit implies.

/// A printed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Its value.
    pub value: f64,
    /// Half its last digit: the largest possible rounding error.
    pub half_digit: f64,
}

impl Number {
    /// The number in `text`: `1598.31`, `1,598.31`, `2.1e3`, `97 %`. `None` if there is none, or if it is not finite.
    pub fn parse(text: &str) -> Option<Number> {
        let text = text.trim().trim_end_matches('%').trim_end();
        let digits = without_separators(text)?;
        let value: f64 = digits.parse().ok().filter(|value: &f64| value.is_finite())?;
        let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (digits.as_str(), 0),
        };
        let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let last_digit = exponent - i32::try_from(decimals).ok()?;
        Some(Number { value, half_digit: 0.5 * 10f64.powi(last_digit) })
    }

    /// An unrounded number.
    pub fn exactly(value: f64) -> Number {
        Number { value, half_digit: 0.0 }
    }

    /// The same in another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Number {
        Number { value: self.value * factor, half_digit: self.half_digit * factor.abs() }
    }

    /// Its least possible value before rounding.
    pub fn low(self) -> f64 {
        self.value - self.half_digit
    }

    /// Its largest possible value before rounding.
    pub fn high(self) -> f64 {
        self.value + self.half_digit
    }

    /// The least and the largest possible ratio to `other`. Both numbers are above 0. Infinite if `other` may have been
    /// 0 before rounding.
    pub fn over(self, other: Number) -> (f64, f64) {
        let most = if other.low() > 0.0 { self.high() / other.low() } else { f64::INFINITY };
        (self.low() / other.high(), most)
    }

    /// Its relative rounding error: half the last digit ÷ the value.
    pub fn rounding(self) -> f64 {
        if self.value == 0.0 { f64::INFINITY } else { self.half_digit / self.value.abs() }
    }

    /// The value as a whole number from 1 on; `None` if it is not one.
    pub fn count(self) -> Option<u64> {
        let is_count = self.value >= 1.0 && self.value.fract() == 0.0 && self.value < 1e15;
        is_count.then_some(self.value as u64)
    }
}

/// `text` without commas between groups of three digits. `None` if it has commas elsewhere, or is not a number.
fn without_separators(text: &str) -> Option<String> {
    let looks_like_one = text.chars().all(|letter| letter.is_ascii_digit() || "+-.,eE".contains(letter));
    if text.is_empty() || !looks_like_one {
        return None;
    }
    if !text.contains(',') {
        return Some(text.to_owned());
    }
    let whole = text.split('.').next().unwrap_or_default().trim_start_matches(['+', '-']);
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let is_grouped = (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3);
    let commas_are_before_the_point = text.split('.').skip(1).all(|rest| !rest.contains(','));
    (is_grouped && commas_are_before_the_point).then(|| text.replace(',', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_rounding() {
        for (text, value, half_digit) in [
            ("1598.31", 1598.31, 0.005),
            ("1,598.31", 1598.31, 0.005),
            ("0.1", 0.1, 0.05),
            ("0.10", 0.1, 0.005),
            ("12", 12.0, 0.5),
            ("2.1e3", 2100.0, 50.0),
            (" 97.5 % ", 97.5, 0.05),
            ("-3.0", -3.0, 0.05),
            ("1,234,567", 1_234_567.0, 0.5),
        ] {
            let number = Number::parse(text).unwrap();
            assert!((number.value - value).abs() < 1e-9, "{text}: {number:?}");
            assert!((number.half_digit - half_digit).abs() < 1e-9, "{text}: {number:?}");
        }
    }

    #[test]
    fn rejects_texts_that_are_not_numbers() {
        for text in
            ["", "abc", "1,59", "1,2,3", "nan", "inf", "1.2.3", "12 s", "--", "0x10", "1.5,000", "1e999"]
        {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_count_is_whole() {
        let count = |text| Number::parse(text).and_then(Number::count);
        assert_eq!(count("3"), Some(3));
        assert_eq!(count("3.0"), Some(3));
        assert_eq!((count("0"), count("2.5"), count("-1")), (None, None, None));
    }
}
