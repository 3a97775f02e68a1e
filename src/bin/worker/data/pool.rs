//! Threads that make numbered things in advance. The things are consumed in the order of their numbers.
//!
//! A thread takes the next number, makes the thing and puts it on the shelf. The consumer takes the next number from
//! the shelf, and waits for it if necessary. Threads are at most `ahead` numbers ahead of the consumer.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::DataError;

/// The threads and the shelf. Dropping it ends the threads and waits for them.
pub(super) struct Pool<T> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// A number became available, or the pool was closed.
    room: Condvar,
    /// Something was put on the shelf.
    made: Condvar,
    /// Set once. Makers check it between two pieces of work.
    closed: AtomicBool,
}

struct State<T> {
    /// The next number to make.
    next: u64,
    /// The next number to hand out.
    wanted: u64,
    ahead: u64,
    shelf: BTreeMap<u64, Result<T, DataError>>,
    /// Returned by the consumer, for reuse.
    spare: Vec<T>,
}

/// Makes the item with a number, from a used one if there is one. Once the flag is set, it can return early with any
/// result, because it will not be used.
pub(super) trait Make<T>:
    FnMut(u64, Option<T>, &AtomicBool) -> Result<T, DataError> + Send + 'static
{
}
impl<T, F: FnMut(u64, Option<T>, &AtomicBool) -> Result<T, DataError> + Send + 'static> Make<T> for F {}

