//! Caches, memory and clocks of the machine. If the system does not tell, a size is assumed, and a fact is absent.

#![expect(clippy::disallowed_methods, reason = "a worker looks at the machine it runs on")]

use std::fs;

use orchestrate::job::Device;

use super::super::device::OpenDevice;
use super::super::shim;

/// If the size of the caches is unknown: more than today's devices have, except servers with many sockets.
const ASSUMED_CACHE: u64 = 128 << 20;

/// If the free memory is unknown.
const ASSUMED_FREE: u64 = 4 << 30;

/// Where Linux describes its processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// The sizes that decide how large arrays are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// All last-level caches together.
    pub(super) cache: u64,
    /// The memory that nobody uses.
    pub(super) free: u64,
}

impl Memory {
    /// Reads them from the device.
    pub(super) fn probe(device: &OpenDevice) -> Self {
        let accelerators = || shim::free_memory().map(|memory| memory.free);
        let (cache, free) = match device.device {
            Device::Cpu => (processor_cache(), processor_memory()),
            Device::Cuda(_) => (shim::cuda_cache(), accelerators()),
            Device::Mps => (None, accelerators()),
        };
        Memory { cache: cache.unwrap_or(ASSUMED_CACHE), free: free.unwrap_or(ASSUMED_FREE) }
    }
}

/// The current MHz of each processor. Empty if the system does not tell.
pub(super) fn processor_clocks() -> Vec<f64> {
    let scaling = megahertz(&read_of_each_processor("cpufreq/scaling_cur_freq"));
    if !scaling.is_empty() {
        return scaling;
    }
    clocks_of(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// The highest MHz that any processor can reach.
pub(super) fn most_processor_clock() -> Option<f64> {
    megahertz(&read_of_each_processor("cpufreq/cpuinfo_max_freq")).into_iter().max_by(f64::total_cmp)
}

/// A cache as Linux describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cache {
    level: u32,
    bytes: u64,
    /// The processors that share it, which tell one cache from another.
    shared_by: String,
}

fn processor_cache() -> Option<u64> {
    let caches: Vec<Cache> = processors()
        .iter()
        .flat_map(|processor| names(&format!("{processor}/cache")))
        .filter_map(|index| {
            let read = |name: &str| fs::read_to_string(format!("{index}/{name}")).ok();
            cache(&read("level")?, &read("size")?, &read("shared_cpu_list")?)
        })
        .collect();
    last_level(&caches)
}

fn cache(level: &str, size: &str, shared_by: &str) -> Option<Cache> {
    let bytes = kibibytes(size.trim().strip_suffix('K')?)?;
    Some(Cache { level: level.trim().parse().ok()?, bytes, shared_by: shared_by.trim().to_owned() })
}

/// The bytes of all last-level caches, each counted once, because threads on all processors fill all of them.
fn last_level(caches: &[Cache]) -> Option<u64> {
    let last = caches.iter().map(|cache| cache.level).max()?;
    let mut of_last: Vec<&Cache> = caches.iter().filter(|cache| cache.level == last).collect();
    of_last.sort_by(|left, right| left.shared_by.cmp(&right.shared_by));
    of_last.dedup_by(|left, right| left.shared_by == right.shared_by);
    Some(of_last.iter().map(|cache| cache.bytes).sum())
}

fn processor_memory() -> Option<u64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kibibytes(rest.trim().strip_suffix("kB")?.trim())
}

fn kibibytes(digits: &str) -> Option<u64> {
    digits.parse::<u64>().ok()?.checked_mul(1024)
}

/// The MHz of texts in kHz, the format of `cpufreq`.
fn megahertz(texts: &[String]) -> Vec<f64> {
    texts.iter().filter_map(|text| text.trim().parse::<f64>().ok()).map(|khz| khz / 1e3).collect()
}

/// `cpu MHz` of each processor of `/proc/cpuinfo`.
fn clocks_of(cpuinfo: &str) -> Vec<f64> {
    let lines = cpuinfo.lines().filter(|line| line.starts_with("cpu MHz"));
    lines.filter_map(|line| line.split_once(':')?.1.trim().parse().ok()).collect()
}

fn read_of_each_processor(name: &str) -> Vec<String> {
    processors().iter().filter_map(|path| fs::read_to_string(format!("{path}/{name}")).ok()).collect()
}

/// The directories `cpu0`, `cpu1`, … of the processors.
fn processors() -> Vec<String> {
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
    fn every_last_level_cache_counts_once() {
        let of = |level: &str, size: &str, shared_by: &str| cache(level, size, shared_by).unwrap();
        let caches = [
            of("1\n", "32K\n", "0\n"),
            of("3\n", "32768K\n", "0-1\n"),
            of("3", "32768K", "0-1"),
            of("3", "32768K", "2-3"),
            of("2", "1024K", "2"),
        ];
        assert_eq!(last_level(&caches), Some(64 << 20));
        assert_eq!(last_level(&[]), None);
        assert_eq!(cache("3", "", "0"), None);
    }

    #[test]
    fn the_kernels_files_are_read() {
        assert_eq!(available("MemTotal: 8 kB\nMemAvailable:   24600 kB\n"), Some(24600 * 1024));
        assert_eq!(available("MemTotal: 8 kB\n"), None);
        assert_eq!(clocks_of("cpu MHz\t\t: 2596.124\nflags: x\ncpu MHz\t\t: 3100.0\n"), [2596.124, 3100.0]);
        assert_eq!(megahertz(&["2600000\n".to_owned(), "<unknown>".to_owned()]), [2600.0]);
    }
}
