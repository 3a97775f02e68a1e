//! Profile jobs by operator: their configs, the request to the worker, their outcomes.

use orchestrate::job::Kind;
use orchestrate::record::{Outcome, Record};
use serde_json::Value;

use crate::harness::{Matrix, Project};

/// The records of `project` with the kind `kind`.
fn of_kind(project: &Project, kind: Kind) -> Vec<Record> {
    project.records().into_iter().filter(|record| record.key.kind == kind).collect()
}

/// Whether the worker of `record` was asked to profile.
fn asked(record: &Record) -> Option<&str> {
    record.provenance.environment.get("ORCHESTRATE_OPERATORS").map(String::as_str)
}

#[test]
fn a_worker_that_can_profile_does_so_once_per_config() {
    let project = Project::with(Matrix::new("t").behave(&["profiles"]).batches(&[4, 8]).repeats(2));
    project.orchestrate(&["plan", "t.yaml"]).code(0);
    let planned = project.orchestrate(&["plan", "t.yaml", "--json"]).json();
    assert_eq!(planned["jobs"].as_array().unwrap().len(), 4, "no run has reported yet that it can");
    project.orchestrate(&["run", "t.yaml"]).code(0).says("[6/6] done");
    assert_eq!(project.started(), 6);
    let profiled = of_kind(&project, Kind::Ops);
    assert_eq!(profiled.len(), 2);
    for record in &profiled {
        assert_eq!((&record.outcome, asked(record)), (&Outcome::Succeeded, Some("3")), "{}", record.label);
        let ops = record.measurement.as_ref().unwrap().ops.as_ref().unwrap();
        assert_eq!((ops.source.as_str(), ops.iterations, ops.operators.len()), ("fake", 3, 2));
        assert_eq!(record.counters, None);
        assert!(record.label.ends_with("_ops"), "{}", record.label);
    }
    assert!(of_kind(&project, Kind::Timing).iter().all(|record| asked(record).is_none()));
    project.orchestrate(&["resume", "t"]).code(0);
    let again = project.orchestrate(&["run", "t.yaml"]).code(0);
    assert!(again.stdout.contains("all 6 jobs are done"), "{again:?}");
    assert_eq!(project.started(), 6, "no job runs twice");
    let status = project.orchestrate(&["status", "t", "--json"]).json();
    assert_eq!(status["counts"]["done"], 6);
    let planned = project.orchestrate(&["plan", "t.yaml", "--json"]).json();
    assert_eq!(planned["jobs"].as_array().unwrap().len(), 6);
}

#[test]
fn a_worker_without_the_capability_gets_no_profile_jobs() {
    let project = Project::with(Matrix::new("t").repeats(2));
    let ended = project.orchestrate(&["run", "t.yaml"]).code(0);
    assert!(ended.stderr.contains("2 jobs: 2 to run;"), "{ended:?}");
    assert!(!ended.stderr.contains("_ops") && !ended.stderr.contains("not needed"), "{ended:?}");
    let again = project.orchestrate(&["run", "t.yaml"]).code(0);
    assert!(again.stdout.contains("all 2 jobs are done"), "{again:?}");
    let status = project.orchestrate(&["status", "t", "--json"]).json();
    assert_eq!(
        (&status["counts"]["done"], status["configs"].as_array().unwrap().len()),
        (&Value::from(2), 1)
    );
    assert_eq!(project.started(), 2);
    project.orchestrate(&["aggregate", "t"]).code(0);
    let failures = std::fs::read_to_string(project.path("report/t/failures.csv")).unwrap_or_default();
    assert!(!failures.contains("_ops"), "{failures}");
}

#[test]
fn a_matrix_turns_profiles_on_and_off() {
    let off = Project::with(Matrix::new("t").behave(&["profiles"]).profile("ops: false"));
    off.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(off.started(), 1);
    let on = Project::with(Matrix::new("t").profile("ops: { iters: 5 }"));
    let planned = on.orchestrate(&["plan", "t.yaml", "--json"]).json();
    assert_eq!(planned["jobs"][1]["decision"], "run", "{planned}");
    on.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(of_kind(&on, Kind::Ops).iter().map(asked).collect::<Vec<_>>(), [Some("5")]);
    let flag = Project::with(Matrix::new("t"));
    flag.orchestrate(&["run", "t.yaml", "--profile", "ops"]).code(0);
    assert_eq!(of_kind(&flag, Kind::Ops).len(), 1);
    let status = flag.orchestrate(&["status", "t"]).code(0);
    assert!(!status.stderr.contains("has changed"), "the flag does not change the file: {status:?}");
}

