//! The rows before and after the last change of the worker, for `orchestrate compare before after`.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::records;
use crate::analysis::group::Row;
use crate::job::JobId;
use crate::protocol::Measurement;
use crate::record::{Record, WorkerFacts};

/// A time before or after the last change of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// The time of the last worker but one.
    Before,
    /// The time of the last worker.
    After,
}

/// Whether two runs had the same worker: the bytes of its programs and libraries, and the versions that it reports.
pub fn is_same_worker(one: &Record, other: &Record) -> bool {
    fn versions(record: &Record) -> Option<&std::collections::BTreeMap<String, String>> {
        record.measurement.as_ref().map(|Measurement { details, .. }| &details.versions)
    }
    let programs = |record: &Record| {
        let WorkerFacts { sha256, others, libraries, .. } = &*record.provenance.worker;
        let libraries = libraries.iter().map(|(name, library)| (name.clone(), library.sha256.clone()));
        (sha256.clone(), others.clone(), libraries.collect::<Vec<_>>())
    };
    programs(one) == programs(other) && versions(one) == versions(other)
}

/// The `rows` that ran with the last worker of their config, or with the one before it. If a config has one worker
/// only, all of its rows are [`Era::After`].
pub fn of_era<'r, 'a>(rows: &[&'r Row<'a>], era: Era) -> Vec<&'r Row<'a>> {
    let mut workers: HashMap<JobId, Vec<Worker<'r>>> = HashMap::new();
    for row in rows {
        let Some((record, ran_at)) = first(row) else { continue };
        let known = workers.entry(row.config.id()).or_default();
        match known.iter_mut().find(|worker| is_same_worker(worker.record, record)) {
            Some(worker) => worker.ran_at = worker.ran_at.min(ran_at),
            None => known.push(Worker { record, ran_at }),
        }
    }
    workers.values_mut().for_each(|workers| workers.sort_by_key(|worker| std::cmp::Reverse(worker.ran_at)));
    let place = match era {
        Era::After => 0,
        Era::Before => 1,
    };
    let is_of_era = |row: &&&'r Row<'a>| {
        let worker = workers.get(&row.config.id()).and_then(|workers| workers.get(place));
        first(row).zip(worker).is_some_and(|((record, _), worker)| is_same_worker(worker.record, record))
    };
    rows.iter().filter(is_of_era).copied().collect()
}

/// A worker of a config: one of its runs, and the start of its first run.
struct Worker<'r> {
    record: &'r Record,
    ran_at: DateTime<Utc>,
}

/// The first run of `row` that counts, and its start.
fn first<'r>(row: &'r Row<'_>) -> Option<(&'r Record, DateTime<Utc>)> {
    let record = records(row).min_by_key(|record| record.started_at)?;
    Some((record, record.started_at))
}
