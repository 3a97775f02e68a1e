//! Throughput that falls sharply with the batch.

use std::collections::BTreeMap;

use super::words::{computed, printed};
use crate::ledger::field::Field;
use crate::ledger::objection::Objection;
use crate::ledger::row::Row;
use crate::ledger::rule::{CLIFF, Rule};
use crate::ledger::sheet::Sheet;

/// The rows with less than half of the throughput of the next smaller batch.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    let mut series: BTreeMap<_, BTreeMap<u64, &Row<'_>>> = BTreeMap::new();
    for row in &sheet.rows {
        let line = row.line();
        if let Some(batch) = line.count(Field::Batch) {
            let of = (line.file.as_str(), line.machine(), line.work());
            series.entry(of).or_default().entry(batch).or_insert(row);
        }
    }
    let mut found = Vec::new();
    for rows in series.values() {
        let steps = rows.iter().zip(rows.iter().skip(1));
        found.extend(steps.filter_map(|((small, before), (large, after))| {
            let fall = before.throughput.value / after.throughput.value;
            (fall > CLIFF).then(|| objection(before, after, (*small, *large), fall))
        }));
    }
    found
}

fn objection(before: &Row<'_>, after: &Row<'_>, (small, large): (u64, u64), fall: f64) -> Objection {
    let sentence = format!(
        "{} samples/s with a batch of {large}, after {} with {small}: a fall to 1 ÷ {}",
        printed(after.throughput, 1.0),
        printed(before.throughput, 1.0),
        computed(fall),
    );
    let cause =
        "the memory of the device spilled into that of the host, or heat or another cause slowed it down";
    Objection::new(Rule::Cliff, [after.line(), before.line()], sentence, cause)
}
