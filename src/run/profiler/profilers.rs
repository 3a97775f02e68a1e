//! The profilers of this host, each queried once per purpose: [`Profilers`].

use std::collections::BTreeMap;

use super::ready::{Purpose, Ready};
use super::{ncu, perf};
use crate::job::{Key, Kind};
use crate::plan::Profiler;
use crate::record::{HostFacts, NotProfiled};

/// The answers of this host's profilers so far.
#[derive(Debug, Default)]
pub(in crate::run) struct Profilers {
    known: BTreeMap<Purpose, Result<Ready, NotProfiled>>,
}

/// A profiler's answer.
#[derive(Debug)]
pub(in crate::run) struct Answer {
    /// The profiler, or the reason why it cannot be used.
    pub(in crate::run) profiler: Result<Profiler, NotProfiled>,
    /// Sentences for the user, reported with its first job.
    pub(in crate::run) sentences: Vec<String>,
}

impl Profilers {
    /// The profiler for the job of `key`; `None` for a job without a profiler. `path` is the worker's `PATH`.
    pub(in crate::run) async fn ready(&mut self, key: &Key, path: &str, host: &HostFacts) -> Option<Answer> {
        let purpose = Purpose {
            kind: key.kind,
            device: key.device,
            counters: key.profile.counters.clone(),
            path: path.to_owned(),
        };
        if let Some(known) = self.known.get(&purpose) {
            let profiler = known.as_ref().map(|ready| ready.profiler.clone()).map_err(Clone::clone);
            return Some(Answer { profiler, sentences: Vec::new() });
        }
        let found = match key.kind {
            Kind::Timing | Kind::Ops => return None,
            Kind::Ncu => ncu::probe(&purpose, host).await,
            Kind::Perf => perf::probe(&purpose, host).await,
        };
        let sentences = found.as_ref().map(|ready| ready.sentences.clone()).unwrap_or_default();
        let profiler = found.as_ref().map(|ready| ready.profiler.clone()).map_err(Clone::clone);
        self.known.insert(purpose, found);
        Some(Answer { profiler, sentences })
    }
}
