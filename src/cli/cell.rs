//! Conversion of a job and its record into a cell, the input of `analysis`.

use super::Global;
use super::output::say;
use crate::analysis::{Cell, NoRecord};
use crate::files::FILE_LIMIT;
use crate::job::Job;
use crate::plan::{NotDone, Standing, Standings};
use crate::protocol::{BadIterations, Iterations, Measurement};
use crate::record::DifferenceKind;
use crate::store::{EvidenceError, Store, load_evidence};
use crate::text::with_causes;
use crate::threads;

/// The cell of `job` for `analysis`, by its standing among `standings`. It lacks the peaks and prices of its env.
/// `reason` explains why it has no record.
pub(super) fn cell(job: Job, standings: &Standings<'_>, reason: impl FnOnce(&NotDone) -> String) -> Cell {
    let record = match standings.of(&job) {
        Standing::Done(record) | Standing::NotDone(NotDone::Failed(record)) => Ok(record),
        Standing::NotDone(not_done) => Err(NoRecord { reason: reason(&not_done), is_altered: false }),
    };
    Cell { job, peaks: None, usd_per_hour: None, record, iterations: None }
}

/// Adds the times of its iterations, in seconds, to each timing job with a result. Jobs without usable iterations get
/// no marks from them. An unusable file causes a warning. A job whose file was changed after its record was written
/// has no result.
pub(super) fn load_iterations(cells: &mut [Cell], store: &Store, global: &Global) {
    let found = threads::each(cells.len(), |number| iterations_of(&cells[number], store));
    for (cell, found) in cells.iter_mut().zip(found) {
        match found {
            Ok(iterations) => cell.iterations = iterations,
            Err(Unusable::Changed(reason)) => cell.record = Err(NoRecord { reason, is_altered: true }),
            Err(Unusable::Ignored(why)) if !global.quiet => say(&format!("warning: {why}")),
            Err(Unusable::Ignored(_)) => {}
        }
    }
}

/// Why a file of iterations cannot be used.
enum Unusable {
    /// It was changed after the record was written, so there is no result. Contains the reason of [`NoRecord`].
    Changed(String),
    /// It cannot be read. Contains a sentence with the reason.
    Ignored(String),
}

/// The seconds of the iterations of `cell`, if it is of a timing job with a result whose worker wrote them.
fn iterations_of(cell: &Cell, store: &Store) -> Result<Option<Iterations>, Unusable> {
    let Some((record, measurement)) = cell.success().filter(|_| cell.is_timing()) else { return Ok(None) };
    let path = store.job_dir(&cell.job).attempt(record.attempt).iterations();
    let text = match load_evidence(&path, FILE_LIMIT, record) {
        Ok(None) => return Ok(None),
        Ok(Some(bytes)) => String::from_utf8(bytes).map_err(|error| error.to_string()),
        Err(EvidenceError::Differs(difference)) if difference.kind != DifferenceKind::Deleted => {
            return Err(Unusable::Changed(format!("attempts/{:02}/{difference}", record.attempt)));
        }
        Err(error) => Err(with_causes(&error)),
    };
    let iterations = text.and_then(|text| parse_iterations(&text, measurement));
    iterations.map_err(|why| Unusable::Ignored(format!("{} is ignored: {why}", path.display())))
}

/// The iterations in `text`; `None` if an older worker wrote it without a clock.
fn parse_iterations(text: &str, measurement: &Measurement) -> Result<Option<Iterations>, String> {
    match Iterations::parse(text, measurement) {
        Err(BadIterations::NoColumn(_)) => Ok(None),
        other => other.map(Some).map_err(|error| error.to_string()),
    }
}
