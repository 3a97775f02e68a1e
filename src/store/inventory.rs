//! Reads the store into an [`Inventory`]: the standing of every job with a directory.
//!
//! Done ⇔ `record.json` parses, its schema is known, its key hashes to the directory's id, and its outcome is success.
//! An unreadable file is a [`Problem`] of its directory and does not affect other jobs.

use std::fs::TryLockError;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::attempt::Attempt;
use super::cache::{CacheReader, Kept, Stamps, TICK, is_worth_writing, stamps_ahead, write_cache};
use super::directory::{Entries, Store};
use super::error::StoreError;
use super::record::RecordError;
use super::survivors::Survivors;
use crate::files::{AttemptDir, JobDir, read_regular_text};
use crate::job::{Job, Key};
use crate::lock::{Owners, is_owner_alive, open_lock};
use crate::plan::{Inventory, NotDone, Problem, Standing, quote};
use crate::record::{Pool, Record};
use crate::text::with_causes;
use crate::threads;

impl Store {
    /// Reads the standing of every job of the store.
    ///
    /// # Errors
    /// [`StoreError::Read`] if the store itself cannot be read. An unreadable directory in it is only a [`Problem`].
    pub fn load_inventory(&self) -> Result<Inventory, StoreError> {
        let Entries { directories, others } = self.entries()?;
        let mut inventory = self.read_jobs(&directories);
        for dir in &others {
            problem(&mut inventory, dir, "it is not a job's directory despite its name".to_owned());
        }
        Ok(inventory)
    }

    /// Reads the changed directories, and the others from the cache.
    #[expect(clippy::disallowed_methods, reason = "files that changed during the reading must not be cached")]
    fn read_jobs(&self, dirs: &[JobDir]) -> Inventory {
        let began = Instant::now();
        let cached = CacheReader::open(self.root()).and_then(|cache| Reading::of(dirs, Some(cache)));
        let reading = cached.or_else(|| Reading::of(dirs, None));
        let Reading { inventory, done, new } = reading.unwrap_or_default();
        if is_worth_writing(new, dirs.len()) {
            // A store that cannot be written can still be read.
            let _ = write_cache(self.root(), dirs, &done, began.elapsed() + TICK);
        }
        inventory
    }

    /// Reads the current standing of `job`.
    pub fn load_standing(&self, job: &Job) -> Standing {
        self.load_job(job).standing(job)
    }

    /// The inventory of only the directory of `job`.
    pub fn load_job(&self, job: &Job) -> Inventory {
        let mut inventory = Inventory::default();
        let survivors = Survivors::of_system();
        read_job_dir(&self.job_dir(job), &mut inventory, &mut Pool::default(), &survivors);
        inventory
    }
}

/// The result of reading all directories.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) inventory: Inventory,
    /// The jobs that can be cached.
    pub(super) done: Vec<Kept>,
    /// How many of them were not in the cache.
    pub(super) new: usize,
}

impl Reading {
    /// Reads `dirs`, using `cache`. `None` if the cache turns out to be damaged.
    pub(super) fn of(dirs: &[JobDir], cache: Option<CacheReader>) -> Option<Reading> {
        thread::scope(|scope| Reading::with(dirs, stamps_ahead(dirs, scope), cache))
    }

    fn with(
        dirs: &[JobDir],
        mut stamps: impl Iterator<Item = Option<Stamps>> + Send,
        mut cache: Option<CacheReader>,
    ) -> Option<Reading> {
        let mut reading = Reading { done: Vec::with_capacity(dirs.len()), ..Reading::default() };
        let (mut pool, survivors) = (Pool::default(), Survivors::of_system());
        let mut batches = dirs.chunks(BATCH).enumerate();
        let mut next = || {
            let (number, dirs) = batches.next()?;
            let stamps: Vec<Option<Stamps>> = stamps.by_ref().take(dirs.len()).collect();
            let found = records(dirs, &stamps, cache.as_mut());
            Some(Batch { first: number * BATCH, dirs, stamps, found })
        };
        let mut current = next();
        while let Some(batch) = current {
            // The records of a batch are read while those of the previous batch are added.
            (current, ()) = threads::both(&mut next, || reading.take(batch, &mut pool, &survivors));
        }
        cache.is_none_or(|mut cache| cache.is_sound()).then_some(reading)
    }

