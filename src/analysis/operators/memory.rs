//! The traffic of an operator between two levels of the memory hierarchy, bounded by its compulsory bytes.
//!
//! Let an operator read and write B compulsory bytes in t seconds. Let C be the capacity of all caches down to some
//! level, and W the bandwidth of the level below them.
//!
//! - **B ≥ 2 C.** A stream of more than twice the capacity has no hits in a cache that replaces the least recently
//!   used data. So at least B bytes cross the level: its share of the roof is at least B ÷ t ÷ W.
//! - **B ≤ C.** Each byte crosses the level at most once in each direction, because it stays in the caches afterwards.
//!   So at most B bytes cross it (and as many again for a library's workspace): its share is at most 2 B ÷ t ÷ W.
//!
//! In between, neither bound follows.

use crate::analysis::peaks::{CacheCeiling, Peaks, Range};

/// A stream needs this multiple of the capacity of the caches, so that it has no hits.
const STREAMS: f64 = 2.0;

/// A library may copy its operands to a workspace: an operator moves at most this many times its compulsory bytes.
const WORKSPACE: f64 = 2.0;

/// The capacity of the caches of a processor if it is unknown: more than any processor of today has.
const MOST_PROCESSOR_CACHE: f64 = 1.5e9;

/// The same of a GPU.
const MOST_GPU_CACHE: f64 = 256e6;

/// A level of the memory hierarchy, seen from the arithmetic units.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Level {
    /// `memory`, `L3`, `L2`.
    pub(super) name: String,
    /// The total capacity of the caches above it in bytes.
    pub(super) above: f64,
    /// Bytes per second that can be read and written.
    pub(super) bandwidth: Range,
}

/// Bounds of the share of the bandwidth that an operator uses.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryShare {
    /// The level that it streams from with the highest share of its bandwidth, and that share at least; `None` if it
    /// provably streams from none.
    pub streams: Option<(String, Range)>,
    /// The share of the bandwidth of the memory that it uses at most; `None` if that is unknown.
    pub at_most: Option<Range>,
}

/// The levels of `peaks`, the memory last. Empty if its bandwidth is unknown.
pub(super) fn levels(peaks: &Peaks) -> Vec<Level> {
    let Some(bandwidth) = peaks.bandwidth else { return Vec::new() };
    // Data that exceed the caches above a cache are streamed from it.
    let above = peaks.caches.iter().map(|cache| cache.capacity.map(|bytes| bytes as f64));
    let below = peaks.caches.iter().skip(1);
    let cache = |(above, cache): (Option<f64>, &CacheCeiling)| {
        let bandwidth = Range::exactly(cache.bytes_per_s);
        Some(Level { name: cache.level.clone(), above: above?, bandwidth })
    };
    let caches = above.zip(below).filter_map(cache);
    caches.chain([Level { name: "memory".to_owned(), above: cache_capacity(peaks), bandwidth }]).collect()
}

/// The total capacity of the device's caches in bytes; if unknown, more than that of any device.
pub(in crate::analysis) fn cache_capacity(peaks: &Peaks) -> f64 {
    let unknown = if peaks.backend == "cpu" { MOST_PROCESSOR_CACHE } else { MOST_GPU_CACHE };
    peaks.cache_bytes.map_or(unknown, |bytes| bytes as f64)
}

impl MemoryShare {
    /// Of an operator with `bytes` compulsory bytes that takes `seconds`.
    pub(super) fn of(bytes: f64, seconds: f64, levels: &[Level]) -> MemoryShare {
        let rate = bytes / seconds;
        let streamed = levels.iter().filter(|level| bytes >= STREAMS * level.above);
        let shares = streamed.map(|level| (level.name.clone(), level.bandwidth.share(rate)));
        let streams = shares.max_by(|(_, left), (_, right)| left.low.total_cmp(&right.low));
        let memory = levels.last();
        let at_most = memory.filter(|memory| bytes <= memory.above);
        let at_most = at_most.map(|memory| memory.bandwidth.share(WORKSPACE * rate));
        // A stream without reuse moves exactly its compulsory bytes.
        MemoryShare { streams, at_most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels() -> [Level; 2] {
        let level = |name: &str, above, bandwidth| Level {
            name: name.to_owned(),
            above,
            bandwidth: Range::exactly(bandwidth),
        };
        [level("L3", 4e6, 60e9), level("memory", 36e6, 40e9)]
    }

    #[test]
    fn a_stream_beyond_the_caches_crosses_the_memory_with_all_its_bytes() {
        let share = MemoryShare::of(80e6, 2.5e-3, &levels());
        let (level, of) = share.streams.unwrap();
        assert_eq!((level.as_str(), of), ("memory", Range::exactly(0.8)));
        assert_eq!(share.at_most, None);
    }

    #[test]
    fn data_that_fit_the_last_cache_stream_from_it() {
        let share = MemoryShare::of(30e6, 1e-3, &levels());
        let (level, of) = share.streams.unwrap();
        assert_eq!((level.as_str(), of), ("L3", Range::exactly(0.5)));
        assert_eq!(share.at_most, Some(Range::exactly(1.5)));
    }

    #[test]
    fn little_work_is_far_from_the_memory_roof() {
        let share = MemoryShare::of(4e3, 1e-5, &levels());
        assert!(share.streams.is_none() && (share.at_most.unwrap().high - 0.02).abs() < 1e-9);
    }

    #[test]
    fn between_once_and_twice_the_capacity_memory_is_unbounded() {
        let share = MemoryShare::of(50e6, 1e-3, &levels());
        assert_eq!(share.streams.unwrap().0, "L3");
        assert_eq!(share.at_most, None);
    }
}
