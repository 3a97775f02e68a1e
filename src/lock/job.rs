//! The right to run one job and to write in its directory.
#![expect(clippy::disallowed_methods, reason = "locks are files")]

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::event::Waiting;
use crate::files::JobDir;
use crate::job::Job;

use super::device::DeviceLock;
use super::file::{Access, OpenError, is_same_file, open_lock, open_or_make_lock};
use super::holder::Holder;
use super::patience::{LockError, Patience};
use super::wait::{Mode, Target, Wait, waiting_for};

/// The right to run one job and to write in its directory.
#[derive(Debug)]
pub struct JobLock {
    file: File,
    dir: JobDir,
}

impl JobLock {
    /// Takes the lock of `job`, and creates its directory if it is missing.
    ///
    /// # Errors
    /// [`LockError`].
    pub async fn lock(job: &Job, dir: JobDir, patience: &mut Patience<'_>) -> Result<JobLock, LockError> {
        let target = Target {
            path: &dir.lock(),
            // Created at every try, because the directory can be deleted during the wait.
            open: &|| make_lock(&dir),
            mode: Mode::Exclusive,
            describe: &|file| waiting_for(file, &|holder| job_waiting(job, holder)),
        };
        let mut wait = Wait::new(patience);
        let file = wait.lock(&target).await?;
        wait.over();
        Ok(JobLock { file, dir })
    }

    /// Takes the lock of `job` if it is free, for short work in its directory, which is created if it is missing.
    ///
    /// # Errors
    /// [`LockError::Busy`], [`LockError::File`].
    pub fn try_lock(job: &Job, dir: JobDir) -> Result<JobLock, LockError> {
        let path = dir.lock();
        let wrong = |source| LockError::File { path: path.clone(), source };
        loop {
            let file = make_lock(&dir).map_err(|error| LockError::opening(&path, error))?;
            match Mode::Exclusive.try_lock(&file) {
                Ok(()) if is_same_file(&file, &path) => return Ok(JobLock { file, dir }),
                // It was deleted between opening and locking it.
                Ok(()) => {}
                Err(TryLockError::Error(source)) => return Err(wrong(source)),
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Busy(job_waiting(job, Holder::of(&file).as_ref())));
                }
            }
        }
    }

    /// Takes the lock again if its file was deleted while it was held, because a deleted lock does not exclude other
    /// processes. Returns whether it was deleted.
    ///
    /// # Errors
    /// [`LockError::File`] if it cannot be created again, or if another `orchestrate` did so and now runs the job.
    pub fn restore(&mut self) -> Result<bool, LockError> {
        let path = self.dir.lock();
        if is_same_file(&self.file, &path) {
            return Ok(false);
        }
        let wrong = |source| LockError::File { path: path.clone(), source };
        let file = make_lock(&self.dir).map_err(|error| LockError::opening(&path, error))?;
        Mode::Exclusive.try_lock(&file).map_err(|error| match error {
            TryLockError::Error(source) => wrong(source),
            TryLockError::WouldBlock => {
                wrong(io::Error::other("it was deleted, and another orchestrate now runs the job"))
            }
        })?;
        self.file = file;
        Ok(true)
    }

    /// The directory of the locked job.
    pub fn dir(&self) -> &JobDir {
        &self.dir
    }
}

/// Opens the lock file of a job, and creates it and the directory if they are missing.
fn make_lock(dir: &JobDir) -> Result<File, OpenError> {
    fs::create_dir_all(dir.path())?;
    open_or_make_lock(&dir.lock(), Access::Umask)
}

fn job_waiting(job: &Job, holder: Option<&Holder>) -> Waiting {
    match holder {
        Some(holder) if !holder.is_alive() => Waiting {
            what: format!(
                "the worker of {}, started by an orchestrate that died (pid {})",
                job.label(),
                holder.pid
            ),
            holder: None,
        },
        other => Waiting { what: job.label(), holder: other.map(Holder::describe) },
    }
}

/// Whether the `orchestrate` that last took the lock of the job in `dir` is still running.
pub fn is_owner_alive(dir: &JobDir) -> bool {
    open_lock(&dir.lock()).ok().and_then(|file| Holder::load(&file)).is_some_and(|holder| holder.is_alive())
}

/// Writes the holder to the lock files. This only informs waiting processes, so errors are ignored.
pub fn sign(job: &Job, store: &Path, job_lock: &JobLock, device_lock: Option<&DeviceLock>) {
    let holder = Holder::new(&job.label(), store);
    let _ = holder.save(&job_lock.file);
    for file in device_lock.into_iter().flat_map(|lock| &lock.files) {
        let _ = holder.save(file);
    }
}

/// The open files of the two locks, for the child tree to inherit.
pub fn inherited<'a>(
    job_lock: &'a JobLock,
    device_lock: &'a DeviceLock,
) -> impl Iterator<Item = std::os::fd::BorrowedFd<'a>> {
    std::iter::once(&job_lock.file).chain(&device_lock.files).map(AsFd::as_fd)
}
