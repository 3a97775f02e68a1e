//! The right to measure on a device, [`DeviceLock`]: locks of a host and its devices, shared by all stores of the host.
#![expect(clippy::disallowed_methods, reason = "locks are files")]

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::geteuid;

use super::file::{Foreign, OpenError, open_lock};
use super::holder::Holder;
use super::patience::{LockError, Patience};
use super::physical::PhysicalDevice;
use super::ticket::{Ticket, Tickets};
use super::wait::{InTurn, LOOK, Line, Mode, Wait};
use crate::event::{Event, Observer, Waiting};
use crate::files::probe_locks;
use crate::job::Job;
use crate::matrix::Share;

/// The variable that sets the directory of the locks of the host and its devices.
pub const LOCK_DIR_VARIABLE: &str = "ORCHESTRATE_LOCK_DIR";

/// The right to measure on a device.
#[derive(Debug)]
pub struct DeviceLock {
    pub(super) files: Vec<File>,
    /// Replaces the locks where they do not work.
    ticket: Option<Ticket>,
}

impl DeviceLock {
    /// Notes that the worker that will run under the lock has `variable`, a `NAME=value`, in its environment.
    ///
    /// # Errors
    /// It cannot be noted. Then the worker must not be started: if this process died, others would not wait for it.
    pub fn note_worker(&self, variable: &[u8]) -> io::Result<()> {
        self.ticket.as_ref().map_or(Ok(()), |ticket| ticket.note_worker(variable))
    }

    /// Another handle on the lock for a child to hold until it ends; `None` if tickets replace the locks.
    ///
    /// # Errors
    /// The system has no more handles.
    pub fn handle(&self) -> io::Result<Option<File>> {
        self.files.first().map(File::try_clone).transpose()
    }
}

/// The directory of the locks of this host and its devices.
#[derive(Clone, Debug)]
pub struct LockDir {
    path: PathBuf,
    line: Line,
    /// Used instead of the locks where they do not work.
    tickets: Option<Tickets>,
}

impl LockDir {
    /// The directory in `ORCHESTRATE_LOCK_DIR`, or the default directory, which all users share.
    ///
    /// # Errors
    /// [`LockError::File`] if it cannot be created.
    pub fn of_this_host() -> Result<LockDir, LockError> {
        LockDir::create(&lock_dir_path())
    }

    /// The directory at `path`, created for all users if it is missing.
    ///
    /// # Errors
    /// [`LockError::File`] if it cannot be created.
    pub fn create(path: &Path) -> Result<LockDir, LockError> {
        make_lock_dir(path).map_err(|error| LockError::opening(path, error))?;
        let wrong = |source| LockError::File { path: path.to_owned(), source };
        // A user who cannot create files there can still lock existing ones, so locks are assumed to work.
        let works = probe_locks(path).unwrap_or(true);
        let tickets = if works { None } else { Some(Tickets::create(path).map_err(wrong)?) };
        Ok(LockDir { path: path.to_owned(), line: Line::new(LOOK), tickets })
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its locks exclude other processes. If not, tickets exclude them, and jobs never share the host.
    pub fn locks_work(&self) -> bool {
        self.tickets.is_none()
    }

    /// Takes the right to measure `job` on `device`, and on the whole host unless `share` allows others.
    ///
    /// # Errors
    /// [`LockError`].
    pub async fn lock(
        &self,
        job: &Job,
        device: &PhysicalDevice,
        share: Share,
        patience: &mut Patience<'_>,
    ) -> Result<DeviceLock, LockError> {
        // Always the host first: if all take both in this order, no two can wait for each other.
        let host = match share {
            Share::Nothing => Mode::Exclusive,
            Share::Device => Mode::Shared,
        };
        let label = job.label();
        if let Some(tickets) = &self.tickets {
            let ticket = tickets.take(&label, patience).await?;
            return Ok(DeviceLock { files: Vec::new(), ticket: Some(ticket) });
        }
        let mut files = vec![self.lock_host(host, &label, patience).await?];
        if share == Share::Device {
            files.push(self.lock_device(device, &label, patience).await?);
        }
        Ok(DeviceLock { files, ticket: None })
    }

    async fn lock_host(
        &self,
        mode: Mode,
        label: &str,
        patience: &mut Patience<'_>,
    ) -> Result<File, LockError> {
        let (lock, turn) = self.files_of("host");
        let place = InTurn { lock: &lock, turn: &turn, mode, probe: mode, what: "this host", label };
        self.lock_in_turn(&place, patience).await
    }

    async fn lock_device(
        &self,
        device: &PhysicalDevice,
        label: &str,
        patience: &mut Patience<'_>,
    ) -> Result<File, LockError> {
        let (lock, turn) = self.files_of(&device.file_name());
        let what = &format!("the device {device}");
        let (mode, probe) = (Mode::Exclusive, Mode::Shared);
        let place = InTurn { lock: &lock, turn: &turn, mode, probe, what, label };
        self.lock_in_turn(&place, patience).await
    }

    /// The paths of a lock file and of the file of its turn.
    fn files_of(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.path.join(format!("{name}.lock")), self.path.join(format!("{name}.turn")))
    }

