use std::sync::Arc;

use super::super::render::{self, Extent};
use super::*;
use crate::analysis::fixture;
use crate::cli::output::Layout;
use crate::job::{Job, Kind};
use crate::plan::{Change, Problem};
use crate::record::MatrixFacts;

/// Builds an inventory and the decisions about it, job by job.
struct Scene {
    inventory: Inventory,
    decided: Vec<Decided>,
}

impl Scene {
    fn new() -> Scene {
        Scene { inventory: Inventory::default(), decided: Vec::new() }
    }

    fn job(mut self, key: Key, decision: Decision, standing: Option<Standing>) -> Scene {
        let job = Job::new(key);
        if let Some(standing) = standing {
            self.inventory.jobs.insert(job.id(), standing);
        }
        self.decided.push(Decided { job, decision });
        self
    }

    fn done(self, key: Key, samples_per_s: f64) -> Scene {
        self.done_but(key, samples_per_s, |_| ())
    }

    fn done_but(self, key: Key, samples_per_s: f64, change: impl FnOnce(&mut Record)) -> Scene {
        let slot = self.decided.len() as i64;
        let mut record = fixture::record(key.clone(), samples_per_s, slot);
        change(&mut record);
        self.job(key, Decision::Skip, Some(Standing::Done(Arc::new(record))))
    }

    fn failed(self, key: Key, outcome: Outcome) -> Scene {
        let slot = self.decided.len() as i64;
        let record = Record { outcome, measurement: None, ..fixture::record(key.clone(), 1.0, slot) };
        let not_done = NotDone::Failed(Arc::new(record));
        self.job(key, Decision::Run(not_done.clone()), Some(Standing::NotDone(not_done)))
    }

    fn running(self, key: Key) -> Scene {
        self.job(key, Decision::Run(NotDone::Running), Some(Standing::NotDone(NotDone::Running)))
    }

    fn waiting(self, key: Key) -> Scene {
        self.job(key, Decision::Run(NotDone::NeverRan), None)
    }

    fn overview(&self) -> Overview {
        self.overview_with(false)
    }

    fn overview_with(&self, include_marked: bool) -> Overview {
        let matrix = MatrixFacts { name: "test".into(), path: "test.yaml".into(), sha256: String::new() };
        let jobs = self.decided.iter().map(|decided| decided.job.key().clone()).collect();
        let plan = Plan { matrix, ..Plan::example(jobs) };
        Overview::of(&plan, &self.inventory, &self.decided, include_marked)
    }
}

fn key(model: &str, batch: u32, repeat: u32) -> Key {
    fixture::key("cpu", model, batch, repeat)
}

#[test]
fn every_state_is_counted_once_and_explained() {
    let not_here = Decision::NotHere { why: "this host has no device `cuda`".into() };
    let pruned = Decision::Pruned { why: "batch 32 of the same config ran out of memory".into() };
    let mut scene = Scene::new()
        .done(key("resnet18", 16, 1), 120.0)
        .done(key("resnet18", 16, 2), 128.0)
        .done(key("resnet18", 16, 3), 129.0)
        .done(key("resnet18", 8, 1), 64.0)
        .running(key("resnet18", 8, 2))
        .waiting(key("resnet18", 8, 3))
        .failed(key("vgg16", 16, 1), Outcome::Signalled { signal: 11 })
        .failed(key("vgg16", 16, 2), Outcome::Signalled { signal: 11 })
        .failed(key("vgg16", 16, 3), Outcome::TimedOut { after_s: 60.0 })
        .failed(key("vgg16", 8, 1), Outcome::Interrupted { message: "Ctrl-C".into() })
        .job(key("vgg16", 64, 1), pruned, None)
        .job(fixture::key("gpu", "vgg16", 8, 1), not_here, None);
    scene.inventory.problems.push(Problem {
        remedy: None,
        path: "runs/x".into(),
        message: "it has no key.json".into(),
        newer: false,
    });
    let overview = scene.overview();
    let counts = serde_json::json!({
        "jobs": 12, "done": 4, "failed": 3, "running": 1, "waiting": 2, "if_needed": 0, "not_needed": 0, "not_here": 1,
        "pruned": 1, "blocked": 0,
    });
    assert_eq!(serde_json::to_value(&overview).unwrap()["counts"], counts);
    assert!(!overview.is_settled());
    assert_eq!(overview.time_left.jobs, 6);
    insta::assert_snapshot!(render::text(&overview, Extent::All, Layout::Plain));
}

