//! Syncs the results of a run to the disk, so that they survive a power cut: [`Durable`].
//!
//! Readers see a renamed file only as a whole, but the rename can reach the disk before the file's content. A power cut
//! in between leaves a record that is empty or cut off. Such a record is not a result, so its job runs again. Syncing
//! is therefore not needed for correctness, it only avoids repetition. It may be delayed by a second for a short job,
//! but not for a longer one.
#![expect(clippy::disallowed_methods, reason = "syncing needs deadlines and files")]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::directory::Store;
use crate::files::{AttemptDir, WriteError, open_regular, sync_directory};

/// Longest time from writing a file to syncing it.
const LATEST: Duration = Duration::from_secs(1);

/// A job that takes at least this long is synced immediately.
pub const WORTH_A_SYNC: Duration = LATEST;

/// More attempts than this are synced together with everything else on their file system, which takes less time.
const FEW: usize = 3;

/// Syncs attempts to the disk in a thread. Dropping it syncs the rest.
#[derive(Debug)]
pub struct Durable {
    open: Arc<Open>,
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Order {
    /// Sync the open attempts soon.
    Soon,
    /// Sync everything now, and send the result.
    Now(Sender<Result<(), WriteError>>),
}

impl Durable {
    /// Starts the thread that syncs attempts in `store`.
    pub fn of(store: &Store) -> Durable {
        let (orders, received) = channel();
        let root = store.root().to_owned();
        let open = Arc::new(Open::default());
        let todo = Arc::clone(&open);
        let thread = thread::spawn(move || serve(&root, &todo, &received));
        Durable { open, orders: Some(orders), thread: Some(thread) }
    }

    /// Syncs `attempt` and the record of its job within a second. Does not block.
    pub fn sync_soon(&self, attempt: AttemptDir) {
        // Waking the thread for each of many short jobs would take longer than syncing them.
        if self.open.add(attempt) {
            // The thread ends only after this is dropped.
            let _ = self.orders.as_ref().map(|orders| orders.send(Order::Soon));
        }
    }

    /// Waits until everything is synced.
    ///
    /// # Errors
    /// A file could not be synced, now or earlier: it might be lost in a power cut.
    pub fn sync(&self) -> Result<(), WriteError> {
        let (answer, answered) = channel();
        let _ = self.orders.as_ref().map(|orders| orders.send(Order::Now(answer)));
        answered.recv().unwrap_or(Ok(()))
    }
}

/// The attempts to sync.
#[derive(Debug, Default)]
struct Open(Mutex<Vec<AttemptDir>>);

impl Open {
    /// Adds an attempt. Returns whether it is the first since everything was taken.
    fn add(&self, attempt: AttemptDir) -> bool {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(attempt);
        open.len() == 1
    }

    fn take(&self) -> Vec<AttemptDir> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Carries out `orders` below `root` until their sender is dropped.
fn serve(root: &Path, open: &Open, orders: &Receiver<Order>) {
    let mut due: Option<Instant> = None;
    let mut result = Ok(());
    loop {
        let order = match due {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => orders.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        if let Ok(Order::Soon) = order {
            due.get_or_insert_with(|| Instant::now() + LATEST);
            continue;
        }
        due = None;
        result = result.and(sync_all(root, &open.take()));
        match order {
            Ok(Order::Now(answer)) => {
                let _ = answer.send(std::mem::replace(&mut result, Ok(())));
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) | Ok(Order::Soon) => {}
        }
    }
}

fn sync_all(root: &Path, attempts: &[AttemptDir]) -> Result<(), WriteError> {
    if attempts.is_empty() || (attempts.len() > FEW && sync_file_system(root)) {
        return Ok(());
    }
    for attempt in attempts {
        sync_attempt(attempt.path())?;
    }
    written(root, sync_directory(root))
}

/// Syncs everything on the file system of `root`. Returns `false` if the system cannot do that.
fn sync_file_system(root: &Path) -> bool {
    #[cfg(target_os = "linux")]
    return File::open(root).is_ok_and(|directory| nix::unistd::syncfs(directory).is_ok());
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Syncs `directory` and everything in it, which has just been written.
pub(super) fn sync_tree(directory: &Path) -> Result<(), WriteError> {
    if sync_file_system(directory) {
        return Ok(());
    }
    for path in files_in(directory) {
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            sync_tree(&path)?;
        } else if let Ok(file) = open_regular(&path) {
            written(&path, file.sync_all())?;
        }
    }
    written(directory, sync_directory(directory))
}

/// Syncs the files of the attempt in `directory`, those of its job, and all of their names.
fn sync_attempt(directory: &Path) -> Result<(), WriteError> {
    let attempts = directory.parent().unwrap_or(directory);
    let job = attempts.parent().unwrap_or(attempts);
    for path in files_in(directory).into_iter().chain(files_in(job)) {
        // A worker may leave anything under any name; only regular files can be synced.
        if let Ok(file) = open_regular(&path) {
            written(&path, file.sync_all())?;
        }
    }
    [directory, attempts, job]
        .into_iter()
        .try_for_each(|directory| written(directory, sync_directory(directory)))
}

/// The paths of the entries of `directory`; empty if it has been deleted meanwhile.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Converts the result of a sync. A file that was deleted meanwhile is not an error.
fn written(path: &Path, result: io::Result<()>) -> Result<(), WriteError> {
    match result {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(WriteError { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, Key};

    /// A store with the attempts of some jobs.
    fn store(jobs: u32) -> (tempfile::TempDir, Store, Vec<AttemptDir>) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::at(directory.path()).unwrap();
        let attempts: Vec<AttemptDir> = (1..=jobs)
            .map(|repeat| store.job_dir(&Job::new(Key { repeat, ..Key::example() })).attempt(1))
            .collect();
        for attempt in &attempts {
            fs::create_dir_all(attempt.path()).unwrap();
            fs::write(attempt.time(), "1 s").unwrap();
        }
        (directory, store, attempts)
    }

    #[test]
    fn one_attempt_and_many_are_synced() {
        let (_directory, store, attempts) = store(9);
        let durable = Durable::of(&store);
        durable.sync().unwrap();
        durable.sync_soon(attempts[0].clone());
        durable.sync().unwrap();
        attempts.into_iter().for_each(|attempt| durable.sync_soon(attempt));
        durable.sync().unwrap();
    }

    #[test]
    fn the_thread_is_woken_for_the_first_of_many() {
        let (_directory, _store, attempts) = store(3);
        let open = Open::default();
        let woken: Vec<bool> = attempts.iter().cloned().map(|attempt| open.add(attempt)).collect();
        assert_eq!(woken, [true, false, false]);
        assert_eq!(open.take(), attempts);
        assert!(open.add(attempts[0].clone()), "an attempt after all were taken wakes the thread again");
    }

    #[test]
    fn irregular_and_deleted_files_are_skipped() {
        let (_directory, store, attempts) = store(2);
        nix::unistd::mkfifo(&attempts[0].stdout(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::remove_dir_all(store.root().join(attempts[1].path())).unwrap();
        let durable = Durable::of(&store);
        attempts.into_iter().for_each(|attempt| durable.sync_soon(attempt));
        durable.sync().unwrap();
    }
}
