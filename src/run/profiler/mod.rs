//! Profilers made ready: found, asked what they can count here, and refused with a remedy where they cannot work.
//!
//! A profiler is asked once a run, before its first job, so that a host that cannot profile says so in seconds and not
//! after each job's training. What is refused is a failure of the job, with its reason and its remedy; the timing jobs
//! of the matrix come first and have their results by then.

mod ncu;
mod perf;

use std::collections::BTreeMap;
use std::time::Duration;

use super::find::{FindError, Tool};
use crate::job::{Device, Key, Kind};
use crate::plan::Profiler;
use crate::record::{HostFacts, NotProfiled};

/// Longer than `ncu` takes to list what a device can count, on the slowest machine seen.
const PATIENCE: Duration = Duration::from_secs(90);

/// A profiler that can be called, and what is to be said of it before its first job.
#[derive(Clone, Debug)]
struct Ready {
    profiler: Profiler,
    sentences: Vec<String>,
}

/// What a profiler is made ready for: jobs that are alike in this need not ask again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Purpose {
    kind: Kind,
    device: Device,
    counters: Vec<String>,
    /// Where the worker's programs are looked for, and so its profiler.
    path: String,
}

/// What is known of this host's profilers so far.
#[derive(Debug, Default)]
pub(super) struct Profilers {
    known: BTreeMap<Purpose, Result<Ready, NotProfiled>>,
}

/// A profiler's answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// The profiler, or why there is none.
    pub(super) profiler: Result<Profiler, NotProfiled>,
    /// What the user should know of it, told with its first job.
    pub(super) sentences: Vec<String>,
}

impl Profilers {
    /// The profiler for the job of `key`, `None` for a timing job. `path` is the worker's `PATH`.
    pub(super) async fn ready(&mut self, key: &Key, path: &str, host: &HostFacts) -> Option<Answer> {
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
            Kind::Timing => return None,
            Kind::Ncu => ncu::probe(&purpose, host).await,
            Kind::Perf => perf::probe(&purpose, host).await,
        };
        let sentences = found.as_ref().map(|ready| ready.sentences.clone()).unwrap_or_default();
        let profiler = found.as_ref().map(|ready| ready.profiler.clone()).map_err(Clone::clone);
        self.known.insert(purpose, found);
        Some(Answer { profiler, sentences })
    }
}

/// The refusal of a profiler that is not found; `install` says where to have it from.
fn not_found(tool: &Tool, error: &FindError, install: &str) -> NotProfiled {
    let remedy = match error {
        FindError::Nowhere(_) => install.to_owned(),
        FindError::Named { .. } => {
            format!("let {} name the program, or unset it to have it looked for", tool.variable)
        }
    };
    NotProfiled { cause: "not_found".to_owned(), message: error.to_string(), remedy }
}
