//! Waiting for locks: each wait in a thread of its own, and none for a turn that nobody uses.
//!
//! Whoever has the turn of a lock takes the lock the moment it is free, unless it has been suspended. So a lock that was
//! free at [`UNUSED_LOOKS`] looks in a row while somebody else had its turn is taken without the turn.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::file::{For, OpenError, is_same_file, open_lock, open_or_make_lock};
use super::holder::{Holder, with_keepers};
use super::patience::{LockError, Patience};
use crate::event::{Event, Waiting};
use crate::stop::{Stop, StopSignals};

/// Between two looks at a lock whose turn somebody else has.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// After so many looks in a row that found a lock free, whoever has its turn does not come for it. They are counted, not
/// timed: whoever is suspended itself meanwhile has not looked.
const UNUSED_LOOKS: u32 = 10;

/// Whether a lock is one's own or may be held by several.
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

    /// Blocks until the lock is ours.
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

/// A lock that is wanted.
pub(super) struct Target<'a> {
    /// The lock's file.
    pub(super) path: &'a Path,
    /// Opens it, and makes it if it is missing.
    pub(super) open: &'a dyn Fn() -> Result<File, OpenError>,
    /// How it is wanted.
    pub(super) mode: Mode,
    /// What is waited for if somebody else holds it, by the open file.
    pub(super) tell: &'a dyn Fn(&File) -> Waiting,
}

impl Target<'_> {
    fn wrong(&self, source: io::Error) -> LockError {
        LockError::File { path: self.path.to_owned(), source }
    }
}

/// A shared lock that is wanted in turn.
pub(super) struct InTurn<'a> {
    /// The lock's file.
    pub(super) lock: &'a Path,
    /// Its turn's.
    pub(super) turn: &'a Path,
    /// How the lock is wanted.
    pub(super) mode: Mode,
    /// How it can be had exactly if nobody is in the way. Where all who hold it hold it alone, that is `Shared`: a look
    /// then disturbs nobody else who looks.
    pub(super) probe: Mode,
    /// What the lock is for, as a phrase: `this host`.
    pub(super) what: &'a str,
    /// Who wants it, for whoever waits behind.
    pub(super) who: &'a str,
}

impl InTurn<'_> {
    fn held_by(&self, holder: Option<&Holder>) -> Waiting {
        Waiting { what: self.what.to_owned(), holder: holder.map(Holder::describe) }
    }

    /// Whether nobody holds the lock itself.
    fn is_free(&self) -> bool {
        match open_lock(self.lock) {
            Ok(file) => self.probe.try_lock(&file).is_ok(),
            Err(OpenError::System(error)) => error.kind() == io::ErrorKind::NotFound,
            Err(OpenError::Foreign(_)) => false,
        }
    }

    /// What whoever does not get the turn waits for: whoever holds the lock; if nobody does, whoever has its turn.
    fn waiting_for_turn(&self) -> Waiting {
        if self.is_free() {
            return self.waiting_for_next();
        }
        match open_lock(self.lock) {
            Ok(lock) => waiting_for(&lock, &|holder| self.held_by(holder)),
            Err(_) => self.held_by(None),
        }
    }

    /// Who has the turn of a lock that nobody holds.
    fn waiting_for_next(&self) -> Waiting {
        let waiting = Waiting { what: format!("the turn on {}", self.what), holder: None };
        let Ok(turn) = open_lock(self.turn) else { return waiting };
        match Holder::of(&turn).filter(Holder::is_at_work) {
            Some(holder) => Waiting { holder: Some(holder.describe_next()), ..waiting },
            None => with_keepers(waiting, &turn),
        }
    }
}

/// Where the waits of one `orchestrate` for turns stand in line. A turn that was passed over is still waited for by the
/// thread that was left behind; a second one beside it would be of no use, and with one a job they would be many.
#[derive(Clone, Debug)]
pub(super) struct Line {
    look: Duration,
    is_stood_in: Arc<AtomicBool>,
}

impl Line {
    /// An empty line, whose waits look at the lock every `look`.
    pub(super) fn new(look: Duration) -> Line {
        Line { look, is_stood_in: Arc::default() }
    }

    /// Whether a thread of ours stands in it.
    #[cfg(test)]
    pub(super) fn is_stood_in(&self) -> bool {
        self.is_stood_in.load(Ordering::SeqCst)
    }

    /// Has a thread wait for the `turn`, unless one is left from an earlier wait.
    fn join(&self, turn: File) -> Place {
        if self.is_stood_in.swap(true, Ordering::SeqCst) {
            return Place::Beside(turn);
        }
        let left = Arc::clone(&self.is_stood_in);
        Place::In(wait(turn, Mode::Exclusive, move || left.store(false, Ordering::SeqCst)))
    }
}

/// How one wait for a turn gets it.
enum Place {
    /// From its thread, as soon as it is free.
    In(Locked),
    /// At a look, if it is free then.
    Beside(File),
}

impl Place {
    /// Waits until the turn is ours, or for `look`: then says who goes on waiting.
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

/// For how many looks in a row a lock was free whose turn somebody else has.
#[derive(Debug, Default)]
struct Unused(u32);

impl Unused {
    /// Takes in a look. Says whether the turn need not be waited for any longer.
    fn look(&mut self, is_free: bool) -> bool {
        self.0 = if is_free { self.0 + 1 } else { 0 };
        self.0 >= UNUSED_LOOKS
    }
}

/// What came of asking for a lock.
enum Asked {
    Ours(File),
    Others(File),
}

/// A wait for one lock or for several. The observer is told of it, and again if it comes to be one for somebody else.
pub(super) struct Wait<'w, 'p> {
    patience: &'w mut Patience<'p>,
    told: Option<Waiting>,
}

impl<'w, 'p> Wait<'w, 'p> {
    pub(super) fn new(patience: &'w mut Patience<'p>) -> Self {
        Wait { patience, told: None }
    }