    /// Adds a batch to the inventory. The directory of a job that is running or being repeated is read again entirely.
    fn take(&mut self, batch: Batch<'_>, pool: &mut Pool, survivors: &Survivors) {
        let Batch { first, dirs, stamps, found } = batch;
        for (index, ((dir, stamps), found)) in dirs.iter().zip(stamps).zip(found).enumerate() {
            let is_new = !matches!(found, Found::Kept(_));
            let record = match found {
                Found::Kept(record) => {
                    let record = Arc::new(pool.lean(record));
                    self.inventory.jobs.insert(record.id, Standing::Done(Arc::clone(&record)));
                    Some(record)
                }
                Found::Done(record) if !dir.attempt(record.attempt + 1).path().exists() => {
                    take_done(dir, record, &mut self.inventory, pool, survivors)
                }
                Found::Done(_) | Found::Other => read_job_dir(dir, &mut self.inventory, pool, survivors),
            };
            if let (Some(stamps), Some(record)) = (stamps, record) {
                self.new += usize::from(is_new);
                self.done.push(Kept { place: first + index, stamps, record });
            }
        }
    }
}

/// A range of directories with their records.
struct Batch<'a> {
    /// The index of the first one among all directories.
    first: usize,
    dirs: &'a [JobDir],
    stamps: Vec<Option<Stamps>>,
    found: Vec<Found>,
}

/// Number of directories per batch. Batches bound the memory: records are large until [`Pool::lean`] shrinks them.
const BATCH: usize = 256;

/// The record of a job's directory.
enum Found {
    /// From the cache; the directory is unchanged.
    Kept(Record),
    /// From the directory; it is a success.
    Done(Record),
    /// There is no record of a success.
    Other,
}

/// The records of the directories in `batch`, whose stamps are `stamps`. Records that are not in `cache` are read by
/// several threads, since this dominates the time of a reading without a cache.
fn records(batch: &[JobDir], stamps: &[Option<Stamps>], mut cache: Option<&mut CacheReader>) -> Vec<Found> {
    let kept = |(dir, now): (&JobDir, &Option<Stamps>)| {
        let (stamps, record) = cache.as_mut()?.job(&dir.name())?;
        (Some(stamps) == *now).then_some(record)
    };
    let kept: Vec<Option<Record>> = batch.iter().zip(stamps).map(kept).collect();
    let done = threads::each(batch.len(), |number| {
        let record = kept[number].is_none().then(|| batch[number].load_record().ok().flatten()).flatten();
        record.filter(|record| record.outcome.is_success())
    });
    let found = |(kept, done): (Option<Record>, Option<Record>)| {
        kept.map(Found::Kept).or(done.map(Found::Done)).unwrap_or(Found::Other)
    };
    kept.into_iter().zip(done).map(found).collect()
}

/// Reads the directory of a job into `inventory`. Returns the record if the job can be cached: it is done, and has
/// neither a later attempt nor accepted changes.
pub(super) fn read_job_dir(
    dir: &JobDir,
    inventory: &mut Inventory,
    pool: &mut Pool,
    survivors: &Survivors,
) -> Option<Arc<Record>> {
    let record = dir.load_record();
    if let Ok(Some(record)) = record {
        if record.outcome.is_success() {
            return take_done(dir, record, inventory, pool, survivors);
        }
        let record = Arc::new(pool.lean(record));
        report_torn_attempts(dir, inventory);
        let not_done = unfinished(dir, record.attempt, survivors);
        let not_done = not_done.unwrap_or_else(|| NotDone::Failed(Arc::clone(&record)));
        inventory.jobs.insert(record.id, Standing::NotDone(not_done));
        return None;
    }
    if let Err(error) = &record
        && error.is_newer()
    {
        // Its key can be newer too, so only the directory's name identifies the job.
        let message = format!("{error}, so a newer orchestrate wrote it");
        let path = dir.path().to_owned();
        inventory.problems.push(Problem { path, message, remedy: None, newer: true });
        return None;
    }
    read_unrecorded_job_dir(dir, &record, inventory, survivors);
    None
}

