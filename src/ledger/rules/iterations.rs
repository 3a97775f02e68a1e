//! Samples are iterations × the batch.

use crate::ledger::entry::Entry;
use crate::ledger::field::Field;
use crate::ledger::objection::Objection;
use crate::ledger::rule::Rule;
use crate::ledger::sheet::Sheet;

/// The lines whose samples are not their iterations × the batch. The last batch may be smaller.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    sheet.entries.iter().filter_map(objection).collect()
}

fn objection(entry: &Entry) -> Option<Objection> {
    let (samples, iterations) = (entry.count(Field::Samples)? as f64, entry.count(Field::Iterations)? as f64);
    let each = entry.samples_per_iteration()?;
    let fits = samples <= iterations * each && samples > (iterations - 1.0) * each;
    (!fits).then(|| {
        let sentence = format!(
            "{samples} samples, but {iterations} iterations × {each} samples are {}",
            iterations * each
        );
        let cause = if samples % each == 0.0 {
            format!("the samples are those of {} iterations", samples / each)
        } else {
            "one of the counts is of another run".to_owned()
        };
        Objection::new(Rule::IterationCount, [entry], sentence, cause)
    })
}
