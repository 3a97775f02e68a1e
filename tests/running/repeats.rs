//! Repeats that depend on results: `until` and `replace_marked`.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use orchestrate::plan::Standing;
use serde_json::{Value, json};

use crate::harness::{Hog, Project, edit_sealed, reports_load};

/// Thresholds that leave no run out, even on a busy machine.
const DEAF: &str = "thresholds: { foreign_cores: 10000, foreign_share: 1, foreign_above: 10000, overlap_s: 86400, \
                    switches: 1000, switches_floor: 1000000, system_share: 1 }";

/// A matrix `m` of fake workers in two configs, one of them `scattered`, with `repeats` and `more` keys.
fn matrix(project: &Project, repeats: &str, behaviours: &str, more: &str) -> String {
    let worker = env!("CARGO_BIN_EXE_fake-worker");
    let words = ["behave", "device", "precision", "batch", "label", "out"];
    let flags: Vec<String> = words.iter().map(|word| format!("--{word}, \"{{{word}}}\"")).collect();
    format!(
        "name: m\nmodels: [m]\nbatches: [4]\nrepeats: {repeats}\naxes: {{ behave: {behaviours} }}\n{DEAF}\n{more}\n\
         worker: {{ command: [{worker}, {}, --trace, {}, --release, {}], result: json }}\n\
         envs: {{ cpu: {{ device: cpu }} }}\n",
        flags.join(", "),
        project.trace().display(),
        project.release().display()
    )
}

/// A project with that matrix, whose workers do not wait.
fn project(repeats: &str, behaviours: &str, more: &str) -> Project {
    let project = Project::new();
    let yaml = matrix(&project, repeats, behaviours, more);
    project.release_workers();
    project.and_yaml(&yaml)
}

const UNTIL: &str = "{ min: 3, max: 12, until: 2% }";

fn counts(project: &Project) -> Value {
    project.orchestrate(&["status", "--json"]).json()["counts"].clone()
}

/// The number of starts of the config with this behaviour.
fn started(project: &Project, behaviour: &str) -> usize {
    let records = project.records();
    let is_of = |record: &&orchestrate::record::Record| {
        record.key.params.get("behave").is_some_and(|value| value.to_string() == behaviour)
    };
    records.iter().filter(is_of).map(|record| record.attempt as usize).sum()
}

#[test]
fn each_config_runs_until_its_interval_is_narrow() {
    let project = project(UNTIL, "[ok, scattered]", "limits: { retries: 0 }");
    let plan = project.orchestrate(&["plan", "m.yaml", "--json"]).json();
    assert_eq!((&plan["counts"]["run"], &plan["counts"]["if_needed"]), (&16.into(), &8.into()));
    assert_eq!((&plan["time_left"]["jobs"], &plan["time_left_at_most"]["jobs"]), (&16.into(), &24.into()));
    let ran = project.orchestrate(&["run", "m.yaml"]).code(0);
    let ran = ran.says("24 jobs: 16 to run, up to 8 more if needed; time left: ");
    let said = ran.says("no more repeats of cpu_m_fp32_bs4 behave=ok: interval ± 0.00 % at n = 8");
    assert_eq!(said.stderr.matches("no more repeats of ").count(), 1, "once per config: {said:?}");
    assert_eq!((started(&project, "ok"), started(&project, "scattered")), (8, 12));
    let found = counts(&project);
    assert_eq!((&found["done"], &found["not_needed"], &found["waiting"]), (&20.into(), &4.into(), &0.into()));
    let status = project.orchestrate(&["status"]).code(0);
    assert!(status.stdout.contains("8/8") && status.stdout.contains("12/12"), "{status:?}");
    let again = project.orchestrate(&["resume"]).code(0);
    assert!(again.stdout.contains("m: all 20 jobs that are needed are done"), "{again:?}");
    assert_eq!(project.started(), 20);
    let report = project.orchestrate(&["aggregate"]).code(0);
    assert!(!report.stdout.contains("not run"), "{report:?}");
    project.assert_quiet();
}

/// Blocks stay complete: in each, every config that needs more repeats runs once.
#[test]
fn repeats_are_added_block_by_block() {
    let project = project(UNTIL, "[ok, scattered]", "limits: { retries: 0 }");
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let executions = project.executions();
    let repeats: Vec<u32> = executions
        .iter()
        .filter_map(|line| line.strip_prefix("started "))
        .map(|label| label.rsplit_once("run").unwrap().1.parse().unwrap())
        .collect();
    let expected: Vec<u32> = (1..=8).flat_map(|repeat| [repeat, repeat]).chain(9..=12).collect();
    assert_eq!(repeats, expected);
}

#[test]
fn resume_decides_as_the_interrupted_run() {
    let project = Project::new();
    let yaml = matrix(&project, UNTIL, "[ok]", "limits: { retries: 0 }");
    let project = project.and_yaml(&yaml);
    let run = project.start(&["run", "m.yaml"]);
    project.wait_started(1);
    run.signal_until_gone(Signal::SIGINT).code(11);
    assert_eq!(counts(&project)["if_needed"], 4);
    project.release_workers();
    project.orchestrate(&["resume"]).code(0);
    assert_eq!((project.started(), counts(&project)["not_needed"].clone()), (9, 4.into()));
    // A narrower interval needs more repeats, and a wider one does not remove done ones.
    let edited =
        |until: &str| matrix(&project, &format!("{{ min: 10, max: 12, until: {until} }}"), "[ok]", "");
    std::fs::write(project.path("m.yaml"), edited("1%")).unwrap();
    project.orchestrate(&["run", "m.yaml"]).code(0);
    assert_eq!((project.started(), counts(&project)["done"].clone()), (11, 10.into()));
}

