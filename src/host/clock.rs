//! Clocks that cannot be set: seconds since the system booted, including its sleep or not.
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

/// `clock_gettime(2)`: the clock that stops while the system sleeps.
#[cfg(target_os = "linux")]
const AWAKE: libc::clockid_t = libc::CLOCK_MONOTONIC;
/// On macOS this is `mach_absolute_time`, which stops while the system sleeps.
#[cfg(not(target_os = "linux"))]
const AWAKE: libc::clockid_t = libc::CLOCK_UPTIME_RAW;

/// Time since the system booted; `None` if the system does not report it.
pub fn probe_since_boot() -> Option<Duration> {
    read(SINCE_BOOT)
}

/// Seconds for which the system slept since it booted. Only differences of two values are meaningful: on some systems
/// the two clocks do not start together.
pub(super) fn probe_asleep_s() -> Option<f64> {
    // If we wait for a processor between the two, the result is too small by that much, never too large.
    let since_boot = read(SINCE_BOOT)?;
    Some(since_boot.as_secs_f64() - read(AWAKE)?.as_secs_f64())
}

fn read(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call fills in the struct that it is given, and reports that by returning 0.
    let time = unsafe {
        if libc::clock_gettime(clock, time.as_mut_ptr()) != 0 {
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

    /// The computer may sleep during the test, but seconds of sleep never decrease.
    #[test]
    fn sleep_is_not_negative() {
        let first = probe_asleep_s().unwrap();
        let slack_s = 60.0;
        assert!(probe_asleep_s().unwrap() > first - slack_s, "the clocks run at the same speed");
    }
}