impl<T: Send + 'static> Pool<T> {
    /// Starts one thread for each maker.
    ///
    /// # Errors
    /// The operating system refused a thread. Those already started are stopped.
    pub(super) fn start(makers: Vec<impl Make<T>>, ahead: usize) -> Result<Pool<T>, DataError> {
        let state =
            State { next: 0, wanted: 0, ahead: ahead as u64, shelf: BTreeMap::new(), spare: Vec::new() };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            room: Condvar::new(),
            made: Condvar::new(),
            closed: AtomicBool::new(false),
        });
        let mut pool = Pool { shared, threads: Vec::new() };
        for (number, maker) in makers.into_iter().enumerate() {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new()
                .name(format!("loader-{number}"))
                .spawn(move || work(&shared, maker))
                .map_err(DataError::Spawn)?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// The number of threads.
    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// How far the threads can be ahead of the consumer.
    pub(super) fn ahead(&self) -> usize {
        usize::try_from(self.shared.lock().ahead).unwrap_or(usize::MAX)
    }

    /// Waits for the next thing.
    ///
    /// # Errors
    /// The error of its maker, or its panic. The next thing is still available.
    pub(super) fn next(&mut self) -> Result<T, DataError> {
        let mut state = self.shared.lock();
        loop {
            let wanted = state.wanted;
            if let Some(thing) = state.shelf.remove(&wanted) {
                state.wanted += 1;
                drop(state);
                self.shared.room.notify_one();
                return thing;
            }
            state = self.shared.made.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes a thing back, to use its memory again.
    pub(super) fn recycle(&mut self, thing: T) {
        self.shared.lock().spare.push(thing);
    }
}

impl<T> Shared<T> {
    /// No code panics while it holds the lock, so a poisoned state is still valid.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a number is available; `None` once the pool is closed.
    fn take_number(&self) -> Option<(u64, Option<T>)> {
        let mut state = self.lock();
        loop {
            if self.closed.load(Ordering::Relaxed) {
                return None;
            }
            if state.next < state.wanted + state.ahead {
                state.next += 1;
                return Some((state.next - 1, state.spare.pop()));
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn work<T>(shared: &Shared<T>, mut maker: impl Make<T>) {
    while let Some((number, spare)) = shared.take_number() {
        // For the next number, the maker overwrites its memory from the start. So a panic leaves no trace.
        let made = catch_unwind(AssertUnwindSafe(|| maker(number, spare, &shared.closed)))
            .unwrap_or_else(|panic| Err(DataError::Panicked(message(&*panic))));
        shared.lock().shelf.insert(number, made);
        shared.made.notify_one();
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        {
            // Under the lock, so that no thread is between its check of the flag and its wait.
            let _state = self.shared.lock();
            self.shared.closed.store(true, Ordering::Relaxed);
        }
        self.shared.room.notify_all();
        for thread in self.threads.drain(..) {
            // A thread only panics because of a bug in `work`, and a drop cannot report it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn makers<F: Make<u64> + Clone>(count: usize, make: F) -> Vec<F> {
        vec![make; count]
    }

    #[test]
    fn things_come_in_order_whatever_order_they_are_made_in() {
        // Even numbers wait until the other thread has made the next odd number.
        let (made, wait) = mpsc::channel::<u64>();
        let wait = Arc::new(Mutex::new(wait));
        let make = move |number: u64, _: Option<u64>, closed: &AtomicBool| {
            if number.is_multiple_of(2) {
                let wait = wait.lock().unwrap();
                // Once the pool is closed, the expected number might never be made.
                while !closed.load(Ordering::Relaxed) {
                    if let Ok(after) = wait.try_recv() {
                        assert_eq!(after, number + 1);
                        break;
                    }
                    std::thread::yield_now();
                }
            } else {
                made.send(number).unwrap();
            }
            Ok(number * 10)
        };
        let mut pool = Pool::start(makers(2, make), 2).unwrap();
        for number in 0..100 {
            assert_eq!(pool.next().unwrap(), number * 10);
        }
    }

    #[test]
    fn no_more_is_made_ahead_than_allowed() {
        let make = |number: u64, _: Option<u64>, _: &AtomicBool| Ok(number);
        let mut pool = Pool::start(makers(3, make), 6).unwrap();
        for consumed in 0..20u64 {
            // The six allowed things are made before anything is consumed. The seventh is never begun.
            let mut state = pool.shared.lock();
            while state.shelf.len() < 6 {
                state = pool.shared.made.wait(state).unwrap();
            }
            assert_eq!((state.next, state.wanted), (consumed + 6, consumed));
            drop(state);
            assert_eq!(pool.next().unwrap(), consumed);
        }
    }

    #[test]
    fn errors_and_panics_reach_the_consumer_in_their_place() {
        let make = |number: u64, _: Option<u64>, _: &AtomicBool| match number {
            2 => Err(DataError::Panicked("an error".into())),
            4 => panic!("number {number}"),
            _ => Ok(number),
        };
        let mut pool = Pool::start(makers(2, make), 4).unwrap();
        let found: Vec<String> = (0..6)
            .map(|_| pool.next().map_or_else(|error| error.to_string(), |number| number.to_string()))
            .collect();
        let panicked = |what: &str| format!("a loader thread panicked: {what}");
        assert_eq!(found, ["0", "1", &panicked("an error"), "3", &panicked("number 4"), "5"]);
    }

    #[test]
    fn dropping_ends_makers_in_the_middle_of_their_work() {
        let alive = Arc::new(());
        let witness = Arc::clone(&alive);
        let (started, starts) = mpsc::channel();
        let make = move |number: u64, _: Option<u64>, closed: &AtomicBool| {
            let _witness = &witness;
            started.send(number).unwrap();
            while !closed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok(number)
        };
        let pool = Pool::start(makers(2, make), 4).unwrap();
        assert_eq!(starts.recv().unwrap() + starts.recv().unwrap(), 1);
        drop(pool);
        assert_eq!(Arc::strong_count(&alive), 1, "no thread with a maker is left");
    }

    #[test]
    fn recycled_buffers_are_reused() {
        let make = |number: u64, spare: Option<u64>, _: &AtomicBool| Ok(spare.unwrap_or(1000 + number));
        let mut pool = Pool::start(makers(1, make), 1).unwrap();
        let mut found = Vec::new();
        for _ in 0..6 {
            let thing = pool.next().unwrap();
            found.push(thing);
            pool.recycle(thing);
        }
        // The only thread can begin the next thing before the current one comes back, but it never needs a third.
        found.sort_unstable();
        found.dedup();
        assert!(found.len() <= 2, "{found:?}");
    }
}
