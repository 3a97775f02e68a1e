//! Headroom: the largest possible speedup, by Amdahl's law.
//!
//! A group of operators takes the share f of the time at the share r of its roof. At its roof it would take r·f, so the
//! iteration would be 1 ÷ (1 − f·(1 − r)) times as fast. If all other time were 0, it would be 1 ÷ f times as fast.

use super::breakdown::{Breakdown, Group, Rates};
use crate::protocol::OperatorClass;

/// The speedups that a group of operators allows at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headroom {
    /// The group that takes longest.
    pub class: OperatorClass,
    /// If the group were at its roof; `None` if its place below its roofs is unknown.
    pub at_roof: Option<f64>,
    /// If all other time were 0.
    pub alone: f64,
}

impl Headroom {
    /// Of `group`; `None` if it takes no time.
    fn of(group: &Group) -> Option<Headroom> {
        let share = Some(group.rates.time_share).filter(|share| *share > 0.0)?;
        let at_roof = group.rates.of_roof().map(|of_roof| 1.0 / (1.0 - share * (1.0 - of_roof.min(1.0))));
        Some(Headroom { class: group.class, at_roof, alone: 1.0 / share })
    }
}

impl Breakdown<'_> {
    /// The headroom of the group that takes longest.
    pub fn headroom(&self) -> Option<Headroom> {
        Headroom::of(self.groups.first()?)
    }
}

impl Rates {
    /// Its least share of the roof that it is nearer to.
    pub fn of_roof(&self) -> Option<f64> {
        let compute = self.of_compute.map(|share| share.low);
        let memory = self.of_memory.as_ref().and_then(|it| it.streams.as_ref()).map(|(_, share)| share.low);
        match (compute, memory) {
            (Some(compute), Some(memory)) => Some(compute.max(memory)),
            (one, other) => one.or(other),
        }
    }
}
