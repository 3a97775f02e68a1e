//! Which products are timed and how often.
//!
//! The ceiling is the rate of the fastest product, whose size and layout are unknown in advance. So all layouts are
//! tried, from small sizes to large, until the next size would take too long. Layouts that fall behind are dropped. The
//! remaining time goes to the fastest few, in turn, so that a drift of the machine affects all of them.

use orchestrate::protocol::Layout;

use super::super::failure::WorkerError;
use super::timing::Timings;

/// Rows and columns of the matrices, small to large. The largest are for devices that do 10¹⁵ operations per second.
const SIZES: [u64; 11] = [256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384];

/// All matrices together take at most one part in this many of the free memory.
const SHARE_OF_FREE_MEMORY: u64 = 4;

/// The share of the time that is reserved for the finalists.
const FOR_FINALISTS: f64 = 0.3;

/// A layout below this share of the fastest one of its size is not tried on larger sizes.
const FALLEN_BEHIND: f64 = 0.9;

/// Sizes below this one drop no layout. Their products cost almost nothing, but are so short that any disturbance makes
/// one fall behind.
const DECISIVE_SIZE: u64 = 1024;

/// The number of products that are timed repeatedly at the end.
const FINALISTS: usize = 3;

/// The most timings of one product: more would not improve the result.
const MOST_TIMINGS: usize = 30;

/// Calls of a long product in its first trial: one to warm up, two timed.
const CALLS_OF_A_TRIAL: f64 = 3.0;

/// Timings in a first trial.
pub(super) const TIMINGS_OF_A_TRIAL: usize = 2;

/// A product of two square matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    /// Rows and columns.
    pub(super) size: u64,
    /// Their layout in memory.
    pub(super) layout: Layout,
}

impl Shape {
    /// Operations of one product: a multiplication and an addition for each of size³ pairs.
    pub(super) fn flops(self) -> f64 {
        2.0 * (self.size as f64).powi(3)
    }
}

/// A product and its timings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    /// The product.
    pub(super) shape: Shape,
    /// Seconds.
    pub(super) timings: Timings,
}

