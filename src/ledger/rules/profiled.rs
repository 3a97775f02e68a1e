//! Runs of another kind among the timings of a config: profiled ones, and those with another number of iterations.

use std::collections::BTreeMap;

use super::words::computed;
use crate::ledger::entry::Entry;
use crate::ledger::field::Field;
use crate::ledger::objection::Objection;
use crate::ledger::row::{Row, is_run};
use crate::ledger::rule::Rule;
use crate::ledger::sheet::Sheet;
use crate::stats::mean;

/// Words in the labels of profiled runs.
const PROFILERS: [&str; 9] =
    ["prof", "profile", "profiled", "profiling", "ncu", "nsight", "nsys", "nvprof", "perf"];

/// The lines of runs that do not belong to the timings of their config.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    let of_runs = sheet.rows.iter().filter(|row| row.lines.len() > 1 && is_run(row.line()));
    of_runs.flat_map(|row| profiled(row).into_iter().chain(unequal(row))).collect()
}

/// Whether a word in the label of a line means that it was profiled.
fn is_profiled(entry: &Entry) -> bool {
    let label = entry.text(Field::Label).unwrap_or_default().to_lowercase();
    label.split(|letter: char| !letter.is_alphanumeric()).any(|word| PROFILERS.contains(&word))
}

fn profiled(row: &Row<'_>) -> Option<Objection> {
    let (profiled, timed): (Vec<&Entry>, Vec<&Entry>) =
        row.lines.iter().partition(|entry| is_profiled(entry));
    if profiled.is_empty() || timed.is_empty() {
        return None;
    }
    let rates = |lines: &[&Entry]| -> Vec<f64> {
        lines.iter().filter_map(|line| line.positive(Field::Throughput)).map(|number| number.value).collect()
    };
    let sentence = format!(
        "{} of {} runs are called profiled: their mean is {} samples/s, and that of the others {}",
        profiled.len(),
        row.lines.len(),
        computed(mean(&rates(&profiled)).ok()?),
        computed(mean(&rates(&timed)).ok()?),
    );
    let cause = "a profiler slows down a run, so profiled runs are not comparable with timings";
    Some(Objection::new(Rule::Profiled, profiled, sentence, cause))
}

fn unequal(row: &Row<'_>) -> Option<Objection> {
    let counted: Vec<(&Entry, u64)> =
        row.lines.iter().filter_map(|line| Some((*line, line.count(Field::Iterations)?))).collect();
    let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, iterations) in &counted {
        *numbers.entry(*iterations).or_default() += 1;
    }
    let (usual, runs) = numbers.into_iter().find(|(_, runs)| 2 * runs > counted.len())?;
    let others: Vec<(&Entry, u64)> = counted.iter().filter(|(_, number)| *number != usual).copied().collect();
    let (_, least) = others.iter().min_by_key(|(_, number)| *number)?;
    let sentence = format!(
        "{least} measured iterations, but {runs} of {} runs of the config have {usual}",
        counted.len()
    );
    let cause = "the run was profiled or a trial, and not a repeat of the others";
    Some(Objection::new(Rule::UnequalWindows, others.iter().map(|(line, _)| *line), sentence, cause))
}
