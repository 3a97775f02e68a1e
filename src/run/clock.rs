//! A clock that nobody can set: seconds since the system booted, sleep included.
//!
//! The wall clock can be changed at any moment, by hand or by time synchronisation. This clock measures how much time
//! has passed, even between two processes, as long as the system is not rebooted.

use std::mem::MaybeUninit;
use std::time::Duration;

use nix::libc;

/// On Linux, this is the only clock that counts sleep.
#[cfg(target_os = "linux")]
const SINCE_BOOT: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// On macOS this is `mach_continuous_time`, which counts sleep.
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;

/// Time since the system booted; `None` if the system does not report it.
pub(super) fn probe_since_boot() -> Option<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call fills in the struct that it is given, and reports that by returning 0.
    let time = unsafe {
        if libc::clock_gettime(SINCE_BOOT, time.as_mut_ptr()) != 0 {
            return None;
        }
        time.assume_init()
    };
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let first = probe_since_boot().unwrap();
        assert!(first > Duration::ZERO && probe_since_boot().unwrap() >= first);
    }
}
