//! Each mark on both sides of its threshold.

mod boundaries;
mod compare;
mod declared;
mod include;
mod pools;
mod sensors;

use std::sync::Arc;

use chrono::TimeDelta;

use super::*;
use crate::analysis::fixture::{StudyBuilder, key};
use crate::analysis::{Study, analyse};
use crate::protocol::{ITERATIONS_HEADER, Iterations};
use crate::record::Gate;

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
    assert!(busy(0.19).is_empty());
    assert_eq!(busy(0.21), ["contended"]);
    assert_eq!(one(|record| record.observed.host_steal_s = Some(0.3 * wall)), ["contended"]);
}

/// The kernel counts each processor's time in hundredths of a second: over 20 ms, two processors can look like five.
#[test]
fn very_short_jobs_are_not_contended() {
    let lasting = |seconds: f64| {
        one(|record| {
            let process = record.process.as_mut().unwrap();
            (process.wall_s, process.user_s, process.system_s) = (Some(seconds), Some(0.0), Some(0.0));
            record.ended_at = record.started_at + TimeDelta::milliseconds((seconds * 1e3) as i64);
            (record.observed.host_busy_s, record.observed.host_steal_s) = (Some(seconds), Some(seconds));
        })
    };
    assert!(lasting(0.99).is_empty());
    assert_eq!(lasting(1.0), ["contended"]);
}

#[test]
fn permitted_neighbours_are_not_contention() {
    let marks = one(|record| {
        record.observed.beside = vec!["other_resnet18_fp32_bs16_run1".to_owned()];
        record.observed.host_busy_s = Some(1000.0);
    });
    assert!(marks.is_empty());
}

#[test]
fn marks_settings_that_make_seconds_doubtful() {
    let unsynchronised = one(|record| record.measurement.as_mut().unwrap().synchronized = false);
    assert_eq!(unsynchronised, ["unsynchronised"]);
    let threads = one(|record| record.measurement.as_mut().unwrap().effective.settings.set("threads", 3));
    assert_eq!(threads, ["oversubscribed"]);
    let battery = one(|record| record.provenance.host.power_source = Some("battery".to_owned()));
    assert_eq!(battery, ["on-battery"]);
}

#[test]
fn threads_are_too_many_only_if_the_processors_are_counted() {
    let with = |threads: u32, usable: u32| {
        one(|record| {
            record.measurement.as_mut().unwrap().effective.settings.set("threads", threads);
            record.provenance.host.cpu.usable = usable;
            record.observed.host_busy_s = None;
        })
    };
    assert_eq!(with(3, 2), ["oversubscribed"]);
    assert_eq!((with(2, 2), with(3, 0)), (vec![], vec![]));
}

#[test]
fn marks_a_start_after_the_gate_timed_out() {
    let gate = |gave_up: Option<&str>| {
        one(|record| record.observed.gate = Some(Gate { waited_s: 3.0, gave_up: gave_up.map(str::to_owned) }))
    };
    assert!(gate(None).is_empty(), "the gate was satisfied");
    assert_eq!(gate(Some("others keep 1.00 processors busy")), ["unsettled"]);
    assert!(Mark::Unsettled { by: Sentence::default() }.disqualifies());
}

#[test]
fn a_loss_that_is_not_finite_is_marked_and_the_time_still_counts() {
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
        run.marks[0].to_string().starts_with("diverged: the loss was not finite from measured iteration 7")
    );
}

/// A worker that writes its losses need not report the first non-finite one separately.
#[test]
fn a_loss_in_iterations_csv_that_is_not_finite_is_marked() {
    let mut study = StudyBuilder::new().run("cpu", "resnet18", 16, 1, 10.0).build();
    let measured = study.cells[0].success().unwrap().1.clone();
    let mut diverging_at = |bad: usize| {
        let number = measured.samples / u64::from(measured.effective.batch);
        let lines = (0..number as usize).map(|iteration| {
            let loss = if iteration >= bad { "nan" } else { "6.9" };
            format!("{iteration},0.5,0,{loss},host\n")
        });
        let text = format!("{}\n{}", ITERATIONS_HEADER.join(","), lines.collect::<String>());
        study.cells[0].iterations = Some(Iterations::parse(&text, &measured).unwrap());
        analyse(&study).runs[0].marks.clone()
    };
    assert_eq!(diverging_at(usize::MAX), []);
    assert_eq!(diverging_at(7), [Mark::Diverged { iteration: 7 }]);
}

/// A mistake of the seed reports: two simultaneous matrices on one laptop.
#[test]
fn runs_that_overlap_on_one_host_are_contended_and_left_out() {
    let overlap = |other_host: bool, beside: bool| {
        let mut study = StudyBuilder::new().runs("cpu", "mobilenet_v2", 16, &[5.3, 1.74]).build();
        let first = study.cells[0].record.clone().unwrap();
        let second = Arc::make_mut(study.cells[1].record.as_mut().unwrap());
        second.started_at = first.started_at + TimeDelta::seconds(10);
        second.ended_at = second.started_at + TimeDelta::seconds(40);
        if beside {
            second.observed.beside = vec![first.label.clone()];
        }
        study.spans = vec![Span::of(&first), Span::of(second)];
        if other_host {
            study.spans[0].host.hostname = "elsewhere".to_owned();
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