    async fn lock_in_turn(&self, place: &InTurn<'_>, patience: &mut Patience<'_>) -> Result<File, LockError> {
        // A clean-up of temporary files might have removed it since.
        if fs::symlink_metadata(&self.path).is_err() {
            make_lock_dir(&self.path).map_err(|error| LockError::opening(&self.path, error))?;
        }
        let mut wait = Wait::new(patience);
        let file = wait.lock_in_turn(place, &self.line).await?;
        wait.over();
        Ok(file)
    }

    /// Takes the whole host for something other than a job, such as measuring its peaks. `label` describes it to other
    /// processes. Blocks while others hold the host, ignoring signals. Calls `on_wait` when a wait begins, and again if
    /// the holder changes. Not for asynchronous code.
    ///
    /// # Errors
    /// [`LockError::File`].
    pub fn hold_host(&self, label: &str, on_wait: impl FnMut(&Waiting)) -> Result<DeviceLock, LockError> {
        let wrong = |source| LockError::File { path: self.path.clone(), source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(wrong)?;
        let mut observer = OnWait(on_wait);
        let mut patience = Patience { no_wait: false, signals: None, observer: &mut observer };
        if let Some(tickets) = &self.tickets {
            let ticket = runtime.block_on(tickets.take(label, &mut patience))?;
            return Ok(DeviceLock { files: Vec::new(), ticket: Some(ticket) });
        }
        let file = runtime.block_on(self.lock_host(Mode::Exclusive, label, &mut patience))?;
        let _ = Holder::new(label, Path::new("-")).save(&file);
        Ok(DeviceLock { files: vec![file], ticket: None })
    }

    /// The labels of the jobs that hold devices of this host other than `own`, sorted.
    pub fn others(&self, own: &PhysicalDevice) -> Vec<String> {
        let own = format!("{}.lock", own.file_name());
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with("device-") || !name.ends_with(".lock") || name == own {
                continue;
            }
            let Ok(file) = open_lock(&entry.path()) else { continue };
            if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
                found.push(Holder::of(&file).map_or_else(|| "unknown".to_owned(), |holder| holder.job));
            }
        }
        found.sort();
        found
    }
}

/// Creates the directory of locks at `path` if it is missing. A link to a directory is accepted if this user or an
/// administrator created it.
fn make_lock_dir(path: &Path) -> Result<(), OpenError> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() && ![0, geteuid().as_raw()].contains(&there.uid()) => {
            return Err(Foreign::Link.into());
        }
        Ok(_) => return Ok(fs::create_dir_all(path)?),
        Err(_) => {}
    }
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return make_lock_dir(path),
        other => other?,
    }
    // Like /tmp: all users may add files, but only delete their own. The umask prevented that so far. The new directory
    // is opened without following links, because it could have been replaced meanwhile.
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let made = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    Ok(made.set_permissions(Permissions::from_mode(0o1777))?)
}

/// Calls a function at each wait.
struct OnWait<F>(F);

impl<F: FnMut(&Waiting)> Observer for OnWait<F> {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Waiting(waiting) = event {
            self.0(waiting);
        }
    }
}