/// Adds the `record` of a success to `inventory`, with a later attempt and accepted changes. Returns the record if it
/// has neither of these.
fn take_done(
    dir: &JobDir,
    record: Record,
    inventory: &mut Inventory,
    pool: &mut Pool,
    survivors: &Survivors,
) -> Option<Arc<Record>> {
    let record = Arc::new(pool.lean(record));
    let is_alone = read_extras(dir, &record, inventory, survivors);
    inventory.jobs.insert(record.id, Standing::Done(Arc::clone(&record)));
    is_alone.then_some(record)
}

/// Reads the directory of a job whose record is missing or unusable.
fn read_unrecorded_job_dir(
    dir: &JobDir,
    record: &Result<Option<Record>, RecordError>,
    inventory: &mut Inventory,
    survivors: &Survivors,
) {
    let job = match load_key(dir) {
        Ok(Some(key)) => Job::new(key),
        // The directory was just created, or a user created an empty directory.
        Ok(None) if record.is_ok() && !has_attempts(dir) => return,
        Ok(None) => return problem(inventory, dir, "it has no key.json".to_owned()),
        Err(message) => return problem(inventory, dir, message),
    };
    if job.dir_name() != dir.name() {
        return report_misplaced(inventory, dir, &job);
    }
    report_torn_attempts(dir, inventory);
    let corrupt = match (record, dir.attempts()) {
        (Err(error), _) => Some(with_causes(error)),
        (Ok(_), Err(error)) => Some(format!("attempts cannot be read: {error}")),
        (Ok(_), Ok(_)) => None,
    };
    let standing = match corrupt {
        Some(message) => {
            problem(inventory, dir, message.clone());
            NotDone::Corrupt { message }
        }
        None => unfinished(dir, 0, survivors).unwrap_or(NotDone::NeverRan),
    };
    inventory.jobs.insert(job.id(), Standing::NotDone(standing));
}

/// Reads the rest of the directory of a done job: a re-run without a record, and accepted changes. Returns whether
/// there are none.
fn read_extras(dir: &JobDir, record: &Record, inventory: &mut Inventory, survivors: &Survivors) -> bool {
    let mut is_alone = true;
    if let Some(rerun) = unfinished(dir, record.attempt, survivors) {
        report_torn_attempts(dir, inventory);
        inventory.reruns.insert(record.id, rerun);
        is_alone = false;
    }
    match dir.load_acceptance() {
        Ok(None) => is_alone,
        Ok(Some(accepted)) => {
            inventory.accepted.insert(record.id, accepted);
            false
        }
        Err(error) => {
            let message = format!("{}, so nothing is accepted", with_causes(&error));
            problem(inventory, dir, message);
            false
        }
    }
}

/// Reports a torn `attempt.json` of the last attempt. Such an attempt cannot be concluded, only repeated.
fn report_torn_attempts(dir: &JobDir, inventory: &mut Inventory) {
    if let Some(attempt) = last_begun(dir).filter(|attempt| !attempt.record().exists())
        && let Err(error) = Attempt::load(&attempt)
    {
        let number = attempt.number();
        problem(inventory, dir, format!("attempts/{number:02}/{}", with_causes(&error)));
    }
}

