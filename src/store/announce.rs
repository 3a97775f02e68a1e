//! Announces changes to processes that watch a store.
#![expect(clippy::disallowed_methods, reason = "the time of a directory is the announcement")]

use std::fs::File;
use std::io;
use std::time::SystemTime;

use crate::files::JobDir;

/// The directory of the locks of all `orchestrate` processes that run on a store.
pub(super) const RUNNING: &str = ".running";

/// Announces that the job in `dir` has begun or ended: sets the time of `.running/`. Otherwise, a watcher would have to
/// read every job's directory to see new attempts and records.
pub(super) fn announce(dir: &JobDir) {
    let running = dir.path().with_file_name(RUNNING);
    let set = |file: File| -> io::Result<()> { file.set_modified(SystemTime::now()) };
    // Watchers read all directories from time to time anyway.
    let _ = File::open(running).and_then(set);
}
