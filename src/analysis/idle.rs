//! How busy a machine is when nothing but a job runs on it, by the runs of its calibrations.
//!
//! What a system does by itself differs from machine to machine. With one limit for all of them, a steady load of
//! others passes where the system does little. A system that by itself does more than that limit allows is not told
//! from others here: raise `foreign_cores` for it.

use super::foreign::foreign_cores;
use super::noise::is_calibration;
use crate::record::{HostFacts, Record};
use crate::shared::Shared;
use crate::stats;
use crate::threshold::{Threshold, Thresholds};

/// The fewest runs that tell it.
const LEAST_RUNS: usize = 5;

/// The machines that were calibrated, with how many processors others keep busy beside a run, at the median.
#[derive(Clone, Debug, Default)]
pub struct Idle(Vec<(Shared<HostFacts>, f64)>);

/// The number of processors that others may keep busy during a run, and what it is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allowance {
    /// The number.
    pub(super) processors: f64,
    /// How many of these the run could not have used, because its control group has a quota.
    pub(super) room: f64,
    /// How many are busy when the machine is idle, if that is known and counts.
    pub(super) idle: Option<f64>,
}

impl Idle {
    /// By those of `records` that are of a calibration, and that nobody disturbed beyond the limit for all machines.
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
        let told = machines.into_iter().filter(|(_, runs)| runs.len() >= LEAST_RUNS);
        Idle(told.filter_map(|(host, runs)| Some((host, stats::median(&runs).ok()?))).collect())
    }

    /// How many processors others keep busy beside a job on `host`, at the median. `None` if too few runs tell.
    pub fn on(&self, host: &HostFacts) -> Option<f64> {
        self.0.iter().find(|(known, _)| is_alike(known, host)).map(|(_, idle)| *idle)
    }

    /// The limit for the run of `record`. What is known of its machine counts, unless the matrix changes the limit for
    /// all machines.
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

/// Whether others have the same processors to use on both: the machine is the same, and so is the part of it that jobs
/// may use.
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

    /// Runs of a calibration beside which others kept these processors busy.
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

    /// Whether a run beside which others keep so many processors busy is marked.
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
    fn a_steady_load_is_told_from_what_the_system_does_by_itself() {
        let quiet = || idle(&[0.02, 0.03, 0.02, 0.04, 0.03]);
        let busy = || idle(&[0.18, 0.19, 0.19, 0.18, 0.19]);
        let none = |_: &mut Record| {};
        assert!(is_contended(quiet(), 0.15, none) && !is_contended(quiet(), 0.12, none));
        assert!(is_contended(busy(), 0.3, none) && !is_contended(busy(), 0.28, none));
        assert!(!is_contended(Idle::default(), 0.15, none) && is_contended(Idle::default(), 0.25, none));
    }

    #[test]
    fn few_runs_other_machines_and_disturbed_runs_tell_nothing() {
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
    fn a_limit_of_ones_own_counts_whatever_the_machine_does() {
        let study = calibration(&[0.02; 5]);
        let idle = Idle::of(study.cells.iter().filter_map(|cell| cell.record()));
        let record = study.cells[0].record().unwrap();
        let own = Thresholds::default().with(Threshold::ForeignCores, 3.0);
        assert_eq!(idle.limit(record, &own), Allowance { processors: 3.0, room: 0.0, idle: None });
    }

    /// In a container with two of 64 processors' time, busy neighbours take nothing while processors are idle.
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
        assert!(is_contended(Idle::default(), 1.0, within(None, 2.0)), "nobody counted them");
    }

    /// A calibration of the whole host says nothing about a part of it.
    #[test]
    fn another_part_of_a_machine_is_another_machine() {
        let idle = idle(&[0.03; 5]);
        let mut host = (*calibration(&[0.0]).cells[0].record().unwrap().provenance.host).clone();
        assert!(idle.on(&host).is_some());
        host.cpu.allowed = Some(1);
        assert_eq!(idle.on(&host), None);
    }
}
