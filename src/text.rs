//! Formats numbers and errors for people: durations, rates, counts, an error with its causes. Any room may call it. It
//! uses no other room, never decides what is said, and never prints.

use std::time::Duration;

/// `0.4s`, `14.2s`, `3m 20s`, `2h 5m`.
pub fn duration_text(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".to_owned();
    }
    if seconds < 59.95 {
        return format!("{seconds:.1}s");
    }
    // Above an hour, nobody needs the seconds.
    let unit = if seconds < 3600.0 { 1.0 } else { 60.0 };
    let whole = (seconds / unit).round() * unit;
    humantime::format_duration(Duration::from_secs(whole as u64)).to_string()
}

/// A rate with four significant digits, or one decimal from 100 on: `1234.6`, `128.5`, `12.34`, `1.234`, `0.1234`.
pub fn rate_text(rate: f64) -> String {
    let decimals = match rate.abs() {
        rate if rate >= 100.0 => 1,
        rate if rate >= 10.0 => 2,
        rate if rate >= 1.0 => 3,
        _ => 4,
    };
    format!("{rate:.decimals$}")
}

/// `1 job`, `2 jobs`.
pub fn jobs_text(number: usize) -> String {
    if number == 1 { "1 job".to_owned() } else { format!("{number} jobs") }
}

/// The error and its sources, joined by colons.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (seconds, text) in [
            (0.04, "0.0s"),
            (14.24, "14.2s"),
            (59.94, "59.9s"),
            (59.96, "1m"),
            (200.4, "3m 20s"),
            (3599.6, "1h"),
            (7512.0, "2h 5m"),
            (100_000.0, "1day 3h 47m"),
            (f64::NAN, "unknown"),
        ] {
            assert_eq!(duration_text(seconds), text);
        }
    }

    #[test]
    fn rates() {
        for (rate, text) in [
            (1234.56, "1234.6"),
            (128.54, "128.5"),
            (12.345, "12.35"),
            (1.2344, "1.234"),
            (0.12344, "0.1234"),
        ] {
            assert_eq!(rate_text(rate), text);
        }
    }
}