/// 40 configs become two rows. The running config and the first of the equal failures are named.
#[test]
fn many_configs_are_folded_by_env_and_network() {
    let mut scene = Scene::new();
    for batch in 1..=20 {
        scene = scene.done(key("resnet18", batch, 1), 100.0 + f64::from(batch));
        scene = match batch {
            1..=8 => scene.failed(key("vgg16", batch, 1), Outcome::Signalled { signal: 11 }),
            9 => scene.running(key("vgg16", batch, 1)),
            _ => scene.waiting(key("vgg16", batch, 1)),
        };
    }
    let overview = scene.overview();
    let text = render::text(&overview, Extent::Short, Layout::Plain);
    assert!(text.lines().count() < 20, "{text}");
    insta::assert_snapshot!(text);
    let all = render::text(&overview, Extent::All, Layout::Plain);
    assert!(all.lines().count() > 50, "{all}");
}

#[test]
fn runs_that_do_not_count_are_left_out_and_noted() {
    let foreign = |record: &mut Record| record.observed.host_busy_s = Some(1e6);
    let unsynchronised = |record: &mut Record| record.measurement.as_mut().unwrap().synchronized = false;
    let overview = Scene::new()
        .done(key("resnet18", 16, 1), 100.0)
        .done_but(key("resnet18", 16, 2), 50.0, foreign)
        .done_but(key("resnet18", 16, 3), 900.0, unsynchronised)
        .done(Key { kind: Kind::Ncu, ..key("resnet18", 16, 1) }, 3.0)
        .overview();
    let group = &overview.configs[0].throughput[0];
    assert_eq!((group.n, group.median, group.mad, group.interval), (1, Some(100.0), None, None));
    assert_eq!(group.left_out, BTreeMap::from([("contended".into(), 1), ("unsynchronised".into(), 1)]));
    assert_eq!((overview.configs[1].key.kind, overview.configs[1].throughput.len()), (Kind::Ncu, 0));
    insta::assert_snapshot!(render::text(&overview, Extent::All, Layout::Plain));
}

#[test]
fn marked_runs_are_included_on_request_and_noted() {
    let foreign = |record: &mut Record| record.observed.host_busy_s = Some(1e6);
    let unsynchronised = |record: &mut Record| record.measurement.as_mut().unwrap().synchronized = false;
    let overview = Scene::new()
        .done(key("resnet18", 16, 1), 100.0)
        .done_but(key("resnet18", 16, 2), 50.0, foreign)
        .done_but(key("resnet18", 16, 3), 900.0, unsynchronised)
        .overview_with(true);
    let group = &overview.configs[0].throughput[0];
    assert_eq!((group.n, group.median), (2, Some(75.0)));
    assert_eq!(group.included, BTreeMap::from([("contended".into(), 1)]));
    assert_eq!(group.left_out, BTreeMap::from([("unsynchronised".into(), 1)]));
    insta::assert_snapshot!(render::text(&overview, Extent::All, Layout::Plain));
}

