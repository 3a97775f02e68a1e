//! Memory and clocks of the machine. If the system does not report them, a size is assumed, and a clock is absent.

#![expect(clippy::disallowed_methods, reason = "a worker looks at the machine it runs on")]

use std::fs;

use orchestrate::job::Device;

use super::super::device::OpenDevice;
use super::super::shim;
use super::caches;

/// Assumed if the size of the caches is unknown: more than today's devices have, except servers with many sockets.
const ASSUMED_CACHE: u64 = 128 << 20;

/// Assumed if the free memory is unknown.
const ASSUMED_FREE: u64 = 4 << 30;

/// The sizes that decide how large arrays are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// All last-level caches together.
    pub(super) cache: u64,
    /// The free memory.
    pub(super) free: u64,
}

impl Memory {
    /// Reads them from the device.
    pub(super) fn probe(device: &OpenDevice) -> Self {
        let accelerators = || shim::free_memory().map(|memory| memory.free);
        let (cache, free) = match device.device {
            Device::Cpu => (caches::last_level(), processor_memory()),
            Device::Cuda(_) => (shim::cuda_cache(), accelerators()),
            Device::Mps => (None, accelerators()),
        };
        Memory { cache: cache.unwrap_or(ASSUMED_CACHE), free: free.unwrap_or(ASSUMED_FREE) }
    }
}

/// The current MHz of each processor. Empty if the system does not report it.
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

fn processor_memory() -> Option<u64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kibibytes(rest.trim().strip_suffix("kB")?.trim())
}

/// Bytes of a number of KiB.
pub(super) fn kibibytes(digits: &str) -> Option<u64> {
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
    caches::processors().iter().filter_map(|path| fs::read_to_string(format!("{path}/{name}")).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        assert_eq!(available("MemTotal: 8 kB\nMemAvailable:   24600 kB\n"), Some(24600 * 1024));
        assert_eq!(available("MemTotal: 8 kB\n"), None);
        assert_eq!(clocks_of("cpu MHz\t\t: 2596.124\nflags: x\ncpu MHz\t\t: 3100.0\n"), [2596.124, 3100.0]);
        assert_eq!(megahertz(&["2600000\n".to_owned(), "<unknown>".to_owned()]), [2600.0]);
    }
}
