//! The clock that nobody sets: seconds since the system was started, sleep included.
//!
//! The wall clock may be stepped at any moment, by hand or by whoever keeps it right. Between two processes of one boot
//! this clock tells how much time has passed.

use std::mem::MaybeUninit;
use std::time::Duration;

use nix::libc;

/// Linux counts sleep in this one alone.
#[cfg(target_os = "linux")]
const SINCE_BOOT: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// On macOS this is `mach_continuous_time`, which counts sleep.
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;

/// Time since the system was started; `None` where it does not tell.
pub(super) fn probe_since_boot() -> Option<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call fills in the struct that it is given, and says so by returning 0.
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
    fn it_only_grows() {
        let first = probe_since_boot().unwrap();
        assert!(first > Duration::ZERO && probe_since_boot().unwrap() >= first);
    }
}
