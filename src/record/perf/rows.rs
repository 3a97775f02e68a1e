//! The lines of a report of `perf stat -x,`.
//!
//! Format: `value,unit,event[,deviation%],running time,share[,derived value,its unit]`, optionally with a thread in
//! front. The value can be `<not supported>` or `<not counted>`. The name of an event can contain commas between
//! slashes. Comments begin with `#`. A line without an event only adds a derived value to the line above.

use super::PerfFailure;
use super::counters::{Count, PerfEvent};
use crate::clean::clean_text;

/// One line of the report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The event with its count.
    pub(super) event: PerfEvent,
    /// The thread, if the report has one line per thread.
    pub(super) thread: Option<String>,
    /// How long it was counted, in nanoseconds, summed over all processors.
    pub(super) running_ns: f64,
}

/// An upper bound for events per nanosecond, which no processor reaches, even summed over many units.
const MOST_PER_NS: f64 = 1000.0;

impl Row {
    /// Whether the count is possible in the time it took. `perf` scales a value up that was counted in a part of the
    /// time.
    fn is_possible(&self) -> bool {
        let Count::Counted { value, share } = self.event.count else { return true };
        // `perf` rounds the share to hundredths of a percent.
        let most = MOST_PER_NS * self.running_ns.max(1.0) / share.max(0.00005);
        value.is_finite() && (self.event.unit.is_some() || value <= most)
    }
}

