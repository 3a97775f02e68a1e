//! Leftovers of checks that were killed: their temporary directories, and workers that still run. They cannot be
//! adopted, because the result of a check exists only in its output.
#![expect(clippy::disallowed_methods, reason = "temporary directories are found by listing one")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::getuid;

use super::scratch::{NAME, PREFIX, watch};
use crate::cli::output::{say, warn};
use crate::cli::stop::SilentObserver;
use crate::cli::{Exit, Failure, Global};
use crate::lock::{OwnerLock, Owners};
use crate::run::stop::{end_orphan, is_running};
use crate::store::Store;

/// Removes the leftovers of dead checks in the directory of temporary files, and ends their workers. Directories that
/// are in use, or only look like those of a check, are kept. Problems are only warned of, so this check can continue.
pub(super) fn remove(global: &Global) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for path in directories(&std::env::temp_dir()) {
        let Some(_lock) = take(&path) else { continue };
        let ended = runtime.block_on(end_workers(&path));
        let shown = path.display();
        match ended.and_then(|ended| Ok((ended, fs::remove_dir_all(&path)?))) {
            Ok((ended, ())) if !global.quiet => {
                let worker = if ended { "; its worker was ended, and" } else { ":" };
                say(&format!("a check that was killed left {shown}{worker} the directory is removed"));
            }
            Ok(_) => {}
            Err(failure) => warn(&format!("a check that was killed left {shown}: {}", failure.error)),
        }
    }
    // A thread that still waits for a lock must not delay the check.
    runtime.shutdown_background();
    Ok(())
}

/// The directories of checks in `parent` that this user owns and that no other user can access.
fn directories(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let is_ours = |path: &PathBuf| {
        let data = fs::symlink_metadata(path);
        data.is_ok_and(|data| data.is_dir() && data.uid() == getuid().as_raw() && data.mode() & 0o077 == 0)
    };
    named.map(|entry| entry.path()).filter(is_ours).collect()
}

/// Locks the directory at `path`, if its owner is dead and no other process uses it.
fn take(path: &Path) -> Option<OwnerLock> {
    let watch = watch(path);
    // Without a lock, its owner is on another host, about to make one, or about to remove the directory.
    let mut entries = fs::read_dir(&watch).ok()?.flatten();
    let is_lock = |path: &Path| path.extension().is_some_and(|ending| ending == "lock");
    entries.find(|entry| is_lock(&entry.path()))?;
    let lock = OwnerLock::take(&watch, NAME).ok()?;
    let store = Store::at(path).ok()?;
    let is_free = lock.owners().others().is_empty() && Owners::of(store.running()).others().is_empty();
    is_free.then_some(lock)
}

/// Ends the workers of the store at `path`. Returns whether there were any.
async fn end_workers(path: &Path) -> Result<bool, Failure> {
    let store = Store::at(path).map_err(Failure::store)?;
    let mut open = store.open_attempts(false).map_err(Failure::store)?;
    open.retain(|open| is_running(open, &store));
    for open in &open {
        if !end_orphan(open, &store, &mut SilentObserver).await? {
            let text = format!("the worker of {} does not end", open.job.label());
            return Err(Failure::new(Exit::Unexpected, text));
        }
    }
    Ok(!open.is_empty())
}
