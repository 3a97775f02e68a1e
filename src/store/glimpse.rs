//! Detects changes of a store without reading its jobs, for processes that watch it: [`Glimpse`].
#![expect(clippy::disallowed_methods, reason = "a glimpse consists of the stamps of directories")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::directory::Store;

/// The times of two directories of a store. If two glimpses are equal, no `orchestrate` of this version has begun or
/// ended a job in between. The death of a killed `orchestrate` is not detected.
#[derive(Debug, PartialEq)]
pub struct Glimpse {
    /// The last changes of the store's directory, which contains those of jobs, and of `.running/`, in nanoseconds
    /// since the Unix epoch. See [`super::announce`].
    changed_ns: [Option<i128>; 2],
}

/// A directory that changes twice within one tick of its file system's clock looks as if it changed once.
const TICK: Duration = Duration::from_secs(2);

impl Store {
    /// The current times of the store.
    pub fn glimpse(&self) -> Glimpse {
        let changed = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some(i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()))
        };
        Glimpse { changed_ns: [changed(self.root()), changed(&self.running())] }
    }
}

impl Glimpse {
    /// Whether the last change is so recent that another one in the same tick could be missed.
    pub fn is_young(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let settled = i128::try_from(now).unwrap_or(i128::MAX) - TICK.as_nanos() as i128;
        self.changed_ns.iter().flatten().any(|changed| *changed > settled)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::job::{Job, Key};
    use crate::lock::JobLock;
    use crate::record::Outcome;
    use crate::record::testing::record;
    use crate::store::save_record;

    #[test]
    fn a_new_job_and_a_new_record_change_the_glimpse() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::at(directory.path()).unwrap();
        let job = Job::new(Key::example());
        fs::create_dir(store.running()).unwrap();
        let past = SystemTime::now() - Duration::from_secs(100);
        let age = || {
            for path in [store.root().to_owned(), store.running()] {
                File::open(path).unwrap().set_modified(past).unwrap();
            }
        };
        age();
        let empty = store.glimpse();
        assert!(!empty.is_young());
        assert_eq!(store.glimpse(), empty);
        let lock = JobLock::try_lock(&job, store.job_dir(&job)).unwrap();
        assert_ne!(store.glimpse(), empty, "a new job");
        assert!(store.glimpse().is_young());
        age();
        fs::create_dir_all(lock.dir().attempt(1).path()).unwrap();
        let begun = store.glimpse();
        save_record(&lock, &record(1, Outcome::Succeeded)).unwrap();
        assert_ne!(store.glimpse(), begun, "a record");
    }
}
