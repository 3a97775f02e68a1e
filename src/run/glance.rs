//! What this host is, without looking at it more often than it is worth.
#![expect(clippy::disallowed_methods, reason = "a look at a host is of a moment")]

use std::time::{Duration, Instant};

use crate::host::probe_host;
use crate::record::HostFacts;

/// A look is this long as good as a new one. It costs a millisecond, which is much for a job that takes five.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// The last look at the host.
#[derive(Debug, Default)]
pub(super) struct Glance {
    last: Option<(Instant, HostFacts)>,
}

impl Glance {
    /// What the host is now, or was less than a second ago: its governor, its power source and its swap can change
    /// while a run goes on.
    pub(super) fn host(&mut self) -> HostFacts {
        match &self.last {
            Some((then, facts)) if then.elapsed() < GOOD_FOR => facts.clone(),
            _ => {
                let facts = probe_host();
                self.last = Some((Instant::now(), facts.clone()));
                facts
            }
        }
    }
}
