//! Threads that work at the same time, one for each processor that the measurement may use.

#![expect(clippy::disallowed_methods, reason = "a worker measures time")]

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::timing::Timings;

/// A round takes about this long. Threads start within some 100 µs of each other, which then does not matter.
const ROUND_S: f64 = 0.03;

/// Rounds of each kind of work at least, however long they take.
const LEAST_ROUNDS: usize = 3;

/// The most rounds: more would not improve the result.
const MOST_ROUNDS: usize = 200;

/// Rounds of each number of passes that is tried to find out how many make a round long enough.
const TRIALS: usize = 3;

/// The factor between successive numbers of passes that are tried.
const GROWTH: u32 = 16;

/// The work of one thread: its number, and how often to repeat.
pub(super) type Passes<'a> = &'a (dyn Fn(usize, u32) + Sync);

/// The threads of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Crew {
    threads: usize,
    /// The processor of each thread. Empty if there are fewer threads than processors: the system then chooses better,
    /// because it knows which of them share a core.
    processors: Vec<usize>,
}

impl Crew {
    /// As many threads as libtorch has.
    pub(super) fn of(threads: u32) -> Self {
        let threads = usize::try_from(threads).unwrap_or(usize::MAX).max(1);
        let processors = allowed_processors();
        Crew { threads, processors: if processors.len() == threads { processors } else { Vec::new() } }
    }

    /// The number of threads.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` on all threads simultaneously. Returns the seconds from the first start to the last end, so that
    /// threads that had to share a processor do not count twice.
    pub(super) fn run(&self, work: &(dyn Fn(usize) + Sync)) -> f64 {
        let barrier = Barrier::new(self.threads);
        let ends = |thread: usize| {
            self.pin(thread);
            barrier.wait();
            let start = Instant::now();
            work(thread);
            (start, Instant::now())
        };
        let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
            let running: Vec<_> = (0..self.threads).map(|thread| scope.spawn(move || ends(thread))).collect();
            running.into_iter().map(|it| it.join().expect("the work of a crew does not panic")).collect()
        });
        let first = times.iter().map(|(start, _)| *start).min();
        let last = times.iter().map(|(_, end)| *end).max();
        // There is at least one thread. If the clock did not move, the rate would be infinite.
        first.zip(last).map_or(f64::INFINITY, |(first, last)| (last - first).as_secs_f64().max(1e-9))
    }

    /// Times rounds of `work` for about `budget_s` seconds, with enough passes in each of them.
    pub(super) fn time(&self, budget_s: f64, work: Passes<'_>) -> Timings {
        let round = |passes: u32| self.run(&|thread| work(thread, passes)) / f64::from(passes);
        let calls = long_enough(&round);
        let mut seconds = Vec::new();
        let mut spent_s = 0.0;
        while seconds.len() < LEAST_ROUNDS || (seconds.len() < MOST_ROUNDS && spent_s < budget_s) {
            let pass_s = round(calls);
            spent_s += pass_s * f64::from(calls);
            seconds.push(pass_s);
        }
        Timings { calls, seconds }
    }

    #[cfg(target_os = "linux")]
    fn pin(&self, thread: usize) {
        let Some(processor) = self.processors.get(thread) else { return };
        let mut set = nix::sched::CpuSet::new();
        // A thread that cannot be pinned still measures.
        if set.set(*processor).is_ok() {
            let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn pin(&self, _thread: usize) {}
}

/// The number of passes that make a round long enough. `round` returns the seconds per pass.
fn long_enough(round: &dyn Fn(u32) -> f64) -> u32 {
    let mut passes = 1_u32;
    loop {
        // A thread that starts late makes a round long whatever it does, so the shortest of several counts.
        let pass_s = (0..TRIALS).map(|_| round(passes)).fold(f64::INFINITY, f64::min);
        if pass_s * f64::from(passes) >= 0.5 * ROUND_S || passes > u32::MAX / GROWTH {
            // The conversion stops at the largest number.
            return (ROUND_S / pass_s).ceil() as u32;
        }
        passes *= GROWTH;
    }
}

/// The numbers of the processors that this process may run on.
#[cfg(target_os = "linux")]
pub(super) fn allowed_processors() -> Vec<usize> {
    let Ok(set) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) else { return Vec::new() };
    (0..nix::sched::CpuSet::count()).filter(|number| set.is_set(*number).unwrap_or(false)).collect()
}

/// The numbers of the processors that this process may run on: the system does not report them.
#[cfg(not(target_os = "linux"))]
pub(super) fn allowed_processors() -> Vec<usize> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn every_thread_does_its_part_of_each_round() {
        let done = [0, 0, 0].map(AtomicU32::new);
        let crew = Crew { threads: 3, processors: Vec::new() };
        let seconds = crew.run(&|thread| {
            done[thread].fetch_add(1, Ordering::Relaxed);
        });
        assert!(seconds > 0.0);
        assert_eq!(done.map(AtomicU32::into_inner), [1, 1, 1]);
    }

    #[test]
    fn short_passes_share_a_round() {
        let round = |pass_s: f64| long_enough(&move |_| pass_s);
        assert_eq!([round(1.0), round(ROUND_S), round(ROUND_S / 3.0)], [1, 1, 3]);
        assert_eq!(round(1e-6), 30_000);
        assert!(round(1e-15) > 1 << 20, "a clock that does not move ends as well");
    }

    #[test]
    fn threads_are_pinned_only_if_they_fill_the_processors() {
        let all = allowed_processors();
        assert_eq!(Crew::of(u32::try_from(all.len()).unwrap()).processors, all);
        assert_eq!(Crew::of(u32::MAX).processors, [0; 0]);
        assert_eq!(Crew::of(0).threads(), 1);
    }
}