/// Parses the lines that have an event.
///
/// # Errors
/// A line is malformed or cut off.
pub(super) fn parse_rows(text: &str) -> Result<Vec<Row>, PerfFailure> {
    let mut rows = Vec::new();
    for line in text.split_inclusive('\n') {
        let content = &*clean_text(line.trim());
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        // A line without a line break may have lost digits.
        if !line.ends_with('\n') {
            return Err(PerfFailure::Torn(content.to_owned()));
        }
        let fields = split_fields(content);
        if is_derived(&fields) {
            continue;
        }
        let row = parse_row(&fields).ok_or_else(|| malformed(content, &fields))?;
        if !row.is_possible() {
            return Err(PerfFailure::Impossible(content.to_owned()));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Why a line cannot be read. Decimal commas split a percentage such as `83,31` into two fields.
fn malformed(line: &str, fields: &[String]) -> PerfFailure {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_split = |pair: &[String]| {
        let [whole, fraction] = pair else { return false };
        (1..=3).contains(&whole.len()) && fraction.len() == 2 && is_number(whole) && is_number(fraction)
    };
    if fields.windows(2).any(is_split) {
        PerfFailure::DecimalComma(line.to_owned())
    } else {
        PerfFailure::Malformed(line.to_owned())
    }
}

/// Splits a line into fields. A comma between two slashes is part of an event's name.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    let mut is_open = false;
    for field in line.split(',') {
        match fields.last_mut() {
            Some(last) if is_open => {
                last.push(',');
                last.push_str(field);
            }
            _ => fields.push(field.to_owned()),
        }
        // Only an event's name has both a slash and a `=`: a derived unit such as `M/sec` has no `=`.
        is_open = fields.last().is_some_and(|last| last.matches('/').count() == 1 && last.contains('='));
    }
    fields
}

/// Whether a line has no event, only a derived value. It can begin with a thread.
fn is_derived(fields: &[String]) -> bool {
    fields.windows(3).take(2).any(|fields| fields.iter().all(|field| field.is_empty()))
}

/// Parses a line. The name of its thread can contain commas.
fn parse_row(fields: &[String]) -> Option<Row> {
    (0..fields.len()).find_map(|start| {
        let thread = (start > 0).then(|| fields[..start].join(","));
        if thread.as_deref().is_some_and(|thread| !is_thread(thread)) {
            return None;
        }
        let (event, running_ns) = parse_fields(&fields[start..])?;
        Some(Row { event, thread, running_ns })
    })
}

/// Whether `text` is a thread in `perf`'s notation: `worker-4711`.
fn is_thread(text: &str) -> bool {
    text.rsplit_once('-')
        .is_some_and(|(_, id)| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The event, and how long it was counted.
fn parse_fields(fields: &[String]) -> Option<(PerfEvent, f64)> {
    let [value, unit, event, rest @ ..] = fields else { return None };
    let (deviation, rest) = match rest {
        [deviation, rest @ ..] if deviation.ends_with('%') => {
            (Some(decimal(deviation.trim_end_matches('%'), 0)?), rest)
        }
        rest => (None, rest),
    };
    let [running, share, ..] = rest else { return None };
    let running_ns = decimal(running, 0)?;
    let (count, unit) = parse_count(value, unit, parse_share(share)?)?;
    Some((PerfEvent { count, unit, deviation_percent: deviation, ..parse_event(event)? }, running_ns))
}

/// The count and its unit: seconds for all times, `None` for a number of events.
fn parse_count(value: &str, unit: &str, share: f64) -> Option<(Count, Option<String>)> {
    let (exponent, unit) = match unit {
        "" => (0, None),
        "msec" => (-3, Some("s")),
        "ns" => (-9, Some("s")),
        other => (0, Some(other)),
    };
    let count = match value {
        "<not supported>" => Count::NotSupported,
        "<not counted>" => Count::NotCounted,
        number => Count::Counted { value: decimal(number, exponent)?, share },
    };
    Some((count, unit.map(str::to_owned)))
}

/// Digits, with or without a fraction, times a power of ten. Both are parsed as one number, so that 83.31 % becomes
/// 0.8331 and not 0.8331000000000001.
fn decimal(text: &str, exponent: i32) -> Option<f64> {
    // `f64` would also accept signs, exponents, `inf` and `nan`.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain { format!("{text}e{exponent}").parse().ok() } else { None }
}

/// A share of 0 to 1 from a percentage. `perf` always prints decimals: if there is no decimal point, there was a
/// decimal comma.
fn parse_share(percent: &str) -> Option<f64> {
    decimal(percent, -2).filter(|share| *share <= 1.0 && percent.contains('.'))
}

/// Parses the name of an event: `cycles:u`, `cpu_core/cycles/u`, `sched:sched_switch`. Its count is still missing.
pub(super) fn parse_event(text: &str) -> Option<PerfEvent> {
    let (pmu, name, modifiers) = match text.split_once('/') {
        Some((pmu, rest)) => {
            let (name, modifiers) = rest.rsplit_once('/')?;
            // Where only user mode may be counted, hybrid processors have `cpu_core/cycles:u/`.
            match name.rsplit_once(':') {
                Some((name, inner)) if modifiers.is_empty() && is_modifiers(inner) => {
                    (Some(pmu), name, inner)
                }
                _ => (Some(pmu), name, modifiers),
            }
        }
        None => match text.rsplit_once(':') {
            Some((name, modifiers)) if is_modifiers(modifiers) => (None, name, modifiers),
            _ => (None, text, ""),
        },
    };
    let modifiers = modifiers.trim_start_matches(':');
    let is_named = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let is_sound = is_named && (modifiers.is_empty() || is_modifiers(modifiers)) && pmu != Some("");
    is_sound.then(|| PerfEvent {
        name: name.to_owned(),
        pmu: pmu.filter(|pmu| *pmu != "cpu").map(str::to_owned),
        modifiers: (!modifiers.is_empty()).then(|| modifiers.to_owned()),
        unit: None,
        count: Count::NotCounted,
        deviation_percent: None,
        threads: None,
    })
}

fn is_modifiers(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| b"ukhIGHpPSDWeb".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_from_modifiers() {
        for (text, name, pmu, modifiers) in [
            ("cycles", "cycles", None, None),
            ("cycles:u", "cycles", None, Some("u")),
            ("cpu_core/cycles/", "cycles", Some("cpu_core"), None),
            ("cpu_atom/branch-misses/u", "branch-misses", Some("cpu_atom"), Some("u")),
            ("cpu_atom/branch-misses/:u", "branch-misses", Some("cpu_atom"), Some("u")),
            ("cpu_core/cycles:u/", "cycles", Some("cpu_core"), Some("u")),
            ("cpu/event=0x3c,umask=0x0/", "event=0x3c,umask=0x0", None, None),
            ("sched:sched_switch", "sched:sched_switch", None, None),
        ] {
            let event = parse_event(text).unwrap();
            assert_eq!(
                (event.name.as_str(), event.pmu.as_deref(), event.modifiers.as_deref()),
                (name, pmu, modifiers)
            );
        }
        for text in ["", "100.00", "cpu_core/cycles", "/cycles/", "cpu/cycles/x"] {
            assert_eq!(parse_event(text), None, "{text}");
        }
    }

    #[test]
    fn a_count_that_no_processor_reaches_is_refused() {
        let refused = |value: &str, unit: &str, share: &str| {
            let line = format!("{value},{unit},cycles:u,1604452556,{share},,");
            match parse_rows(&format!("{line}\n")) {
                Err(failure) => {
                    assert_eq!(failure, PerfFailure::Impossible(line));
                    true
                }
                Ok(_) => false,
            }
        };
        assert!(refused("100000000000000000000000", "", "100.00"), "1e23 cycles in 1.6 s");
        assert!(refused(&"9".repeat(400), "", "100.00"), "too large for a float");
        assert!(refused(&"9".repeat(400), "msec", "100.00"));
        assert!(!refused("8054099575", "", "100.00"));
        // It had a counter for a ten-thousandth of the time, so it ran ten thousand times as long.
        assert!(!refused("80540995750000", "", "0.01"));
        assert!(!refused("8054099575", "", "0.00"));
        assert!(!refused("99999999999999", "Bytes", "100.00"), "bytes are not events of a processor");
    }

    #[test]
    fn an_event_with_commas_is_one_field() {
        let row = "7,,cpu/event=0x3c,umask=0x0/,614065,100.00,,\n7,,branches,614065,100.00,5.741,M/sec\n";
        let rows = parse_rows(row).unwrap();
        assert_eq!(rows[0].event.name, "event=0x3c,umask=0x0");
        assert_eq!((rows.len(), rows[1].event.count.value()), (2, Some(7.0)));
    }

    #[test]
    fn a_malformed_line_is_an_error() {
        for line in [
            "1.000123,8054,,cycles,1604452556,100.00,,",
            "cycles",
            "7,,cycles",
            "7,,cycles,x,100.00,,",
            "7,,cycles,614065,100.01,,",
            "-7,,cycles,614065,100.00,,",
            "7,,,614065,100.00,,",
            "7,,cycles,x%,614065,100.00,,",
            "perf: command not found",
        ] {
            assert_eq!(parse_rows(&format!("{line}\n")), Err(PerfFailure::Malformed(line.to_owned())));
        }
        for line in [
            "7,,cycles,614065,46,54,2,500,GHz",
            "7,,cycles,614065,100,00,,",
            "47,,page-faults,1,88%,462800,100,00,93,986,K/sec",
            "15046,91,msec,task-clock:u,15046912345,100,00,7,612,CPUs utilized",
        ] {
            assert_eq!(parse_rows(&format!("{line}\n")), Err(PerfFailure::DecimalComma(line.to_owned())));
        }
        assert_eq!(
            parse_rows("7,,cycles,614065,10"),
            Err(PerfFailure::Torn("7,,cycles,614065,10".to_owned()))
        );
        assert_eq!(parse_rows(",,,,,2.50,insn per cycle\n# started\n\n"), Ok(vec![]));
    }
}
