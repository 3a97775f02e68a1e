//! Durations and rates as people read them. Pure.

use std::time::Duration;

use crate::plan::TimeLeft;

/// `0.4s`, `14.2s`, `3m 20s`, `2h 5m`.
pub fn duration_text(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".to_owned();
    }
    if seconds < 59.95 {
        return format!("{seconds:.1}s");
    }
    // Past an hour nobody waits for the seconds.
    let unit = if seconds < 3600.0 { 1.0 } else { 60.0 };
    let whole = (seconds / unit).round() * unit;
    humantime::format_duration(Duration::from_secs(whole as u64)).to_string()
}

/// A rate with four significant digits, or all digits before the point: `1234.6`, `128.5`, `12.34`, `1.234`, `0.1234`.
pub fn rate_text(rate: f64) -> String {
    let decimals = match rate.abs() {
        rate if rate >= 100.0 => 1,
        rate if rate >= 10.0 => 2,
        rate if rate >= 1.0 => 3,
        _ => 4,
    };
    format!("{rate:.decimals$}")
}

/// `about 12m 5s`, `about 12m 5s and 3 jobs of unknown length`, `unknown for all 40 jobs`, `nothing`.
pub fn time_left_text(left: &TimeLeft) -> String {
    let TimeLeft { seconds, jobs, jobs_without_basis: unknown } = *left;
    match (jobs, unknown) {
        (0, _) => "nothing".to_owned(),
        (1, 1) => "unknown, as no job of its env has finished yet".to_owned(),
        (_, 0) => format!("about {}", duration_text(seconds)),
        _ if unknown == jobs => {
            format!("unknown for all {jobs} jobs, as none of their envs has finished one yet")
        }
        (_, 1) => format!("about {} and a job of unknown length", duration_text(seconds)),
        _ => format!("about {} and {unknown} jobs of unknown length", duration_text(seconds)),
    }
}

/// `1 job`, `2 jobs`.
pub fn jobs_text(number: usize) -> String {
    if number == 1 { "1 job".to_owned() } else { format!("{number} jobs") }
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

    #[test]
    fn times_left() {
        let text = |seconds, jobs, jobs_without_basis| {
            time_left_text(&TimeLeft { seconds, jobs, jobs_without_basis })
        };
        assert_eq!(text(0.0, 0, 0), "nothing");
        assert_eq!(text(90.0, 3, 0), "about 1m 30s");
        assert_eq!(text(90.0, 3, 1), "about 1m 30s and a job of unknown length");
        assert_eq!(text(90.0, 3, 2), "about 1m 30s and 2 jobs of unknown length");
        assert_eq!(text(5.0, 3, 3), "unknown for all 3 jobs, as none of their envs has finished one yet");
        assert_eq!(text(0.0, 1, 1), "unknown, as no job of its env has finished yet");
    }
}
