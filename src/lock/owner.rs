//! The lock that an `orchestrate` holds as long as it runs on a store, [`OwnerLock`]. If it is free, attempts of that
//! `orchestrate` are orphans.
//!
//! Workers do not inherit it. A job's lock may be held by a worker whose `orchestrate` died; the owner's lock is then
//! free. So process ids, which can be reused or come from another host, need not be trusted.
//!
//! The lock works among processes of one kernel, if the file system supports locks. For all others, its file contains
//! the owner's [`Identity`] and is touched every few seconds (`identity.rs`).
//!
//! | file in `.running/` | meaning |
//! |---|---|
//! | `<pid>-<nanoseconds>.lock` | an owner; the name is never reused |
//! | `<pid>-<nanoseconds>.stop` | a request to that owner to stop its run |
#![expect(clippy::disallowed_methods, reason = "locks are files, and their names contain a moment")]

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::Utc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::file::open_lock;
use super::identity::{BEAT, Identity, LOST, Place, touch};
use super::patience::LockError;

/// The interval at which other owners and stop requests are checked.
const LOOK: Duration = Duration::from_secs(1);

/// The ending of the names of these locks.
const ENDING: &str = ".lock";

/// The extension of stop requests.
const STOP: &str = "stop";

/// Held as long as this `orchestrate` runs on a store.
#[derive(Debug)]
pub struct OwnerLock {
    /// Open, because that is what holds the lock.
    file: File,
    path: PathBuf,
    identity: Identity,
    owners: Arc<Owners>,
    beat: Option<JoinHandle<()>>,
}

impl OwnerLock {
    /// Creates and takes the lock of this process in `directory`, which is created if it is missing, to run `matrix`.
    /// Removes files of owners that have died.
    ///
    /// # Errors
    /// [`LockError::File`].
    pub fn take(directory: &Path, matrix: &str) -> Result<OwnerLock, LockError> {
        let wrong = |source| LockError::File { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(wrong)?;
        let identity = Identity::of_current_process(matrix);
        // The name must never be reused: attempts still refer to owners that have died.
        let now = Utc::now().timestamp_nanos_opt().unwrap_or_default();
        let path = directory.join(format!("{}-{now}{ENDING}", identity.pid));
        let file = make(&path, &identity).map_err(|source| LockError::File { path: path.clone(), source })?;
        let clock = file.try_clone().map_err(wrong)?;
        let own = name_of(&path);
        let mut owners = Owners { own, clock: Some(clock), ..Owners::of(directory.to_owned()) };
        owners.works = Some(owners.excludes(&owners.own));
        owners.remove_dead_owners();
        Ok(OwnerLock { file, path, identity, owners: Arc::new(owners), beat: None })
    }

    /// The name of its file, which attempts of this `orchestrate` refer to.
    pub fn name(&self) -> String {
        name_of(&self.path)
    }

    /// Starts the heartbeat of this process, and sends to `asked` when it is requested to stop. Needs a runtime.
    ///
    /// # Errors
    /// The system has no more handles.
    pub fn keep_alive(&mut self, asked: UnboundedSender<()>) -> io::Result<()> {
        let file = self.file.try_clone()?;
        self.beat = Some(tokio::spawn(beat(file, self.path.with_extension(STOP), asked)));
        Ok(())
    }

    /// Writes to the lock file that this process runs the job with this directory, or no job if it is empty.
    pub fn sign(&mut self, job: &str) {
        job.clone_into(&mut self.identity.job);
        // It only informs others.
        let _ = self.identity.save(&self.file);
    }

    /// All owners of the same store.
    pub fn owners(&self) -> Arc<Owners> {
        Arc::clone(&self.owners)
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        if let Some(beat) = &self.beat {
            beat.abort();
        }
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(self.path.with_extension(STOP));
    }
}

/// Creates the lock file at `path`. It appears there only when it is signed and locked.
fn make(path: &Path, identity: &Identity) -> io::Result<File> {
    let hidden = path.with_extension("tmp");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&hidden)?;
    let made =
        identity.save(&file).and_then(|()| Ok(file.try_lock()?)).and_then(|()| fs::rename(&hidden, path));
    if made.is_err() {
        let _ = fs::remove_file(&hidden);
    }
    made.map(|()| file)
}

/// Touches `file` at every beat, and sends to `asked` when the file at `stop` appears.
async fn beat(file: File, stop: PathBuf, asked: UnboundedSender<()>) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut touched = tokio::time::Instant::now();
    loop {
        let now = look.tick().await;
        if now.duration_since(touched) >= BEAT {
            touch(&file);
            touched = now;
        }
        // Removed, so that a later request is seen too.
        if fs::remove_file(&stop).is_ok() {
            let _ = asked.send(());
        }
    }
}

