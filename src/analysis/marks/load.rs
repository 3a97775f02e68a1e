//! Doubts that a record alone raises about other work on the same host or device.

use super::timeline::Timeline;
use super::{Mark, Threshold, Thresholds};
use crate::analysis::Span;
use crate::analysis::claim::{Compared, Limit, Relation, Sentence};
use crate::record::{ForeignProcess, Record};

/// The fewest seconds, of wall clock or processor time, over which a rate or a share is taken. The kernel and `time`
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

/// How many processors others kept busy while the job ran, on average. `None` if the host's load or the job's own
/// processor time is unknown, or the job was too short.
pub fn foreign_cores(record: &Record) -> Option<f64> {
    let process = record.process.as_ref()?;
    let own = process.user_s? + process.system_s?;
    Some(((record.observed.host_busy_s? - own) / watched_s(record)?).max(0.0))
}

/// How many processors the hypervisor gave to other guests while the job ran, on average. `None` as for
/// [`foreign_cores`].
pub fn stolen_cores(record: &Record) -> Option<f64> {
    Some(record.observed.host_steal_s? / watched_s(record)?)
}

/// The signs, in `record` alone, that others were at work while the job ran.
pub(super) fn contended(record: &Record, timeline: &Timeline<'_>, thresholds: &Thresholds) -> Vec<Mark> {
    let whys = [
        by_load(record, thresholds),
        by_overlap(record, timeline, thresholds),
        by_processes_on_the_device(record),
    ];
    whys.into_iter().flatten().map(|by| Mark::Contended { by }).collect()
}

fn by_load(record: &Record, thresholds: &Thresholds) -> Option<Sentence> {
    // The load of jobs that may run beside this one (`share: device`) is part of this number and cannot be separated.
    if !record.observed.beside.is_empty() {
        return None;
    }
    let limit = thresholds.foreign_limit(record.provenance.host.cpu.usable);
    let over = |cores: Option<f64>| {
        let cores = cores.filter(|cores| *cores > limit)?;
        Some(Compared::new(cores, Relation::Above, Limit::printed(limit, 2), 3))
    };
    let (cores, text) = if let Some(cores) = over(foreign_cores(record)) {
        let text = format!("other processes kept {} processors busy", cores.number());
        (cores, text)
    } else {
        let cores = over(stolen_cores(record))?;
        let text = format!("the hypervisor gave {} processors to others", cores.number());
        (cores, text)
    };
    Some(Sentence::new(format!("{text} (threshold {})", cores.limit()), [cores]))
}

fn by_overlap(record: &Record, timeline: &Timeline<'_>, thresholds: &Thresholds) -> Option<Sentence> {
    let (first, seconds, count) = timeline.beside(&Span::of(record), &record.observed.beside)?;
    let seconds = Compared::passed(Threshold::OverlapS, seconds, thresholds.of(Threshold::OverlapS), 1);
    let first = format!("{} for {} s", first.label, seconds.number());
    let text = format!("it ran beside {} (threshold {})", and_more(&first, count), seconds.limit());
    Some(Sentence::new(text, [seconds]))
}

/// Jobs that share a host by permission have separate devices, so nobody else should use this one. A process that only
/// draws is tolerated: a desktop always has one, and it is idle while nobody touches anything.
fn by_processes_on_the_device(record: &Record) -> Option<Sentence> {
    let gpu = record.observed.telemetry.as_ref()?.gpu.as_ref()?;
    let name = |process: &ForeignProcess| {
        let name = process.name.as_deref().unwrap_or("a process");
        let memory = process.memory_bytes.map(|bytes| format!(", {} MiB", bytes >> 20)).unwrap_or_default();
        format!("{name} (pid {}{memory})", process.pid)
    };
    let others = gpu.foreign_processes.iter().filter(|process| !process.graphics);
    let first = others.clone().next()?;
    let others = and_more(&name(first), others.count());
    Some(Sentence::plain(format!("on its device there was also {others} (threshold 0)")))
}

/// The `first` of `count` and the number of the rest.
fn and_more(first: &str, count: usize) -> String {
    if count > 1 { format!("{first} and {} more", count - 1) } else { first.to_owned() }
}
