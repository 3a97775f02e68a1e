//! Doubts about single runs, derived from what their records observed.
//!
//! A mark carries its number and the threshold it passed. Some marks disqualify: the run is shown with its mark and
//! counted, but enters no statistic.

use std::fmt;

use super::{Cell, Span};
use crate::job::Device;
use crate::record::Record;

/// Foreign processor time, in processors, that is always suffered: the system's own work.
const FOREIGN_CORES: f64 = 0.25;

/// Foreign processor time, as a share of the usable processors, that is always suffered.
const FOREIGN_SHARE: f64 = 0.05;

/// From where on numbers are doubtful.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Seconds that two runs of one host may overlap: clocks are not exact, and a process ends before it is seen to.
    pub overlap_s: f64,
    /// The share of the window spent waiting for data from which on a run is said to be bound by its data.
    pub data_wait_share: f64,
    /// How much slower training on files may be than on synthetic tensors, as a share, before the host is said to be the
    /// limit.
    pub data_gap: f64,
    /// The coefficient of variation from which on a group is said to vary.
    pub variation: f64,
    /// How far the operations that a device executed may be from those that the network has, as a share.
    pub executed_flops: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            overlap_s: 1.0,
            data_wait_share: 0.1,
            data_gap: 0.05,
            variation: 0.05,
            executed_flops: 0.05,
        }
    }
}

impl Thresholds {
    /// Processors' worth of foreign work from which on a run on a host with `usable` processors is contended: a quarter
    /// of one, or a twentieth of all where that is more.
    pub fn foreign_cores(usable: u32) -> f64 {
        FOREIGN_CORES.max(FOREIGN_SHARE * f64::from(usable))
    }
}

/// A named doubt about a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Others used the processors meanwhile.
    Contended {
        /// By what, with the number and the threshold.
        by: String,
    },
    /// The window was not synchronised with the device: its seconds mean nothing.
    Unsynchronised,
    /// There were more compute threads than processors to run them.
    Oversubscribed {
        /// Compute threads.
        threads: u32,
        /// Processors the process could run on.
        usable: u32,
    },
    /// The host ran on its battery.
    OnBattery,
    /// The loss was infinite or not a number: the time is that of the arithmetic, but nothing was being learnt.
    Diverged {
        /// The first such iteration of the window, counted from 0.
        iteration: u64,
    },
}

impl Mark {
    /// Its name, as the CSV files have it.
    pub fn name(&self) -> &'static str {
        match self {
            Mark::Contended { .. } => "contended",
            Mark::Unsynchronised => "unsynchronised",
            Mark::Oversubscribed { .. } => "oversubscribed",
            Mark::OnBattery => "on-battery",
            Mark::Diverged { .. } => "diverged",
        }
    }

    /// Whether a run with this mark is left out of statistics. An oversubscribed run is what its settings ask for, and
    /// settings are part of the group; a run on the battery is slower but its own; a network that diverged is still
    /// computed whole, though a device that is limited by its power may compute what is not a number a little faster.
    pub fn disqualifies(&self) -> bool {
        match self {
            Mark::Contended { .. } | Mark::Unsynchronised => true,
            Mark::Oversubscribed { .. } | Mark::OnBattery | Mark::Diverged { .. } => false,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::Contended { by } => write!(f, "contended: {by}"),
            Mark::Unsynchronised => {
                f.write_str("unsynchronised: the device was not synchronised at both ends of the window")
            }
            Mark::Oversubscribed { threads, usable } => {
                write!(f, "oversubscribed: {threads} compute threads on {usable} usable processors")
            }
            Mark::OnBattery => f.write_str("on-battery: the host ran on its battery"),
            Mark::Diverged { iteration } => {
                write!(f, "diverged: the loss was not finite from measured iteration {iteration} on")
            }
        }
    }
}

