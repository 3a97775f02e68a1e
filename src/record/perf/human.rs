//! The report of `perf stat` for people, as it stands in logs that others made.
//!
//! Format: `Performance counter stats for '<command>':`, an empty line, lines `value [unit] event [# derived value]
//! [( +- deviation%)] [(share%)]`, an empty line, seconds. The command may have line breaks, values thousands separators.

use super::PerfFailure;
use super::counters::PerfEvent;
use super::rows::{Row, decimal, parse_count, parse_event, parse_share};
use crate::record::notation::Notation;

const HEADER: &str = "Performance counter stats for";

/// Whether there is such a report in `text`.
pub(super) fn is_for_people(text: &str) -> bool {
    text.contains(HEADER)
}

/// The lines of the last report that count something.
///
/// # Errors
/// A line of another form, or one without its end.
pub(super) fn parse_human(text: &str) -> Result<Vec<Row>, PerfFailure> {
    let report = text.rfind(HEADER).map_or(text, |start| &text[start..]);
    let lines: Vec<&str> = report.split_inclusive('\n').collect();
    let blank = |line: &&&str| !line.trim().is_empty();
    let body = lines.iter().skip_while(blank).skip(1).take_while(blank);
    let mut notation = Notation::default();
    let mut rows = Vec::new();
    for line in body.clone() {
        let word = line.split_whitespace().next().unwrap_or_default();
        notation.learn(word).map_err(|_| PerfFailure::Malformed(line.trim().to_owned()))?;
    }
    for line in body {
        let content = line.trim();
        if !line.ends_with('\n') {
            return Err(PerfFailure::Torn(content.to_owned()));
        }
        rows.push(parse_line(content, notation).ok_or_else(|| PerfFailure::Malformed(content.to_owned()))?);
    }
    Ok(rows)
}

fn parse_line(line: &str, notation: Notation) -> Option<Row> {
    let (main, derived) = line.split_once('#').unwrap_or((line, ""));
    let (main, in_main) = split_notes(main);
    let (_, in_derived) = split_notes(derived);
    let notes = || in_main.iter().chain(&in_derived);
    let main = main.trim();
    let absent = ["<not supported>", "<not counted>"].into_iter().find(|words| main.starts_with(words));
    let (value, rest) = match absent {
        Some(words) => (words.to_owned(), &main[words.len()..]),
        None => {
            let (number, rest) = main.split_once(' ')?;
            (notation.plain(number, true)?, rest)
        }
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (unit, name) = match words[..] {
        [name] => ("", name),
        [unit, name] => (unit, name),
        _ => return None,
    };
    let share = notes().find_map(|note| parse_share(percent(note)?)).unwrap_or(1.0);
    let (count, unit) = parse_count(&value, unit, share)?;
    let deviation_percent = notes().find_map(|note| decimal(percent(note.trim().strip_prefix("+-")?)?, 0));
    let event = PerfEvent { count, unit, deviation_percent, ..parse_event(name)? };
    Some(Row { event, thread: None })
}

/// A text without what it has in round brackets, and that.
fn split_notes(text: &str) -> (String, Vec<&str>) {
    let (mut rest, mut plain, mut notes) = (text, String::new(), Vec::new());
    while let Some((before, after)) = rest.split_once('(') {
        plain.push_str(before);
        let (note, behind) = after.split_once(')').unwrap_or((after, ""));
        notes.push(note);
        rest = behind;
    }
    plain.push_str(rest);
    (plain, notes)
}

/// The number before a sign of per cent.
fn percent(note: &str) -> Option<&str> {
    note.trim().strip_suffix('%')
}
