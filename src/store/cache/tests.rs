//! A reading with the cache equals one without it, after any change of the store or the cache.
#![expect(clippy::disallowed_methods, reason = "tests make the files they look at")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use twox_hash::XxHash3_128;

use super::{CacheReader, Stamps, TICK, is_worth_writing, path_of, write_cache};
use crate::files::{JobDir, to_sealed_json};
use crate::job::{Job, Key};
use crate::plan::Inventory;
use crate::record::{Outcome, Record};
use crate::store::directory::Store;
use crate::store::inventory::Reading;
use crate::store::{Attempt, save_acceptance, save_record};

/// A temporary store of done jobs.
struct Place {
    _directory: tempfile::TempDir,
    store: Store,
}

/// Real records of successes that use all fields.
fn examples() -> Vec<Record> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/schema_2");
    let entries = fs::read_dir(corpus).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let mut records: Vec<Record> = entries.map(|bytes| serde_json::from_slice(&bytes).unwrap()).collect();
    records.retain(|record| record.outcome.is_success());
    records.sort_by(|left, right| left.label.cmp(&right.label));
    assert!(records.len() >= 3);
    records
}

/// `example` as the record of another repeat.
fn repeat(example: &Record, repeat: u32) -> Record {
    let key = Key { repeat, ..example.key.clone() };
    Record { id: key.id(), label: key.label(), key, attempt: 1, ..example.clone() }
}

fn save(store: &Store, record: &Record) {
    let dir = store.job_dir(&Job::new(record.key.clone()));
    fs::create_dir_all(dir.attempt(record.attempt).path()).unwrap();
    fs::write(dir.record(), to_sealed_json(record)).unwrap();
}

/// A temporary store with `jobs` done jobs.
fn place(jobs: u32) -> Place {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::at(directory.path()).unwrap();
    let examples = examples();
    for (example, number) in examples.iter().cycle().zip(1..=jobs) {
        save(&store, &repeat(example, number));
    }
    Place { _directory: directory, store }
}

impl Place {
    fn dirs(&self) -> Vec<JobDir> {
        self.store.job_dirs().unwrap()
    }

    fn fresh(&self) -> Reading {
        Reading::of(&self.dirs(), None).unwrap()
    }

    fn cached(&self) -> Option<Reading> {
        Reading::of(&self.dirs(), Some(CacheReader::open(self.store.root())?))
    }

    fn inventory(&self) -> Inventory {
        self.store.load_inventory().unwrap()
    }

    /// Caches everything, including recently changed files.
    fn cache(&self) {
        write_cache(self.store.root(), &self.dirs(), &self.fresh().done, Duration::ZERO).unwrap();
    }
}

#[test]
fn cached_jobs_are_equal_and_not_read_again() {
    let place = place(8);
    assert!(place.cached().is_none(), "there is no cache yet");
    place.cache();
    let (fresh, cached) = (place.fresh(), place.cached().unwrap());
    assert_eq!((fresh.new, cached.new), (8, 0));
    assert_eq!(fresh.inventory, cached.inventory);
    assert_eq!(fresh.inventory.records().count(), 8);
    assert_eq!(place.inventory(), fresh.inventory);
}

#[test]
fn recently_changed_jobs_are_not_cached() {
    let place = place(3);
    write_cache(place.store.root(), &place.dirs(), &place.fresh().done, TICK).unwrap();
    assert_eq!(place.cached().unwrap().new, 3);
}

#[test]
fn the_cache_is_written_when_many_jobs_are_new() {
    let place = place(70);
    assert!(!is_worth_writing(1, 70) && !is_worth_writing(500, 10_000));
    assert!(is_worth_writing(70, 70) && is_worth_writing(501, 10_000));
    place.inventory();
    assert!(place.cached().is_some());
    // The records are too recent to be cached, so they are read again.
    let (fresh, read) = (place.fresh().inventory, place.inventory());
    assert_eq!(fresh, read);
}

#[test]
fn a_cache_that_cannot_be_written_or_read_is_ignored() {
    let place = place(70);
    let fresh = place.fresh().inventory;
    fs::write(place.store.root().join(".cache"), "a file in its place").unwrap();
    assert_eq!(place.inventory(), fresh);
    fs::remove_file(place.store.root().join(".cache")).unwrap();
    fs::create_dir_all(path_of(place.store.root())).unwrap();
    assert_eq!(place.inventory(), fresh);
}

#[test]
fn the_cache_of_another_program_is_not_used() {
    let place = place(3);
    place.cache();
    let whole = fs::read(path_of(place.store.root())).unwrap();
    let (pieces, seal) = whole.split_at(whole.len() - 17);
    assert_eq!(seal, [b"s", &XxHash3_128::oneshot(pieces).to_le_bytes()[..]].concat());
    // The first piece contains the program's version.
    let mut other = pieces.to_vec();
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let at = other.windows(version.len()).position(|window| window == version).unwrap();
    other[at] += 1;
    let seal = XxHash3_128::oneshot(&other).to_le_bytes();
    fs::write(path_of(place.store.root()), [&other[..], b"s", &seal[..]].concat()).unwrap();
    assert!(place.cached().is_none());
}

#[test]
fn a_cache_with_any_changed_byte_is_ignored() {
    let place = place(3);
    place.cache();
    let path = path_of(place.store.root());
    let (whole, fresh) = (fs::read(&path).unwrap(), place.fresh().inventory);
    let look = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let cached = place.cached();
        assert!(cached.is_none_or(|reading| reading.inventory == fresh && reading.new == 3), "{what}");
    };
    for index in 0..whole.len() {
        let mut changed = whole.clone();
        changed[index] ^= 1 << (index % 8);
        look(&changed, &format!("byte {index} changed"));
        if index % 16 == 0 {
            look(&whole[..index], &format!("cut at {index}"));
        }
    }
    look(&[&whole[..], b"\n"].concat(), "one byte more");
    assert_eq!(place.inventory(), fresh);
}