/// An `orchestrate` that runs on a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The name of its lock.
    pub name: String,
    /// Its identity; `None` if it is of an older version.
    pub identity: Option<Identity>,
    /// Whether its lock reliably shows if it is alive.
    pub has_reliable_lock: bool,
}

impl Owner {
    /// A phrase such as `pid 12 on alpha, started by ann at 2026-11-22 21:05 UTC`.
    pub fn describe(&self) -> String {
        match &self.identity {
            Some(Identity { pid, user, since, place, .. }) => {
                let since = since.format("%Y-%m-%d %H:%M UTC");
                format!("pid {pid} on {}, started by {user} at {since}", place.host)
            }
            None => format!("pid {}, of an older version", self.name.split('-').next().unwrap_or("?")),
        }
    }
}

/// The `orchestrate` processes that run on a store.
#[derive(Debug)]
pub struct Owners {
    directory: PathBuf,
    /// The name of the lock of this process; empty without one.
    own: String,
    here: Place,
    /// A file of this process in the directory, to read the time of its file system. Without it, the local clock is
    /// used, and the result is only an estimate.
    clock: Option<File>,
    /// Whether locks work in the directory, if that was tried.
    works: Option<bool>,
}

impl Owners {
    /// The owners in `directory`, for a process that has no lock there.
    pub fn of(directory: PathBuf) -> Owners {
        Owners { directory, own: String::new(), here: Place::probe(), clock: None, works: None }
    }

    /// Whether locks work in the store. `true` if that was not tried.
    pub fn locks_work(&self) -> bool {
        self.works.unwrap_or(true)
    }

    /// Whether the `orchestrate` whose lock is called `name` is still running.
    pub fn is_at_work(&self, name: &str) -> bool {
        self.look_at(name).is_some()
    }

    /// Whether the lock called `name` is that of another `orchestrate` that is still running and that locks do not
    /// reliably show.
    pub fn is_beyond_locks(&self, name: &str) -> bool {
        name != self.own && self.look_at(name).is_some_and(|owner| !owner.has_reliable_lock)
    }

    /// All other owners that are running, sorted by name.
    pub fn others(&self) -> Vec<Owner> {
        let others = names(&self.directory).into_iter().filter(|name| *name != self.own);
        others.filter_map(|name| self.look_at(&name)).collect()
    }

