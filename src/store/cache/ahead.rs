//! Takes the stamps of directories on another thread, ahead of the reader. When everything is cached, taking stamps is
//! a third of the time of a reading.

use std::sync::mpsc::sync_channel;
use std::thread::{Builder, Scope};

use super::stamps::Stamps;
use crate::files::JobDir;

/// Number of stamps per message.
const BATCH: usize = 256;

/// The thread is at most this many batches ahead.
const BATCHES: usize = 16;

/// The stamps of `dirs` in their order, taken ahead by another thread. If no thread can be started, they are taken on
/// demand.
pub(in crate::store) fn stamps_ahead<'scope>(
    dirs: &'scope [JobDir],
    scope: &'scope Scope<'scope, '_>,
) -> Box<dyn Iterator<Item = Option<Stamps>> + Send + 'scope> {
    let (sender, batches) = sync_channel(BATCHES);
    let take = move || {
        for batch in dirs.chunks(BATCH) {
            let stamps: Vec<Option<Stamps>> = batch.iter().map(Stamps::of).collect();
            if sender.send(stamps).is_err() {
                // The reader has stopped.
                return;
            }
        }
    };
    match Builder::new().name("stamps".to_owned()).spawn_scoped(scope, take) {
        Ok(_) => Box::new(batches.into_iter().flatten()),
        Err(_) => Box::new(dirs.iter().map(Stamps::of)),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use super::*;

    #[test]
    fn every_directory_gets_its_own_stamps_in_order() {
        let root = tempfile::tempdir().unwrap();
        let dirs: Vec<JobDir> = (0..BATCH + 2)
            .map(|number| {
                let dir = JobDir::at(root.path().join(format!("{number:04}")));
                // Every third directory does not exist, so its stamps are `None`.
                if number % 3 > 0 {
                    std::fs::create_dir_all(dir.attempts_dir()).unwrap();
                    std::fs::write(dir.record(), "x".repeat(number)).unwrap();
                }
                dir
            })
            .collect();
        let one_by_one: Vec<Option<Stamps>> = dirs.iter().map(Stamps::of).collect();
        let ahead: Vec<Option<Stamps>> = std::thread::scope(|scope| stamps_ahead(&dirs, scope).collect());
        assert_eq!(ahead, one_by_one);
        // A reader that stops early does not wait for the rest.
        let first = std::thread::scope(|scope| stamps_ahead(&dirs, scope).nth(1));
        assert_eq!(first, Some(one_by_one[1]));
    }
}
