//! The lock that an `orchestrate` holds for as long as it runs on a store. It tells whose attempts are orphans.
//!
//! Workers do not inherit it. A job's lock may be held by a worker whose `orchestrate` died; this one is then free. So
//! nobody has to trust a process id, which another process can have by now, or which means nothing on this host.
#![expect(clippy::disallowed_methods, reason = "locks are files, and their names contain a moment")]

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::Utc;

use super::file::{For, is_same_file, open_lock, open_or_make_lock};
use super::patience::LockError;

/// The time between two looks at the others.
const LOOK: Duration = Duration::from_secs(1);

/// Held for as long as this `orchestrate` runs on a store.
#[derive(Debug)]
pub struct OwnerLock {
    /// Open, because that is what holds the lock.
    _file: File,
    path: PathBuf,
}

impl OwnerLock {
    /// Takes a lock of our own in `directory`, which is created if it is missing. What the dead left there is removed.
    ///
    /// # Errors
    /// [`LockError::File`], [`LockError::Foreign`].
    pub fn take(directory: &Path) -> Result<OwnerLock, LockError> {
        let wrong = |source| LockError::File { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(wrong)?;
        for name in names(directory).into_iter().filter(|name| !is_at_work(directory, name)) {
            let _ = fs::remove_file(directory.join(name));
        }
        loop {
            // No other has had this name: attempts of the dead still name them.
            let now = Utc::now().timestamp_nanos_opt().unwrap_or_default();
            let path = directory.join(format!("{}-{now}{ENDING}", std::process::id()));
            let file = open_or_make_lock(&path, For::Us).map_err(|error| LockError::opening(&path, error))?;
            match file.try_lock() {
                // It could have been taken for that of a dead one before it was locked.
                Ok(()) if is_same_file(&file, &path) => return Ok(OwnerLock { _file: file, path }),
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(LockError::File { path, source }),
            }
        }
    }

    /// Its name, for the attempts of this `orchestrate`.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// How the names of these locks end.
const ENDING: &str = ".lock";

/// Whether the `orchestrate` whose lock in `directory` is called `name` is still running.
pub fn is_at_work(directory: &Path, name: &str) -> bool {
    let is_a_name = name.ends_with(ENDING) && !name.contains('/');
    let Ok(file) = open_lock(&directory.join(name)) else { return false };
    // To look takes the lock for a moment. Others who look do not disturb that, since they share it.
    is_a_name && matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The names of the locks in `directory`, those of the dead included.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(ENDING)).collect()
}

/// The others that run on the same store.
#[derive(Debug, Default)]
pub struct Others {
    directory: PathBuf,
    at_work: BTreeSet<String>,
}

impl Others {
    /// Those with a lock in `directory`.
    pub fn in_directory(directory: PathBuf) -> Others {
        let mut others = Others { directory, at_work: BTreeSet::new() };
        others.look();
        others
    }

    /// Waits until one that was at work is no more: it has finished, or it died. Cancel safe.
    pub async fn lost(&mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.look() {
                return;
            }
        }
    }

    /// Looks who is at work. Returns whether somebody is no more.
    fn look(&mut self) -> bool {
        let is_at_work = |name: &String| is_at_work(&self.directory, name);
        let now: BTreeSet<String> = names(&self.directory).into_iter().filter(is_at_work).collect();
        let is_lost = !self.at_work.is_subset(&now);
        self.at_work = now;
        is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_at_work_until_it_ends_however_that_is() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("running");
        let (one, two) = (OwnerLock::take(&place).unwrap(), OwnerLock::take(&place).unwrap());
        let (first, second) = (one.name(), two.name());
        assert!(first != second && is_at_work(&place, &first) && is_at_work(&place, &second));
        assert!(!is_at_work(&place, "0-0.lock") && !is_at_work(&place, "../running"));
        let mut others = Others::in_directory(place.clone());
        assert!(!others.look());
        drop(one);
        assert!(others.look() && !others.look(), "it is told once");
        assert!(!is_at_work(&place, &first) && !place.join(&first).exists());
        // One that was killed leaves its file.
        fs::write(place.join(&first), "").unwrap();
        assert!(!is_at_work(&place, &first) && !others.look());
        let three = OwnerLock::take(&place).unwrap();
        assert_eq!(names(&place).len(), 2, "what the dead left is removed");
        assert!(!others.look(), "a new one is no loss");
        drop((two, three));
        assert!(others.look());
    }
}
