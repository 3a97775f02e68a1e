//! The text for each event of a run.

use std::time::Duration;

use chrono::{DateTime, TimeDelta};

use super::{Current, Event, Narrator, Summary, Waiting, Weight, WorkerFate};
use crate::job::{Job, Key, Kind};
use crate::plan::{Decided, Decision, Estimator, NotDone, TimeLeft};
use crate::protocol::{Progress, Report};
use crate::record::testing::record_of;
use crate::record::{Outcome, Record};

fn job(repeat: u32) -> Job {
    Job::new(Key { model: "resnet18".into(), batch: 16, repeat, ..Key::example() })
}

fn record(job: &Job, outcome: Outcome) -> Record {
    let measurement = r#"{ "schema": 1, "samples": 1600, "elapsed_s": 12.5, "synchronized": true,
        "effective": { "device": "cpu", "precision": "fp32", "batch": 16 } }"#;
    let measurement = match Report::parse(measurement) {
        Ok(Report::Measured(measurement)) => Some(*measurement),
        other => panic!("{other:?}"),
    };
    Record {
        ended_at: DateTime::UNIX_EPOCH + TimeDelta::seconds(20),
        measurement,
        ..record_of(job.key().clone(), outcome)
    }
}

fn to_run(repeat: u32) -> Decided {
    Decided { job: job(repeat), decision: Decision::Run(NotDone::NeverRan) }
}

/// Returns the narrator's line for `event`, with `!` before an error and `.` before a step.
fn narrate(narrator: &mut Narrator, event: Event<'_>) -> Option<String> {
    narrator.narrate(&event).map(|line| match line.weight {
        Weight::Step => format!(".{}", line.text),
        Weight::News => line.text,
        Weight::Error => format!("!{}", line.text),
    })
}

#[test]
fn a_run_is_narrated_from_beginning_to_end() {
    let mut narrator = Narrator::new(Estimator::default());
    let mut jobs: Vec<Decided> = (1..=3).map(to_run).collect();
    jobs.push(Decided { job: job(4), decision: Decision::Skip });
    jobs.push(Decided { job: job(5), decision: Decision::Stale { changes: Vec::new() } });
    let why = || "resnet18 ran out of memory at batch 8".to_owned();
    let pruned = Decision::Pruned { why: why() };
    assert_eq!(
        narrate(&mut narrator, Event::Began { jobs: &jobs }).unwrap(),
        "5 jobs: 3 to run, 1 done before, 1 stale; \
         time left: unknown for all 3 jobs, because no job of their envs has finished yet"
    );
    let (one, two, three) = (job(1), job(2), job(3));
    assert_eq!(
        narrate(&mut narrator, Event::Started { job: &one, attempt: 1 }).unwrap(),
        ".[1/3] start  cpu_resnet18_fp32_bs16_run1"
    );
    let good = record(&one, Outcome::Succeeded);
    assert_eq!(
        narrate(&mut narrator, Event::Ended { job: &one, record: &good, retry: false }).unwrap(),
        "[1/3] done   cpu_resnet18_fp32_bs16_run1  128.0 images/s in 20.0s"
    );
    assert_eq!(narrator.time_left(), TimeLeft { seconds: 40.0, jobs: 2, jobs_without_basis: 0 });
    let bad = record(&two, Outcome::Signalled { signal: 11 });
    assert_eq!(
        narrate(&mut narrator, Event::Ended { job: &two, record: &bad, retry: true }).unwrap(),
        "[2/3] FAILED cpu_resnet18_fp32_bs16_run2 was killed by signal 11 (SIGSEGV, a segmentation fault) \
         after 20.0s; it will be tried again"
    );
    assert_eq!(
        narrate(&mut narrator, Event::Started { job: &two, attempt: 2 }).unwrap(),
        ".[2/3] start  cpu_resnet18_fp32_bs16_run2 (attempt 2)"
    );
    let last = narrate(&mut narrator, Event::Ended { job: &two, record: &bad, retry: false }).unwrap();
    assert!(last.starts_with("![2/3] FAILED") && last.ends_with("after 20.0s"), "{last}");
    assert_eq!(
        narrate(&mut narrator, Event::Left { job: &three, decision: &pruned }).unwrap(),
        format!("[3/3] left   cpu_resnet18_fp32_bs16_run3: {}", why())
    );
    assert_eq!((narrator.position(), narrator.tally().as_str()), ((3, 3), " · 1 failed"));
    assert_eq!(narrator.time_left(), TimeLeft::default());
    assert_eq!(narrate(&mut narrator, Event::Finished(&Summary::default())), None);
    assert_eq!(narrator.current(), None);
}

