//! Threads that do the same work at the same time.

use std::num::NonZeroUsize;
use std::thread;

/// The threads that the process may use.
pub(crate) fn size() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Runs `work` once for each of `places`, each in its own thread, and waits for all. Returns their results.
pub(crate) fn run<T: Send, R: Send>(places: &mut [T], work: impl Fn(&mut T) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = places.iter_mut().map(|place| scope.spawn(move || work(place))).collect();
        started.into_iter().map(|thread| thread.join().expect("no work panics")).collect()
    })
}