    /// Removes the files of owners that have died.
    fn remove_dead_owners(&self) {
        for name in names(&self.directory).into_iter().filter(|name| !self.is_at_work(name)) {
            let path = self.directory.join(name);
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(path.with_extension(STOP));
        }
        // Requests to owners that ended at that moment.
        for path in paths(&self.directory).filter(|path| path.extension().is_some_and(|it| it == STOP)) {
            if !path.with_extension(&ENDING[1..]).exists() {
                let _ = fs::remove_file(path);
            }
        }
        for path in paths(&self.directory).filter(|path| path.extension().is_some_and(|it| it == "tmp")) {
            if File::open(&path).is_ok_and(|file| self.silence_of(&file) > LOST) {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// The owner whose lock is called `name`, if it is running.
    pub fn look_at(&self, name: &str) -> Option<Owner> {
        let is_a_name = name.ends_with(ENDING) && !name.contains('/');
        let file = open_lock(&self.directory.join(name)).ok().filter(|_| is_a_name)?;
        let identity = Identity::load(&file);
        let is_on_our_kernel = identity.as_ref().is_none_or(|it| it.is_on_kernel_of(&self.here));
        // The check takes the lock for a moment. Simultaneous checks do not disturb each other, since they share it.
        let is_held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        // Locks may not work for this owner alone, for example in a container with other mount options.
        let is_seen = !is_held && identity.as_ref().is_some_and(|it| it.is_visibly_running(&self.here));
        let has_reliable_lock =
            is_on_our_kernel && !is_seen && (is_held || self.works.unwrap_or_else(|| self.excludes(name)));
        let is_alive = match &identity {
            _ if is_held || is_seen => true,
            _ if has_reliable_lock => false,
            Some(identity) => identity.may_live(&self.here, self.silence_of(&file)),
            None => false,
        };
        is_alive.then(|| Owner { name: name.to_owned(), identity, has_reliable_lock })
    }

    /// Whether the lock called `name`, which is held, excludes another descriptor. This can only be tried.
    fn excludes(&self, name: &str) -> bool {
        let second = open_lock(&self.directory.join(name));
        !second.is_ok_and(|file| file.try_lock().is_ok())
    }

    /// How long ago `file` was touched.
    fn silence_of(&self, file: &File) -> Duration {
        let now = self.clock.as_ref().and_then(|clock| {
            touch(clock);
            clock.metadata().ok()?.modified().ok()
        });
        let touched = file.metadata().and_then(|data| data.modified());
        let now = now.unwrap_or_else(SystemTime::now);
        touched.map_or(Duration::MAX, |touched| now.duration_since(touched).unwrap_or_default())
    }
}

/// Asks the `orchestrate` whose lock in `directory` is called `name` to stop its run.
///
/// # Errors
/// The request cannot be written.
pub fn request_stop(directory: &Path, name: &str) -> io::Result<()> {
    fs::write(directory.join(name).with_extension(STOP), "")
}

/// Withdraws a [`request_stop`] to an owner that ended without reading it.
pub fn withdraw_stop_request(directory: &Path, name: &str) {
    // The next run would remove it too.
    let _ = fs::remove_file(directory.join(name).with_extension(STOP));
}

fn paths(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The names of the locks in `directory`, including those of dead owners, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(ENDING));
    names.sort();
    names
}

/// Detects when another owner of the same store has ended.
#[derive(Debug, Default)]
pub struct Others {
    at_work: BTreeSet<String>,
    /// All that were ever seen running.
    seen: BTreeSet<String>,
}

impl Others {
    /// Waits until one of `owners` that was running has finished or died. Cancel safe.
    pub async fn lost(&mut self, owners: &Owners) {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.look(owners) {
                return;
            }
        }
    }

    /// Updates the running owners. Returns whether one has ended since the last call.
    pub fn look(&mut self, owners: &Owners) -> bool {
        let now: BTreeSet<String> = owners.others().into_iter().map(|owner| owner.name).collect();
        let is_lost = !self.at_work.is_subset(&now);
        self.seen.extend(now.iter().cloned());
        self.at_work = now;
        is_lost
    }

    /// Adds the running owners to those that were seen, without checking for losses.
    pub fn note_present(&mut self, owners: &Owners) {
        self.seen.extend(owners.others().into_iter().map(|owner| owner.name));
    }

    /// Whether the owner whose lock is called `name` was ever seen running.
    pub fn has_seen(&self, name: &str) -> bool {
        self.seen.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process was killed before it signed the file. A recent file may be signed soon.
    #[test]
    fn old_unfinished_locks_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (old, young) = (directory.path().join("7-1.tmp"), directory.path().join("7-2.tmp"));
        fs::write(&young, "").unwrap();
        let long_ago = SystemTime::now() - 2 * LOST;
        File::create(&old).unwrap().set_modified(long_ago).unwrap();
        drop(OwnerLock::take(directory.path(), "t").unwrap());
        assert!(!old.exists() && young.exists());
    }

    #[test]
    fn an_owner_is_running_until_it_finishes_or_dies() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("running");
        let take = || OwnerLock::take(&place, "t").unwrap();
        let (one, two) = (take(), take());
        let (first, second) = (one.name(), two.name());
        let owners = Owners::of(place.clone());
        assert!(first != second && owners.is_at_work(&first) && owners.is_at_work(&second));
        assert!(!owners.is_at_work("0-0.lock") && !owners.is_at_work("../running"));
        let mut others = Others::default();
        assert!(!others.look(&owners));
        let us = Identity::load(&open_lock(&place.join(&first)).unwrap()).unwrap();
        drop(one);
        assert!(others.look(&owners) && !others.look(&owners), "a loss is reported once");
        assert!(others.has_seen(&first) && !others.has_seen("0-0.lock"));
        assert!(!owners.is_at_work(&first) && !place.join(&first).exists());
        // A killed owner leaves its file.
        let file = File::create(place.join(&first)).unwrap();
        let was = Identity { pid: u32::MAX, ..us.clone() };
        was.save(&file).unwrap();
        assert!(!owners.is_at_work(&first) && !others.look(&owners));
        // An owner that is alive, and whose lock does not work.
        if us.start.is_some() {
            us.save(&file).unwrap();
            let seen = owners.look_at(&first).unwrap();
            assert!(!seen.has_reliable_lock && seen.identity == Some(us));
            was.save(&file).unwrap();
        }
        request_stop(&place, &first).unwrap();
        request_stop(&place, "1-1.lock").unwrap();
        let three = take();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 2, "files of dead owners are removed");
        assert!(!others.look(&owners), "a new owner is not a loss");
        drop((two, three));
        assert!(others.look(&owners));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }

    #[test]
    fn a_stop_request_reaches_the_owner_of_that_name() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut owner = OwnerLock::take(directory.path(), "t").unwrap();
            let (asked, mut requests) = tokio::sync::mpsc::unbounded_channel();
            owner.keep_alive(asked).unwrap();
            for _ in 0..2 {
                request_stop(directory.path(), &owner.name()).unwrap();
                requests.recv().await.unwrap();
            }
        });
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
