//! Files of other programs as records for a store: tables, reports of `/usr/bin/time`, and counters of `ncu`.

use std::fmt;

use serde_json::{Map, Value, json};

use super::entry::Entry;
use super::field::Mapping;
use super::read::{LedgerError, read};
use crate::record::ncu::{NcuOutput, Selection, parse_ncu};
use crate::record::{ReportedExit, TimeReport, parse_bsd_time, parse_gnu_time};
use crate::text::with_causes;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// CSV with one line per config, run or iteration.
    Table,
    /// Reports of `/usr/bin/time`, one after another.
    TimeReports,
    /// The table of `ncu --csv`.
    Counters,
}

impl Form {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Form::Table => "table",
            Form::TimeReports => "time",
            Form::Counters => "ncu",
        }
    }

    /// The form of `text`, by its characteristic lines. An empty file is the log of a `time` that was killed.
    fn of(text: &str) -> Form {
        let has = |words: &str| text.lines().any(|line| line.trim_start().starts_with(words));
        let is_counted = has("==PROF==") || has("==ERROR==") || has("\"ID\",\"Process ID\"");
        let is_timed = has("Command being timed:") || text.contains("maximum resident set size");
        match (is_counted, is_timed || text.trim().is_empty()) {
            (true, _) => Form::Counters,
            (false, true) => Form::TimeReports,
            (false, false) => Form::Table,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Table => "a table",
            Form::TimeReports => "reports of time",
            Form::Counters => "counts of ncu",
        })
    }
}

/// The contents of a foreign file.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    /// The kind of the file.
    pub form: Form,
    /// Its records, in its order.
    pub records: Vec<Map<String, Value>>,
    /// Things that could not be mapped or read, as sentences.
    pub beside: Vec<String>,
}

/// Reads `text`, the content of `file`, in any of the known forms.
///
/// # Errors
/// It is a table without a readable line.
pub fn foreign(file: &str, text: &str, mappings: &[Mapping]) -> Result<Foreign, LedgerError> {
    match Form::of(text) {
        Form::Table => table(file, text, mappings),
        Form::TimeReports => Ok(time_reports(file, text)),
        Form::Counters => Ok(counters(file, text)),
    }
}

fn table(file: &str, text: &str, mappings: &[Mapping]) -> Result<Foreign, LedgerError> {
    let ledger = read(file, text, mappings)?;
    let records = ledger.entries.iter().map(Entry::record).collect();
    let beside = ledger.unread.iter().map(ToString::to_string).collect();
    Ok(Foreign { form: Form::Table, records, beside })
}

/// Every complete report in `text`. Truncated ones are listed in `beside`.
fn time_reports(file: &str, text: &str) -> Foreign {
    let mut found = Foreign { form: Form::TimeReports, records: Vec::new(), beside: Vec::new() };
    let blocks = blocks(text);
    if blocks.is_empty() {
        found.beside.push(format!("{file} is empty: `time` was killed before it wrote"));
    }
    for (line, block) in blocks {
        let report = if is_gnu(&block) { parse_gnu_time(&block) } else { parse_bsd_time(&block) };
        match report {
            Ok(report) => found.records.push(time_record(line, &block, &report)),
            Err(error) => found.beside.push(format!("{file}:{line}: not read: {error}")),
        }
    }
    found
}

fn is_gnu(block: &str) -> bool {
    block.contains("\tCommand being timed: ")
}

/// The first line and the text of each report: from one beginning to the next.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_gnu = is_gnu(text);
    let begins = |index: usize| {
        let line = lines[index];
        if is_gnu { line.starts_with("\tCommand being timed: ") } else { is_bsd_beginning(line) }
    };
    // GNU's line about the exit is above the report.
    let starts: Vec<usize> = (0..lines.len())
        .filter(|index| begins(*index))
        .map(|index| index - usize::from(is_gnu && index > 0 && lines[index - 1].starts_with("Command ")))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    starts.iter().zip(ends).map(|(start, end)| (start + 1, lines[*start..end].concat())).collect()
}

/// Whether a line is `422.20 real 2886.74 user 1622.79 sys`, or the first of three such lines.
fn is_bsd_beginning(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], [_, "real", _, "user", _, "sys"]) || matches!(words[..], ["real", _])
}