/// The doubts about `cell`; none for one without a result. `spans` says when which job ran where.
pub fn marks(cell: &Cell, spans: &[Span], thresholds: &Thresholds) -> Vec<Mark> {
    let Some((record, measurement)) = cell.success() else { return Vec::new() };
    let mut found = Vec::new();
    found.extend(contended_by_load(record));
    found.extend(contended_by_overlap(record, spans, thresholds));
    if !measurement.synchronized {
        found.push(Mark::Unsynchronised);
    }
    let usable = record.provenance.host.cpu.usable;
    if let Some(threads) = measurement.effective.threads
        && cell.job.key().device == Device::Cpu
        && usable > 0
        && threads > usable
    {
        found.push(Mark::Oversubscribed { threads, usable });
    }
    if record.provenance.host.power_source.as_deref() == Some("battery") {
        found.push(Mark::OnBattery);
    }
    found
        .extend(measurement.details.first_non_finite_iteration.map(|iteration| Mark::Diverged { iteration }));
    found
}

/// Seconds between the job's start and its end.
pub fn wall_s(record: &Record) -> f64 {
    let span = (record.ended_at - record.started_at).as_seconds_f64();
    record.process.as_ref().and_then(|process| process.wall_s).unwrap_or(span)
}

/// How many processors others kept busy on average while the job ran; `None` where the host's load or the job's own
/// processor time is not known.
pub fn foreign_cores(record: &Record) -> Option<f64> {
    let process = record.process.as_ref()?;
    let own = process.user_s? + process.system_s?;
    let wall = wall_s(record);
    (wall > 0.0).then_some(((record.observed.host_busy_s? - own) / wall).max(0.0))
}

/// How many processors the hypervisor gave to others on average while the job ran.
pub fn stolen_cores(record: &Record) -> Option<f64> {
    let wall = wall_s(record);
    (wall > 0.0).then_some(record.observed.host_steal_s? / wall)
}

fn contended_by_load(record: &Record) -> Option<Mark> {
    // What others do by permission (`share: device`) is foreign too, and cannot be told apart from this number.
    if !record.observed.beside.is_empty() {
        return None;
    }
    let limit = Thresholds::foreign_cores(record.provenance.host.cpu.usable);
    let over = |cores: Option<f64>| cores.filter(|cores| *cores > limit);
    let sentence = if let Some(cores) = over(foreign_cores(record)) {
        format!("other processes kept {cores:.2} processors busy")
    } else {
        let cores = over(stolen_cores(record))?;
        format!("the hypervisor gave {cores:.2} processors to others")
    };
    Some(Mark::Contended { by: format!("{sentence} (threshold {limit:.2})") })
}

