//! The lock that an `orchestrate` holds for as long as it runs on a store. It tells whose attempts are orphans.
//!
//! Workers do not inherit it. A job's lock may be held by a worker whose `orchestrate` died; this one is then free. So
//! nobody has to trust a process id, which another process can have by now, or which means nothing on this host.
//!
//! The lock tells among the processes of one kernel, where locks work. For all others, its file contains who the owner
//! is and is touched every few seconds (`identity.rs`).
//!
//! | file in `.running/` | meaning |
//! |---|---|
//! | `<pid>-<moment>.lock` | an owner; no other ever has this name |
//! | `<pid>-<moment>.stop` | somebody asks that owner to stop its run |
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

/// The time between two looks at the others, and at what they ask for.
const LOOK: Duration = Duration::from_secs(1);

/// How the names of these locks end.
const ENDING: &str = ".lock";

/// How the names of requests to stop end.
const STOP: &str = "stop";

/// Held for as long as this `orchestrate` runs on a store.
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
    /// Takes a lock of our own in `directory`, which is created if it is missing, to run `matrix`. What the dead left
    /// there is removed.
    ///
    /// # Errors
    /// [`LockError::File`].
    pub fn take(directory: &Path, matrix: &str) -> Result<OwnerLock, LockError> {
        let wrong = |source| LockError::File { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(wrong)?;
        let identity = Identity::of_us(matrix);
        // No other has had this name: attempts of the dead still name them.
        let now = Utc::now().timestamp_nanos_opt().unwrap_or_default();
        let path = directory.join(format!("{}-{now}{ENDING}", identity.pid));
        let file = make(&path, &identity).map_err(|source| LockError::File { path: path.clone(), source })?;
        let clock = file.try_clone().map_err(wrong)?;
        let own = name_of(&path);
        let mut owners = Owners { own, clock: Some(clock), ..Owners::of(directory.to_owned()) };
        owners.works = Some(owners.excludes(&owners.own));
        owners.remove_the_dead();
        Ok(OwnerLock { file, path, identity, owners: Arc::new(owners), beat: None })
    }

    /// Its name, for the attempts of this `orchestrate`.
    pub fn name(&self) -> String {
        name_of(&self.path)
    }

    /// Shows others that we are alive from now on, and sends to `asked` when one of them asks us to stop. Needs a
    /// runtime.
    ///
    /// # Errors
    /// The system has no more handles.
    pub fn keep_alive(&mut self, asked: UnboundedSender<()>) -> io::Result<()> {
        let file = self.file.try_clone()?;
        self.beat = Some(tokio::spawn(beat(file, self.path.with_extension(STOP), asked)));
        Ok(())
    }

    /// Tells others that we run the job with this directory, or none if it is empty.
    pub fn sign(&mut self, job: &str) {
        job.clone_into(&mut self.identity.job);
        // It only informs others.
        let _ = self.identity.save(&self.file);
    }

    /// All that run on the same store.
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

/// Makes the lock file at `path`. Whoever sees it sees it signed and locked.
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
    /// Who it is; `None` if it is of an older version.
    pub identity: Option<Identity>,
    /// Whether locks tell whether it is alive.
    pub is_told_by_locks: bool,
}

impl Owner {
    /// Who it is, as a phrase: `pid 12 on alpha, started by ann at 2026-11-22 21:05 UTC`.
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

/// Those that run on a store.
#[derive(Debug)]
pub struct Owners {
    directory: PathBuf,
    /// The name of our own lock, if we have one.
    own: String,
    here: Place,
    /// A file of our own in the directory, to read the time of its file system. Without one, our own clock must do, so
    /// nothing may rest on the answer.
    clock: Option<File>,
    /// Whether locks work in the directory, if we have tried.
    works: Option<bool>,
}

impl Owners {
    /// Those with a lock in `directory`, for somebody who only looks.
    pub fn of(directory: PathBuf) -> Owners {
        Owners { directory, own: String::new(), here: Place::probe(), clock: None, works: None }
    }

    /// Whether locks keep others out of the store. `true` if nobody has tried.
    pub fn locks_work(&self) -> bool {
        self.works.unwrap_or(true)
    }

    /// Whether the `orchestrate` whose lock is called `name` is still running.
    pub fn is_at_work(&self, name: &str) -> bool {
        self.look_at(name).is_some()
    }

    /// Whether the lock called `name` is that of another `orchestrate` that is still running, and no lock keeps us out
    /// of what it does.
    pub fn is_beyond_locks(&self, name: &str) -> bool {
        name != self.own && self.look_at(name).is_some_and(|owner| !owner.is_told_by_locks)
    }

    /// All others that are at work, by name.
    pub fn others(&self) -> Vec<Owner> {
        let others = names(&self.directory).into_iter().filter(|name| *name != self.own);
        others.filter_map(|name| self.look_at(&name)).collect()
    }