/// The standing of a job with an unfinished attempt after `recorded`; `None` if there is no such attempt.
pub(super) fn unfinished(dir: &JobDir, recorded: u32, survivors: &Survivors) -> Option<NotDone> {
    // Attempts are numbered in order. For finished jobs, the majority, this is cheaper than listing them.
    if recorded > 0 && !dir.attempt(recorded + 1).path().exists() {
        return None;
    }
    let attempt = last_begun(dir)?;
    let last = attempt.number();
    if last <= recorded || (recorded > 0 && is_inconclusive(&attempt)) {
        return None;
    }
    let is_running = is_locked(dir) || runs_without_lock(dir, &attempt, survivors);
    Some(if is_running { NotDone::Running } else { NotDone::Unfinished { attempts: last } })
}

/// Whether `attempt` of the job in `dir` is running although the job's lock is free. Its owner can run where locks do
/// not reach: on another host, or on a file system without locks. Or its owner died, and processes of its worker that
/// did not inherit the lock continue.
pub(super) fn runs_without_lock(dir: &JobDir, attempt: &AttemptDir, survivors: &Survivors) -> bool {
    let Ok(facts) = Attempt::load(attempt) else { return false };
    let owners = || Some(Owners::of(Store::at(dir.path().parent()?).ok()?.running()));
    let Some(owners) = owners() else { return false };
    let is_owned = match facts.owner() {
        Some(owner) if owners.is_beyond_locks(owner) => return true,
        Some(owner) => owners.is_at_work(owner),
        // An older version wrote it.
        None => is_owner_alive(dir),
    };
    !is_owned && !survivors.of(attempt, &facts).is_empty()
}

/// The last attempt that was started.
pub(super) fn last_begun(dir: &JobDir) -> Option<AttemptDir> {
    dir.attempts().ok()?.into_iter().rev().find(|attempt| attempt.attempt().exists())
}

/// Whether the record of `attempt` has no verdict about the job. Such a record does not replace one with a verdict.
fn is_inconclusive(attempt: &AttemptDir) -> bool {
    let record = attempt.load_record().ok().flatten();
    record.is_some_and(|record| !record.outcome.policy().verdict)
}

/// Whether the job's lock is held. The check takes the lock for a moment, so use it only for jobs with an attempt that
/// has no record.
pub(super) fn is_locked(dir: &JobDir) -> bool {
    let Ok(file) = open_lock(&dir.lock()) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

pub(super) fn has_attempts(dir: &JobDir) -> bool {
    dir.attempts().is_ok_and(|attempts| !attempts.is_empty())
}

pub(super) fn load_key(dir: &JobDir) -> Result<Option<Key>, String> {
    match read_regular_text(&dir.key()) {
        Ok(text) => parse_key(&text)
            .map(Some)
            .map_err(|error| format!("key.json is torn or has an unknown form: {error}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("key.json cannot be read: {error}")),
    }
}

/// The key in the `text` of a `key.json`.
pub(super) fn parse_key(text: &str) -> Result<Key, serde_json::Error> {
    serde_json::from_str(text)
}

fn problem(inventory: &mut Inventory, dir: &JobDir, message: String) {
    inventory.problems.push(Problem { path: dir.path().to_owned(), message, remedy: None, newer: false });
}

/// Reports that the key in `dir` is that of `job`, which has another directory.
fn report_misplaced(inventory: &mut Inventory, dir: &JobDir, job: &Job) {
    let path = dir.path().to_owned();
    let name = job.dir_name();
    let own = path.with_file_name(&name);
    let remedy = if own.exists() {
        format!("{name} exists too: compare them, and delete one of them")
    } else {
        let [from, to] = [&path, &own].map(|path| quote(&path.display().to_string()));
        format!("`mv {from} {to}` moves it to where it counts")
    };
    let message = format!("key.json belongs to the job {name}, so nothing here counts");
    inventory.problems.push(Problem { path, message, remedy: Some(remedy), newer: false });
}