/// Whether another process measures on this host now, so that a job for the whole host would wait. Always `false` where
/// locks do not work.
pub fn is_host_held() -> bool {
    let Ok(file) = open_lock(&lock_dir_path().join("host.lock")) else { return false };
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// The directory of locks that the environment sets, or the default. A relative one is below the current directory.
pub fn lock_dir_path() -> PathBuf {
    std::env::var_os(LOCK_DIR_VARIABLE).map_or_else(|| "/tmp/orchestrate-locks".into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::super::file::{Access, is_same_file, open_or_make_lock};
    use super::super::job::{JobLock, sign};
    use super::*;
    use crate::job::{Device, Key};
    use crate::stop::StopSignals;
    use crate::store::Store;
    use std::io::Write;
    use std::time::Duration;

    /// Panics on a wait: these tests must not wait.
    struct Listener;

    impl Observer for Listener {
        fn event(&mut self, event: &Event<'_>) {
            assert!(!matches!(event, Event::Waiting(_)), "{event:?}");
        }
    }

    fn job(device: Device) -> Job {
        let env = format!("env_{}", device.backend());
        Job::new(Key { env: env.as_str().into(), device, ..Key::example() })
    }

    fn open_shared(path: &Path) -> File {
        open_or_make_lock(path, Access::AllUsers).unwrap()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    async fn take(locks: &LockDir, device: Device, share: Share) -> Result<DeviceLock, LockError> {
        let mut signals = StopSignals::listen().unwrap();
        let mut observer = Listener;
        let mut patience = Patience { no_wait: true, signals: Some(&mut signals), observer: &mut observer };
        locks.lock(&job(device), &PhysicalDevice::of(device), share, &mut patience).await
    }

    #[test]
    fn a_host_is_for_one_job_or_for_one_job_per_device() {
        let directory = tempfile::tempdir().unwrap();
        let locks = LockDir::create(&directory.path().join("locks")).unwrap();
        let (one, two) = (Device::Cuda(0), Device::Cuda(1));
        block_on(async {
            let first = take(&locks, one, Share::Device).await.unwrap();
            let second = take(&locks, two, Share::Device).await.unwrap();
            assert!(matches!(take(&locks, one, Share::Device).await, Err(LockError::Busy(_))));
            assert!(matches!(take(&locks, one, Share::Nothing).await, Err(LockError::Busy(_))));
            drop((first, second));
            let alone = take(&locks, one, Share::Nothing).await.unwrap();
            assert!(matches!(take(&locks, two, Share::Device).await, Err(LockError::Busy(_))));
            drop(alone);
            take(&locks, two, Share::Device).await.unwrap();
        });
    }

    #[test]
    fn hold_host_excludes_jobs() {
        let directory = tempfile::tempdir().unwrap();
        let locks = LockDir::create(&directory.path().join("locks")).unwrap();
        let whole = locks.hold_host("peaks", |_| panic!("the host is free")).unwrap();
        let busy = block_on(take(&locks, Device::Cpu, Share::Device));
        assert!(matches!(busy, Err(LockError::Busy(_))));
        drop(whole);
        block_on(take(&locks, Device::Cpu, Share::Device)).unwrap();
    }

    /// A directory of locks with short waits, and the turn of its host, which is taken.
    struct Overdue {
        _directory: tempfile::TempDir,
        locks: LockDir,
        turn: File,
    }

    fn overdue() -> Overdue {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("locks");
        let locks = LockDir { line: Line::new(Duration::from_millis(1)), ..LockDir::create(&path).unwrap() };
        let turn = open_shared(&path.join("host.turn"));
        turn.lock().unwrap();
        Overdue { _directory: directory, locks, turn }
    }

    #[test]
    fn an_unused_turn_is_ignored() {
        let Overdue { _directory, locks, turn } = overdue();
        let mut waits = Vec::new();
        let held = locks.hold_host("peaks", |waiting| waits.push(waiting.clone())).unwrap();
        let ourselves = std::process::id().to_string();
        for Waiting { what, holder } in &waits {
            assert_eq!(what, "the turn on this host");
            if cfg!(target_os = "linux") {
                let mut words = holder.as_deref().unwrap().split(|letter: char| !letter.is_ascii_digit());
                assert!(words.any(|word| word == ourselves), "{holder:?}");
            }
        }
        assert!(!waits.is_empty());
        let busy = block_on(take(&locks, Device::Cpu, Share::Nothing));
        assert!(matches!(busy, Err(LockError::Busy(_))), "it is held nevertheless");
        drop(held);
        // The thread that waited for the turn still waits, so the next wait needs no thread.
        assert!(locks.line.has_waiting_thread());
        drop(locks.hold_host("peaks", |_| ()).unwrap());
        drop(turn);
        drop(locks.hold_host("peaks", |_| ()).unwrap());
    }

    #[test]
    fn without_waiting_a_free_lock_with_a_taken_turn_is_busy() {
        let Overdue { _directory, locks, turn } = overdue();
        let next = r#"{"pid":1,"job":"cpu_m_fp32_bs4_run1","store":"-"}"#;
        (&turn).write_all(next.as_bytes()).unwrap();
        let busy = block_on(take(&locks, Device::Cpu, Share::Nothing)).unwrap_err();
        let text = busy.to_string();
        let holder = text.strip_prefix("the turn on this host is busy: ").unwrap();
        // If the kernel reports the holder, the content of the file is ignored.
        let words = "orchestrate (pid 1), which is next to run cpu_m_fp32_bs4_run1";
        let is_from_kernel = holder.contains(&std::process::id().to_string());
        assert!(holder == words || is_from_kernel, "{text}");
    }

    /// Releases the host as soon as a process waits for it, and notes whether the turn is taken then.
    struct Holding {
        held: Option<DeviceLock>,
        turn: PathBuf,
        has_turn: Option<bool>,
    }

    impl Observer for Holding {
        fn event(&mut self, event: &Event<'_>) {
            if matches!(event, Event::Waiting(_)) {
                let turn = open_shared(&self.turn);
                self.has_turn = Some(matches!(turn.try_lock(), Err(TryLockError::WouldBlock)));
                self.held = None;
            }
        }
    }

    #[test]
    fn a_waiting_process_has_the_turn_and_is_not_overtaken() {
        let directory = tempfile::tempdir().unwrap();
        let locks = LockDir::create(&directory.path().join("locks")).unwrap();
        let turn = directory.path().join("locks").join("host.turn");
        block_on(async {
            let held = Some(take(&locks, Device::Cpu, Share::Nothing).await.unwrap());
            let mut signals = StopSignals::listen().unwrap();
            let mut observer = Holding { held, turn: turn.clone(), has_turn: None };
            let mut patience =
                Patience { no_wait: false, signals: Some(&mut signals), observer: &mut observer };
            let cpu = PhysicalDevice::of(Device::Cpu);
            drop(locks.lock(&job(Device::Cpu), &cpu, Share::Nothing, &mut patience).await.unwrap());
            assert_eq!(observer.has_turn, Some(true));
            let turn = open_shared(&turn);
            turn.lock().unwrap();
            assert!(matches!(take(&locks, Device::Cpu, Share::Nothing).await, Err(LockError::Busy(_))));
            drop(turn);
            take(&locks, Device::Cpu, Share::Nothing).await.unwrap();
        });
    }

    #[test]
    fn lists_the_jobs_on_other_devices() {
        let directory = tempfile::tempdir().unwrap();
        let locks = LockDir::create(&directory.path().join("locks")).unwrap();
        let store = Store::at(&directory.path().join("runs")).unwrap();
        let (one, two) = (Device::Cuda(0), Device::Cpu);
        block_on(async {
            let mut signals = StopSignals::listen().unwrap();
            let mut observer = Listener;
            let mut patience =
                Patience { no_wait: true, signals: Some(&mut signals), observer: &mut observer };
            let job = job(one);
            let (one, two) = (PhysicalDevice::of(one), PhysicalDevice::of(two));
            let job_lock = JobLock::lock(&job, store.job_dir(&job), &mut patience).await.unwrap();
            let device_lock = locks.lock(&job, &one, Share::Device, &mut patience).await.unwrap();
            sign(&job, store.root(), &job_lock, Some(&device_lock));
            assert_eq!(locks.others(&two), [job.label()]);
            assert_eq!(locks.others(&one), Vec::<String>::new());
            let turn = open_shared(&directory.path().join("locks").join("device-mps.turn"));
            turn.lock().unwrap();
            assert_eq!(locks.others(&two), [job.label()], "a waiting job is not listed");
            drop(device_lock);
            assert_eq!(locks.others(&two), Vec::<String>::new());
        });
    }

    #[test]
    fn a_deleted_lock_file_is_created_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("host.lock");
        let old = open_shared(&path);
        assert!(is_same_file(&old, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_same_file(&old, &path));
        let new = open_shared(&path);
        assert!(is_same_file(&new, &path) && !is_same_file(&old, &path));
        assert_eq!(new.metadata().unwrap().permissions().mode() & 0o777, 0o666);
    }
}
