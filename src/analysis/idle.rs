//! The number of processors that an idle machine keeps busy, from the runs of its calibrations.
//!
//! The load of an idle system differs from machine to machine. With one limit for all of them, a steady load of other
//! processes would pass unnoticed on a quiet system. If an idle system exceeds the general limit, its load cannot be
//! distinguished from other work: raise `foreign_cores` for it.

use super::foreign::foreign_cores;
use super::noise::is_calibration;
use crate::record::{HostFacts, Record};
use crate::shared::Shared;
use crate::stats;
use crate::threshold::{Threshold, Thresholds};

/// The least number of calibration runs of a machine.
const LEAST_RUNS: usize = 5;

/// The calibrated machines, each with the median number of processors that other processes keep busy during a run.
#[derive(Clone, Debug, Default)]
pub struct Idle(Vec<(Shared<HostFacts>, f64)>);

/// The number of processors that other processes may keep busy during a run, and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allowance {
    /// The number.
    pub(super) processors: f64,
    /// How many of these the run could not have used, because of the quota of its control group.
    pub(super) room: f64,
    /// How many are busy when the machine is idle, if that is known and used.
    pub(super) idle: Option<f64>,
}

impl Idle {
    /// From those of `records` that are of a calibration and were not disturbed beyond the limit for all machines.
    pub fn of<'r>(records: impl Iterator<Item = &'r Record>) -> Idle {
        let mut machines: Vec<(Shared<HostFacts>, Vec<f64>)> = Vec::new();
        for record in records.filter(|record| is_of_calibration(record)) {
            let host = &record.provenance.host;
            let limit = Thresholds::default().foreign_limit(host.cpu.usable);
            let Some(cores) = foreign_cores(record).filter(|cores| *cores <= limit) else { continue };
            match machines.iter_mut().find(|(known, _)| is_alike(known, host)) {
                Some((_, runs)) => runs.push(cores),
                None => machines.push((host.clone(), vec![cores])),
            }
        }
        let calibrated = machines.into_iter().filter(|(_, runs)| runs.len() >= LEAST_RUNS);
        Idle(calibrated.filter_map(|(host, runs)| Some((host, stats::median(&runs).ok()?))).collect())
    }

    /// The median number of processors that other processes keep busy on `host`. `None` with too few calibration runs.
    pub fn on(&self, host: &HostFacts) -> Option<f64> {
        self.0.iter().find(|(known, _)| is_alike(known, host)).map(|(_, idle)| *idle)
    }

    /// The limit for the run of `record`: that of its calibrated machine, unless the matrix changes the limit for all
    /// machines.
    pub(super) fn limit(&self, record: &Record, thresholds: &Thresholds) -> Allowance {
        let host = &record.provenance.host;
        let usual = thresholds.foreign_limit(host.cpu.usable);
        let is_changed = thresholds.changed().any(|changed| changed == Threshold::ForeignCores);
        let idle = self.on(host).filter(|_| !is_changed);
        let share = thresholds.of(Threshold::ForeignShare) * f64::from(host.cpu.usable);
        let above = |idle: f64| idle + thresholds.of(Threshold::ForeignAbove).max(share);
        let room = host.room_beside();
        Allowance { processors: idle.map_or(usual, above) + room, room, idle }
    }
}

/// Whether calibration runs on `one` apply to `other`: it is the same machine, and jobs may use the same part of it.
fn is_alike(one: &HostFacts, other: &HostFacts) -> bool {
    let part = |host: &HostFacts| {
        let limits = host.cgroup.unwrap_or_default();
        (host.cpu.usable, host.cpu.allowed, limits.cpus, limits.processors)
    };
    one.is_machine_of(other) && part(one) == part(other)
}

