//! What the store holds for a job, as `analysis` sees it.

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

/// The cell of `job` for `analysis`, by its standing among `standings`. It lacks the peaks and prices of its env.
/// `reason` tells why it has no record.
pub(super) fn cell(job: Job, standings: &Standings<'_>, reason: impl FnOnce(&NotDone) -> String) -> Cell {
    let record = match standings.of(&job) {
        Standing::Done(record) | Standing::NotDone(NotDone::Failed(record)) => Ok(record),
        Standing::NotDone(not_done) => Err(NoRecord { reason: reason(&not_done) }),
    };
    Cell { job, peaks: None, usd_per_hour: None, record, iterations: None }
}

/// Adds the seconds of its iterations to each timing job with a result. Jobs without usable iterations get no marks
/// from them. An unusable file leads to a warning. A job whose file was changed after its record was written has no
/// result: somebody or something writes in its directory.
pub(super) fn load_iterations(cells: &mut [Cell], store: &Store, global: &Global) {
    for cell in cells.iter_mut().filter(|cell| cell.is_timing()) {
        let Some((record, measurement)) = cell.success() else { continue };
        let path = store.job_dir(&cell.job).attempt(record.attempt).iterations();
        let text = match load_evidence(&path, FILE_LIMIT, record) {
            Ok(None) => continue,
            Ok(Some(bytes)) => String::from_utf8(bytes).map_err(|error| error.to_string()),
            Err(EvidenceError::Differs(difference)) if difference.kind != DifferenceKind::Deleted => {
                let reason = format!("attempts/{:02}/{difference}", record.attempt);
                cell.record = Err(NoRecord { reason });
                continue;
            }
            Err(error) => Err(with_causes(&error)),
        };
        match text.and_then(|text| parse_iterations(&text, measurement)) {
            Ok(iterations) => cell.iterations = iterations,
            Err(why) if !global.quiet => {
                say(&format!("warning: {} is ignored: {why}", path.display()));
            }
            Err(_) => {}
        }
    }
}

/// The iterations in `text`; `None` if an older worker wrote it without a clock.
fn parse_iterations(text: &str, measurement: &Measurement) -> Result<Option<Iterations>, String> {
    match Iterations::parse(text, measurement) {
        Err(BadIterations::NoColumn(_)) => Ok(None),
        other => other.map(Some).map_err(|error| error.to_string()),
    }
}
