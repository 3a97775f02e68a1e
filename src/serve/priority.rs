//! Lowers the priority of this process below all others.

use nix::libc;

/// Lowers the priority of the calling thread and of the threads that it starts later: they only get idle processor
/// time. Must be called before other threads are started. If the system refuses, the priority is unchanged.
#[cfg(target_os = "linux")]
pub fn yield_to_workers() {
    // SAFETY: all zeros are a valid `sched_param`, and the call only reads it. 0 is the calling thread.
    let refused = unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) != 0
    };
    if refused {
        // SAFETY: the call has no memory to touch. 0 is the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LEAST) };
    }
}

/// As on Linux: the whole process becomes a background process of macOS.
#[cfg(target_os = "macos")]
pub fn yield_to_workers() {
    // SAFETY: the call has no memory to touch. 0 is this process.
    let refused = unsafe { libc::setpriority(libc::PRIO_DARWIN_PROCESS, 0, libc::PRIO_DARWIN_BG) != 0 };
    if refused {
        // SAFETY: as above.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LEAST) };
    }
}

/// The highest nice value of a process.
const LEAST: libc::c_int = 19;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn threads_that_start_later_are_idle_too() {
        // A separate thread: the priority of this one must stay for other tests.
        let seen = std::thread::spawn(|| {
            yield_to_workers();
            // SAFETY: the call only asks. 0 is the calling thread.
            let policy =
                || unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
            let child = std::thread::spawn(policy).join().unwrap();
            (policy(), child)
        });
        let (own, child) = seen.join().unwrap();
        assert_eq!(own, child);
        assert!(own.0 == libc::SCHED_IDLE || own.1 == LEAST, "{own:?}");
    }
}
