//! The number of processors that other processes kept busy while a job ran, from its record.

use crate::record::Record;

/// The least seconds, of wall clock or processor time, for a rate or a share. The kernel and `time`
/// count processor time in hundredths of a second, so shorter spans are too coarse.
pub(super) const LEAST_S: f64 = 1.0;

/// Seconds that the host's own counters covered: from before the job's start to after its end. `None` if they are too
/// few for a rate.
fn watched_s(record: &Record) -> Option<f64> {
    let span = (record.ended_at - record.started_at).as_seconds_f64();
    Some(span.max(record.wall_s())).filter(|seconds| *seconds >= LEAST_S)
}

/// Whether the job took too few seconds for a rate.
pub fn is_too_short_for_load(record: &Record) -> bool {
    watched_s(record).is_none()
}

/// How many processors other processes kept busy while the job ran, on average. `None` if the host's load or the job's
/// own processor time is unknown, or the job was too short.
pub fn foreign_cores(record: &Record) -> Option<f64> {
    let process = record.process.as_ref()?;
    let own = process.user_s? + process.system_s?;
    Some(((record.observed.host_busy_s? - own) / watched_s(record)?).max(0.0))
}

/// How many processors other guests of the hypervisor took while the job ran, on average. `None` as for
/// [`foreign_cores`].
pub fn stolen_cores(record: &Record) -> Option<f64> {
    Some(record.observed.host_steal_s? / watched_s(record)?)
}
