//! Warns before the first job of a run if other work on this host would spoil its measurements, by the checks of
//! `doctor`.
//!
//! Most runs are not delayed: processes are only watched if the counters since the beginning of the run show other
//! work.

use std::collections::BTreeSet;
use std::time::Duration;

use super::doctor::disturbances;
use super::output::warn;
use crate::host::probe_gpu_processes;
use crate::host::survey::{Activity, Glance, Survey};
use crate::job::{Device, Job, Kind};
use crate::lock::is_host_held;
use crate::plan::{Decided, Plan};
use crate::record::HostFacts;

/// The time for which the processes of a busy host are watched.
const LOOK: Duration = Duration::from_millis(250);

/// Warns if other processes are busy on `host`, and jobs among `decided` would be marked for it. `glance` is from the
/// beginning of the run.
pub(super) fn warn_of_others(glance: &Glance, plan: &Plan, decided: &[Decided], host: &HostFacts) {
    let is_measured = |job: &Job| job.key().kind == Kind::Timing;
    let jobs =
        || decided.iter().filter(|it| it.decision.runs() && is_measured(&it.job)).map(|it| it.job.key());
    // Jobs that wait for a quiet host report that themselves.
    let starts_anyway = jobs().any(|key| plan.env(key).limits.quiet.is_none());
    let limit = plan.thresholds.foreign_limit(host.cpu.usable) + host.room_beside();
    let activity = (starts_anyway && glance.is_busy(limit)).then(|| Activity::probe(LOOK));
    let gpus: BTreeSet<usize> = jobs().filter_map(|key| gpu_of(key.device, host)).collect();
    let mut gpu_processes = if gpus.is_empty() { Vec::new() } else { probe_gpu_processes(host) };
    gpu_processes.retain(|process| gpus.contains(&process.gpu));
    if activity.is_none() && gpu_processes.is_empty() {
        return;
    }
    // Measurements of other `orchestrate` runs end before this one starts.
    if is_host_held() {
        return;
    }
    let survey = Survey { host: host.clone(), activity, gpu_processes, ..Survey::default() };
    for sentence in disturbances(&survey, &plan.thresholds) {
        warn(&sentence);
    }
}

/// The position of the GPU of `device` in [`HostFacts::gpus`].
fn gpu_of(device: Device, host: &HostFacts) -> Option<usize> {
    let Device::Cuda(number) = device else { return None };
    let visible = host.cuda_visible_devices.as_ref();
    visible.map_or(Some(number as usize), |visible| visible.entries.get(number as usize)?.gpu)
}
