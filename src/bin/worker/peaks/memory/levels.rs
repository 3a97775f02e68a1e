//! The size of the arrays of each thread, so that they stay in the memory or in the cache that is measured.

use orchestrate::protocol::CacheFact;

use super::arrays::Pass;

/// A cache is measured only if the share of each thread is at least this many times that of the level below. Otherwise
/// the data that exceed the lower cache would hardly fit into it.
const LEAST_STEP: u64 = 3;

/// The memory, or a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// `memory`, `L1`, …
    pub(super) name: String,
    extent: Extent,
}

/// Bytes per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// In each array.
    Each(u64),
    /// In the arrays of a pass together.
    Together(u64),
}

impl Level {
    /// The memory, with arrays of `array_bytes` bytes over all threads.
    pub(super) fn memory(array_bytes: u64, threads: usize) -> Self {
        Level { name: "memory".to_owned(), extent: Extent::Each(array_bytes / threads.max(1) as u64) }
    }

    /// The bytes of each array of a thread.
    pub(super) fn array_bytes(&self, pass: Pass) -> usize {
        let bytes = match self.extent {
            Extent::Each(bytes) => bytes,
            Extent::Together(bytes) => bytes / pass.arrays(),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// The caches that can be measured with this many threads, the smallest first.
pub(super) fn of_caches(caches: &[CacheFact], threads: usize) -> Vec<Level> {
    let mut caches: Vec<&CacheFact> = caches.iter().collect();
    caches.sort_by_key(|cache| cache.level);
    let shares: Vec<u64> = caches.iter().map(|cache| share(cache, threads as u64)).collect();
    let below = [0].into_iter().chain(shares.iter().copied());
    let level = |((cache, share), below): ((&&CacheFact, &u64), u64)| {
        let bytes = working_set(below, *share)?;
        Some(Level { name: format!("L{}", cache.level), extent: Extent::Together(bytes) })
    };
    caches.iter().zip(&shares).zip(below).filter_map(level).collect()
}

/// The share of a cache of one of `threads` threads, in bytes.
fn share(cache: &CacheFact, threads: u64) -> u64 {
    let instances = u64::from(cache.instances).max(1);
    cache.bytes * instances / threads.max(instances)
}

/// The bytes that fit well into a cache of `share` bytes above one of `below`: half of it, or the geometric mean of
/// both if that is less. `None` if there is no room between them.
fn working_set(below: u64, share: u64) -> Option<u64> {
    if below == 0 {
        return Some(share / 2).filter(|bytes| *bytes > 0);
    }
    let mean = (below as f64 * share as f64).sqrt() as u64;
    (share >= LEAST_STEP * below).then(|| mean.min(share / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: u32, kibibytes: u64, instances: u32) -> CacheFact {
        CacheFact { level, bytes: kibibytes << 10, instances }
    }

    fn kibibytes(caches: &[CacheFact], threads: usize) -> Vec<(String, usize)> {
        let levels = of_caches(caches, threads);
        levels.into_iter().map(|it| (it.name.clone(), it.array_bytes(Pass::Read) >> 10)).collect()
    }

    #[test]
    fn working_sets_fit_their_cache_and_exceed_the_one_below() {
        // Zen 4: a core has 32 KiB and 1 MiB, and eight cores share 32 MiB.
        let zen = [cache(1, 32, 8), cache(2, 1024, 8), cache(3, 32768, 1)];
        let expected = [("L1", 16), ("L2", 181), ("L3", 2048)].map(|(name, size)| (name.to_owned(), size));
        assert_eq!(kibibytes(&zen, 8), expected);
        // One thread has the last level for itself.
        assert_eq!(kibibytes(&zen, 1)[2], ("L3".to_owned(), 5792));
        // Two threads share each first level.
        assert_eq!(kibibytes(&zen, 16)[0], ("L1".to_owned(), 8));
    }

    #[test]
    fn a_last_level_that_is_no_larger_than_the_one_below_is_left_out() {
        let names: Vec<String> = of_caches(&[cache(1, 48, 4), cache(2, 2048, 4), cache(3, 7680, 1)], 4)
            .into_iter()
            .map(|level| level.name)
            .collect();
        assert_eq!(names, ["L1", "L2"]);
        assert_eq!(of_caches(&[], 4), []);
    }

    #[test]
    fn arrays_share_a_cache_and_each_exceed_it_in_memory() {
        let first = &of_caches(&[cache(1, 48, 1)], 1)[0];
        assert_eq!(
            [Pass::Read, Pass::Copy, Pass::Triad].map(|pass| first.array_bytes(pass)),
            [24576, 12288, 8192]
        );
        let memory = Level::memory(1000, 4);
        assert_eq!([Pass::Read, Pass::Triad].map(|pass| memory.array_bytes(pass)), [250, 250]);
    }
}
