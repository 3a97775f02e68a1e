//! The input of `doctor` and `env`: the host, its busy processes, the programs that a run can use, the permission to
//! count, and the directories of a run.
//!
//! Everything is gathered once into a [`Survey`], which is plain data; `cli` judges it. No file remains, no lock in use
//! is taken, and facts that the system does not report are absent.

mod access;
mod activity;
mod place;
mod programs;
mod worker;

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{
    GpuProcess, probe_cloud, probe_git, probe_gpu_processes, probe_host, probe_lock_reach,
    probe_memory_available,
};
use crate::record::{CloudFacts, GitFacts, HostFacts, LockReach};

pub use access::CounterAccess;
pub use activity::{Activity, BusyProcess, Glance};
pub use place::PlaceFacts;
pub use programs::ProgramFacts;
pub use worker::{WorkerState, WorkerSurvey};

/// Everything known about a host before anything is measured on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// When the survey was made.
    pub taken_at: DateTime<Utc>,
    /// `orchestrate`'s own version.
    pub orchestrate: String,
    /// The machine, as in a record's provenance.
    pub host: HostFacts,
    /// Its place in the cloud, if its metadata service answers.
    pub cloud: Option<CloudFacts>,
    /// Available memory, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// The processes that kept the processors busy; absent if that was not measured.
    pub activity: Option<Activity>,
    /// Processes that use a GPU that jobs can have.
    pub gpu_processes: Vec<GpuProcess>,
    /// NVIDIA GPUs on the bus that have no NVIDIA driver.
    pub gpus_without_driver: u32,
    /// GNU or BSD `time`.
    pub time: Option<ProgramFacts>,
    /// `perf`.
    pub perf: Option<ProgramFacts>,
    /// NVIDIA Nsight Compute.
    pub ncu: Option<ProgramFacts>,
    /// The counters that this user may read.
    pub counters: CounterAccess,
    /// The shipped worker.
    pub worker: WorkerSurvey,
    /// The store.
    pub store: PlaceFacts,
    /// The directory of the host's locks.
    pub locks: PlaceFacts,
    /// The processes that these locks exclude.
    pub lock_reach: Option<LockReach>,
    /// Whether the wall clock is synchronised with a time server; absent if the kernel does not report it.
    pub clock_synchronised: Option<bool>,
    /// The git checkout of the current directory.
    pub git: Option<GitFacts>,
}

impl Survey {
    /// Surveys this host, the store in `store` and the locks in `lock_dir`. Measures the load of the processors during
    /// `look`; the rest takes about a second.
    pub fn probe(store: &Path, lock_dir: &Path, look: Duration) -> Survey {
        // This comes first, before our own probes cause load.
        let activity = (!look.is_zero()).then(|| Activity::probe(look));
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
        let locks = absolute(lock_dir);
        let host = probe_host();
        Survey {
            taken_at: now(),
            orchestrate: env!("CARGO_PKG_VERSION").to_owned(),
            cloud: probe_cloud().map(|cloud| cloud.place),
            memory_available_bytes: probe_memory_available(),
            activity,
            gpu_processes: probe_gpu_processes(&host),
            host,
            gpus_without_driver: access::probe_gpus_without_driver(),
            time: programs::probe_time(),
            perf: programs::probe_perf(),
            ncu: programs::probe_ncu(),
            counters: CounterAccess::probe(),
            worker: WorkerSurvey::probe(),
            store: PlaceFacts::probe(&absolute(store), None),
            locks: PlaceFacts::probe(&locks, Some("host.lock")),
            lock_reach: Some(probe_lock_reach(&locks)),
            clock_synchronised: access::probe_clock_synchronised(),
            git: probe_git(Path::new(".")),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a survey is of a moment")]
fn now() -> DateTime<Utc> {
    Utc::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survey_writes_nothing_and_never_fails() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("runs");
        let survey = Survey::probe(&store, directory.path(), Duration::ZERO);
        assert_eq!(survey.host.devices[0], "cpu");
        assert_eq!(survey.activity, None);
        assert!(!survey.store.exists && survey.store.problem.is_none(), "{:?}", survey.store);
        assert!(!store.exists());
    }
}
