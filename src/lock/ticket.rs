//! The right to measure on a host where locks do not work: numbered tickets, of which the last one counts.
//!
//! ```text
//! <lock directory>/<host>.tickets/
//!   7/ticket          the Identity of its owner
//!   7/worker          a variable in its worker's environment, by which the worker is found if its owner dies
//!   7/over            exists if it was returned
//!   waiting.<owner>   the Identity of a waiting process
//! ```
//!
//! A ticket is created completely under a hidden name and renamed to its number, which fails if the number is taken. So
//! only one of the processes that saw ticket 7 end gets ticket 8. A process may be suspended in between, so it checks
//! again at the end: if there is a later ticket, its own came too late.
#![expect(clippy::disallowed_methods, reason = "tickets are files")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;

use super::identity::{BEAT, Identity, Place, touch};
use super::patience::{LockError, Patience};
use super::wait::{Wait, unless_stopped};
use crate::event::Waiting;
use crate::files::process_word;
use crate::processes::ProcessTable;

/// The interval at which a ticket of another process is checked.
const LOOK: Duration = Duration::from_millis(250);

/// The tickets of a host.
#[derive(Clone, Debug)]
pub(super) struct Tickets {
    directory: PathBuf,
    here: Place,
}

/// The right to measure on a host, until it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    path: PathBuf,
    beat: Option<JoinHandle<()>>,
}

impl Ticket {
    /// Starts the heartbeat for observers that do not see this process, for example in another container.
    fn keep_alive(mut self) -> io::Result<Ticket> {
        let file = OpenOptions::new().write(true).open(self.path.join("ticket"))?;
        self.beat = Some(tokio::spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                touch(&file);
            }
        }));
        Ok(self)
    }

    /// Notes that the worker has `variable`, a `NAME=value`, in its environment. The ticket is valid while it runs.
    pub(super) fn note_worker(&self, variable: &[u8]) -> io::Result<()> {
        fs::write(self.path.join("worker"), variable)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(beat) = &self.beat {
            beat.abort();
        }
        // If this fails, the ticket is over when this process has ended.
        let _ = fs::write(self.path.join("over"), "");
    }
}

impl Tickets {
    /// The tickets of this host in `lock_dir`. Creates their directory for all users if it is missing.
    pub(super) fn create(lock_dir: &Path) -> io::Result<Tickets> {
        let here = Place::probe();
        let directory = lock_dir.join(format!("{}.tickets", here.host));
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                other?;
                fs::set_permissions(&directory, Permissions::from_mode(0o1777))?;
            }
        }
        Ok(Tickets { directory, here })
    }

    /// Takes the next ticket for the job called `label`, as soon as the last one is over.
    pub(super) async fn take(&self, label: &str, patience: &mut Patience<'_>) -> Result<Ticket, LockError> {
        let wrong = |source| LockError::File { path: self.directory.clone(), source };
        let us = Identity { job: label.to_owned(), ..Identity::of_current_process("") };
        if self.is_ours(&us) && self.is_awaited(&us) {
            // Waiting processes check in this time, so that processes alternate.
            unless_stopped(patience.signals.as_deref_mut(), tokio::time::sleep(2 * LOOK)).await?;
        }
        let mut place = None;
        let mut wait = Wait::new(patience);
        loop {
            let holder = match self.try_take(&us).map_err(wrong)? {
                Ok(ticket) => {
                    wait.over();
                    return ticket.keep_alive().map_err(wrong);
                }
                Err(holder) => holder,
            };
            let waiting = Waiting { what: "this host".to_owned(), holder: holder.map(|it| describe(&it)) };
            wait.notify_or_fail(waiting)?;
            place.get_or_insert_with(|| WaitingFile::join(&self.directory, &us));
            unless_stopped(wait.signals(), tokio::time::sleep(LOOK)).await?;
        }
    }

    /// The next ticket, or the owner of the last one.
    fn try_take(&self, us: &Identity) -> io::Result<Result<Ticket, Option<Identity>>> {
        let last = self.last()?;
        if let Some(holder) = last.and_then(|last| self.holder(last)) {
            return Ok(Err(holder.identity));
        }
        let number = last.map_or(1, |last| last + 1);
        let Some(ticket) = self.make(number, us)? else { return Ok(Err(None)) };
        let is_last = self.last()? == Some(number);
        for older in
            self.numbers()?.into_iter().filter(|other| *other < number || !is_last && *other == number)
        {
            // Tickets of other users stay, and do not count.
            let _ = fs::remove_dir_all(self.path(older));
        }
        Ok(if is_last { Ok(ticket) } else { Err(None) })
    }

    /// Creates the ticket `number`; `None` if another process has created it.
    fn make(&self, number: u64, us: &Identity) -> io::Result<Option<Ticket>> {
        static HIDDEN: AtomicU32 = AtomicU32::new(0);
        let hidden = HIDDEN.fetch_add(1, Ordering::Relaxed);
        let hidden = self.directory.join(format!(".{}-{hidden}.tmp", process_word(us.pid)));
        let _ = fs::remove_dir_all(&hidden);
        fs::create_dir(&hidden)?;
        let file = OpenOptions::new().write(true).create_new(true).open(hidden.join("ticket"))?;
        us.save(&file)?;
        let path = self.path(number);
        match fs::rename(&hidden, &path) {
            Ok(()) => Ok(Some(Ticket { path, beat: None })),
            Err(error) => {
                let _ = fs::remove_dir_all(&hidden);
                if path.exists() { Ok(None) } else { Err(error) }
            }
        }
    }

    /// The owner of the ticket `number`; `None` if it is over: it was returned, or its owner and its worker have ended.
    fn holder(&self, number: u64) -> Option<CurrentHolder> {
        let path = self.path(number);
        if path.join("over").exists() {
            return None;
        }
        let file = File::open(path.join("ticket")).ok()?;
        let identity = Identity::load(&file);
        let may_live = identity.as_ref().is_some_and(|it| it.may_live(&self.here, silence_of(&file)));
        (may_live || is_worker_running(&path)).then_some(CurrentHolder { identity })
    }

    fn is_ours(&self, us: &Identity) -> bool {
        let last = self.last().ok().flatten();
        let file = last.and_then(|last| File::open(self.path(last).join("ticket")).ok());
        file.and_then(|file| Identity::load(&file)).is_some_and(|last| last.pid == us.pid)
    }

    /// Whether another process waits.
    fn is_awaited(&self, us: &Identity) -> bool {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut waiting =
            entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(WAITING.as_bytes()));
        waiting.any(|entry| {
            let Ok(file) = File::open(entry.path()) else { return false };
            let waits = Identity::load(&file);
            waits.is_some_and(|it| it.pid != us.pid && it.may_live(&self.here, silence_of(&file)))
        })
    }

    fn last(&self) -> io::Result<Option<u64>> {
        Ok(self.numbers()?.into_iter().max())
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        Ok(numbers)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(number.to_string())
    }
}

