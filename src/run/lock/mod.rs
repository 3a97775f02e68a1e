//! The right to run a job, and the right to measure on a device.
//!
//! Both are `flock`s on files, held through an open file that the child tree inherits: the kernel lets go of a lock when
//! the last of them has closed it or is gone, however it went. Hence nothing here ever unlocks; it only closes. A
//! blocked wait for a lock is how the end of a worker is seen whose `orchestrate` is gone.
//!
//! A job's lock is `lock` in its directory. Those of a host and its devices are in one directory for all users and all
//! stores of the host, `/tmp/orchestrate-locks` unless `ORCHESTRATE_LOCK_DIR` says otherwise:
//!
//! | file | held by |
//! |---|---|
//! | `host.lock` | a job that needs the host for itself (exclusively); jobs that need only their device (shared) |
//! | `device-<device>.lock` | the job on that device, if it needs only the device |
//! | `<either>.turn` | whoever waits for that lock longest |
//!
//! A lock that is free goes to whoever asks first, and whoever has just let go of it asks before the one that waited
//! has woken up. So everybody takes the lock's turn first and keeps it until the lock is theirs: two runs on one host
//! alternate, and none has to wait until the other is through.
//!
//! A lock file's contents say who took it last. They are for people to read; nothing is decided by them.
#![expect(clippy::disallowed_methods, reason = "locks are files")]

mod holder;

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::job::{Device, Job};
use crate::matrix::Share;
use crate::run::event::{Event, Observer, Waiting};
use crate::run::regular::{open_or_make_regular, open_regular};
use crate::run::stop::{Stop, StopSignals};
use crate::run::store::JobDir;

use holder::Holder;

/// Names the directory of the host's and its devices' locks.
pub const LOCK_DIR_VARIABLE: &str = "ORCHESTRATE_LOCK_DIR";

/// A lock that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file cannot be made, opened or locked.
    #[error("cannot lock {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody holds it, and we must not wait.
    #[error("{}", busy(.0))]
    Busy(Waiting),
    /// We were told to stop while we waited.
    #[error("told to stop while waiting for a lock")]
    Stopped(Stop),
}

fn busy(waiting: &Waiting) -> String {
    match &waiting.holder {
        Some(holder) => format!("{} is busy: {holder}", waiting.what),
        None => format!("{} is busy", waiting.what),
    }
}

/// How to wait for locks, and whom to tell.
pub struct Patience<'a> {
    /// Do not wait at all.
    pub no_wait: bool,
    /// What may end the wait.
    pub signals: &'a mut StopSignals,
    /// Who is told of it.
    pub observer: &'a mut dyn Observer,
}

/// The right to run one job and to write in its directory.
#[derive(Debug)]
pub struct JobLock {
    file: File,
    dir: JobDir,
}

impl JobLock {
    /// Takes the lock of `job`, whose directory is made if it is missing.
    ///
    /// # Errors
    /// [`LockError`].
    pub async fn lock(job: &Job, dir: JobDir, patience: &mut Patience<'_>) -> Result<JobLock, LockError> {
        let path = dir.lock();
        // Made at every try: its directory may be taken away while we wait.
        let open = || make_lock(&dir);
        let mut wait = Wait::new(patience);
        let tell = |file: &File| waiting_for(file, &|holder| job_waiting(job, holder));
        let file = wait.lock(&path, &open, Mode::Exclusive, &tell).await?;
        wait.over();
        Ok(JobLock { file, dir })
    }