/// A change of a store or its cache.
#[derive(Clone, Debug)]
enum Event {
    Removed,
    RecordRemoved,
    RecordReplaced,
    RecordFlipped(u16),
    RecordCut(u16),
    Failed,
    Begun,
    BegunAndTorn,
    Accepted,
    AttemptsRemoved,
    Renamed,
    Added(u32),
    CacheFlipped(u16),
    CachedAgain,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Removed),
        Just(Event::RecordRemoved),
        Just(Event::RecordReplaced),
        any::<u16>().prop_map(Event::RecordFlipped),
        any::<u16>().prop_map(Event::RecordCut),
        Just(Event::Failed),
        Just(Event::Begun),
        Just(Event::BegunAndTorn),
        Just(Event::Accepted),
        Just(Event::AttemptsRemoved),
        Just(Event::Renamed),
        (20..30u32).prop_map(Event::Added),
        any::<u16>().prop_map(Event::CacheFlipped),
        Just(Event::CachedAgain),
    ]
}

/// Flips a bit of a byte of the file at `path`, in place, if it exists.
fn flip(path: &Path, place: u16) {
    let Ok(mut bytes) = fs::read(path) else { return };
    let Some(index) = usize::from(place).checked_rem(bytes.len()) else { return };
    bytes[index] ^= 1 << (place % 8);
    fs::write(path, bytes).unwrap();
}

impl Place {
    /// Applies `event` to the job in `dir`.
    fn happen(&self, event: &Event, dir: &JobDir) {
        let stamps = Stamps::of(dir);
        self.change(event, dir);
        // Within a tick of the file system's clock, a change that keeps the length would not be detected. In a real
        // store, such recent files are not cached.
        if matches!(event, Event::RecordFlipped(_)) && stamps.is_some() && Stamps::of(dir) == stamps {
            let bytes = fs::read(dir.record()).unwrap();
            while Stamps::of(dir) == stamps {
                fs::write(dir.record(), &bytes).unwrap();
            }
        }
    }

    fn change(&self, event: &Event, dir: &JobDir) {
        let record = dir.load_record().ok().flatten();
        let next = record.as_ref().map_or(2, |record| record.attempt + 1);
        let job = || record.as_ref().map(|record| Job::new(record.key.clone()));
        let lock = || crate::lock::JobLock::try_lock(&job()?, dir.clone()).ok();
        match event {
            Event::Removed => drop(fs::remove_dir_all(dir.path())),
            Event::RecordRemoved => drop(fs::remove_file(dir.record())),
            Event::RecordReplaced | Event::Failed => {
                if let (Some(lock), Some(record)) = (lock(), &record) {
                    fs::create_dir_all(dir.attempt(next).path()).unwrap();
                    let failed = Outcome::Signalled { signal: 11 };
                    let is_failure = matches!(event, Event::Failed);
                    let outcome = if is_failure { failed } else { Outcome::Succeeded };
                    save_record(&lock, &Record { attempt: next, outcome, ..record.clone() }).unwrap();
                }
            }
            Event::RecordFlipped(place) => flip(&dir.record(), *place),
            Event::RecordCut(place) => {
                let Ok(bytes) = fs::read(dir.record()) else { return };
                let length = usize::from(*place).checked_rem(bytes.len()).unwrap_or(0);
                fs::write(dir.record(), &bytes[..length]).unwrap();
            }
            Event::Begun | Event::BegunAndTorn => {
                let attempt = dir.attempt(next);
                fs::create_dir_all(attempt.path()).unwrap();
                let begun = to_sealed_json(&serde_json::json!({ "schema": 1 }));
                let text = if matches!(event, Event::Begun) { &begun[..] } else { &b"{"[..] };
                fs::write(attempt.attempt(), text).unwrap();
                assert!(Attempt::load(&attempt).is_err());
            }
            Event::Accepted => {
                if let Some(lock) = lock() {
                    let acceptance = crate::plan::Acceptance {
                        schema: crate::plan::ACCEPTANCE_SCHEMA,
                        attempt: next - 1,
                        accepted_at: Default::default(),
                        changes: Vec::new(),
                    };
                    save_acceptance(&lock, &acceptance).unwrap();
                }
            }
            Event::AttemptsRemoved => drop(fs::remove_dir_all(dir.attempts_dir())),
            Event::Renamed => {
                let _ = fs::rename(dir.path(), dir.path().with_file_name("cpu_other-0123456789ab"));
            }
            Event::Added(number) => save(&self.store, &repeat(&examples()[0], *number)),
            Event::CacheFlipped(place) => flip(&path_of(self.store.root()), *place),
            Event::CachedAgain => self.cache(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reading_with_the_cache_equals_one_without(
        events in proptest::collection::vec((event(), 0..6usize), 1..8),
    ) {
        let place = place(6);
        place.cache();
        for (event, job) in events {
            let dirs = place.dirs();
            let Some(dir) = dirs.get(job % dirs.len().max(1)) else { break };
            place.happen(&event, dir);
            let fresh = place.fresh().inventory;
            if let Some(cached) = place.cached() {
                prop_assert_eq!(&cached.inventory, &fresh, "after {:?}", event);
            }
            prop_assert_eq!(place.inventory(), fresh, "after {:?}", event);
        }
    }
}
