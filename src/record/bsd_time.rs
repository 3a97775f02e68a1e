//! The report of BSD `time -l`, as macOS prints it.
//!
//! Format: `<s> real <s> user <s> sys` on one line (with `-p`: three lines, name first), then lines `<count>  <name>`.
//! Sizes are in bytes. Newer systems add instructions, cycles and the peak memory footprint, in this order. The report
//! does not say how the program ended: `time` itself ends in the same way.

use super::time_values::{count, seconds};
use super::{ProcessStats, TimeReport, TimeReportError};

const MAX_RSS: &str = "maximum resident set size";
const PAGE_RECLAIMS: &str = "page reclaims";
const PAGE_FAULTS: &str = "page faults";
const VOLUNTARY: &str = "voluntary context switches";
const INVOLUNTARY: &str = "involuntary context switches";
const INSTRUCTIONS: &str = "instructions retired";
const CYCLES: &str = "cycles elapsed";
const FOOTPRINT: &str = "peak memory footprint";

/// Parses the report of macOS `time -l` (or `-lp`). Text above the report is skipped; the last of several reports
/// counts.
///
/// A newer system's report that was cut right after `involuntary context switches` looks like an older system's. It
/// then lacks some figures, but has no wrong ones.
///
/// # Errors
/// The report is empty, truncated or malformed.
pub fn parse_bsd_time(text: &str) -> Result<TimeReport, TimeReportError> {
    if text.trim().is_empty() {
        return Err(TimeReportError::Empty);
    }
    // A line without a line break may be incomplete, so it is dropped.
    let lines: Vec<&str> = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).collect();
    let (line, times, figures) = last_times(&lines).ok_or(TimeReportError::Truncated("real"))?;
    let malformed = || TimeReportError::Malformed { name: "real".to_owned(), value: line.trim().to_owned() };
    let (wall_s, [user_s, system_s]) = times.ok_or_else(malformed)?;
    let required = |name: &'static str| figure(figures, name)?.ok_or(TimeReportError::Truncated(name));
    let stats = ProcessStats {
        wall_s,
        user_s: Some(user_s),
        system_s: Some(system_s),
        max_rss_bytes: Some(required(MAX_RSS)?),
        minor_faults: Some(required(PAGE_RECLAIMS)?),
        major_faults: Some(required(PAGE_FAULTS)?),
        voluntary_switches: Some(required(VOLUNTARY)?),
        involuntary_switches: Some(required(INVOLUNTARY)?),
        instructions: figure(figures, INSTRUCTIONS)?,
        cycles: figure(figures, CYCLES)?,
        peak_footprint_bytes: figure(figures, FOOTPRINT)?,
    };
    // A report that has instructions or cycles ends with the footprint.
    if (stats.instructions.is_some() || stats.cycles.is_some()) && stats.peak_footprint_bytes.is_none() {
        return Err(TimeReportError::Truncated(FOOTPRINT));
    }
    Ok(TimeReport { exit: None, stats })
}

/// The line with the last real, user and system seconds, these three values, and the lines that follow. The values are
/// `None` if they are not numbers; an earlier report is not used then, because it is another program's.
fn last_times<'a>(lines: &'a [&'a str]) -> Option<Times<'a>> {
    (0..lines.len()).rev().find_map(|start| {
        let below = &lines[start..];
        if let Some(words) = times_in_a_line(below[0]) {
            return Some((below[0], all_seconds(words), &below[1..]));
        }
        let words = times_in_three_lines(below.get(..3)?)?;
        Some((below[0], all_seconds(words), &below[3..]))
    })
}

type Times<'a> = (&'a str, Option<(Option<f64>, [f64; 2])>, &'a [&'a str]);

/// The seconds in `words`. If the clock was set back meanwhile, the real seconds are negative and therefore unknown.
fn all_seconds(words: [&str; 3]) -> Option<(Option<f64>, [f64; 2])> {
    let [real, user, system] = words;
    let positive = seconds(real.strip_prefix('-').unwrap_or(real))?;
    let real = (!real.starts_with('-')).then_some(positive);
    Some((real, [seconds(user)?, seconds(system)?]))
}

/// The numbers in `422.20 real      2886.74 user      1622.79 sys`.
fn times_in_a_line(line: &str) -> Option<[&str; 3]> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [real, "real", user, "user", system, "sys"] => Some([real, user, system]),
        _ => None,
    }
}

/// The numbers in `real 58.88`, `user 56.79` and `sys 8.79`.
fn times_in_three_lines<'a>(lines: &[&'a str]) -> Option<[&'a str; 3]> {
    let value = |index: usize, name: &str| {
        let (word, value) = lines.get(index)?.split_once(' ')?;
        (word == name).then(|| value.trim())
    };
    Some([value(0, "real")?, value(1, "user")?, value(2, "sys")?])
}