/// As in the report, where the cells contain every mark of a row and of its runs.
#[test]
fn marks_that_leave_no_run_out_are_counted_too() {
    let on_battery = |record: &mut Record| record.provenance.host.power_source = Some("battery".into());
    let and_contended = |record: &mut Record| {
        on_battery(record);
        record.observed.host_busy_s = Some(1e6);
    };
    let overview = Scene::new()
        .done_but(key("resnet18", 16, 1), 100.0, on_battery)
        .done_but(key("resnet18", 16, 2), 150.0, on_battery)
        .done_but(key("resnet18", 16, 3), 200.0, on_battery)
        .done_but(key("resnet18", 16, 4), 50.0, and_contended)
        .overview();
    let group = &overview.configs[0].throughput[0];
    assert_eq!(group.left_out, BTreeMap::from([("contended".into(), 1)]));
    assert_eq!(group.kept, BTreeMap::from([("on-battery", 3)]), "only runs that count");
    assert_eq!(group.row_marks, ["high-variation"]);
    let text = render::text(&overview, Extent::All, Layout::Plain);
    assert!(text.contains("1 contended left out; 3 on-battery; high-variation\n"), "{text}");
}

#[test]
fn runs_of_two_hosts_are_never_pooled() {
    let elsewhere = |record: &mut Record| record.provenance.host.hostname = "bench-2".into();
    let overview = Scene::new()
        .done(key("resnet18", 16, 1), 100.0)
        .done_but(key("resnet18", 16, 2), 50.0, elsewhere)
        .overview();
    let groups: Vec<_> = overview.configs[0]
        .throughput
        .iter()
        .map(|group| (group.host.as_str(), group.n, group.median))
        .collect();
    assert_eq!(groups, [("bench-1", 1, Some(100.0)), ("bench-2", 1, Some(50.0))]);
    assert_eq!(overview.configs[0].throughput[1].differences, ["host bench-1 / bench-2"]);
    assert!(overview.is_settled());
    insta::assert_snapshot!(render::text(&overview, Extent::All, Layout::Plain));
}

#[test]
fn stale_jobs_count_as_done_and_are_reported() {
    let stale = |repeat, to: &str| {
        let change = Change { what: "worker".into(), from: "old".into(), to: to.into() };
        let record = fixture::record(key("resnet18", 16, repeat), 100.0, i64::from(repeat));
        let standing = Some(Standing::Done(Arc::new(record)));
        (key("resnet18", 16, repeat), Decision::Stale { changes: vec![change] }, standing)
    };
    let mut scene = Scene::new().done(key("resnet18", 16, 1), 100.0);
    for (key, decision, standing) in [stale(2, "new"), stale(3, "new"), stale(4, "newer")] {
        scene = scene.job(key, decision, standing);
    }
    let overview = scene.overview();
    assert_eq!((overview.counts.of(State::Done), overview.counts.jobs()), (4, 4));
    assert!(overview.is_settled());
    let text = render::text(&overview, Extent::All, Layout::Plain);
    assert!(text.contains("\nstale: worker old → new: 2 jobs\n"), "{text}");
    assert!(text.contains("\nstale: worker old → newer: 1 job\n"), "{text}");
}

#[test]
fn a_rerun_in_progress_counts_as_running() {
    let record = fixture::record(key("resnet18", 16, 1), 100.0, 0);
    let standing = Some(Standing::Done(Arc::new(record)));
    let scene = Scene::new().job(key("resnet18", 16, 1), Decision::Run(NotDone::Running), standing);
    assert_eq!(scene.overview().counts.of(State::Running), 1);
}

#[test]
fn unsupported_jobs_are_left_out_with_the_message_of_the_worker() {
    let outcome = Outcome::Unsupported { message: "no CUDA".into() };
    let overview = Scene::new().failed(key("vgg16", 16, 1), outcome).overview();
    assert_eq!((overview.counts.of(State::NotHere), overview.failures.len()), (1, 0));
    assert_eq!(overview.left_out, BTreeMap::from([("it is not supported here: no CUDA".into(), 1)]));
}

#[test]
fn a_plan_without_results_is_reported() {
    let overview = Scene::new().waiting(key("resnet18", 16, 1)).waiting(key("resnet18", 16, 2)).overview();
    insta::assert_snapshot!(render::text(&overview, Extent::All, Layout::Plain));
}
