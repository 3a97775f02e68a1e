//! Waiting for locks: each wait has its own thread, and unused turns are ignored.
//!
//! The holder of a lock's turn takes the lock as soon as it is free, unless that process is suspended. So a lock that
//! was free at [`UNUSED_LOOKS`] consecutive checks, while another process had its turn, is taken without the turn.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::file::{Access, OpenError, is_same_file, open_lock, open_or_make_lock};
use super::holder::{Holder, with_keepers};
use super::patience::{LockError, Patience};
use crate::event::{Event, Waiting};
use crate::stop::{Stop, StopSignals};

/// The interval at which a lock is checked whose turn another process has.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// After this many consecutive checks that find a lock free, the holder of its turn is assumed to be suspended. Checks
/// are counted, not timed, because a suspended process does not check.
const UNUSED_LOOKS: u32 = 10;

/// Whether a lock is exclusive or shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Exclusive,
    Shared,
}

impl Mode {
    pub(super) fn try_lock(self, file: &File) -> Result<(), TryLockError> {
        match self {
            Mode::Exclusive => file.try_lock(),
            Mode::Shared => file.try_lock_shared(),
        }
    }

    /// Blocks until the lock is taken.
    fn lock(self, file: &File) -> io::Result<()> {
        loop {
            let locked = match self {
                Mode::Exclusive => file.lock(),
                Mode::Shared => file.lock_shared(),
            };
            match locked {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// A lock to take.
pub(super) struct Target<'a> {
    /// The lock's file.
    pub(super) path: &'a Path,
    /// Opens it, and creates it if it is missing.
    pub(super) open: &'a dyn Fn() -> Result<File, OpenError>,
    /// The mode to take it in.
    pub(super) mode: Mode,
    /// Describes the holder, from the open file.
    pub(super) describe: &'a dyn Fn(&File) -> Waiting,
}

impl Target<'_> {
    fn wrong(&self, source: io::Error) -> LockError {
        LockError::File { path: self.path.to_owned(), source }
    }
}

/// A lock to take in turn.
pub(super) struct InTurn<'a> {
    /// The lock's file.
    pub(super) lock: &'a Path,
    /// The turn's file.
    pub(super) turn: &'a Path,
    /// The mode to take the lock in.
    pub(super) mode: Mode,
    /// The mode of checks, which succeed exactly if the lock can be taken. It is `Shared` if all holders are exclusive,
    /// so that checks do not disturb each other.
    pub(super) probe: Mode,
    /// What the lock is for, as a phrase: `this host`.
    pub(super) what: &'a str,
    /// The label of the job that takes it, shown to processes that wait behind.
    pub(super) label: &'a str,
}

impl InTurn<'_> {
    fn held_by(&self, holder: Option<&Holder>) -> Waiting {
        Waiting { what: self.what.to_owned(), holder: holder.map(Holder::describe) }
    }

    /// Whether the lock itself is free.
    fn is_free(&self) -> bool {
        match open_lock(self.lock) {
            Ok(file) => self.probe.try_lock(&file).is_ok(),
            Err(OpenError::System(error)) => error.kind() == io::ErrorKind::NotFound,
            Err(OpenError::Foreign(_)) => false,
        }
    }

    /// What a process without the turn waits for: the holder of the lock, or else the holder of its turn.
    fn waiting_for_turn(&self) -> Waiting {
        if self.is_free() {
            return self.waiting_for_next();
        }
        match open_lock(self.lock) {
            Ok(lock) => waiting_for(&lock, &|holder| self.held_by(holder)),
            Err(_) => self.held_by(None),
        }
    }

    /// The holder of the turn of a free lock.
    fn waiting_for_next(&self) -> Waiting {
        let waiting = Waiting { what: format!("the turn on {}", self.what), holder: None };
        let Ok(turn) = open_lock(self.turn) else { return waiting };
        match Holder::of(&turn).filter(Holder::is_at_work) {
            Some(holder) => Waiting { holder: Some(holder.describe_turn_holder()), ..waiting },
            None => with_keepers(waiting, &turn),
        }
    }
}

/// The threads of this `orchestrate` that wait for turns. After a turn was ignored, a thread still waits for it. There
/// is at most one per turn, because one per job could be many.
#[derive(Clone, Debug)]
pub(super) struct Line {
    look: Duration,
    has_waiting_thread: Arc<AtomicBool>,
}

impl Line {
    /// An empty line, whose waits check the lock every `look`.
    pub(super) fn new(look: Duration) -> Line {
        Line { look, has_waiting_thread: Arc::default() }
    }