fn is_of_calibration(record: &Record) -> bool {
    record.provenance.matrix.name.parse().is_ok_and(|name| is_calibration(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::{Study, analyse};
    use crate::record::CgroupLimits;

    /// Runs of a calibration during which other processes kept these processors busy.
    fn calibration(cores: &[f64]) -> Study {
        let runs = cores.iter().zip(1..);
        let study = runs.fold(StudyBuilder::new(), |study, (cores, repeat)| {
            study.run_with(key("one", "resnet18", 16, repeat), 10.0, |record| {
                record.provenance.matrix.name = "calibration-cpu".into();
                record.observed.host_busy_s = Some((1.9 + cores) * record.wall_s());
            })
        });
        study.build()
    }

    fn idle(cores: &[f64]) -> Idle {
        Idle::of(calibration(cores).cells.iter().filter_map(|cell| cell.record()))
    }

    /// Whether a run is marked if other processes keep this number of processors busy.
    fn is_contended(idle: Idle, cores: f64, change: impl FnOnce(&mut Record)) -> bool {
        let study = StudyBuilder::new().run_with(key("cpu", "vgg16", 16, 1), 10.0, |record| {
            record.observed.host_busy_s = Some((1.9 + cores) * record.wall_s());
            change(record);
        });
        let study = Study { idle, ..study.build() };
        let marks: Vec<String> = analyse(&study).runs[0].marks.iter().map(ToString::to_string).collect();
        marks.iter().any(|mark| mark.contains("other processes kept"))
    }

    #[test]
    fn steady_loads_are_distinguished_from_an_idle_system() {
        let quiet = || idle(&[0.02, 0.03, 0.02, 0.04, 0.03]);
        let busy = || idle(&[0.18, 0.19, 0.19, 0.18, 0.19]);
        let none = |_: &mut Record| {};
        assert!(is_contended(quiet(), 0.15, none) && !is_contended(quiet(), 0.12, none));
        assert!(is_contended(busy(), 0.3, none) && !is_contended(busy(), 0.28, none));
        assert!(!is_contended(Idle::default(), 0.15, none) && is_contended(Idle::default(), 0.25, none));
    }

    #[test]
    fn few_runs_other_machines_and_disturbed_runs_are_ignored() {
        let host = |idle: &Idle, name: &str| {
            let study = calibration(&[0.0]);
            let mut host = (*study.cells[0].record().unwrap().provenance.host).clone();
            host.hostname = name.to_owned();
            idle.on(&host)
        };
        let name = crate::analysis::fixture::HOST;
        let five = idle(&[0.03; 5]);
        assert!(host(&five, name).is_some_and(|cores| (cores - 0.03).abs() < 1e-9));
        assert_eq!(host(&five, "elsewhere"), None);
        assert_eq!(host(&idle(&[0.03; 4]), name), None);
        assert_eq!(
            host(&idle(&[0.03, 0.03, 0.03, 0.03, 1.0]), name),
            None,
            "a calibration beside other work"
        );
    }

    #[test]
    fn a_declared_limit_overrides_the_calibration() {
        let study = calibration(&[0.02; 5]);
        let idle = Idle::of(study.cells.iter().filter_map(|cell| cell.record()));
        let record = study.cells[0].record().unwrap();
        let own = Thresholds::default().with(Threshold::ForeignCores, 3.0);
        assert_eq!(idle.limit(record, &own), Allowance { processors: 3.0, room: 0.0, idle: None });
    }

    /// In a container with two of 64 processors' time, busy neighbours do no harm while processors are idle.
    #[test]
    fn a_quota_leaves_room_for_others() {
        let within = |allowed: Option<u32>, quota: f64| {
            move |record: &mut Record| {
                let host = &mut record.provenance.host;
                (host.cpu.logical, host.cpu.allowed) = (64, allowed);
                host.cgroup = Some(CgroupLimits { cpus: Some(quota), ..CgroupLimits::default() });
            }
        };
        assert!(!is_contended(Idle::default(), 40.0, within(Some(64), 2.0)));
        assert!(is_contended(Idle::default(), 63.0, within(Some(64), 2.0)), "no processor is left for it");
        assert!(
            is_contended(Idle::default(), 1.0, within(Some(2), 2.0)),
            "by its affinity, two that others share"
        );
        assert!(is_contended(Idle::default(), 1.0, within(None, 2.0)), "they were not counted");
    }

    /// A calibration of the whole host does not apply to a part of it.
    #[test]
    fn another_part_of_a_machine_is_another_machine() {
        let idle = idle(&[0.03; 5]);
        let mut host = (*calibration(&[0.0]).cells[0].record().unwrap().provenance.host).clone();
        assert!(idle.on(&host).is_some());
        host.cpu.allowed = Some(1);
        assert_eq!(idle.on(&host), None);
    }
}