    /// Takes the lock of `job` if nobody holds it, for a moment's work in its directory, which is made if it is missing.
    ///
    /// # Errors
    /// [`LockError::Busy`], [`LockError::File`].
    pub fn try_lock(job: &Job, dir: JobDir) -> Result<JobLock, LockError> {
        let path = dir.lock();
        let wrong = |source| LockError::File { path: path.clone(), source };
        loop {
            let file = make_lock(&dir).map_err(wrong)?;
            match Mode::Exclusive.try_lock(&file) {
                Ok(()) if is_same_file(&file, &path) => return Ok(JobLock { file, dir }),
                // It was taken away between our opening and our locking it.
                Ok(()) => {}
                Err(TryLockError::Error(source)) => return Err(wrong(source)),
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Busy(job_waiting(job, Holder::load(&file).as_ref())));
                }
            }
        }
    }

    /// Takes the lock anew if its file was taken away while we held it, for a lock without a name keeps nobody out. Says
    /// whether it was.
    ///
    /// # Errors
    /// [`LockError::File`] if it cannot be made anew, or somebody else has done so and runs the job now.
    pub(in crate::run) fn restore(&mut self) -> Result<bool, LockError> {
        let path = self.dir.lock();
        if is_same_file(&self.file, &path) {
            return Ok(false);
        }
        let wrong = |source| LockError::File { path: path.clone(), source };
        let file = make_lock(&self.dir).map_err(wrong)?;
        Mode::Exclusive.try_lock(&file).map_err(|error| match error {
            TryLockError::Error(source) => wrong(source),
            TryLockError::WouldBlock => {
                wrong(io::Error::other("it was taken away, and another orchestrate runs the job meanwhile"))
            }
        })?;
        self.file = file;
        Ok(true)
    }

    /// The directory of the job.
    pub fn dir(&self) -> &JobDir {
        &self.dir
    }
}

/// Opens the lock file of a job; it and the directory are made if they are missing.
fn make_lock(dir: &JobDir) -> io::Result<File> {
    fs::create_dir_all(dir.path())?;
    open_or_make_regular(&dir.lock())
}

fn job_waiting(job: &Job, holder: Option<&Holder>) -> Waiting {
    match holder {
        Some(holder) if !holder.is_alive() => Waiting {
            what: format!(
                "the worker of {}, started by an orchestrate that is gone (pid {})",
                job.label(),
                holder.pid
            ),
            holder: None,
        },
        other => Waiting { what: job.label(), holder: other.map(Holder::describe) },
    }
}

/// Whether the `orchestrate` that last took the lock of the job in `dir` is still there.
pub(in crate::run) fn is_owner_alive(dir: &JobDir) -> bool {
    open_regular(&dir.lock())
        .ok()
        .and_then(|file| Holder::load(&file))
        .is_some_and(|holder| holder.is_alive())
}

/// The right to measure on a device.
#[derive(Debug)]
pub struct DeviceLock {
    files: Vec<File>,
}

impl DeviceLock {
    /// Another handle on the lock, for a child to hold as long as it lives; `None` for a lock on nothing.
    ///
    /// # Errors
    /// The system has no more handles.
    pub fn handle(&self) -> io::Result<Option<File>> {
        self.files.first().map(File::try_clone).transpose()
    }
}

/// Where the locks of this host and its devices are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDir {
    path: PathBuf,
}

impl LockDir {
    /// The directory that `ORCHESTRATE_LOCK_DIR` names, else the one of all users.
    ///
    /// # Errors
    /// [`LockError::File`] if it cannot be made.
    pub fn of_this_host() -> Result<LockDir, LockError> {
        LockDir::create(&lock_dir_path())
    }

    /// The directory at `path`; made, for everybody to use, if it is missing.
    ///
    /// # Errors
    /// [`LockError::File`] if it cannot be made.
    pub fn create(path: &Path) -> Result<LockDir, LockError> {
        if !path.is_dir() {
            fs::create_dir_all(path).map_err(|source| LockError::File { path: path.to_owned(), source })?;
            // As /tmp itself: everybody may add, nobody may take away another's. The umask was in the way so far; if
            // this fails, the directory is somebody else's, who has seen to it.
            let _ = fs::set_permissions(path, Permissions::from_mode(0o1777));
        }
        Ok(LockDir { path: path.to_owned() })
    }

    /// Takes the right to measure on `device`, and on the whole host unless `share` lets others be.
    ///
    /// # Errors
    /// [`LockError`].
    pub async fn lock(
        &self,
        job: &Job,
        share: Share,
        patience: &mut Patience<'_>,
    ) -> Result<DeviceLock, LockError> {
        // Always the host first: two that take both in this order can never wait for each other.
        let host = match share {
            Share::Nothing => Mode::Exclusive,
            Share::Device => Mode::Shared,
        };
        let mut files = vec![self.lock_one("host", "this host", host, patience).await?];
        if share == Share::Device {
            let device = job.key().device;
            let what = format!("the device {device}");
            files.push(self.lock_one(&device_name(device), &what, Mode::Exclusive, patience).await?);
        }
        Ok(DeviceLock { files })
    }