    /// Whether a thread of this process waits in it.
    #[cfg(test)]
    pub(super) fn has_waiting_thread(&self) -> bool {
        self.has_waiting_thread.load(Ordering::SeqCst)
    }

    /// Starts a thread that waits for the `turn`, unless one is left from an earlier wait.
    fn join(&self, turn: File) -> Place {
        if self.has_waiting_thread.swap(true, Ordering::SeqCst) {
            return Place::Beside(turn);
        }
        let left = Arc::clone(&self.has_waiting_thread);
        Place::In(wait(turn, Mode::Exclusive, move || left.store(false, Ordering::SeqCst)))
    }
}

/// The way in which a wait gets its turn.
enum Place {
    /// From a thread, as soon as the turn is free.
    In(Locked),
    /// By a check, if the turn is free then.
    Beside(File),
}

impl Place {
    /// Waits until the turn is taken, or for `look`. In the latter case, returns the place to continue the wait.
    async fn wait(self, look: Duration) -> Result<io::Result<File>, Place> {
        match self {
            Place::In(mut locked) => match tokio::time::timeout(look, &mut locked).await {
                Ok(locked) => Ok(received(locked)),
                Err(_) => Err(Place::In(locked)),
            },
            Place::Beside(turn) => {
                tokio::time::sleep(look).await;
                match turn.try_lock() {
                    Ok(()) => Ok(Ok(turn)),
                    Err(TryLockError::WouldBlock) => Err(Place::Beside(turn)),
                    Err(TryLockError::Error(error)) => Ok(Err(error)),
                }
            }
        }
    }
}

/// The number of consecutive checks that found a lock free while another process had its turn.
#[derive(Debug, Default)]
struct Unused(u32);

impl Unused {
    /// Counts a check. Returns whether to stop waiting for the turn.
    fn look(&mut self, is_free: bool) -> bool {
        self.0 = if is_free { self.0 + 1 } else { 0 };
        self.0 >= UNUSED_LOOKS
    }
}

/// The result of asking for a lock.
enum Asked {
    Ours(File),
    Others(File),
}

/// A wait for one or more locks. The observer is notified at its start and when the holder changes.
pub(super) struct Wait<'w, 'p> {
    patience: &'w mut Patience<'p>,
    reported: Option<Waiting>,
}

impl<'w, 'p> Wait<'w, 'p> {
    pub(super) fn new(patience: &'w mut Patience<'p>) -> Self {
        Wait { patience, reported: None }
    }

    /// Opens and locks `target`.
    pub(super) async fn lock(&mut self, target: &Target<'_>) -> Result<File, LockError> {
        loop {
            let file = match self.ask(target)? {
                Asked::Ours(file) => file,
                Asked::Others(file) => {
                    self.notify((target.describe)(&file));
                    let locked = wait(file, target.mode, || ());
                    let locked = unless_stopped(self.patience.signals.as_deref_mut(), locked).await?;
                    received(locked).map_err(|source| target.wrong(source))?
                }
            };
            // A clean-up of /tmp could have deleted the file meanwhile. Then this lock does not exclude others.
            if is_same_file(&file, target.path) {
                return Ok(file);
            }
        }
    }

    /// Opens and locks the lock of `place` in its turn.
    pub(super) async fn lock_in_turn(&mut self, place: &InTurn<'_>, line: &Line) -> Result<File, LockError> {
        let turn = self.take_turn(place, line).await?;
        if let Some(turn) = &turn {
            // It only informs processes that wait behind this one, so errors are ignored.
            let _ = Holder::new(place.label, Path::new("-")).save(turn);
        }
        let target = Target {
            path: place.lock,
            open: &|| open_or_make_lock(place.lock, Access::AllUsers),
            mode: place.mode,
            describe: &|file| waiting_for(file, &|holder| place.held_by(holder)),
        };
        let locked = self.lock(&target).await;
        drop(turn);
        locked
    }

    /// Takes the turn of `place`; `None` if another process has it but does not use it.
    async fn take_turn(&mut self, place: &InTurn<'_>, line: &Line) -> Result<Option<File>, LockError> {
        let target = Target {
            path: place.turn,
            open: &|| open_or_make_lock(place.turn, Access::AllUsers),
            mode: Mode::Exclusive,
            describe: &|_| place.waiting_for_turn(),
        };
        loop {
            let file = match self.ask(&target)? {
                Asked::Ours(file) => file,
                Asked::Others(file) => match self.wait_in_line(place, line, file).await? {
                    Some(locked) => locked.map_err(|source| target.wrong(source))?,
                    None => return Ok(None),
                },
            };
            if is_same_file(&file, place.turn) {
                return Ok(Some(file));
            }
        }
    }