    /// Removes what the dead left behind.
    fn remove_the_dead(&self) {
        for name in names(&self.directory).into_iter().filter(|name| !self.is_at_work(name)) {
            let path = self.directory.join(name);
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(path.with_extension(STOP));
        }
        // Requests to those who ended at that moment.
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

    /// The owner whose lock is called `name`, if it is at work.
    pub fn look_at(&self, name: &str) -> Option<Owner> {
        let is_a_name = name.ends_with(ENDING) && !name.contains('/');
        let file = open_lock(&self.directory.join(name)).ok().filter(|_| is_a_name)?;
        let identity = Identity::load(&file);
        let is_on_our_kernel = identity.as_ref().is_none_or(|it| it.is_on_kernel_of(&self.here));
        // To look takes the lock for a moment. Others who look do not disturb that, since they share it.
        let is_held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        // Locks can do nothing for the owner alone, for example in a container with other mount options.
        let is_seen = !is_held && identity.as_ref().is_some_and(|it| it.is_seen_running(&self.here));
        let is_told_by_locks =
            is_on_our_kernel && !is_seen && (is_held || self.works.unwrap_or_else(|| self.excludes(name)));
        let is_alive = match &identity {
            _ if is_held || is_seen => true,
            _ if is_told_by_locks => false,
            Some(identity) => identity.may_live(&self.here, self.silence_of(&file)),
            None => false,
        };
        is_alive.then(|| Owner { name: name.to_owned(), identity, is_told_by_locks })
    }

    /// Whether the lock called `name`, which we hold, keeps another descriptor out. Nothing tells but a trial.
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
pub fn ask_to_stop(directory: &Path, name: &str) -> io::Result<()> {
    fs::write(directory.join(name).with_extension(STOP), "")
}

/// Takes back what [`ask_to_stop`] asked for, from somebody who ended without reading it.
pub fn ask_no_longer(directory: &Path, name: &str) {
    // The next run would remove it too.
    let _ = fs::remove_file(directory.join(name).with_extension(STOP));
}

fn paths(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The names of the locks in `directory`, those of the dead included.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(ENDING));
    names.sort();
    names
}

/// Waits for the loss of others that run on the same store.
#[derive(Debug, Default)]
pub struct Others {
    at_work: BTreeSet<String>,
    /// All that were ever seen at work.
    met: BTreeSet<String>,
}

impl Others {
    /// Waits until one of `owners` that was at work is no more: it has finished, or it died. Cancel safe.
    pub async fn lost(&mut self, owners: &Owners) {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.look(owners) {
                return;
            }
        }
    }

    /// Looks who is at work. Returns whether somebody is no more.
    pub fn look(&mut self, owners: &Owners) -> bool {
        let now: BTreeSet<String> = owners.others().into_iter().map(|owner| owner.name).collect();
        let is_lost = !self.at_work.is_subset(&now);
        self.met.extend(now.iter().cloned());
        self.at_work = now;
        is_lost
    }

    /// Looks who is at work, without taking note of losses.
    pub fn meet(&mut self, owners: &Owners) {
        self.met.extend(owners.others().into_iter().map(|owner| owner.name));
    }

    /// Whether the one whose lock is called `name` was at work at any look.
    pub fn have_met(&self, name: &str) -> bool {
        self.met.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was killed before it had signed. A young file can be that of somebody who is about to.
    #[test]
    fn what_somebody_left_who_was_killed_while_making_a_lock_is_removed_once_it_is_old() {
        let directory = tempfile::tempdir().unwrap();
        let (old, young) = (directory.path().join("7-1.tmp"), directory.path().join("7-2.tmp"));
        fs::write(&young, "").unwrap();
        let long_ago = SystemTime::now() - 2 * LOST;
        File::create(&old).unwrap().set_modified(long_ago).unwrap();
        drop(OwnerLock::take(directory.path(), "t").unwrap());
        assert!(!old.exists() && young.exists());
    }

    #[test]
    fn an_owner_is_at_work_until_it_ends_however_that_is() {
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
        assert!(others.look(&owners) && !others.look(&owners), "it is told once");
        assert!(others.have_met(&first) && !others.have_met("0-0.lock"));
        assert!(!owners.is_at_work(&first) && !place.join(&first).exists());
        // One that was killed leaves its file.
        let file = File::create(place.join(&first)).unwrap();
        let was = Identity { pid: u32::MAX, ..us.clone() };
        was.save(&file).unwrap();
        assert!(!owners.is_at_work(&first) && !others.look(&owners));
        // One that is alive, and whose lock holds nobody out.
        if us.start.is_some() {
            us.save(&file).unwrap();
            let seen = owners.look_at(&first).unwrap();
            assert!(!seen.is_told_by_locks && seen.identity == Some(us));
            was.save(&file).unwrap();
        }
        ask_to_stop(&place, &first).unwrap();
        ask_to_stop(&place, "1-1.lock").unwrap();
        let three = take();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 2, "what the dead left is removed");
        assert!(!others.look(&owners), "a new one is no loss");
        drop((two, three));
        assert!(others.look(&owners));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }

    #[test]
    fn an_owner_is_asked_to_stop_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut owner = OwnerLock::take(directory.path(), "t").unwrap();
            let (asked, mut requests) = tokio::sync::mpsc::unbounded_channel();
            owner.keep_alive(asked).unwrap();
            for _ in 0..2 {
                ask_to_stop(directory.path(), &owner.name()).unwrap();
                requests.recv().await.unwrap();
            }
        });
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