#[test]
fn a_failed_repeat_is_a_failure_and_others_take_its_place() {
    let project = project(UNTIL, "[exit3-second]", "limits: { retries: 0 }");
    project.orchestrate(&["run", "m.yaml"]).code(10);
    let found = counts(&project);
    assert_eq!((&found["done"], &found["failed"], &found["not_needed"]), (&8.into(), &1.into(), &3.into()));
}

#[test]
fn a_config_that_only_fails_is_given_up_after_the_fewest_repeats() {
    let project = project(UNTIL, "[exit3, ok]", "limits: { retries: 0 }");
    let ran = project.orchestrate(&["run", "m.yaml"]).code(10);
    ran.says("no more repeats of cpu_m_fp32_bs4 behave=exit3: no repeat has a result, and 3 failed");
    let found = counts(&project);
    assert_eq!((&found["done"], &found["failed"], &found["not_needed"]), (&8.into(), &3.into(), &13.into()));
}

/// Edits the records of these repeats, so that they waited for quiet in vain.
fn unsettle(project: &Project, repeats: &[u32]) {
    for dir in project.store().job_dirs().unwrap() {
        let record = dir.load_record().unwrap().unwrap();
        if repeats.contains(&record.key.repeat) {
            edit_sealed(&dir.record(), |record| {
                record["observed"]["gate"] = json!({ "waited_s": 1.0, "gave_up": "others were at work" });
            });
        }
    }
}

fn attempts(project: &Project) -> Vec<u32> {
    let mut records = project.records();
    records.sort_by_key(|record| record.key.repeat);
    records.iter().map(|record| record.attempt).collect()
}

#[test]
fn runs_left_out_are_repeated_at_the_end_up_to_a_limit() {
    let project = project("{ min: 3, replace_marked: 1 }", "[ok]", "limits: { retries: 0 }");
    project.orchestrate(&["run", "m.yaml", "--only", "repeat=1,2"]).code(0);
    assert_eq!(attempts(&project), [1, 1], "nothing is marked");
    unsettle(&project, &[2]);
    let plan = project.orchestrate(&["plan", "m.yaml", "--json"]).json();
    assert_eq!(plan["counts"]["run"], 2);
    assert_eq!(
        plan["jobs"][1]["why"],
        "its run is left out of the statistics: unsettled: others were at work"
    );
    let said = "note: marks leave 1 run out of the statistics, which is repeated";
    project.orchestrate(&["run", "m.yaml"]).code(0).says(said);
    assert_eq!(attempts(&project), [1, 2, 1]);
    let executions = project.executions();
    let last: Vec<&String> = executions.iter().rev().take(4).collect();
    assert_eq!(last[3], "started cpu_m_fp32_bs4_run3", "the replaced run comes after all others: {last:?}");
    unsettle(&project, &[2]);
    let done = project.orchestrate(&["resume"]).code(0).says("left out of the statistics (unsettled)");
    assert!(done.stdout.contains("all 3 jobs are done"), "it was repeated once: {done:?}");
    project.orchestrate(&["resume", "--rerun-marked"]).code(0);
    assert_eq!(attempts(&project), [1, 3, 1]);
}

#[test]
fn a_run_repeats_marked_jobs() {
    if !reports_load() {
        return;
    }
    let limits = "limits: { retries: 0, quiet: 0.001, gate_timeout: 0s }";
    let project = project("{ min: 1, replace_marked: 2 }", "[ok]", limits);
    let _hog = Hog::start();
    project.orchestrate(&["run", "m.yaml"]).code(0);
    assert_eq!((attempts(&project), project.started()), (vec![3], 3));
}

#[test]
fn an_interrupted_replacement_is_made_by_the_next_run() {
    let project = project("{ min: 2, replace_marked: 1 }", "[ok]", "limits: { retries: 0 }");
    project.orchestrate(&["run", "m.yaml"]).code(0);
    unsettle(&project, &[1, 2]);
    let release: PathBuf = project.release();
    std::fs::remove_file(&release).unwrap();
    let run = project.start(&["resume"]);
    project.wait_started(3);
    run.signal_until_gone(Signal::SIGINT).code(11);
    let all_done = |project: &Project| {
        project.inventory().jobs.values().all(|standing| matches!(standing, Standing::Done(_)))
    };
    assert!(all_done(&project), "the old records stay");
    project.release_workers();
    project.orchestrate(&["resume"]).code(0);
    assert!(all_done(&project));
    assert!(attempts(&project).iter().all(|attempt| *attempt > 1), "{:?}", attempts(&project));
    let done = project.orchestrate(&["resume"]).code(0);
    assert!(done.stdout.contains("all 2 jobs are done"), "{done:?}");
}