#[test]
fn reports_unneeded_repeats_once_per_config_and_queues_needed_jobs() {
    let mut narrator = Narrator::new(Estimator::default());
    let if_needed = |repeat| Decided { job: job(repeat), decision: Decision::IfNeeded { why: "why".into() } };
    let jobs = [to_run(1), if_needed(2), if_needed(3), if_needed(4)];
    let began = narrate(&mut narrator, Event::Began { jobs: &jobs }).unwrap();
    assert!(began.starts_with("4 jobs: 1 to run, up to 3 more if needed; time left: "), "{began}");
    assert_eq!(narrate(&mut narrator, Event::Needed { job: &jobs[0].job }), None);
    assert_eq!(narrator.position(), (0, 1), "it was in the queue");
    assert_eq!(narrate(&mut narrator, Event::Needed { job: &jobs[1].job }), None);
    assert_eq!(narrator.position(), (0, 2));
    let enough = Decision::NotNeeded { why: "interval ± 1.4 % at n = 8".into() };
    let lines = [2, 3]
        .map(|place: usize| narrate(&mut narrator, Event::Left { job: &jobs[place].job, decision: &enough }));
    assert_eq!(
        lines[0].as_deref(),
        Some("no more repeats of cpu_resnet18_fp32_bs16: interval ± 1.4 % at n = 8")
    );
    assert_eq!((&lines[1], narrator.position()), (&None, (0, 2)));
}

#[test]
fn only_a_synchronised_window_without_a_profiler_has_a_throughput() {
    let line = |change: fn(&mut Record)| {
        let mut record = record(&job(1), Outcome::Succeeded);
        change(&mut record);
        let mut narrator = Narrator::new(Estimator::default());
        narrate(&mut narrator, Event::Ended { job: &job(1), record: &record, retry: false }).unwrap()
    };
    assert!(line(|_| ()).contains("images/s"));
    assert!(!line(|record| record.key.kind = Kind::Ncu).contains("images/s"));
    assert!(!line(|record| record.measurement.as_mut().unwrap().synchronized = false).contains("images/s"));
    assert!(!line(|record| record.measurement = None).contains("images/s"));
}

#[test]
fn the_current_line_follows_the_worker() {
    let mut narrator = Narrator::new(Estimator::default());
    let one = job(1);
    let _ = narrate(&mut narrator, Event::Began { jobs: &[to_run(1)] });
    let current = |narrator: &Narrator| narrator.current().cloned();
    assert_eq!(current(&narrator), None);
    let _ = narrate(&mut narrator, Event::Started { job: &one, attempt: 2 });
    let progress = Progress::Measure { done: 34, of: 100 };
    assert_eq!(narrate(&mut narrator, Event::Progress { job: &one, progress }), None);
    let expected = Current {
        title: "cpu_resnet18_fp32_bs16_run1 (attempt 2)".into(),
        phase: "measuring".into(),
        iterations: Some((34, 100)),
    };
    assert_eq!(current(&narrator), Some(expected));
    let waiting =
        Waiting { what: "the host".into(), holder: Some("orchestrate run mac.yaml (process 42)".into()) };
    assert_eq!(
        narrate(&mut narrator, Event::Waiting(&waiting)).unwrap(),
        ".waiting for the host, held by orchestrate run mac.yaml (process 42)"
    );
    assert!(current(&narrator).unwrap().title.starts_with("waiting for the host"));
    assert_eq!(narrate(&mut narrator, Event::Resumed), None);
    assert_eq!(current(&narrator), None);
    let job = job(2);
    let gated = |why, first| Event::Gated { job: &job, why, first };
    let busy = "other processes keep 1.20 processors busy (quiet: 0.25)";
    let text = format!("waiting to start cpu_resnet18_fp32_bs16_run2: {busy}");
    assert_eq!(narrate(&mut narrator, gated(busy, true)), Some(format!(".{text}")));
    assert_eq!(
        narrate(&mut narrator, gated("it is at 71 °C", false)),
        None,
        "only bars show the later readings"
    );
    assert_eq!(
        current(&narrator).unwrap().title,
        "waiting to start cpu_resnet18_fp32_bs16_run2: it is at 71 °C"
    );
    assert_eq!(narrate(&mut narrator, Event::Resumed), None);
    assert_eq!(narrate(&mut narrator, Event::CoolingDown(Duration::from_secs(5))), None);
    assert_eq!(current(&narrator).unwrap().title, "cooling down for 5.0s");
}

