//! Tells those who watch a store that something has changed in it.
#![expect(clippy::disallowed_methods, reason = "the time of a directory is the announcement")]

use std::fs::File;
use std::io;
use std::time::SystemTime;

use crate::files::JobDir;

/// The name of the directory of the locks of those who run on a store.
pub(super) const RUNNING: &str = ".running";

/// Tells whoever watches the store that the job in `dir` has begun or ended: sets the time of `.running/`. New attempts
/// and records in the directory of a job show nowhere else without a look at every job.
pub(super) fn announce(dir: &JobDir) {
    let running = dir.path().with_file_name(RUNNING);
    let set = |file: File| -> io::Result<()> { file.set_modified(SystemTime::now()) };
    // Those who watch look at everything now and then anyway.
    let _ = File::open(running).and_then(set);
}
