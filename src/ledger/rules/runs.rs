//! The number of runs of each row.

use std::collections::BTreeMap;

use crate::ledger::objection::Objection;
use crate::ledger::row::Row;
use crate::ledger::rule::Rule;
use crate::ledger::sheet::Sheet;
use crate::text::count_text;

/// The rows with another number of runs than more than half of the rows of their file.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    let mut found = Vec::new();
    for file in sheet.files() {
        let rows = sheet.rows.iter().filter(|row| row.line().file == file);
        let counted: Vec<(&Row<'_>, u64)> = rows.filter_map(|row| Some((row, row.runs?))).collect();
        let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, runs) in &counted {
            *numbers.entry(*runs).or_default() += 1;
        }
        let usual = numbers.into_iter().find(|(_, rows)| 2 * rows > counted.len());
        let Some((usual, rows)) = usual else { continue };
        let others = counted.iter().filter(|(_, runs)| *runs != usual);
        found.extend(others.map(|(row, runs)| objection(row, *runs, usual, (rows, counted.len()))));
    }
    found
}

fn objection(row: &Row<'_>, runs: u64, usual: u64, (rows, of): (usize, usize)) -> Objection {
    let sentence = format!("n = {runs}, but {rows} of {} have n = {usual}", count_text(of, "row"));
    Objection::new(Rule::Runs, row.lines.iter().copied(), sentence, cause(runs, usual))
}

fn cause(runs: u64, usual: u64) -> String {
    let times = runs / usual.max(1);
    match (runs < usual, runs % usual.max(1)) {
        (true, _) => "runs failed, or were left out".to_owned(),
        (false, 0) => {
            format!("{times} × {usual} runs: the matrix ran more than once, and all of it was pooled")
        }
        (false, 1) => {
            format!("{times} × {usual} + 1 runs: one of another kind is among them, such as a profiled run")
        }
        (false, _) => "runs of another config are among them".to_owned(),
    }
}