fn contended_by_overlap(record: &Record, spans: &[Span], thresholds: &Thresholds) -> Option<Mark> {
    let own = Span::of(record);
    let mut others: Vec<String> = spans
        .iter()
        .filter(|other| other.host == own.host && other.job != own.job)
        .filter(|other| !record.observed.beside.contains(&other.label))
        .filter_map(|other| {
            let from = own.started_at.max(other.started_at);
            let to = own.ended_at.min(other.ended_at);
            let seconds = (to - from).as_seconds_f64();
            (seconds > thresholds.overlap_s).then(|| format!("{} for {seconds:.1} s", other.label))
        })
        .collect();
    others.sort();
    let first = others.first()?;
    let more = if others.len() > 1 { format!(" and {} more", others.len() - 1) } else { String::new() };
    let limit = thresholds.overlap_s;
    Some(Mark::Contended { by: format!("it ran beside {first}{more} (threshold {limit:.1} s)") })
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::{Study, analyse};

    fn names(study: &Study) -> Vec<Vec<&'static str>> {
        analyse(study).runs.iter().map(|run| run.marks.iter().map(Mark::name).collect()).collect()
    }

    fn one(change: impl FnOnce(&mut Record)) -> Vec<&'static str> {
        let study = StudyBuilder::new().run_with(key("cpu", "resnet18", 16, 1), 10.0, change).build();
        names(&study).remove(0)
    }

    #[test]
    fn an_undisturbed_run_has_no_mark() {
        assert!(one(|_| {}).is_empty());
        assert!(one(|record| record.observed.host_busy_s = None).is_empty(), "unknown is not contended");
    }

    #[test]
    fn foreign_work_and_stolen_time_are_contention() {
        let wall = 18.0;
        let busy = |cores: f64| one(|record| record.observed.host_busy_s = Some((1.9 + cores) * wall));
        assert!(busy(0.2).is_empty());
        assert_eq!(busy(0.3), ["contended"]);
        assert_eq!(one(|record| record.observed.host_steal_s = Some(0.3 * wall)), ["contended"]);
        assert_eq!(Thresholds::foreign_cores(2), 0.25);
        assert_eq!(Thresholds::foreign_cores(64), 3.2);
    }

    #[test]
    fn permitted_neighbours_are_no_contention() {
        let marks = one(|record| {
            record.observed.beside = vec!["other_resnet18_fp32_bs16_run1".to_owned()];
            record.observed.host_busy_s = Some(1000.0);
        });
        assert!(marks.is_empty());
    }

    #[test]
    fn the_settings_that_make_seconds_doubtful_are_marked() {
        let unsynchronised = one(|record| record.measurement.as_mut().unwrap().synchronized = false);
        assert_eq!(unsynchronised, ["unsynchronised"]);
        let threads = one(|record| record.measurement.as_mut().unwrap().effective.threads = Some(3));
        assert_eq!(threads, ["oversubscribed"]);
        let battery = one(|record| record.provenance.host.power_source = Some("battery".to_owned()));
        assert_eq!(battery, ["on-battery"]);
    }

    #[test]
    fn a_loss_that_is_not_finite_is_said_and_the_time_still_counts() {
        let build = |first_non_finite_iteration| {
            StudyBuilder::new()
                .run_with(key("cpu", "resnet18", 16, 1), 10.0, |record| {
                    let details = &mut record.measurement.as_mut().unwrap().details;
                    details.first_non_finite_iteration = first_non_finite_iteration;
                })
                .build()
        };
        assert_eq!(names(&build(None)), [[""; 0]]);
        let study = build(Some(7));
        let analysis = analyse(&study);
        let run = &analysis.runs[0];
        assert_eq!(run.marks, [Mark::Diverged { iteration: 7 }]);
        assert!(run.counts());
        assert!(
            run.marks[0]
                .to_string()
                .starts_with("diverged: the loss was not finite from measured iteration 7")
        );
    }

    /// The seeds' second mistake: two matrices at once on one laptop.
    #[test]
    fn runs_that_overlap_on_one_host_are_contended_and_left_out() {
        let overlap = |other_host: bool, beside: bool| {
            let mut study = StudyBuilder::new().runs("cpu", "mobilenet_v2", 16, &[5.3, 1.74]).build();
            let super::super::State::Recorded(first) = study.cells[0].state.clone() else { unreachable!() };
            let super::super::State::Recorded(second) = &mut study.cells[1].state else { unreachable!() };
            second.started_at = first.started_at + TimeDelta::seconds(10);
            second.ended_at = second.started_at + TimeDelta::seconds(40);
            if beside {
                second.observed.beside = vec![first.label.clone()];
            }
            study.spans = vec![Span::of(&first), Span::of(second)];
            if other_host {
                study.spans[0].host = "elsewhere".to_owned();
            }
            study
        };
        let study = overlap(false, false);
        assert_eq!(names(&study), [["contended"], ["contended"]]);
        let analysis = analyse(&study);
        assert_eq!(analysis.rows[0].statistics, Err("all 2 runs are contended".to_owned()));
        let text = analysis.runs[1].marks[0].to_string();
        assert!(text.starts_with("contended: it ran beside cpu_mobilenet_v2_fp32_bs16_run1 for "), "{text}");
        assert_eq!(names(&overlap(true, false))[1], [""; 0]);
        assert_eq!(names(&overlap(false, true))[1], [""; 0]);
    }
}