    async fn lock_one(
        &self,
        name: &str,
        what: &str,
        mode: Mode,
        patience: &mut Patience<'_>,
    ) -> Result<File, LockError> {
        let path = self.path.join(format!("{name}.lock"));
        let turn = self.path.join(format!("{name}.turn"));
        let describe =
            |holder: Option<&Holder>| Waiting { what: what.to_owned(), holder: holder.map(Holder::describe) };
        let tell = |file: &File| waiting_for(file, &describe);
        // Who has the turn waits for the lock's holder, and so does whoever waits for the turn.
        let tell_of_holder =
            |turn: &File| open_regular(&path).map_or_else(|_| tell(turn), |file| tell(&file));
        let mut wait = Wait::new(patience);
        let turn = wait.lock(&turn, &|| open_shared(&turn), Mode::Exclusive, &tell_of_holder).await?;
        let file = wait.lock(&path, &|| open_shared(&path), mode, &tell).await?;
        drop(turn);
        wait.over();
        Ok(file)
    }

    /// Takes the whole host for something that is no job of a store, such as measuring its peaks. Blocks as long as
    /// others hold it; `on_wait` is told of that.
    ///
    /// # Errors
    /// [`LockError::File`].
    pub fn hold_host(&self, who: &str, on_wait: impl FnOnce(&Waiting)) -> Result<DeviceLock, LockError> {
        let path = self.path.join("host.lock");
        let mut on_wait = Some(on_wait);
        let mut tell = || {
            let holder = open_regular(&path).ok().and_then(|file| Holder::load(&file));
            if let Some(on_wait) = on_wait.take() {
                let holder = holder.map(|holder| holder.describe());
                on_wait(&Waiting { what: "this host".to_owned(), holder });
            }
        };
        let turn = lock_blocking(&self.path.join("host.turn"), &mut tell)?;
        let file = lock_blocking(&path, &mut tell)?;
        drop(turn);
        let _ = Holder::new(who, Path::new("-")).save(&file);
        Ok(DeviceLock { files: vec![file] })
    }

    /// Labels of the jobs that hold other devices of this host than `own` right now.
    pub fn others(&self, own: Device) -> Vec<String> {
        let own = format!("{}.lock", device_name(own));
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with("device-") || !name.ends_with(".lock") || name == own {
                continue;
            }
            let Ok(file) = open_regular(&entry.path()) else { continue };
            if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
                found.push(Holder::load(&file).map_or_else(|| "unknown".to_owned(), |holder| holder.job));
            }
        }
        found.sort();
        found
    }
}

/// Where the locks of this host are by its environment: relative to the current directory, if at all.
pub(in crate::run) fn lock_dir_path() -> PathBuf {
    std::env::var_os(LOCK_DIR_VARIABLE).map_or_else(|| "/tmp/orchestrate-locks".into(), PathBuf::from)
}

fn device_name(device: Device) -> String {
    format!("device-{}", device.to_string().replace(':', "-"))
}

/// Opens a lock file that several users share.
fn open_shared(path: &Path) -> io::Result<File> {
    loop {
        // Not in one step with O_CREAT: in a sticky directory Linux lets nobody but its owner open a file that way.
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                let file = other?;
                file.set_permissions(Permissions::from_mode(0o666))?;
                return Ok(file);
            }
        }
    }
}

/// Whether a lock is one's own or may be held by several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Exclusive,
    Shared,
}

