//! Formats numbers for people.

/// `value` with `digits` significant digits, never in scientific notation: `10.02`, `0.0031`, `1234`.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i64;
    let decimals = (digits as i64 - 1 - magnitude).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    // 9.999 with two digits is 10.0 after rounding: one digit too many.
    let rounded: f64 = text.parse().unwrap_or(value);
    if decimals > 0 && (rounded.abs().log10() + 1e-12).floor() as i64 > magnitude {
        return format!("{value:.0$}", decimals - 1);
    }
    text
}

/// `value` without trailing zeros, for ticks.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A whole number with thousands separators: `25,557,032`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds as `2 h 5 min`, `3 min 20 s` or `12.3 s`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{} s", significant(seconds, 3)),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Bytes in GiB.
pub fn gibibytes(bytes: u64) -> String {
    format!("{} GiB", significant(bytes as f64 / f64::from(1 << 30), 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted() {
        let four = [10.025, 0.003_14, 1234.6, 99_999.0, 9.9999, 0.0].map(|value| significant(value, 4));
        assert_eq!(four, ["10.03", "0.003140", "1235", "99999", "10.00", "0"]);
        assert_eq!(significant(-0.0499, 2), "-0.050");
        assert_eq!([plain(0.5), plain(100.0), plain(0.1 * 3.0)], ["0.5", "100", "0.3"]);
        assert_eq!(grouped(25_557_032), "25,557,032");
        assert_eq!(
            [duration(12.34), duration(200.0), duration(7500.0)],
            ["12.3 s", "3 min 20 s", "2 h 5 min"]
        );
    }
}
