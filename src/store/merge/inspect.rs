//! Inspects a job in both stores: [`inspect`] reads the other store ([`Found`]), [`compare`] this one ([`Existing`]).
#![expect(clippy::disallowed_methods, reason = "the state of a job is read from its directory")]

use std::fs;
use std::io;

use super::merged::Side;
use crate::files::{FILE_LIMIT, JobDir, read_regular};
use crate::job::Job;
use crate::plan::{Existing, Inventory, NotDone, Standing};
use crate::record::{Pool, Record};
use crate::store::inventory::{
    has_attempts, is_locked, last_begun, read_job_dir, runs_without_lock, unfinished,
};
use crate::store::record::parse_record;
use crate::store::survivors::Survivors;
use crate::store::verify::breaches;
use crate::text::with_causes;

/// A sound result of another store.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) dir: JobDir,
    pub(super) job: Job,
    pub(super) record: Record,
    /// The bytes of `record.json`. These are copied, even if the file changes meanwhile.
    pub(super) bytes: Vec<u8>,
}

/// The content of a directory of another store.
#[derive(Debug)]
pub(super) enum Found {
    /// A result whose seals all match.
    Sound(Box<Incoming>),
    /// A job without a result, for this reason.
    Unfinished(String),
    /// A job whose files differ from what was written.
    Damaged(String),
    /// Not a job's directory.
    NoJob,
}

/// Reads and verifies `dir` in another store.
pub(super) fn inspect(dir: &JobDir) -> Found {
    let bytes = match read_regular(&dir.record(), FILE_LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return inspect_without_record(dir),
        Err(error) => return Found::Damaged(format!("record.json cannot be read: {error}")),
    };
    let record = match parse_record(&bytes, &dir.name()) {
        Ok(record) => record,
        Err(error) if error.is_newer() => {
            return Found::Damaged(format!("{error}, so a newer orchestrate wrote it"));
        }
        Err(error) => return Found::Damaged(with_causes(&error)),
    };
    let breaches = breaches(dir);
    if !breaches.is_empty() {
        return Found::Damaged(breaches.join("; "));
    }
    match unfinished(dir, record.attempt, &Survivors::of_system()) {
        // A success counts while its job is being repeated.
        Some(not_done) if !record.outcome.is_success() => Found::Unfinished(why_unfinished(&not_done)),
        _ => {
            let job = Job::new(record.key.clone());
            Found::Sound(Box::new(Incoming { dir: dir.clone(), job, record, bytes }))
        }
    }
}

/// Whether the job in `dir` has a result whose seals all match.
pub(in crate::store) fn is_sound(dir: &JobDir) -> bool {
    matches!(inspect(dir), Found::Sound(_))
}

fn inspect_without_record(dir: &JobDir) -> Found {
    let mut inventory = Inventory::default();
    read_job_dir(dir, &mut inventory, &mut Pool::default(), &Survivors::of_system());
    match (inventory.jobs.values().next(), inventory.problems.first()) {
        (Some(Standing::NotDone(NotDone::Corrupt { message })), _) => Found::Damaged(message.clone()),
        (Some(Standing::NotDone(not_done)), _) => Found::Unfinished(why_unfinished(not_done)),
        (Some(Standing::Done(_)), _) => Found::Unfinished("it has just ended over there".to_owned()),
        (None, Some(problem)) => Found::Damaged(problem.message.clone()),
        (None, None) => Found::NoJob,
    }
}

/// Why a job of another store has no result, as a sentence.
fn why_unfinished(not_done: &NotDone) -> String {
    match not_done {
        NotDone::Running => "it is running over there".to_owned(),
        // A copy of a store does not show whether the original is still running.
        NotDone::Unfinished { attempts } => {
            format!("attempt {attempts} has no record: it was running when it was copied, or was cut off")
        }
        NotDone::NeverRan | NotDone::Failed(_) | NotDone::Corrupt { .. } => not_done.to_string(),
    }
}

/// Compares the content of `dir` in this store with `incoming`. Also returns this store's record.
pub(super) fn compare(dir: &JobDir, incoming: &Incoming) -> (Existing, Option<Side>) {
    let record = dir.load_record();
    let side = record.as_ref().ok().and_then(Option::as_ref).map(|record| Side::of(record, dir));
    let held = match record {
        Ok(Some(_)) if has_record(dir, &incoming.bytes) => Existing::Same,
        Ok(Some(_)) if is_known_there(dir, incoming) => Existing::Earlier,
        Ok(Some(record)) if record.outcome.is_success() => Existing::Success,
        Ok(Some(_)) => Existing::Failure,
        Ok(None) if is_bare(dir) => Existing::Nothing,
        Err(error) if error.is_newer() => Existing::Newer,
        Ok(None) | Err(_) => Existing::NoResult,
    };
    (held, side)
}

/// Whether a later attempt of the other store has replaced the record in `dir`.
fn is_known_there(dir: &JobDir, incoming: &Incoming) -> bool {
    read_regular(&dir.record(), FILE_LIMIT).is_ok_and(|ours| has_record(&incoming.dir, &ours))
}

/// Whether a record in `dir` has these `bytes`: the current one, or one of an earlier attempt.
fn has_record(dir: &JobDir, bytes: &[u8]) -> bool {
    let attempts = dir.attempts().unwrap_or_default();
    let mut paths = std::iter::once(dir.record()).chain(attempts.iter().map(|attempt| attempt.record()));
    paths.any(|path| read_regular(&path, FILE_LIMIT).is_ok_and(|found| found == bytes))
}

/// Whether `dir` does not exist or has only files that are written before the first attempt.
pub(super) fn is_bare(dir: &JobDir) -> bool {
    let entries = match fs::read_dir(dir.path()) {
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
        Ok(entries) => entries,
    };
    let is_worthless = |name: &str| ["attempts", "command.sh", "key.json", "lock"].contains(&name);
    let mut names = entries.flatten().map(|entry| entry.file_name());
    !has_attempts(dir) && names.all(|name| name.to_str().is_some_and(is_worthless))
}

/// Whether the last attempt in `dir` is running although its lock may be free: on another host, without working locks,
/// or as processes that outlived their `orchestrate`.
pub(super) fn is_at_work(dir: &JobDir) -> bool {
    let open = last_begun(dir).filter(|attempt| !attempt.record().exists());
    open.is_some_and(|attempt| runs_without_lock(dir, &attempt, &Survivors::of_system()))
}

/// Whether the job in `dir` is running: its lock is held, or [`is_at_work`].
pub(super) fn is_busy(dir: &JobDir) -> bool {
    is_locked(dir) || is_at_work(dir)
}
