//! The rows of a ledger. A row is a line that is a mean of runs, or the lines of all runs of one config.

use std::collections::BTreeMap;

use super::entry::{Config, Entry};
use super::field::Field;
use super::number::Number;
use crate::stats;

/// One config of a ledger, with its stated statistics or those of its runs.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    /// Its lines: one, or one per run.
    pub(super) lines: Vec<&'a Entry>,
    /// The number of runs, if the ledger states it.
    pub(super) runs: Option<u64>,
    /// Mean samples per second.
    pub(super) throughput: Number,
    /// Its standard deviation: stated, or that of the runs.
    pub(super) sd: Option<Number>,
}

impl<'a> Row<'a> {
    /// The line to name in objections.
    pub(super) fn line(&self) -> &'a Entry {
        self.lines[0]
    }

    /// The rows of `entries`, in the order of their first lines. Lines of single iterations belong to no row.
    pub(super) fn of(entries: &'a [Entry]) -> Vec<Row<'a>> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        let mut groups: BTreeMap<(&str, Config), usize> = BTreeMap::new();
        let mut lines_of_runs: Vec<Vec<(&'a Entry, Number)>> = Vec::new();
        for entry in entries.iter().filter(|entry| entry.number(Field::Iteration).is_none()) {
            let Some(throughput) = entry.positive(Field::Throughput) else { continue };
            if is_summary(entry) {
                let (runs, sd) = (entry.count(Field::Runs), entry.number(Field::ThroughputSd));
                rows.push(Row { lines: vec![entry], runs, throughput, sd });
                continue;
            }
            let group = *groups.entry((&entry.file, entry.config())).or_insert_with(|| {
                lines_of_runs.push(Vec::new());
                lines_of_runs.len() - 1
            });
            lines_of_runs[group].push((entry, throughput));
        }
        rows.extend(lines_of_runs.into_iter().map(of_runs));
        rows.sort_by_key(|row| (row.line().file.clone(), row.line().line));
        rows
    }
}

/// Whether a line summarises several runs.
fn is_summary(entry: &Entry) -> bool {
    entry.number(Field::Runs).is_some() || entry.number(Field::ThroughputSd).is_some()
}

/// Whether a line is a single run, and not a mean without a stated number of runs.
pub(super) fn is_run(entry: &Entry) -> bool {
    let fields = [Field::Elapsed, Field::Samples];
    !is_summary(entry)
        && entry.number(Field::Iteration).is_none()
        && (fields.iter().any(|field| entry.number(*field).is_some())
            || entry.text(Field::Label).is_some()
            || entry.window().is_some())
}

fn of_runs(runs: Vec<(&Entry, Number)>) -> Row<'_> {
    let values: Vec<f64> = runs.iter().map(|(_, throughput)| throughput.value).collect();
    let rounding = runs.iter().map(|(_, throughput)| throughput.half_digit).fold(0.0, f64::max);
    let mean = stats::mean(&values).unwrap_or(values[0]);
    let lines: Vec<&Entry> = runs.iter().map(|(entry, _)| *entry).collect();
    let number = lines.len() as u64;
    Row {
        runs: (number > 1 || is_run(lines[0])).then_some(number),
        throughput: Number { value: mean, half_digit: rounding },
        sd: stats::standard_deviation(&values).ok().map(|sd| Number { value: sd, half_digit: rounding }),
        lines,
    }
}
