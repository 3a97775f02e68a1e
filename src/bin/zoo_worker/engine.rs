//! The interface of an animal to its machine, which is real or simulated.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::animal::Part;

/// Something that spends time on work.
pub(crate) trait Engine {
    /// Does the work of `part` for about this share of an iteration.
    fn spend(&mut self, part: Part, share: f64) -> Spent;

    /// Idles for this share of an iteration.
    fn idle(&mut self, share: f64);

    /// Seconds since some moment.
    fn now_s(&self) -> f64;

    /// The device's name.
    fn device_name(&self) -> String;

    /// Threads that compute.
    fn threads(&self) -> usize;
}

/// The time, FLOPs and bytes of a kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    pub(crate) flops: f64,
    /// Compulsory bytes.
    pub(crate) bytes: f64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, more: Spent) {
        self.calls += more.calls;
        self.seconds += more.seconds;
        self.flops += more.flops;
        self.bytes += more.bytes;
    }
}

/// Consecutive iterations, and what was spent on each kind of work in them.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) iterations: u32,
    pub(crate) elapsed_s: f64,
    pub(crate) spent: BTreeMap<Part, Spent>,
}

impl Stretch {
    pub(crate) fn new(iterations: u32) -> Self {
        Stretch { iterations, elapsed_s: 0.0, spent: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, part: Part, spent: Spent) {
        *self.spent.entry(part).or_default() += spent;
    }

    /// FLOPs of all parts.
    pub(crate) fn flops(&self) -> f64 {
        self.spent.values().map(|spent| spent.flops).sum()
    }
}