fn time_record(line: usize, block: &str, report: &TimeReport) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("line".to_owned(), json!(line));
    let command = block.lines().find_map(|line| line.strip_prefix("\tCommand being timed: "));
    if let Some(command) = command {
        record.insert("command".to_owned(), json!(command.trim_matches('"')));
    }
    match report.exit {
        Some(ReportedExit::Code(code)) => record.insert("exit_code".to_owned(), json!(code)),
        Some(ReportedExit::Signal(signal)) => record.insert("signal".to_owned(), json!(signal)),
        None => None,
    };
    // It has string keys and no failing serializer.
    if let Ok(Value::Object(figures)) = serde_json::to_value(&report.stats) {
        record.extend(figures.into_iter().filter(|(_, value)| !value.is_null()));
    }
    record
}

fn counters(file: &str, text: &str) -> Foreign {
    let mut found = Foreign { form: Form::Counters, records: Vec::new(), beside: Vec::new() };
    match parse_ncu(text.as_bytes(), &NcuOutput::default(), &Selection::default()) {
        Ok(counters) => {
            if let Ok(Value::Object(record)) = serde_json::to_value(&counters) {
                found.records.push(record);
            }
        }
        Err(failure) => found.beside.push(format!("{file}: not read: {}", with_causes(&failure))),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GNU: &str = include_str!("../../tests/records/gnu_time_exit_0.txt");
    const FAILED: &str = include_str!("../../tests/records/gnu_time_exit_1_below_a_traceback.txt");

    fn read(text: &str) -> Foreign {
        foreign("f", text, &[]).unwrap()
    }

    #[test]
    fn reads_several_time_reports_and_reports_truncated_ones() {
        let cut: String = GNU.lines().take(6).map(|line| format!("{line}\n")).collect();
        let read = read(&[GNU, &cut, FAILED, GNU].concat());
        assert_eq!(read.form, Form::TimeReports);
        let walls: Vec<&Value> = read.records.iter().map(|record| &record["wall_s"]).collect();
        assert_eq!(walls.len(), 3, "{read:?}");
        assert_eq!((walls[0], walls[2]), (&json!(73.96), &json!(73.96)));
        assert_eq!(read.records[1]["exit_code"], 1);
        assert_eq!(read.beside.len(), 1, "{read:?}");
        assert!(read.beside[0].contains("not read"), "{read:?}");
    }

    #[test]
    fn an_empty_log_is_explained() {
        let read = read("");
        assert_eq!((read.form, read.records.len()), (Form::TimeReports, 0));
        assert_eq!(read.beside, ["f is empty: `time` was killed before it wrote"]);
    }

    #[test]
    fn reports_of_a_mac_are_read() {
        let one = "        2.20 real         1.74 user         0.79 sys\n           1048576  maximum resident set size\n\
                   0  average shared memory size\n 0  average unshared data size\n 0  average unshared stack size\n\
                   3437  page reclaims\n 1  page faults\n 0  swaps\n 0  block input operations\n\
                   0  block output operations\n 0  messages sent\n 0  messages received\n 0  signals received\n\
                   13  voluntary context switches\n 102  involuntary context switches\n";
        let read = read(&one.repeat(2));
        assert_eq!(read.records.len(), 2, "{read:?}");
        assert_eq!(read.records[1]["max_rss_bytes"], 1_048_576);
    }

    #[test]
    fn unknown_columns_are_kept_beside() {
        let read = read("model,images_per_s,colour\nvgg11,10.0,red\nvgg11,fast,\n");
        assert_eq!(read.form, Form::Table);
        assert_eq!(read.records[0]["samples_per_s"], 10.0);
        assert_eq!(read.records[0]["beside"], json!({ "colour": "red" }));
        assert_eq!(read.records[1]["beside"], json!({ "images_per_s": "fast" }));
        assert_eq!(read.beside.len(), 2);
    }

    #[test]
    fn reports_a_profiler_without_counts() {
        let read = read("==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM\n");
        assert_eq!((read.form, read.records.len()), (Form::Counters, 0));
        assert!(read.beside[0].starts_with("f: not read: "), "{read:?}");
    }
}
