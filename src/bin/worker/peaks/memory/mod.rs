//! The bandwidth of a processor's memory and caches: all threads pass over arrays simultaneously. Bytes that a pass
//! reads and writes count; the lines that ordinary stores read before they write them do not.

#[cfg(target_arch = "aarch64")]
mod arm;
mod arrays;
mod levels;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestrate::protocol::{CacheFact, StreamSample};

#[cfg(target_arch = "aarch64")]
use arm::loops;
#[cfg(target_arch = "x86_64")]
use x86::loops;

use super::crew::Crew;
use super::print::print_progress;
use super::timing::Timings;
use arrays::{Arrays, Loops, Pass};
use levels::Level;

/// There are no loops for other processors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn loops() -> Vec<Loops> {
    Vec::new()
}

/// The bytes to pass over, and the duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    /// The bytes of one array of all threads together, larger than the caches.
    pub(super) array_bytes: u64,
    /// Seconds for each kind of pass over memory.
    pub(super) memory_s: f64,
    /// Seconds for each kind of pass in a cache.
    pub(super) cache_s: f64,
}

/// Times passes over memory and in each of `caches`.
pub(super) fn measure(crew: &Crew, caches: &[CacheFact], wanted: Wanted) -> Vec<StreamSample> {
    let Some(loops) = loops().into_iter().next() else { return Vec::new() };
    let memory = Level::memory(wanted.array_bytes, crew.threads());
    let ordinary = [Pass::Read, Pass::Copy, Pass::Triad];
    let streaming = [Pass::CopyStreaming, Pass::TriadStreaming];
    let mut samples = passes(crew, &loops, &memory, &[&ordinary[..], &streaming].concat(), wanted.memory_s);
    for level in levels::of_caches(caches, crew.threads()) {
        samples.extend(passes(crew, &loops, &level, &ordinary, wanted.cache_s));
    }
    samples
}

/// Times each kind of pass over arrays of one size.
fn passes(crew: &Crew, loops: &Loops, level: &Level, all: &[Pass], budget_s: f64) -> Vec<StreamSample> {
    let parts: Vec<Part> = (0..crew.threads()).map(|_| Part::default()).collect();
    let time = |pass: &Pass| {
        let bytes = level.array_bytes(*pass);
        crew.run(&|thread| parts[thread].make(bytes));
        let timings = crew.time(budget_s, &|thread, times| parts[thread].pass(loops, *pass, times));
        sample(loops, level, *pass, parts.iter().map(Part::bytes).sum(), &timings)
    };
    all.iter().map(time).collect()
}

/// The arrays of one thread, which alone works on them.
#[derive(Debug, Default)]
struct Part(Mutex<Option<Arrays>>);

impl Part {
    fn lock(&self) -> MutexGuard<'_, Option<Arrays>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes arrays of `bytes` bytes each, unless it has them.
    fn make(&self, bytes: usize) {
        let mut arrays = self.lock();
        if arrays.as_ref().is_none_or(|known| known.asked != bytes) {
            *arrays = None;
            *arrays = Some(Arrays::new(bytes));
        }
    }

    fn pass(&self, loops: &Loops, pass: Pass, times: u32) {
        if let Some(arrays) = self.lock().as_mut() {
            // SAFETY: `loops` returns only loops whose instructions the processor has.
            unsafe { arrays.run(loops.of(pass), times) };
        }
    }

    /// The bytes of each array.
    fn bytes(&self) -> u64 {
        self.lock().as_ref().map_or(0, |arrays| arrays.bytes() as u64)
    }
}

fn sample(loops: &Loops, level: &Level, pass: Pass, array_bytes: u64, timings: &Timings) -> StreamSample {
    let bytes = array_bytes * pass.arrays();
    let sample = StreamSample {
        kernel: pass.to_string(),
        level: Some(level.name.clone()),
        isa: Some(loops.isa.to_owned()),
        bytes,
        passes: Some(timings.calls),
        bytes_per_s: timings.seconds.iter().map(|seconds| bytes as f64 / seconds).collect(),
    };
    let best = sample.bytes_per_s.iter().copied().fold(0.0, f64::max);
    let megabytes = bytes as f64 / 1e6;
    print_progress(&format!("{pass} in {} ({megabytes:.3} MB): {:.1} GB/s", level.name, best / 1e9));
    sample
}

#[cfg(test)]
mod tests {
    use super::arrays::{SCALAR, STEP};
    use super::*;

    /// Every number of the result, so that a loop that leaves out or repeats a part is found.
    #[test]
    fn loops_compute_the_definition_of_their_pass() {
        for loops in loops() {
            for bytes in [STEP, 7 * STEP] {
                let numbers = bytes / size_of::<f32>();
                let result = |pass: Pass| {
                    let mut arrays = Arrays::new(bytes);
                    assert_eq!(arrays.bytes(), bytes);
                    // SAFETY: the processor has the instructions.
                    unsafe { arrays.run(loops.of(pass), 2) };
                    arrays.result()
                };
                for (pass, expected) in [
                    (Pass::Copy, 1.0),
                    (Pass::CopyStreaming, 1.0),
                    (Pass::Triad, 1.0 + SCALAR * 2.0),
                    (Pass::TriadStreaming, 1.0 + SCALAR * 2.0),
                ] {
                    assert_eq!(result(pass), vec![expected; numbers], "{} {pass}", loops.isa);
                }
                // The sums of the read numbers are at the beginning.
                let sum: f32 = result(Pass::Read).iter().sum();
                assert_eq!(sum, numbers as f32, "{} read", loops.isa);
            }
        }
    }

    #[test]
    fn each_level_has_its_passes() {
        let caches = [CacheFact { level: 1, bytes: 32 << 10, instances: 2 }];
        let wanted = Wanted { array_bytes: 100_000, memory_s: 0.0, cache_s: 0.0 };
        let samples = measure(&Crew::of(2), &caches, wanted);
        let names: Vec<String> = samples
            .iter()
            .map(|sample| format!("{} {}", sample.level.as_deref().unwrap_or_default(), sample.kernel))
            .collect();
        assert_eq!(
            names,
            [
                "memory read",
                "memory copy",
                "memory triad",
                "memory copy_nt",
                "memory triad_nt",
                "L1 read",
                "L1 copy",
                "L1 triad"
            ]
        );
        // Whole steps of both threads, below 50 000 bytes each.
        assert_eq!(samples[1].bytes, 2 * 2 * 97 * STEP as u64);
        assert_eq!(samples[5].bytes, 2 * (16 << 10));
        assert!(samples.iter().all(|sample| sample.bytes_per_s.iter().all(|rate| *rate > 0.0)));
    }
}