impl Mode {
    fn try_lock(self, file: &File) -> Result<(), TryLockError> {
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

/// A wait for one lock or for several, which the observer is told of once.
struct Wait<'w, 'p> {
    patience: &'w mut Patience<'p>,
    told: bool,
}

impl<'w, 'p> Wait<'w, 'p> {
    fn new(patience: &'w mut Patience<'p>) -> Self {
        Wait { patience, told: false }
    }

    /// Opens and locks the file at `path`; tells the observer if that takes a wait, in the words that `tell` has for the
    /// open file.
    async fn lock(
        &mut self,
        path: &Path,
        open: &dyn Fn() -> io::Result<File>,
        mode: Mode,
        tell: &dyn Fn(&File) -> Waiting,
    ) -> Result<File, LockError> {
        let wrong = |source| LockError::File { path: path.to_owned(), source };
        loop {
            let mut file = open().map_err(wrong)?;
            match mode.try_lock(&file) {
                Ok(()) => {}
                Err(TryLockError::Error(source)) => return Err(wrong(source)),
                Err(TryLockError::WouldBlock) if self.patience.no_wait => {
                    return Err(LockError::Busy(tell(&file)));
                }
                Err(TryLockError::WouldBlock) => {
                    if !self.told {
                        self.patience.observer.event(&Event::Waiting(&tell(&file)));
                        self.told = true;
                    }
                    file = wait(file, mode, self.patience.signals).await?.map_err(wrong)?;
                }
            }
            // Whoever cleans up /tmp may have taken the file away meanwhile: then this lock keeps nobody out.
            if is_same_file(&file, path) {
                return Ok(file);
            }
        }
    }

    /// Tells the observer that it goes on.
    fn over(self) {
        if self.told {
            self.patience.observer.event(&Event::Resumed);
        }
    }
}

/// Who holds the lock of `file`, in the words of `describe`; with the processes that keep it where its holder is gone.
fn waiting_for(file: &File, describe: &dyn Fn(Option<&Holder>) -> Waiting) -> Waiting {
    let holder = Holder::load(file);
    let waiting = describe(holder.as_ref());
    if holder.is_some_and(|holder| holder.is_at_work()) { waiting } else { waiting.with_keepers(file) }
}

/// Opens the shared file at `path` and locks it exclusively; calls `on_wait` before each wait.
fn lock_blocking(path: &Path, on_wait: &mut dyn FnMut()) -> Result<File, LockError> {
    let wrong = |source| LockError::File { path: path.to_owned(), source };
    loop {
        let file = open_shared(path).map_err(wrong)?;
        match Mode::Exclusive.try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::Error(source)) => return Err(wrong(source)),
            Err(TryLockError::WouldBlock) => {
                on_wait();
                Mode::Exclusive.lock(&file).map_err(wrong)?;
            }
        }
        if is_same_file(&file, path) {
            return Ok(file);
        }
    }
}

/// Waits for a lock in a thread of its own, for the wait cannot be cut short: if we are told to stop, the thread is left
/// behind and ends with the process.
async fn wait(file: File, mode: Mode, signals: &mut StopSignals) -> Result<io::Result<File>, LockError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let locked = mode.lock(&file);
        // Nobody listens any more if we were told to stop; the file is then closed, and with it the lock.
        let _ = sender.send(locked.map(|()| file));
    });
    tokio::select! {
        locked = receiver => Ok(locked.unwrap_or_else(|_| Err(io::Error::other("the waiting thread is gone")))),
        stop = signals.next() => Err(LockError::Stopped(stop)),
    }
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Writes into the lock files who holds them. It helps whoever waits; if it cannot be written, nothing is lost.
pub(in crate::run) fn sign(job: &Job, store: &Path, job_lock: &JobLock, device_lock: Option<&DeviceLock>) {
    let holder = Holder::new(&job.label(), store);
    let _ = holder.save(&job_lock.file);
    for file in device_lock.into_iter().flat_map(|lock| &lock.files) {
        let _ = holder.save(file);
    }
}

