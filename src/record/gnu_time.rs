//! The report of GNU `time -v`.
//!
//! Format: optionally `Command exited with non-zero status N` or `Command terminated by signal N`, then a block of
//! lines `\t<name>: <value>` that starts with `Command being timed` and ends with `Exit status`. If `time` and the
//! program write to the same stream, any text may precede the block. A program killed by a signal has an `Exit status`
//! of 0, so only the first line distinguishes it from one that succeeded.

use super::time_values::{count, kilobytes, seconds};
use super::{ProcessStats, ReportedExit, TimeReport, TimeReportError};

const COMMAND: &str = "Command being timed";
const USER: &str = "User time (seconds)";
const SYSTEM: &str = "System time (seconds)";
const ELAPSED: &str = "Elapsed (wall clock) time (h:mm:ss or m:ss)";
const MAX_RSS: &str = "Maximum resident set size (kbytes)";
const MAJOR_FAULTS: &str = "Major (requiring I/O) page faults";
const MINOR_FAULTS: &str = "Minor (reclaiming a frame) page faults";
const VOLUNTARY: &str = "Voluntary context switches";
const INVOLUNTARY: &str = "Involuntary context switches";
const EXIT_STATUS: &str = "Exit status";

/// Parses the report of GNU `time -v`. Text above the report is skipped; the last of several reports counts.
///
/// # Errors
/// The report is empty, truncated or malformed.
pub fn parse_gnu_time(text: &str) -> Result<TimeReport, TimeReportError> {
    if text.trim().is_empty() {
        return Err(TimeReportError::Empty);
    }
    // A line without a line break may have lost digits, so it is dropped.
    let lines: Vec<&str> = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).collect();
    let start = lines
        .iter()
        .rposition(|line| field(line, COMMAND).is_some())
        .ok_or(TimeReportError::Truncated(COMMAND))?;
    // The command may contain line breaks, so figures are found by name, not by position.
    let block = Block { lines: &lines[start..] };
    let stats = ProcessStats {
        wall_s: block.parse(ELAPSED, elapsed)?,
        user_s: Some(block.parse(USER, seconds)?),
        system_s: Some(block.parse(SYSTEM, seconds)?),
        max_rss_bytes: Some(block.parse(MAX_RSS, kilobytes)?),
        major_faults: Some(block.parse(MAJOR_FAULTS, count)?),
        minor_faults: Some(block.parse(MINOR_FAULTS, count)?),
        voluntary_switches: Some(block.parse(VOLUNTARY, count)?),
        involuntary_switches: Some(block.parse(INVOLUNTARY, count)?),
        ..ProcessStats::default()
    };
    let status = block.parse(EXIT_STATUS, |value| value.parse().ok())?;
    let announced = start.checked_sub(1).and_then(|above| announced_exit(lines[above]));
    let exit = agreed_exit(announced, status)?;
    Ok(TimeReport { exit: Some(exit), stats })
}

/// The lines of a report, starting with `Command being timed`.
struct Block<'a> {
    lines: &'a [&'a str],
}

impl Block<'_> {
    /// The value of the line `name`, parsed by `parse`.
    fn parse<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, TimeReportError> {
        let value = self
            .lines
            .iter()
            .rev()
            .find_map(|line| field(line, name))
            .ok_or(TimeReportError::Truncated(name))?;
        parse(value)
            .ok_or_else(|| TimeReportError::Malformed { name: name.to_owned(), value: value.to_owned() })
    }
}

/// The value of `line`, if it is the line `name` of a report.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix('\t')?.strip_prefix(name)?.strip_prefix(": ")
}

/// How the program ended, according to the line above the block.
fn announced_exit(line: &str) -> Option<ReportedExit> {
    if let Some(code) = line.strip_prefix("Command exited with non-zero status ") {
        return code.parse().ok().map(ReportedExit::Code);
    }
    let signal = line.strip_prefix("Command terminated by signal ")?;
    signal.parse().ok().map(ReportedExit::Signal)
}

/// How the program ended. The line above the block and the block's last line must agree.
fn agreed_exit(announced: Option<ReportedExit>, status: i32) -> Result<ReportedExit, TimeReportError> {
    match announced {
        None => Ok(ReportedExit::Code(status)),
        Some(ReportedExit::Code(code)) if code == status => Ok(ReportedExit::Code(code)),
        Some(ReportedExit::Signal(signal)) if status == 0 => Ok(ReportedExit::Signal(signal)),
        Some(_) => {
            Err(TimeReportError::Malformed { name: EXIT_STATUS.to_owned(), value: status.to_string() })
        }
    }
}

