//! The data caches of the processors, and which processors share them.

#![expect(clippy::disallowed_methods, reason = "a worker looks at the machine it runs on")]

use std::collections::BTreeMap;
use std::fs;

use orchestrate::protocol::CacheFact;

use super::crew;

/// Where Linux describes its processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// The bytes of all last-level caches of the machine together: threads on all processors fill all of them.
pub(super) fn last_level() -> Option<u64> {
    let all = facts(&of(&processors()));
    all.last().map(|last| last.bytes * u64::from(last.instances))
}

/// The caches of the processors that this process may run on, the smallest level first. Empty if the system does not
/// report them.
pub(super) fn usable() -> Vec<CacheFact> {
    let directory = |number: &usize| format!("{PROCESSORS}/cpu{number}");
    facts(&of(&crew::allowed_processors().iter().map(directory).collect::<Vec<_>>()))
}

/// A cache as Linux describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cache {
    level: u32,
    bytes: u64,
    /// The processors that share it, which distinguish one cache from another.
    shared_by: String,
}

/// The caches of these processors, each once for every processor that shares it.
fn of(processors: &[String]) -> Vec<Cache> {
    processors
        .iter()
        .flat_map(|processor| names(&format!("{processor}/cache")))
        .filter_map(|index| {
            let read = |name: &str| fs::read_to_string(format!("{index}/{name}")).ok();
            cache(&read("type")?, &read("level")?, &read("size")?, &read("shared_cpu_list")?)
        })
        .collect()
}

/// `None` for a cache of instructions, and for one whose size Linux does not know.
fn cache(kind: &str, level: &str, size: &str, shared_by: &str) -> Option<Cache> {
    if kind.trim() == "Instruction" {
        return None;
    }
    let kibibytes: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
    let bytes = kibibytes.checked_mul(1024)?;
    Some(Cache { level: level.trim().parse().ok()?, bytes, shared_by: shared_by.trim().to_owned() })
}

/// Each level with its instances, each counted once. If they differ, as on processors with two kinds of cores, `bytes`
/// is their mean, so that the sum is right.
fn facts(caches: &[Cache]) -> Vec<CacheFact> {
    let mut levels: BTreeMap<u32, BTreeMap<&str, u64>> = BTreeMap::new();
    for cache in caches {
        levels.entry(cache.level).or_default().insert(&cache.shared_by, cache.bytes);
    }
    let fact = |(level, instances): (u32, BTreeMap<&str, u64>)| {
        let count = u32::try_from(instances.len()).ok()?;
        Some(CacheFact { level, bytes: instances.values().sum::<u64>() / u64::from(count), instances: count })
    };
    levels.into_iter().filter_map(fact).collect()
}

/// The directories `cpu0`, `cpu1`, … of the processors.
pub(super) fn processors() -> Vec<String> {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let is_processor = |path: &String| path.rsplit("/cpu").next().is_some_and(is_number);
    names(PROCESSORS).into_iter().filter(is_processor).collect()
}

/// The paths of a directory's entries; none if it does not exist.
fn names(directory: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four processors on two dies: each die has its own last-level cache, and a stream must exceed both.
    #[test]
    fn every_cache_counts_once() {
        let of = |kind: &str, level: &str, size: &str, shared_by: &str| cache(kind, level, size, shared_by);
        let caches: Vec<Cache> = [
            of("Data\n", "1\n", "32K\n", "0\n"),
            of("Instruction\n", "1\n", "64K\n", "0\n"),
            of("Unified\n", "3\n", "32768K\n", "0-1\n"),
            of("Unified\n", "3", "32768K", "0-1"),
            of("Unified", "3", "32768K", "2-3"),
            of("Unified", "2", "1024K", "2"),
            of("Unified", "3", "", "0"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let fact = |level, mebibytes: u64, instances| CacheFact { level, bytes: mebibytes << 20, instances };
        let first = CacheFact { level: 1, bytes: 32 << 10, instances: 1 };
        assert_eq!(facts(&caches), [first, fact(2, 1, 1), fact(3, 32, 2)]);
        assert_eq!(facts(&[]), []);
    }
}