/// The open files of the two locks, for the child tree to inherit.
pub(in crate::run) fn inherited<'a>(
    job_lock: &'a JobLock,
    device_lock: &'a DeviceLock,
) -> impl Iterator<Item = std::os::fd::BorrowedFd<'a>> {
    std::iter::once(&job_lock.file).chain(&device_lock.files).map(AsFd::as_fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{KEY_SCHEMA, Key, Kind, Precision};
    use crate::run::Store;

    /// Fails the test if it hears of a wait: nothing here may wait.
    struct Listener;

    impl Observer for Listener {
        fn event(&mut self, event: &Event<'_>) {
            assert!(!matches!(event, Event::Waiting(_)), "{event:?}");
        }
    }

    fn job(device: Device) -> Job {
        Job::new(Key {
            schema: KEY_SCHEMA,
            kind: Kind::Timing,
            env: format!("env_{}", device.backend()),
            device,
            model: "m".into(),
            batch: 4,
            precision: Precision::Fp32,
            repeat: 1,
            params: Default::default(),
            worker: Default::default(),
            profile: Default::default(),
        })
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    async fn take(locks: &LockDir, device: Device, share: Share) -> Result<DeviceLock, LockError> {
        let mut signals = StopSignals::listen().unwrap();
        let mut observer = Listener;
        let mut patience = Patience { no_wait: true, signals: &mut signals, observer: &mut observer };
        locks.lock(&job(device), share, &mut patience).await
    }

    #[test]
    fn a_host_is_for_one_job_or_for_one_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let locks = LockDir::create(&directory.path().join("locks")).unwrap();
        let (one, two) = (Device::Cuda(0), Device::Cuda(1));
        block_on(async {
            let first = take(&locks, one, Share::Device).await.unwrap();
            let second = take(&locks, two, Share::Device).await.unwrap();
            assert!(matches!(take(&locks, one, Share::Device).await, Err(LockError::Busy(_))));
            assert!(matches!(take(&locks, one, Share::Nothing).await, Err(LockError::Busy(_))));
            drop((first, second));
            let whole = locks.hold_host("peaks", |_| panic!("nobody has it")).unwrap();
            assert!(matches!(take(&locks, one, Share::Device).await, Err(LockError::Busy(_))));
            drop(whole);
            let alone = take(&locks, one, Share::Nothing).await.unwrap();
            assert!(matches!(take(&locks, two, Share::Device).await, Err(LockError::Busy(_))));
            drop(alone);
            take(&locks, two, Share::Device).await.unwrap();
        });
    }

    /// Lets go of the host as soon as somebody waits for it, and notes whether whoever waits has the turn.
    struct Holding {
        held: Option<DeviceLock>,
        turn: PathBuf,
        has_turn: Option<bool>,
    }

    impl Observer for Holding {
        fn event(&mut self, event: &Event<'_>) {
            if matches!(event, Event::Waiting(_)) {
                let turn = open_shared(&self.turn).unwrap();
                self.has_turn = Some(matches!(turn.try_lock(), Err(TryLockError::WouldBlock)));
                self.held = None;
            }
        }
    }

    #[test]
    fn who_waits_has_the_turn_and_nobody_goes_before() {
        let directory = tempfile::tempdir().unwrap();
        let locks = LockDir::create(&directory.path().join("locks")).unwrap();
        let turn = directory.path().join("locks").join("host.turn");
        block_on(async {
            let held = Some(take(&locks, Device::Cpu, Share::Nothing).await.unwrap());
            let mut signals = StopSignals::listen().unwrap();
            let mut observer = Holding { held, turn: turn.clone(), has_turn: None };
            let mut patience = Patience { no_wait: false, signals: &mut signals, observer: &mut observer };
            drop(locks.lock(&job(Device::Cpu), Share::Nothing, &mut patience).await.unwrap());
            assert_eq!(observer.has_turn, Some(true));
            let turn = open_shared(&turn).unwrap();
            turn.lock().unwrap();
            assert!(matches!(take(&locks, Device::Cpu, Share::Nothing).await, Err(LockError::Busy(_))));
            drop(turn);
            take(&locks, Device::Cpu, Share::Nothing).await.unwrap();
        });
    }

    #[test]
    fn those_on_other_devices_are_named_by_their_jobs() {
        let directory = tempfile::tempdir().unwrap();
        let locks = LockDir::create(&directory.path().join("locks")).unwrap();
        let store = Store::at(&directory.path().join("runs")).unwrap();
        let (one, two) = (Device::Cuda(0), Device::Cpu);
        block_on(async {
            let mut signals = StopSignals::listen().unwrap();
            let mut observer = Listener;
            let mut patience = Patience { no_wait: true, signals: &mut signals, observer: &mut observer };
            let job = job(one);
            let job_lock = JobLock::lock(&job, store.job_dir(&job), &mut patience).await.unwrap();
            let device_lock = locks.lock(&job, Share::Device, &mut patience).await.unwrap();
            sign(&job, store.root(), &job_lock, Some(&device_lock));
            assert_eq!(locks.others(two), [job.label()]);
            assert_eq!(locks.others(one), Vec::<String>::new());
            let turn = open_shared(&directory.path().join("locks").join("device-mps.turn")).unwrap();
            turn.lock().unwrap();
            assert_eq!(locks.others(two), [job.label()], "who only waits is beside nobody");
            drop(device_lock);
            assert_eq!(locks.others(two), Vec::<String>::new());
        });
    }

    #[test]
    fn a_lock_file_that_was_taken_away_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("host.lock");
        let old = open_shared(&path).unwrap();
        assert!(is_same_file(&old, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_same_file(&old, &path));
        let new = open_shared(&path).unwrap();
        assert!(is_same_file(&new, &path) && !is_same_file(&old, &path));
        assert_eq!(new.metadata().unwrap().permissions().mode() & 0o777, 0o666);
    }
}
