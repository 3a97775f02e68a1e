//! How much a host has worked since it was started: read before and after a job, compared here.

/// Processor time of the whole host since it was started, in seconds over all processors, and its load. The difference
/// of two readings is what a job and everybody else used between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostCounters {
    /// Busy seconds. Absent where the system does not offer them (macOS, gVisor).
    pub busy_s: Option<f64>,
    /// Seconds in which a virtual processor was due but the hypervisor ran somebody else.
    pub steal_s: Option<f64>,
    /// The one-minute load average.
    pub load: Option<f64>,
    /// Processes that the kernel killed for want of memory: those of our control group where it counts them, else of
    /// the whole host. Absent where nobody counts (macOS, gVisor).
    pub oom_kills: Option<u64>,
}

impl HostCounters {
    /// Whether the kernel killed anything for want of memory between `before` and `self`.
    pub fn has_oom_killed_since(&self, before: &HostCounters) -> bool {
        matches!((self.oom_kills, before.oom_kills), (Some(after), Some(before)) if after > before)
    }

    /// Busy and stolen seconds from `before` to `self`; absent where a reading is, or where a counter ran backwards.
    pub fn since(&self, before: &HostCounters) -> (Option<f64>, Option<f64>) {
        let difference = |after: Option<f64>, before: Option<f64>| {
            Some(after? - before?).filter(|difference| *difference >= 0.0)
        };
        (difference(self.busy_s, before.busy_s), difference(self.steal_s, before.steal_s))
    }
}
