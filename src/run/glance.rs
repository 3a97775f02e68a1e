//! Caches the facts about this host for a second: [`Glance`].
#![expect(clippy::disallowed_methods, reason = "cached facts have an age")]

use std::time::{Duration, Instant};

use crate::host::probe_host;
use crate::record::HostFacts;

/// How long the facts are cached. Probing takes a millisecond, which is much for a job that takes five.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// The last probe of the host.
#[derive(Debug, Default)]
pub(super) struct Glance {
    last: Option<(Instant, HostFacts)>,
}

impl Glance {
    /// The facts about the host, at most [`GOOD_FOR`] old: its governor, power source and swap can change during a run.
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
