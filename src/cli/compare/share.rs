//! A share on the command line: `2%` or `0.02`.

/// The share that `text` means.
///
/// # Errors
/// `text` is not a number, or not between 0 and one half (both excluded).
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text.trim(), 1.0),
    };
    let share =
        number.parse::<f64>().map_err(|_| "expected a share, such as `2%` or `0.02`".to_owned())? / unit;
    if share > 0.0 && share < 0.5 {
        Ok(share)
    } else {
        Err("expected more than 0 and less than one half, such as `2%` or `0.02`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_or_a_percentage() {
        for (text, share) in [("2%", 0.02), ("2 %", 0.02), ("0.02", 0.02), (" 12.5%", 0.125)] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        for text in ["", "%", "two", "2", "0", "-1%", "50%", "NaN", "inf", "2%%"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
