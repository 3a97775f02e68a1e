//! The result of a check, as text.

use std::fmt::Write as _;
use std::path::Path;

use crate::analysis::conduct::{Remark, tally_text};
use crate::plan::quote;
use crate::record::Record;
use crate::text::{rate_text, significant};

/// The most lines of a failed worker's standard error that are shown.
const SHOWN_LINES: usize = 10;

/// The page: the measurement, the remarks, and their number. `record` is that of the attempt, if one was made,
/// `stderr` the end of its standard error, and `kept` the store that is kept.
pub(super) fn page(record: Option<&Record>, stderr: &str, remarks: &[Remark], kept: Option<&Path>) -> String {
    let mut text = record.map(|record| measured(record) + &stderr_tail(record, stderr)).unwrap_or_default();
    for Remark { weight, what, change, loss, .. } in remarks {
        let _ = write!(text, "{}: {what}\n  change: {change}\n  lost:   {loss}\n\n", weight.as_str());
    }
    if let Some((kept, record)) = kept.zip(record) {
        let (store, label) = (quote(&kept.display().to_string()), quote(&record.label));
        let _ = writeln!(text, "kept: `orchestrate show {label} --store {store}`\n");
    }
    text + &tally_text(remarks) + "\n"
}

/// The measurement in one line; empty if there is none.
fn measured(record: &Record) -> String {
    let Some(measurement) = &record.measurement else { return String::new() };
    let effective = &measurement.effective;
    let unit = measurement.unit(&record.key);
    format!(
        "measured {} {unit}/s: {} {unit} in {} s, {} at batch {} on {}; the process lived {} s\n\n",
        rate_text(measurement.samples_per_s()),
        measurement.samples,
        significant(measurement.elapsed_s, 3),
        effective.precision,
        effective.batch,
        effective.device,
        significant(record.wall_s(), 3),
    )
}

/// The last lines of the standard error of a failed worker; empty after a success.
fn stderr_tail(record: &Record, stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    if record.outcome.is_success() || lines.is_empty() {
        return String::new();
    }
    let last = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    let shown: String = last.iter().map(|line| format!("  | {line}\n")).collect();
    format!("the worker's last words on standard error:\n{shown}\n")
}
