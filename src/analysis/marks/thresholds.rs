//! From where on numbers are doubtful, each with the evidence for it.

/// Foreign processor time, in processors, that is always suffered: the system's own work.
const FOREIGN_CORES: f64 = 0.25;

/// Foreign processor time, as a share of the usable processors, that is always suffered.
const FOREIGN_SHARE: f64 = 0.05;

/// Involuntary context switches a second and usable processor that an idle system's own work causes.
const SWITCHES_FLOOR: f64 = 100.0;

/// From where on numbers are doubtful.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Seconds that two runs of one host may overlap: clocks are not exact, and a process ends before it is seen to.
    pub overlap_s: f64,
    /// Involuntary context switches a second, in multiples of the other runs of the group. Undisturbed runs of one
    /// laptop had some 75 000, two matrices at once some 490 000, which is 6.5 times as many.
    pub switches: f64,
    /// Processors' worth of foreign work above that of the other runs of the group. Undisturbed runs of a group on one
    /// virtual machine had at most 0.04 in all; a tenth of a processor costs some tenth of the throughput of a run on
    /// all of them, for its threads wait for one another.
    pub foreign_above: f64,
    /// The share of its processor time that a run spends in the system, above that of the other runs of the group.
    /// Undisturbed runs of that laptop spent 0.18 to 0.20, two at once 0.45 to 0.65: this lies halfway.
    pub system_share: f64,
    /// The share of the telemetry's samples in which the driver held the clocks down.
    pub throttled_share: f64,
    /// Times that a processor slowed itself down for heat, a minute and usable processor. A laptop's does so now and then
    /// as it leaves its highest clocks.
    pub throttle_events: f64,
    /// Bytes that the host wrote to swap and read from it. A few pages go out whenever memory is taken; this is four
    /// thousand of them.
    pub swapped_bytes: u64,
    /// How much longer, or shorter, iterations take at the window's end than at its start, as a share.
    pub trend: f64,
    /// How many times as long every k-th iteration takes as the others, or they as it.
    pub period: f64,
    /// How many times as long as the faster of two kinds of iterations the slower takes.
    pub modes: f64,
    /// How many times as long as the median of the others the first measured iteration takes.
    pub slow_first: f64,
    /// By what throughput falls from one batch to a greater one where device memory spills to the host. Spills were 5
    /// to 45 times slower; without one, throughput hardly falls at all.
    pub spill_cliff: f64,
    /// The share of its processor time that a spilling run spends in the system: about a half where it was seen.
    pub spill_system_share: f64,
    /// Processors that a spilling run keeps busy at least: one, pegged.
    pub spill_cores: f64,
    /// How much a clock may vary within the window, as a share of its mean.
    pub clock_within: f64,
    /// How far a clock's mean may lie from that of the other runs of the group, as a share.
    pub clock_between: f64,
    /// The share of the window spent waiting for data from which on a run is said to be bound by its data.
    pub data_wait_share: f64,
    /// How much slower training on files may be than on synthetic tensors, as a share, before the host is said to be the
    /// limit.
    pub data_gap: f64,
    /// The coefficient of variation from which on a group is said to vary.
    pub variation: f64,
    /// How far the operations that a device executed may be from those that the network has, as a share.
    pub executed_flops: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            overlap_s: 1.0,
            switches: 3.0,
            foreign_above: 0.1,
            system_share: 0.13,
            throttled_share: 0.05,
            throttle_events: 1.0,
            swapped_bytes: 16 << 20,
            trend: 0.1,
            period: 1.2,
            modes: 1.2,
            slow_first: 1.5,
            spill_cliff: 4.0,
            spill_system_share: 0.4,
            spill_cores: 0.75,
            clock_within: 0.1,
            clock_between: 0.05,
            data_wait_share: 0.1,
            data_gap: 0.05,
            variation: 0.05,
            executed_flops: 0.05,
        }
    }
}

impl Thresholds {
    /// Processors' worth of foreign work from which on a run on a host with `usable` processors is contended: a quarter
    /// of one, or a twentieth of all where that is more.
    pub fn foreign_cores(usable: u32) -> f64 {
        FOREIGN_CORES.max(FOREIGN_SHARE * f64::from(usable))
    }

    /// Involuntary context switches a second from which on a run on a host with `usable` processors is contended, where
    /// the other runs of its group have `baseline`. Thrice next to nothing is still next to nothing, so there is a
    /// floor: 100 for each usable processor. A second busy thread takes a processor from the first some hundreds of times
    /// a second.
    pub fn switches(&self, baseline: f64, usable: u32) -> f64 {
        (self.switches * baseline).max(SWITCHES_FLOOR * f64::from(usable.max(1)))
    }
}
