//! Marks for other work on the same host or device, from the record of the run.

use super::timeline::Timeline;
use super::{Mark, Threshold, Thresholds};
use crate::analysis::Span;
use crate::analysis::claim::{Compared, Limit, Relation, Sentence};
use crate::analysis::foreign::{foreign_cores, stolen_cores};
use crate::analysis::idle::Idle;
use crate::record::{ForeignProcess, Record};

/// The signs in `record` that other processes were busy while the job ran.
pub(super) fn contended(
    record: &Record,
    timeline: &Timeline<'_>,
    idle: &Idle,
    thresholds: &Thresholds,
) -> Vec<Mark> {
    let whys = [
        by_load(record, idle, thresholds),
        by_overlap(record, timeline, thresholds),
        by_processes_on_the_device(record),
    ];
    whys.into_iter().flatten().map(|by| Mark::Contended { by }).collect()
}

fn by_load(record: &Record, idle: &Idle, thresholds: &Thresholds) -> Option<Sentence> {
    // The load of jobs that may run beside this one (`share: device`) is part of this number and cannot be separated.
    if !record.observed.beside.is_empty() {
        return None;
    }
    let over = |cores: Option<f64>, limit: f64| {
        let cores = cores.filter(|cores| *cores > limit)?;
        Some(Compared::new(cores, Relation::Above, Limit::printed(limit, 3), 3))
    };
    let allowed = idle.limit(record, thresholds);
    if let Some(cores) = over(foreign_cores(record), allowed.processors) {
        let room = (allowed.room > 0.0).then(|| format!("; {:.3} of them beyond its quota", allowed.room));
        let idle = allowed.idle.map(|cores| format!("; {cores:.3} when idle"));
        let more: String = room.into_iter().chain(idle).collect();
        let (number, limit) = (cores.number(), cores.limit());
        let text = format!("other processes kept {number} processors busy (threshold {limit}{more})");
        return Some(Sentence::new(text, [cores]));
    }
    let cores = over(stolen_cores(record), thresholds.foreign_limit(record.provenance.host.cpu.usable))?;
    let (number, limit) = (cores.number(), cores.limit());
    let text = format!("the hypervisor gave {number} processors to others (threshold {limit})");
    Some(Sentence::new(text, [cores]))
}

fn by_overlap(record: &Record, timeline: &Timeline<'_>, thresholds: &Thresholds) -> Option<Sentence> {
    let (first, seconds, count) = timeline.beside(&Span::of(record), &record.observed.beside)?;
    let seconds = Compared::passed(Threshold::OverlapS, seconds, thresholds.of(Threshold::OverlapS), 1);
    let first = format!("{} for {} s", first.label, seconds.number());
    let text = format!("it ran beside {} (threshold {})", and_more(&first, count), seconds.limit());
    Some(Sentence::new(text, [seconds]))
}

/// Jobs that share a host by permission have separate devices, so no other process should use this one. A process that
/// only draws is tolerated: a desktop always has one, and it is idle without user input.
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
