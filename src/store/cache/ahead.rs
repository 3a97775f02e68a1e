//! Takes the stamps of directories on another processor, ahead of whoever reads them: a third of the time of a reading
//! in which everything is cached.

use std::sync::mpsc::sync_channel;
use std::thread::{Builder, Scope};

use super::stamps::Stamps;
use crate::files::JobDir;

/// So many stamps are handed over at once.
const BATCH: usize = 256;

/// The thread is so many batches ahead at most.
const BATCHES: usize = 16;

/// The stamps of `dirs` in their order, each taken before it is asked for. Where no thread can be had, they are taken
/// when they are asked for.
pub(in crate::store) fn stamps_ahead<'scope>(
    dirs: &'scope [JobDir],
    scope: &'scope Scope<'scope, '_>,
) -> Box<dyn Iterator<Item = Option<Stamps>> + Send + 'scope> {
    let (sender, batches) = sync_channel(BATCHES);
    let take = move || {
        for batch in dirs.chunks(BATCH) {
            let stamps: Vec<Option<Stamps>> = batch.iter().map(Stamps::of).collect();
            if sender.send(stamps).is_err() {
                // Nobody wants the rest.
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
                // Every third one is none, so its stamps are `None`.
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
        // Whoever stops asking does not wait for the rest.
        let first = std::thread::scope(|scope| stamps_ahead(&dirs, scope).nth(1));
        assert_eq!(first, Some(one_by_one[1]));
    }
}