/// Seconds of `m:ss.cc` or `h:mm:ss`. If the clock was set back meanwhile, `time` prints negative numbers, and the
/// duration is unknown (`Some(None)`).
fn elapsed(value: &str) -> Option<Option<f64>> {
    if value.contains('-') {
        let is_negative = value.split(':').all(|part| seconds(part.trim_start_matches('-')).is_some());
        return is_negative.then_some(None);
    }
    let parts: Vec<&str> = value.split(':').collect();
    let (hours, minutes, rest) = match parts[..] {
        [minutes, rest] => (0, count(minutes)?, rest),
        [hours, minutes, rest] => (count(hours)?, count(minutes).filter(|minutes| *minutes < 60)?, rest),
        _ => return None,
    };
    let rest = seconds(rest).filter(|rest| *rest < 60.0)?;
    // Calculated in hundredths, the clock's resolution: 1:13.96 becomes 73.96, not 73.96000000000001.
    let hundredths = hours as f64 * 360_000.0 + minutes as f64 * 6000.0 + (rest * 100.0).round();
    Some(Some(hundredths / 100.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FAILED: &str = include_str!("../../tests/records/gnu_time_exit_1_below_a_traceback.txt");
    const FINE: &str = include_str!("../../tests/records/gnu_time_exit_0.txt");
    const KILLED: &str = include_str!("../../tests/records/gnu_time_signal_11.txt");
    const LONG: &str = include_str!("../../tests/records/gnu_time_over_an_hour.txt");

    #[test]
    fn a_successful_program() {
        let report = parse_gnu_time(FINE).unwrap();
        assert_eq!(report.exit, Some(ReportedExit::Code(0)));
        assert_eq!(
            report.stats,
            ProcessStats {
                wall_s: Some(73.96),
                user_s: Some(135.06),
                system_s: Some(17.72),
                max_rss_bytes: Some(1_407_860 * 1024),
                major_faults: Some(3),
                minor_faults: Some(3_044_851),
                voluntary_switches: Some(4493),
                involuntary_switches: Some(1647),
                ..ProcessStats::default()
            }
        );
    }

    #[test]
    fn the_exit_is_read_from_the_line_above_the_block() {
        assert_eq!(parse_gnu_time(FAILED).unwrap().exit, Some(ReportedExit::Code(1)));
        // This report ends with `Exit status: 0`.
        assert_eq!(parse_gnu_time(KILLED).unwrap().exit, Some(ReportedExit::Signal(11)));
    }

    #[test]
    fn a_time_of_hours_has_no_hundredths() {
        assert_eq!(parse_gnu_time(LONG).unwrap().stats.wall_s, Some(2.0 * 3600.0 + 51.0 * 60.0 + 37.0));
        for (text, expected) in [
            ("0:08.57", Some(Some(8.57))),
            ("59:59.99", Some(Some(3599.99))),
            ("1:60.00", None),
            ("1:75:00", None),
            ("12", None),
            ("-59:-58.64", Some(None)),
            ("0:-1.50", Some(None)),
            ("-1:x", None),
        ] {
            assert_eq!(elapsed(text), expected, "{text}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_hides_only_the_wall_time() {
        let whole = parse_gnu_time(FINE).unwrap();
        let text = FINE.replace("1:13.96", "-58:-46.04");
        let report = parse_gnu_time(&text).unwrap();
        let expected = ProcessStats { wall_s: None, ..whole.stats };
        assert_eq!((report.exit, report.stats), (whole.exit, expected));
    }

    #[test]
    fn a_command_with_line_breaks_does_not_hide_the_figures() {
        let text = FINE.replace("\"worker", "\"python3 -c import sys\n\tUser time (seconds): 1.00\nworker");
        assert_eq!(parse_gnu_time(&text).unwrap(), parse_gnu_time(FINE).unwrap());
    }

    #[test]
    fn an_invalid_report_is_explained() {
        assert_eq!(parse_gnu_time(" \n"), Err(TimeReportError::Empty));
        assert_eq!(parse_gnu_time("Traceback\n"), Err(TimeReportError::Truncated(COMMAND)));
        let (head, _) = FINE.split_once("\tExit status").unwrap();
        assert_eq!(parse_gnu_time(head), Err(TimeReportError::Truncated(EXIT_STATUS)));
        for (from, to, name, value) in [
            ("User time (seconds): 135.06", "User time (seconds): nan", USER, "nan"),
            ("User time (seconds): 135.06", "User time (seconds): -1.00", USER, "-1.00"),
            ("1407860", "1,407,860", MAX_RSS, "1,407,860"),
            ("1407860", "18446744073709551615", MAX_RSS, "18446744073709551615"),
            ("1:13.96", "1:13.96s", ELAPSED, "1:13.96s"),
        ] {
            assert_eq!(
                parse_gnu_time(&FINE.replace(from, to)),
                Err(TimeReportError::Malformed { name: name.to_owned(), value: value.to_owned() })
            );
        }
        for contradiction in [
            FAILED.replace("Exit status: 1", "Exit status: 3"),
            KILLED.replace("Exit status: 0", "Exit status: 3"),
            FINE.replace("1:13.96", "1:60.00"),
            LONG.replace("2:51:37", "2:60:37"),
        ] {
            let read = parse_gnu_time(&contradiction);
            assert!(matches!(read, Err(TimeReportError::Malformed { .. })), "{read:?}");
        }
    }

    proptest! {
        #[test]
        fn a_truncated_report_is_never_another_report(
            text in prop::sample::select(vec![FINE, FAILED, KILLED, LONG]),
            cut in any::<prop::sample::Index>(),
        ) {
            let cut = cut.index(text.len());
            let whole = parse_gnu_time(text).unwrap();
            if let Ok(report) = parse_gnu_time(&text[..text.floor_char_boundary(cut)]) {
                prop_assert_eq!(report, whole);
            }
        }

        #[test]
        fn arbitrary_text_does_not_panic(
            lines in prop::collection::vec("\\PC*|\t[A-Z][a-z ()]*: [0-9:.]*|\tCommand being timed: x", 0..8),
        ) {
            let _ = parse_gnu_time(&lines.join("\n"));
        }

        #[test]
        fn a_garbled_report_does_not_panic(
            text in prop::sample::select(vec![FINE, FAILED, KILLED, LONG]),
            edits in crate::record::garble::edits(),
        ) {
            let _ = parse_gnu_time(&crate::record::garble::garble(text, &edits));
        }
    }
}
