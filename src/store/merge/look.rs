//! Looks at a job in both stores: what the other one brings, and what this one holds.
#![expect(clippy::disallowed_methods, reason = "what a store holds of a job shows in its directory")]

use std::fs;
use std::io;

use super::merged::Side;
use crate::files::{FILE_LIMIT, JobDir, read_regular};
use crate::job::Job;
use crate::plan::{Held, Inventory, NotDone, Standing};
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
pub(super) struct Brought {
    pub(super) dir: JobDir,
    pub(super) job: Job,
    pub(super) record: Record,
    /// The bytes of `record.json`. They are what is copied, whatever becomes of the file meanwhile.
    pub(super) bytes: Vec<u8>,
}

/// What is in a directory of another store.
#[derive(Debug)]
pub(super) enum Found {
    /// A result, and every seal holds.
    Sound(Box<Brought>),
    /// A job without a result, for this reason.
    Unfinished(String),
    /// Something that is not as it was written.
    Damaged(String),
    /// Nothing of ours.
    NoJob,
}

/// Looks at `dir` in another store.
pub(super) fn look(dir: &JobDir) -> Found {
    let bytes = match read_regular(&dir.record(), FILE_LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return look_without_record(dir),
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
        // A success stays one while its job is repeated.
        Some(not_done) if !record.outcome.is_success() => Found::Unfinished(why_unfinished(&not_done)),
        _ => {
            let job = Job::new(record.key.clone());
            Found::Sound(Box::new(Brought { dir: dir.clone(), job, record, bytes }))
        }
    }
}

/// Whether the job in `dir` has a result, and it is as it was written.
pub(in crate::store) fn is_sound(dir: &JobDir) -> bool {
    matches!(look(dir), Found::Sound(_))
}

fn look_without_record(dir: &JobDir) -> Found {
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
        // Of a copy, nobody can tell.
        NotDone::Unfinished { attempts } => {
            format!("attempt {attempts} has no record: it was running when it was copied, or was cut off")
        }
        NotDone::NeverRan | NotDone::Failed(_) | NotDone::Corrupt { .. } => not_done.to_string(),
    }
}

/// What this store holds in `dir`, compared with the record in `brought`, and its own record.
pub(super) fn hold(dir: &JobDir, brought: &Brought) -> (Held, Option<Side>) {
    let record = dir.load_record();
    let side = record.as_ref().ok().and_then(Option::as_ref).map(|record| Side::of(record, dir));
    let held = match record {
        Ok(Some(_)) if has_record(dir, &brought.bytes) => Held::Same,
        Ok(Some(_)) if is_known_there(dir, brought) => Held::Earlier,
        Ok(Some(record)) if record.outcome.is_success() => Held::Success,
        Ok(Some(_)) => Held::Failure,
        Ok(None) if is_bare(dir) => Held::Nothing,
        Err(error) if error.is_newer() => Held::Newer,
        Ok(None) | Err(_) => Held::NoResult,
    };
    (held, side)
}

/// Whether the record in `dir` is one that a later attempt of the other store replaced.
fn is_known_there(dir: &JobDir, brought: &Brought) -> bool {
    read_regular(&dir.record(), FILE_LIMIT).is_ok_and(|ours| has_record(&brought.dir, &ours))
}

/// Whether a record in `dir` has these `bytes`: the current one, or one that a later attempt replaced.
fn has_record(dir: &JobDir, bytes: &[u8]) -> bool {
    let attempts = dir.attempts().unwrap_or_default();
    let mut paths = std::iter::once(dir.record()).chain(attempts.iter().map(|attempt| attempt.record()));
    paths.any(|path| read_regular(&path, FILE_LIMIT).is_ok_and(|found| found == bytes))
}

/// Whether nothing of worth is in `dir`: at most what is written before the first attempt. Also if it does not exist.
pub(super) fn is_bare(dir: &JobDir) -> bool {
    let entries = match fs::read_dir(dir.path()) {
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
        Ok(entries) => entries,
    };
    let is_worthless = |name: &str| ["attempts", "command.sh", "key.json", "lock"].contains(&name);
    let mut names = entries.flatten().map(|entry| entry.file_name());
    !has_attempts(dir) && names.all(|name| name.to_str().is_some_and(is_worthless))
}

/// Why nobody must touch what is in `dir`, where its lock does not tell or is not asked.
pub(super) fn is_at_work(dir: &JobDir) -> bool {
    let open = last_begun(dir).filter(|attempt| !attempt.record().exists());
    open.is_some_and(|attempt| runs_without_lock(dir, &attempt, &Survivors::of_system()))
}

/// Whether somebody holds the lock of the job in `dir`, or is at work beyond the reach of locks.
pub(super) fn is_busy(dir: &JobDir) -> bool {
    is_locked(dir) || is_at_work(dir)
}
