//! When this process started, its peak memory, and how often it was preempted.

#![expect(clippy::disallowed_methods, reason = "a worker looks at the process it is")]

use std::fs;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

/// Seconds since the kernel started this process, which includes the loading of libraries. If that time is unknown,
/// seconds since `main` began.
pub(crate) fn seconds_since_start(main_began: Instant) -> f64 {
    let since_main = main_began.elapsed().as_secs_f64();
    let from_kernel = || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let seconds = uptime_s(&uptime)? - start_s(&stat)?;
        // The kernel counts in hundredths, so its answer can be a little short.
        (seconds >= since_main).then_some(seconds)
    };
    from_kernel().unwrap_or(since_main)
}

/// The peak resident set of this process, in bytes.
pub(crate) fn peak_host_memory() -> Option<u64> {
    let resident = u64::try_from(getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss()).ok()?;
    // Linux counts in KiB, macOS in bytes.
    Some(if cfg!(target_os = "macos") { resident } else { resident * 1024 })
}

/// How often any thread of this process was taken off a processor so far.
pub(crate) fn involuntary_switches() -> Option<u64> {
    u64::try_from(getrusage(UsageWho::RUSAGE_SELF).ok()?.involuntary_context_switches()).ok()
}

/// Seconds from boot to the process's start: field 22 of `/proc/self/stat`, in USER_HZ, which is 100 for every program
/// on Linux. Fields are counted from the end of the name, which can contain spaces and brackets.
fn start_s(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    Some(ticks / 100.0)
}

/// Seconds from boot to now: the first word of `/proc/uptime`.
fn uptime_s(uptime: &str) -> Option<f64> {
    uptime.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_in_bytes() {
        // This process is larger than this number of bytes, and smaller than as many KiB.
        let peak = peak_host_memory().unwrap();
        assert!((1 << 20..1 << 40).contains(&peak), "{peak}");
    }

    #[test]
    fn preemptions_only_grow() {
        let before = involuntary_switches().unwrap();
        assert!(involuntary_switches().unwrap() >= before);
    }

    #[test]
    fn the_kernels_files_are_read() {
        let stat = "4242 (a) wor) S 1 4242 4242 0 -1 4194304 90 0 0 0 5 6 0 0 20 0 9 0 123456 1000 200 0";
        assert_eq!(start_s(stat), Some(1234.56));
        assert_eq!(uptime_s("1250.56 2400.00\n"), Some(1250.56));
        assert_eq!(start_s("4242"), None);
        assert!(seconds_since_start(Instant::now()) >= 0.0);
    }
}
