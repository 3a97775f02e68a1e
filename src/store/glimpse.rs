//! What can be seen of a store without reading it, for those who watch it.
#![expect(clippy::disallowed_methods, reason = "what is seen are the stamps of files, and when")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::directory::Store;

/// What a look at two directories has shown. If another look shows the same, no `orchestrate` of this version has begun
/// or ended a job of the store since. If it was killed, nobody announced that.
#[derive(Debug, PartialEq)]
pub struct Glimpse {
    /// The last changes of the store, where jobs get their directories, and of `.running/`, in nanoseconds since the
    /// Unix epoch. See [`super::announce`].
    changed_ns: [Option<i128>; 2],
}

/// A directory that changes twice within one tick of its file system's clock looks as if it changed once.
const TICK: Duration = Duration::from_secs(2);

impl Store {
    /// A look at the store.
    pub fn glimpse(&self) -> Glimpse {
        let changed = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some(i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()))
        };
        Glimpse { changed_ns: [changed(self.root()), changed(&self.running())] }
    }
}

impl Glimpse {
    /// Whether a change that followed at once could have been missed.
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
    fn what_begins_and_ends_is_seen_and_nothing_else() {
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
