//! Results that a re-run replaced, for a comparison of two workers.

use std::sync::Arc;

use crate::analysis::versus::is_same_worker;
use crate::analysis::{Cell, Span, Study};
use crate::cli::cell::load_iterations;
use crate::cli::{Failure, Global};
use crate::record::Record;
use crate::store::Store;

/// Adds to `study` the replaced results of its timing jobs: the last one of each other worker that a job ran with.
/// Older results of the current worker are superseded by the newer one.
///
/// # Errors
/// The attempts of a job cannot be listed. Records that cannot be read are skipped.
pub(super) fn add(study: &mut Study, store: &Store, global: &Global) -> Result<(), Failure> {
    let mut found: Vec<Cell> = Vec::new();
    for cell in study.cells.iter().filter(|cell| cell.is_timing()) {
        let Some((current, _)) = cell.success() else { continue };
        let mut kept: Vec<Arc<Record>> = Vec::new();
        for attempt in store.job_dir(&cell.job).attempts()?.into_iter().rev() {
            let Ok(Some(record)) = attempt.load_record() else { continue };
            let is_known = |known: &Record| is_same_worker(known, &record);
            let is_current = record.attempt == current.attempt || is_known(current);
            if record.outcome.is_success() && !is_current && !kept.iter().any(|known| is_known(known)) {
                kept.push(Arc::new(record));
            }
        }
        found.extend(kept.into_iter().map(|record| Cell {
            record: Ok(record),
            iterations: None,
            ..cell.clone()
        }));
    }
    load_iterations(&mut found, store, global);
    study.spans.extend(found.iter().filter_map(Cell::record).map(Span::of));
    study.cells.extend(found);
    Ok(())
}
