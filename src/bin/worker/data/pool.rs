//! Threads that make numbered things ahead of need. They are consumed in the order of their numbers.
//!
//! A thread takes the next number, makes the thing and puts it on the shelf. The consumer takes the lowest number from
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
    /// A number may be taken, or the pool is closed.
    room: Condvar,
    /// Something was put on the shelf.
    made: Condvar,
    /// Set once: makers look at it between two pieces of work.
    closed: AtomicBool,
}

struct State<T> {
    /// The next number to make.
    next: u64,
    /// The next number to hand out.
    wanted: u64,
    ahead: u64,
    shelf: BTreeMap<u64, Result<T, DataError>>,
    /// Given back by the consumer, to be used again.
    spare: Vec<T>,
}

/// Makes the thing of a number, out of a used one if there is one. It may return early, with anything, once the flag is
/// set: nobody will look at it.
pub(super) trait Make<T>:
    FnMut(u64, Option<T>, &AtomicBool) -> Result<T, DataError> + Send + 'static
{
}
impl<T, F: FnMut(u64, Option<T>, &AtomicBool) -> Result<T, DataError> + Send + 'static> Make<T> for F {}

impl<T: Send + 'static> Pool<T> {
    /// Starts one thread for each maker.
    ///
    /// # Errors
    /// The operating system gives no thread; those already started are ended.
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

    /// Threads that make.
    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Numbers that may be taken beyond what was consumed.
    pub(super) fn ahead(&self) -> usize {
        usize::try_from(self.shared.lock().ahead).unwrap_or(usize::MAX)
    }

    /// Waits for the next thing.
    ///
    /// # Errors
    /// What its maker returned, or its panic; the thing after it can still be had.
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

    /// Gives a thing back, so that its memory is used again.
    pub(super) fn recycle(&mut self, thing: T) {
        self.shared.lock().spare.push(thing);
    }
}

impl<T> Shared<T> {
    /// Nothing panics while it holds the lock, so a poisoned state is a sound one.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a number may be taken; `None` once the pool is closed.
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
        // The maker's memory is overwritten from its start for the next number, so a panic leaves nothing half-done.
        let made = catch_unwind(AssertUnwindSafe(|| maker(number, spare, &shared.closed)))
            .unwrap_or_else(|panic| Err(DataError::Panicked(message(&*panic))));
        shared.lock().shelf.insert(number, made);
        shared.made.notify_one();
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        {
            // Under the lock, so that no thread is between its look at the flag and its wait.
            let _state = self.shared.lock();
            self.shared.closed.store(true, Ordering::Relaxed);
        }
        self.shared.room.notify_all();
        for thread in self.threads.drain(..) {
            // A thread ends by panic only through a bug in `work`; there is nobody to tell while dropping.
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
        // Even numbers wait until the odd number after them has been made by the other thread.
        let (made, wait) = mpsc::channel::<u64>();
        let wait = Arc::new(Mutex::new(wait));
        let make = move |number: u64, _: Option<u64>, closed: &AtomicBool| {
            if number.is_multiple_of(2) {
                let wait = wait.lock().unwrap();
                // Once the pool is closed, nobody may make the number waited for.
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
            // All six that are allowed are made without anything being consumed; a seventh is never begun.
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
        assert_eq!(Arc::strong_count(&alive), 1, "no thread is left that holds a maker");
    }

    #[test]
    fn what_is_given_back_is_used_again() {
        let make = |number: u64, spare: Option<u64>, _: &AtomicBool| Ok(spare.unwrap_or(1000 + number));
        let mut pool = Pool::start(makers(1, make), 1).unwrap();
        let mut found = Vec::new();
        for _ in 0..6 {
            let thing = pool.next().unwrap();
            found.push(thing);
            pool.recycle(thing);
        }
        // The one thread may begin the next before the one in use comes back, but never needs a third.
        found.sort_unstable();
        found.dedup();
        assert!(found.len() <= 2, "{found:?}");
    }
}