    /// Opens and locks `target`.
    pub(super) async fn lock(&mut self, target: &Target<'_>) -> Result<File, LockError> {
        loop {
            let file = match self.ask(target)? {
                Asked::Ours(file) => file,
                Asked::Others(file) => {
                    self.tell((target.tell)(&file));
                    let locked = wait(file, target.mode, || ());
                    let locked = unless_stopped(self.patience.signals.as_deref_mut(), locked).await?;
                    received(locked).map_err(|source| target.wrong(source))?
                }
            };
            // Whoever cleans up /tmp may have taken the file away meanwhile: then this lock keeps nobody out.
            if is_same_file(&file, target.path) {
                return Ok(file);
            }
        }
    }

    /// Opens and locks the lock of `place` in its turn.
    pub(super) async fn lock_in_turn(&mut self, place: &InTurn<'_>, line: &Line) -> Result<File, LockError> {
        let turn = self.take_turn(place, line).await?;
        if let Some(turn) = &turn {
            // It helps whoever waits behind us; if it cannot be written, nothing is lost.
            let _ = Holder::new(place.who, Path::new("-")).save(turn);
        }
        let target = Target {
            path: place.lock,
            open: &|| open_or_make_lock(place.lock, For::Everybody),
            mode: place.mode,
            tell: &|file| waiting_for(file, &|holder| place.held_by(holder)),
        };
        let locked = self.lock(&target).await;
        drop(turn);
        locked
    }

    /// Takes the turn of `place`; `None` if somebody else has it and does not use it.
    async fn take_turn(&mut self, place: &InTurn<'_>, line: &Line) -> Result<Option<File>, LockError> {
        let target = Target {
            path: place.turn,
            open: &|| open_or_make_lock(place.turn, For::Everybody),
            mode: Mode::Exclusive,
            tell: &|_| place.waiting_for_turn(),
        };
        loop {
            let file = match self.ask(&target)? {
                Asked::Ours(file) => file,
                Asked::Others(file) => match self.stand(place, line, file).await? {
                    Some(locked) => locked.map_err(|source| target.wrong(source))?,
                    None => return Ok(None),
                },
            };
            if is_same_file(&file, place.turn) {
                return Ok(Some(file));
            }
        }
    }

    /// Waits for the `turn` of `place` until it is ours, or, with `None`, until it proves unused.
    async fn stand(
        &mut self,
        place: &InTurn<'_>,
        line: &Line,
        turn: File,
    ) -> Result<Option<io::Result<File>>, LockError> {
        self.tell(place.waiting_for_turn());
        let mut standing = line.join(turn);
        let mut unused = Unused::default();
        loop {
            let signals = self.patience.signals.as_deref_mut();
            standing = match unless_stopped(signals, standing.wait(line.look)).await? {
                Ok(locked) => return Ok(Some(locked)),
                Err(standing) => standing,
            };
            let is_free = place.is_free();
            if is_free {
                self.tell(place.waiting_for_next());
            }
            if unused.look(is_free) {
                return Ok(None);
            }
        }
    }

    /// Opens `target` and locks it if nobody else has; that is an error for whoever must not wait.
    fn ask(&self, target: &Target<'_>) -> Result<Asked, LockError> {
        let file = (target.open)().map_err(|error| LockError::opening(target.path, error))?;
        match target.mode.try_lock(&file) {
            Ok(()) => Ok(Asked::Ours(file)),
            Err(TryLockError::Error(source)) => Err(target.wrong(source)),
            Err(TryLockError::WouldBlock) if self.patience.no_wait => {
                Err(LockError::Busy((target.tell)(&file)))
            }
            Err(TryLockError::WouldBlock) => Ok(Asked::Others(file)),
        }
    }

    fn tell(&mut self, waiting: Waiting) {
        if self.told.as_ref() != Some(&waiting) {
            self.patience.observer.event(&Event::Waiting(&waiting));
            self.told = Some(waiting);
        }
    }

    /// Tells the observer that it goes on.
    pub(super) fn over(self) {
        if self.told.is_some() {
            self.patience.observer.event(&Event::Resumed);
        }
    }
}

/// Who holds the lock of `file`, in the words of `describe`; with the processes that keep it where its holder is gone.
pub(super) fn waiting_for(file: &File, describe: &dyn Fn(Option<&Holder>) -> Waiting) -> Waiting {
    let holder = Holder::of(file);
    let waiting = describe(holder.as_ref());
    if holder.is_some_and(|holder| holder.is_at_work()) { waiting } else { with_keepers(waiting, file) }
}

/// A lock that a thread waits for.
type Locked = oneshot::Receiver<io::Result<File>>;

/// Waits for a lock in a thread of its own, for the wait cannot be cut short: if nobody listens any more, the thread is
/// left behind until the lock is its or the process ends. It calls `then` when its wait is over.
fn wait(file: File, mode: Mode, then: impl FnOnce() + Send + 'static) -> Locked {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let locked = mode.lock(&file);
        then();
        // If nobody listens, the file is closed, and with it the lock.
        let _ = sender.send(locked.map(|()| file));
    });
    receiver
}

fn received(locked: Result<io::Result<File>, oneshot::error::RecvError>) -> io::Result<File> {
    locked.unwrap_or_else(|_| Err(io::Error::other("the waiting thread is gone")))
}

/// What comes of `future`, unless a signal says stop before.
async fn unless_stopped<T>(
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
