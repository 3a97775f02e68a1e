//! Formats numbers and errors for people: durations, rates, counts, an error with its causes. Any room may call it. It
//! uses no other room, never decides what is said, and never prints.

use std::error::Error;
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

/// The sources of `error`, from the nearest to the first cause.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// The error and its causes on one line, with colons between them.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
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
    fn an_error_names_its_causes_from_the_nearest_to_the_first() {
        #[derive(Debug, thiserror::Error)]
        #[error("{text}")]
        struct Layer {
            text: &'static str,
            source: Option<Box<Layer>>,
        }
        let layer = |text, source| Box::new(Layer { text, source });
        let error = layer("cannot run", Some(layer("cannot read", Some(layer("no such file", None)))));
        assert_eq!(with_causes(&*error), "cannot run: cannot read: no such file");
        assert_eq!(causes(&*error).count(), 2);
        assert_eq!(with_causes(&*layer("alone", None)), "alone");
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