/// The owner of the last ticket.
struct CurrentHolder {
    /// `None` if the ticket cannot be read.
    identity: Option<Identity>,
}

fn describe(holder: &Identity) -> String {
    format!("orchestrate (pid {}), which runs {}", holder.pid, holder.job)
}

/// Whether the worker of the ticket at `path` is running, as far as this user can see.
fn is_worker_running(path: &Path) -> bool {
    let Ok(variable) = fs::read(path.join("worker")) else { return false };
    let table = ProcessTable::of_system();
    table.pids().into_iter().any(|pid| table.was_started_with(pid, &variable))
}

/// How long ago `file` was written, by the clock of this host, which all its tickets share.
fn silence_of(file: &File) -> Duration {
    let touched = file.metadata().and_then(|data| data.modified());
    touched.map_or(Duration::MAX, |touched| SystemTime::now().duration_since(touched).unwrap_or_default())
}

/// The prefix of the files of waiting processes.
const WAITING: &str = "waiting.";

/// The file that announces a waiting process, until it is dropped.
struct WaitingFile(PathBuf);

impl WaitingFile {
    fn join(directory: &Path, us: &Identity) -> WaitingFile {
        let path = directory.join(format!("{WAITING}{}", process_word(us.pid)));
        // It only asks others to be fair, so errors are ignored.
        let _ = File::create(&path).and_then(|file| us.save(&file));
        WaitingFile(path)
    }
}

impl Drop for WaitingFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn us() -> Identity {
        Identity::of_current_process("")
    }

    #[test]
    fn one_ticket_at_a_time_and_the_next_one_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let tickets = Tickets::create(directory.path()).unwrap();
        for number in 1..4 {
            let ticket = tickets.try_take(&us()).unwrap().unwrap();
            assert_eq!(tickets.numbers().unwrap(), [number], "older ones are removed");
            let holder = tickets.try_take(&us()).unwrap().unwrap_err().unwrap();
            assert_eq!(holder.pid, std::process::id());
            drop(ticket);
        }
    }

    #[test]
    fn the_ticket_of_a_dead_owner_is_valid_while_its_worker_runs() {
        let directory = tempfile::tempdir().unwrap();
        let tickets = Tickets::create(directory.path()).unwrap();
        let dead = Identity { pid: u32::MAX, ..us() };
        let left = tickets.make(1, &dead).unwrap().unwrap();
        // The process is found by the variable in its environment.
        let mut worker = std::process::Command::new("sleep");
        let mut worker = worker.arg("60").env_clear().env("OUT", directory.path()).spawn().unwrap();
        let variable = [b"OUT=", directory.path().as_os_str().as_encoded_bytes()].concat();
        left.note_worker(&variable).unwrap();
        if cfg!(target_os = "linux") {
            let start = std::time::Instant::now();
            while !is_worker_running(&left.path) && start.elapsed() < Duration::from_secs(60) {}
            assert!(tickets.try_take(&us()).unwrap().is_err());
        }
        worker.kill().unwrap();
        worker.wait().unwrap();
        std::mem::forget(left);
        assert!(tickets.try_take(&us()).unwrap().is_ok());
    }

    #[test]
    fn a_ticket_that_comes_too_late_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let tickets = Tickets::create(directory.path()).unwrap();
        drop(tickets.make(7, &us()).unwrap());
        assert!(tickets.make(7, &us()).unwrap().is_none(), "the number is taken");
        let later = tickets.make(9, &us()).unwrap().unwrap();
        // A process that saw 7 end, and was suspended until 8 had been taken and removed.
        let late = tickets.make(8, &us()).unwrap().unwrap();
        assert_eq!(tickets.last().unwrap(), Some(9));
        drop((later, late));
    }

    #[test]
    fn one_of_many_simultaneous_takers_gets_the_ticket() {
        let directory = tempfile::tempdir().unwrap();
        let tickets = Tickets::create(directory.path()).unwrap();
        let together = Barrier::new(8);
        for round in 0..20 {
            let taken: Vec<Ticket> = std::thread::scope(|scope| {
                let take = || {
                    together.wait();
                    tickets.try_take(&us()).unwrap().ok()
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(taken.len(), 1, "round {round}");
        }
    }
}