#[test]
fn a_stop_reports_the_fate_of_the_worker() {
    let mut narrator = Narrator::new(Estimator::default());
    let mut line = |fate| narrate(&mut narrator, Event::Stopping { by: "SIGINT", fate }).unwrap();
    assert!(line(WorkerFate::Asked).contains("another Ctrl-C kills it immediately"));
    assert!(line(WorkerFate::Killed).contains("killing the worker"));
    assert_eq!(line(WorkerFate::None), "stopping (SIGINT): no more jobs will start");
    assert_eq!(
        line(WorkerFate::GoesOn(&job(1))),
        "stopping (SIGINT): no more jobs will start; the worker of cpu_resnet18_fp32_bs16_run1 keeps running, \
         and `orchestrate resume` will wait for it"
    );
}

#[test]
fn a_stopped_job_has_not_failed() {
    let mut narrator = Narrator::new(Estimator::default());
    let one = job(1);
    let _ = narrate(&mut narrator, Event::Began { jobs: &[to_run(1)] });
    let message = "orchestrate was stopped by SIGINT".to_owned();
    let stopped = record(&one, Outcome::Interrupted { message });
    assert_eq!(
        narrate(&mut narrator, Event::Ended { job: &one, record: &stopped, retry: false }).unwrap(),
        "[1/1] stopped cpu_resnet18_fp32_bs16_run1 was interrupted: orchestrate was stopped by SIGINT \
         after 20.0s"
    );
    assert_eq!(narrator.tally(), "");
}

#[test]
fn a_job_with_a_bad_directory_is_given_up_with_the_reason() {
    let mut narrator = Narrator::new(Estimator::default());
    let one = job(1);
    let _ = narrate(&mut narrator, Event::Began { jobs: &[to_run(1)] });
    let event = Event::GivenUp {
        job: &one,
        why: "cannot lock x: is a directory",
        remedy: "repair runs/x, and try again",
    };
    assert_eq!(
        narrate(&mut narrator, event).unwrap(),
        "![1/1] FAILED cpu_resnet18_fp32_bs16_run1: cannot lock x: is a directory; \
         repair runs/x, and try again"
    );
    assert_eq!((narrator.position(), narrator.tally().as_str()), ((1, 1), " · 1 failed"));
}

#[test]
fn parameters_missing_from_labels_are_shown() {
    let with = |deterministic| {
        let mut key = job(1).key().clone();
        key.params.insert("deterministic".into(), crate::job::ParamValue::Bool(deterministic));
        Decided { job: Job::new(key), decision: Decision::Run(NotDone::NeverRan) }
    };
    let mut narrator = Narrator::new(Estimator::default());
    let jobs = [with(true), with(false)];
    let _ = narrate(&mut narrator, Event::Began { jobs: &jobs });
    assert_eq!(
        narrate(&mut narrator, Event::Started { job: &jobs[0].job, attempt: 1 }).unwrap(),
        ".[1/2] start  cpu_resnet18_fp32_bs16_run1 deterministic=true"
    );
}