#[test]
fn a_profile_job_without_operators_is_not_profiled() {
    let project = Project::with(Matrix::new("t").behave(&["profiles-nothing"]));
    project.orchestrate(&["run", "t.yaml"]).code(10).says("the worker reported no operators");
    let [record] = &of_kind(&project, Kind::Ops)[..] else { panic!("one config") };
    let Outcome::NotProfiled(why) = &record.outcome else { panic!("{:?}", record.outcome) };
    assert_eq!(
        (why.cause.as_str(), why.message.as_str()),
        ("no_operators", "the worker reported no operators")
    );
    for part in ["window()", "docs/protocol.md", "profile: { ops: false }"] {
        assert!(why.remedy.contains(part), "{}", why.remedy);
    }
    assert_eq!(of_kind(&project, Kind::Timing)[0].outcome, Outcome::Succeeded);
    let shown = project.orchestrate(&["explain", &record.label]).code(0).stdout;
    assert!(shown.contains("was not profiled: the worker reported no operators"), "{shown}");
}

#[test]
fn an_impossible_profile_is_bad_output() {
    for (behaviour, message) in [
        ("half-ops", "measurement.json is not valid JSON"),
        ("impossible-ops", "ops.operators[0].calls is 0: expected at least 1"),
    ] {
        let project = Project::with(Matrix::new("t").behave(&[behaviour]).profile("ops: {}"));
        project.orchestrate(&["run", "t.yaml"]).code(10);
        let [record] = &of_kind(&project, Kind::Ops)[..] else { panic!("one config") };
        assert_eq!(record.outcome.kind(), "bad_output", "{behaviour}");
        assert!(record.outcome.to_string().contains(message), "{behaviour}: {}", record.outcome);
    }
}

#[test]
fn a_variable_of_the_shell_requests_no_profile() {
    let project = Project::with(Matrix::new("t").behave(&["profiles"]));
    let mut command = project.command(&["run", "t.yaml"]);
    let output = command.env("ORCHESTRATE_OPERATORS", "9").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(of_kind(&project, Kind::Timing).iter().map(asked).collect::<Vec<_>>(), [None]);
    let [profiled] = &of_kind(&project, Kind::Ops)[..] else { panic!("one config") };
    assert_eq!(asked(profiled), Some("3"));
    let directory = project
        .store()
        .job_dirs()
        .unwrap()
        .into_iter()
        .find(|dir| dir.path().to_string_lossy().contains("_ops-"));
    let script = std::fs::read_to_string(directory.unwrap().command()).unwrap();
    assert!(script.contains("  ORCHESTRATE_OPERATORS=3 \\\n"), "{script}");
}

#[test]
fn every_verb_supports_the_kind() {
    let project = Project::with(Matrix::new("t").behave(&["profiles"]));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let label = of_kind(&project, Kind::Ops)[0].label.clone();
    let shown = project.orchestrate(&["show", &label]).code(0).stdout;
    assert!(shown.lines().any(|line| line.contains("kind") && line.contains("ops")), "{shown}");
    let explained = project.orchestrate(&["explain", &label]).code(0).stdout;
    assert!(explained.contains("done"), "{explained}");
    let status = project.orchestrate(&["status", "t"]).code(0).stdout;
    assert!(status.lines().any(|line| line.contains("ops") && line.contains("1/1")), "{status}");
    let dry = project.orchestrate(&["run", "t.yaml", "--rerun-stale", "--dry-run"]).code(0);
    assert!(!dry.stdout.contains("under ops"), "{dry:?}");
    project.orchestrate(&["aggregate", "t"]).code(0);
    project.orchestrate(&["verify"]).code(0);
}