    /// Waits for the `turn` of `place` until it is taken; `None` if it turns out to be unused.
    async fn wait_in_line(
        &mut self,
        place: &InTurn<'_>,
        line: &Line,
        turn: File,
    ) -> Result<Option<io::Result<File>>, LockError> {
        self.notify(place.waiting_for_turn());
        let mut position = line.join(turn);
        let mut unused = Unused::default();
        loop {
            let signals = self.patience.signals.as_deref_mut();
            position = match unless_stopped(signals, position.wait(line.look)).await? {
                Ok(locked) => return Ok(Some(locked)),
                Err(position) => position,
            };
            let is_free = place.is_free();
            if is_free {
                self.notify(place.waiting_for_next());
            }
            if unused.look(is_free) {
                return Ok(None);
            }
        }
    }

    /// Opens `target` and locks it if it is free. If it is held and waiting is not allowed, that is an error.
    fn ask(&self, target: &Target<'_>) -> Result<Asked, LockError> {
        let file = (target.open)().map_err(|error| LockError::opening(target.path, error))?;
        match target.mode.try_lock(&file) {
            Ok(()) => Ok(Asked::Ours(file)),
            Err(TryLockError::Error(source)) => Err(target.wrong(source)),
            Err(TryLockError::WouldBlock) if self.patience.no_wait => {
                Err(LockError::Busy((target.describe)(&file)))
            }
            Err(TryLockError::WouldBlock) => Ok(Asked::Others(file)),
        }
    }

    /// Notifies the observer of a wait. If waiting is not allowed, that is an error.
    pub(super) fn notify_or_fail(&mut self, waiting: Waiting) -> Result<(), LockError> {
        if self.patience.no_wait {
            return Err(LockError::Busy(waiting));
        }
        self.notify(waiting);
        Ok(())
    }

    /// The signals that end the wait.
    pub(super) fn signals(&mut self) -> Option<&mut StopSignals> {
        self.patience.signals.as_deref_mut()
    }

    fn notify(&mut self, waiting: Waiting) {
        if self.reported.as_ref() != Some(&waiting) {
            self.patience.observer.event(&Event::Waiting(&waiting));
            self.reported = Some(waiting);
        }
    }

    /// Notifies the observer that the wait is over.
    pub(super) fn over(self) {
        if self.reported.is_some() {
            self.patience.observer.event(&Event::Resumed);
        }
    }
}

/// The holder of the lock of `file`, according to `describe`, with the processes that keep it if its holder has ended.
pub(super) fn waiting_for(file: &File, describe: &dyn Fn(Option<&Holder>) -> Waiting) -> Waiting {
    let holder = Holder::of(file);
    let waiting = describe(holder.as_ref());
    if holder.is_some_and(|holder| holder.is_at_work()) { waiting } else { with_keepers(waiting, file) }
}

/// A lock that a thread waits for.
type Locked = oneshot::Receiver<io::Result<File>>;

/// Waits for a lock in its own thread, because the wait cannot be interrupted. If the receiver is dropped, the thread
/// remains until it gets the lock or the process ends. It calls `then` after the wait.
fn wait(file: File, mode: Mode, then: impl FnOnce() + Send + 'static) -> Locked {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let locked = mode.lock(&file);
        then();
        // If the receiver was dropped, the file is closed, which releases the lock.
        let _ = sender.send(locked.map(|()| file));
    });
    receiver
}

fn received(locked: Result<io::Result<File>, oneshot::error::RecvError>) -> io::Result<File> {
    locked.unwrap_or_else(|_| Err(io::Error::other("the waiting thread ended")))
}

/// The result of `future`, unless a stop signal arrives first.
pub(super) async fn unless_stopped<T>(
    signals: Option<&mut StopSignals>,
    future: impl Future<Output = T>,
) -> Result<T, LockError> {
    tokio::select! {
        done = future => Ok(done),
        stop = next_stop(signals) => Err(LockError::Stopped(stop)),
    }
}

async fn next_stop(signals: Option<&mut StopSignals>) -> Stop {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_that_stays_free_is_taken_without_its_turn() {
        let mut unused = Unused::default();
        let nine = [true; UNUSED_LOOKS as usize - 1];
        let looks = nine.into_iter().chain([false]).chain(nine);
        assert!(looks.map(|is_free| unused.look(is_free)).all(|is_over| !is_over), "it was used in between");
        assert!(unused.look(true));
    }
}
