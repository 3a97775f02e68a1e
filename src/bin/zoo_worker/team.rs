//! Threads that do the same work at the same time.

use std::num::NonZeroUsize;
use std::thread;

/// The threads that the process may use.
pub(crate) fn size() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Runs `work` once for each of `places`, each in its own thread, and waits for all.
pub(crate) fn run<T: Send>(places: &mut [T], work: impl Fn(&mut T) + Sync) {
    thread::scope(|scope| {
        let work = &work;
        for place in places {
            scope.spawn(move || work(place));
        }
    });
}