impl Trial {
    /// FLOP/s of the fastest timing.
    pub(super) fn best(&self) -> f64 {
        self.shape.flops() / self.timings.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Something that times products.
pub(super) trait Bench {
    /// Seconds since the search began.
    fn elapsed_s(&self) -> f64;
    /// Times a product for the first time, [`TIMINGS_OF_A_TRIAL`] times.
    fn first(&mut self, shape: Shape) -> Result<Timings, WorkerError>;
    /// Times it once more: the seconds per product, over `calls` products.
    fn again(&mut self, shape: Shape, calls: u32) -> Result<f64, WorkerError>;
}

/// The sizes whose matrices together leave memory to others: three matrices per size, with `element_bytes` per number.
/// The smallest size is always included.
pub(super) fn sizes(free_memory: u64, element_bytes: u64) -> Vec<u64> {
    let mut left = free_memory / SHARE_OF_FREE_MEMORY;
    let fits = |size: &u64| {
        let bytes = 3 * size * size * element_bytes;
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    let fitting: Vec<u64> = SIZES.into_iter().take_while(fits).collect();
    if fitting.is_empty() { vec![SIZES[0]] } else { fitting }
}

/// Times products of `sizes` for about `budget_s` seconds, those of the first size in any case.
pub(super) fn search(
    sizes: &[u64],
    budget_s: f64,
    bench: &mut impl Bench,
) -> Result<Vec<Trial>, WorkerError> {
    let mut trials = sweep(sizes, budget_s, bench)?;
    refine(&mut trials, budget_s, bench)?;
    Ok(trials)
}

/// The indices of the fastest trials, the fastest first.
pub(super) fn finalists(trials: &[Trial]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..trials.len()).collect();
    order.sort_by(|left, right| trials[*right].best().total_cmp(&trials[*left].best()));
    order.truncate(FINALISTS);
    order
}

fn sweep(sizes: &[u64], budget_s: f64, bench: &mut impl Bench) -> Result<Vec<Trial>, WorkerError> {
    let mut trials: Vec<Trial> = Vec::new();
    let mut layouts = Layout::ALL.to_vec();
    for &size in sizes {
        let left_s = (1.0 - FOR_FINALISTS) * budget_s - bench.elapsed_s();
        if predicted_s(size, layouts.len(), &trials).is_some_and(|needed_s| needed_s > left_s) {
            break;
        }
        let before = trials.len();
        for &layout in &layouts {
            let shape = Shape { size, layout };
            trials.push(Trial { shape, timings: bench.first(shape)? });
        }
        if size >= DECISIVE_SIZE {
            layouts = contenders(&trials[before..]);
        }
    }
    Ok(trials)
}

/// The expected seconds for trials of `size` in this many layouts, at the best rate so far; `None` before the first
/// trial.
fn predicted_s(size: u64, layouts: usize, trials: &[Trial]) -> Option<f64> {
    let rate = trials.iter().map(Trial::best).max_by(f64::total_cmp)?;
    let product = Shape { size, layout: Layout::NN }.flops();
    Some(CALLS_OF_A_TRIAL * layouts as f64 * product / rate)
}

/// The layouts that have not fallen behind in `trials`, which all have one size.
fn contenders(trials: &[Trial]) -> Vec<Layout> {
    let best = trials.iter().map(Trial::best).fold(0.0, f64::max);
    trials
        .iter()
        .filter(|trial| trial.best() >= FALLEN_BEHIND * best)
        .map(|trial| trial.shape.layout)
        .collect()
}

/// Times the finalists in turn until the time is up.
fn refine(trials: &mut [Trial], budget_s: f64, bench: &mut impl Bench) -> Result<(), WorkerError> {
    let finalists = finalists(trials);
    for _ in 0..MOST_TIMINGS {
        for &index in &finalists {
            let Trial { shape, timings } = &mut trials[index];
            if bench.elapsed_s() >= budget_s {
                return Ok(());
            }
            timings.seconds.push(bench.again(*shape, timings.calls)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose rate is a formula, and whose clock is the sum of the products' times.
    struct Machine {
        rate: fn(Shape) -> f64,
        elapsed_s: f64,
    }

    impl Machine {
        fn of(rate: fn(Shape) -> f64) -> Self {
            Machine { rate, elapsed_s: 0.0 }
        }

        fn pass(&mut self, shape: Shape, calls: f64) -> f64 {
            let seconds = shape.flops() / (self.rate)(shape);
            self.elapsed_s += calls * seconds;
            seconds
        }
    }

    impl Bench for Machine {
        fn elapsed_s(&self) -> f64 {
            self.elapsed_s
        }

        fn first(&mut self, shape: Shape) -> Result<Timings, WorkerError> {
            let seconds = self.pass(shape, CALLS_OF_A_TRIAL);
            Ok(Timings { calls: 1, seconds: vec![seconds; TIMINGS_OF_A_TRIAL] })
        }

        fn again(&mut self, shape: Shape, calls: u32) -> Result<f64, WorkerError> {
            Ok(self.pass(shape, f64::from(calls)))
        }
    }

    fn best(trials: &[Trial]) -> Shape {
        trials[finalists(trials)[0]].shape
    }

    #[test]
    fn matrices_leave_memory_to_others() {
        for (free, bytes) in [(1_u64 << 30, 4), (24 << 30, 4), (24 << 30, 2), (140 << 30, 4)] {
            let sizes = sizes(free, bytes);
            let taken: u64 = sizes.iter().map(|size| 3 * size * size * bytes).sum();
            assert!(taken <= free / SHARE_OF_FREE_MEMORY, "{free}: {sizes:?}");
            let next = SIZES.get(sizes.len());
            assert!(next.is_none_or(|next| taken + 3 * next * next * bytes > free / SHARE_OF_FREE_MEMORY));
        }
        assert_eq!(sizes(0, 4), [256]);
        assert_eq!(sizes(140 << 30, 4), SIZES);
    }

    /// Two slow cores: a product of 8192 takes eight seconds, and is not begun.
    #[test]
    fn a_slow_machine_stops_in_time_and_a_fast_one_reaches_the_largest() {
        let mut slow = Machine::of(|_| 130e9);
        let trials = search(&SIZES, 16.0, &mut slow).unwrap();
        assert!(slow.elapsed_s < 18.0, "{}", slow.elapsed_s);
        assert!(trials.iter().map(|trial| trial.shape.size).max().unwrap() >= 2048);
        let mut fast = Machine::of(|shape| 800e12 * (shape.size as f64 / 16384.0));
        let trials = search(&SIZES, 16.0, &mut fast).unwrap();
        assert_eq!(best(&trials).size, 16384);
    }

    #[test]
    fn without_time_the_first_size_is_timed_all_the_same() {
        let mut machine = Machine::of(|_| 1e9);
        let trials = search(&SIZES, 0.0, &mut machine).unwrap();
        assert_eq!(trials.len(), Layout::ALL.len());
        assert!(trials.iter().all(|trial| trial.shape.size == 256 && trial.timings.seconds.len() == 2));
    }

    #[test]
    fn a_layout_that_falls_behind_is_dropped_and_the_fastest_is_found() {
        let mut machine = Machine::of(|shape| {
            let peak = if shape.size == 1536 { 110e9 } else { 100e9 };
            match shape.layout {
                Layout::NN => 0.5 * peak,
                Layout::NT => peak,
                Layout::TN => 0.95 * peak,
            }
        });
        let trials = search(&SIZES, 10.0, &mut machine).unwrap();
        assert_eq!(best(&trials), Shape { size: 1536, layout: Layout::NT });
        let slowest = trials.iter().filter(|trial| trial.shape.layout == Layout::NN);
        assert_eq!(slowest.map(|trial| trial.shape.size).max(), Some(DECISIVE_SIZE));
        let timed = |shape| trials.iter().find(|trial| trial.shape == shape).unwrap().timings.seconds.len();
        assert!(timed(best(&trials)) > TIMINGS_OF_A_TRIAL, "the best is timed again");
        assert!(trials.iter().all(|trial| trial.timings.seconds.len() <= TIMINGS_OF_A_TRIAL + MOST_TIMINGS));
    }
}