/// The value in the line `<count>  <name>`; `None` if there is no such line.
fn figure(lines: &[&str], name: &str) -> Result<Option<u64>, TimeReportError> {
    let value = lines.iter().find_map(|line| {
        let (value, found) = line.trim_start().split_once("  ")?;
        (found == name).then_some(value)
    });
    let Some(value) = value else { return Ok(None) };
    let malformed = || TimeReportError::Malformed { name: name.to_owned(), value: value.to_owned() };
    count(value).map(Some).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const APPLE_SILICON: &str = include_str!("../../tests/records/bsd_time_apple_silicon.txt");
    const POSIX: &str = include_str!("../../tests/records/bsd_time_posix_older.txt");

    #[test]
    fn apple_silicon() {
        let report = parse_bsd_time(APPLE_SILICON).unwrap();
        assert_eq!(report.exit, None);
        assert_eq!(
            report.stats,
            ProcessStats {
                wall_s: Some(85.25),
                user_s: Some(45.47),
                system_s: Some(24.90),
                max_rss_bytes: Some(905_265_152),
                peak_footprint_bytes: Some(8_651_097_696),
                voluntary_switches: Some(15_578),
                involuntary_switches: Some(1_226_469),
                major_faults: Some(57),
                minor_faults: Some(63_537),
                instructions: Some(277_217_770_877),
                cycles: Some(127_340_585_487),
            }
        );
    }

    #[test]
    fn older_macos_with_posix_format() {
        let stats = parse_bsd_time(POSIX).unwrap().stats;
        assert_eq!([stats.wall_s, stats.user_s, stats.system_s], [Some(58.88), Some(56.79), Some(8.79)]);
        assert_eq!(stats.max_rss_bytes, Some(87_810_048));
        assert_eq!(stats.involuntary_switches, Some(666_037));
        assert_eq!([stats.instructions, stats.cycles, stats.peak_footprint_bytes], [None; 3]);
    }

    #[test]
    fn an_invalid_report_is_explained() {
        assert_eq!(parse_bsd_time(""), Err(TimeReportError::Empty));
        assert_eq!(parse_bsd_time("Killed: 9\n"), Err(TimeReportError::Truncated("real")));
        let (head, _) = APPLE_SILICON.split_once("        127340585487").unwrap();
        assert_eq!(parse_bsd_time(head), Err(TimeReportError::Truncated(FOOTPRINT)));
        let (head, _) = APPLE_SILICON.split_once("               15578").unwrap();
        assert_eq!(parse_bsd_time(head), Err(TimeReportError::Truncated(VOLUNTARY)));
        assert_eq!(
            parse_bsd_time(&APPLE_SILICON.replace("905265152", "905M")),
            Err(TimeReportError::Malformed { name: MAX_RSS.to_owned(), value: "905M".to_owned() })
        );
    }

    #[test]
    fn a_time_without_its_first_digit_is_malformed() {
        let lost = |text: &str, from: &str, to: &str| {
            // An earlier report must not be used instead.
            let text = format!("{text}{}", text.replacen(from, to, 1));
            assert!(text.contains(to));
            parse_bsd_time(&text)
        };
        for (text, from, to) in
            [(APPLE_SILICON, "85.25", ".25"), (POSIX, "58.88", ".88"), (POSIX, " 8.79", " .79")]
        {
            let found = lost(text, from, to);
            assert!(
                matches!(&found, Err(TimeReportError::Malformed { name, .. }) if name == "real"),
                "{found:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_truncated_report_has_no_wrong_figures(
            text in prop::sample::select(vec![APPLE_SILICON, POSIX]),
            cut in any::<prop::sample::Index>(),
        ) {
            let whole = parse_bsd_time(text).unwrap();
            let older = TimeReport {
                exit: None,
                stats: ProcessStats {
                    instructions: None,
                    cycles: None,
                    peak_footprint_bytes: None,
                    ..whole.stats.clone()
                },
            };
            if let Ok(report) = parse_bsd_time(&text[..cut.index(text.len())]) {
                prop_assert!(report == whole || report == older, "{:?}", report);
            }
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in "(\\PC*\n|[0-9. ]*(real|user|sys|  page faults)[ 0-9\n]*)*") {
            let _ = parse_bsd_time(&text);
        }

        #[test]
        fn a_garbled_report_does_not_panic(
            text in prop::sample::select(vec![APPLE_SILICON, POSIX]),
            edits in crate::record::garble::edits(),
        ) {
            let _ = parse_bsd_time(&crate::record::garble::garble(text, &edits));
        }
    }
}
