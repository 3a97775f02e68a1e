//! Runs work in several threads. Any room may call it; it uses no other room, and never keeps a thread for later.
//!
//! Results do not depend on the threads: each part is computed from its number, and results are in the order of these
//! numbers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

/// The most threads, independent of the number of processors. More threads help with many processors or remote files,
/// but the allocator keeps memory for each of them. With two processors, a large report took a twentieth longer with
/// eight threads than with four.
const THREADS: usize = 4;

/// The results of `work` for each number below `count`, in order.
///
/// # Panics
/// If `work` does.
pub fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let some = || -> Vec<(usize, T)> {
        let mine = std::iter::from_fn(|| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            (number < count).then(|| (number, work(number)))
        });
        mine.collect()
    };
    let mut done = scope(|scope| {
        let others: Vec<_> = (1..THREADS.min(count)).map_while(|_| thread(scope, some)).collect();
        let mut done = some();
        done.extend(others.into_iter().flat_map(joined));
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Both results. The first one is computed in another thread.
///
/// # Panics
/// If one of them does.
pub fn both<A: Send, B>(aside: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let aside = Mutex::new(Some(aside));
    let once = || {
        let work = aside.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.map(|work| work())
    };
    let (aside, here) = scope(|scope| {
        let other = thread(scope, once);
        let here = here();
        (other.map_or_else(once, joined), here)
    });
    (aside.expect("only one thread takes the work"), here)
}

/// Starts a thread that does `work`; `None` if it cannot be started.
fn thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).ok()
}

/// The result of a thread. Propagates its panic.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for count in [0, 1, 2, 7, 100] {
            assert_eq!(
                each(count, |number| number * number),
                (0..count).map(|it| it * it).collect::<Vec<_>>()
            );
        }
        assert_eq!(both(|| 1, || 'b'), (1, 'b'));
    }

    #[test]
    #[should_panic(expected = "the third")]
    fn a_panic_reaches_the_caller() {
        each(8, |number| assert_ne!(number, 3, "the third"));
    }
}
