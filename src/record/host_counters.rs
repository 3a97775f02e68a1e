//! Counters of the host since its boot, read before and after a job.

/// Processor time of the whole host since its boot, in seconds summed over all processors, and its load. The difference
/// of two readings is the use by the job and all other processes in between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostCounters {
    /// Busy seconds; absent if the system does not count them (macOS, gVisor).
    pub busy_s: Option<f64>,
    /// Steal time: seconds in which the hypervisor ran another machine although a virtual processor was ready to run.
    pub steal_s: Option<f64>,
    /// The one-minute load average.
    pub load: Option<f64>,
    /// Processes killed by the kernel's OOM killer: those of our control group if it counts them, otherwise of the
    /// whole host. Absent if nothing counts them (macOS, gVisor).
    pub oom_kills: Option<u64>,
    /// Seconds since the boot, sleep included.
    pub since_boot_s: Option<f64>,
    /// Seconds of sleep since the boot.
    pub asleep_s: Option<f64>,
}

impl HostCounters {
    /// Whether the kernel's OOM killer killed any process between `before` and `self`.
    pub fn has_oom_killed_since(&self, before: &HostCounters) -> bool {
        matches!((self.oom_kills, before.oom_kills), (Some(after), Some(before)) if after > before)
    }

    /// Seconds of sleep from `before` to `self`; absent if a reading is absent.
    pub fn asleep_since(&self, before: &HostCounters) -> Option<f64> {
        Some((self.asleep_s? - before.asleep_s?).max(0.0))
    }

    /// Busy and steal seconds from `before` to `self`; absent if a reading is absent or a counter went backwards.
    pub fn since(&self, before: &HostCounters) -> (Option<f64>, Option<f64>) {
        let difference = |after: Option<f64>, before: Option<f64>| {
            Some(after? - before?).filter(|difference| *difference >= 0.0)
        };
        (difference(self.busy_s, before.busy_s), difference(self.steal_s, before.steal_s))
    }
}
