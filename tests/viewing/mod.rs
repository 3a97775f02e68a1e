//! `plan`, `status`, `show`, `logs`, `doctor` and `env` before, during and after a run, as a user sees them.

mod audit;
mod calibrate;
mod compare;
mod completions;
mod drift;
mod history;
mod host;
mod import;
mod screen;
mod serve;
mod words;

use serde_json::Value;

use crate::harness::{Matrix, Project};

fn project() -> Project {
    Project::with(Matrix::new("t").behave(&["ok", "exit3"]).repeats(2))
}

#[test]
fn before_anything_ran() {
    let project = project();
    let plan = project.orchestrate(&["plan", "t.yaml", "--json"]).json();
    assert_eq!(plan["counts"]["run"], 4);
    assert_eq!(plan["time_left"]["jobs_without_basis"], 4);
    let status = project.orchestrate(&["status", "t.yaml", "--json"]).json();
    assert_eq!((&status["counts"]["waiting"], &status["counts"]["jobs"]), (&4.into(), &4.into()));
    let label = "cpu_m_fp32_bs4_run1";
    let without_store: [&[&str]; 9] = [
        &["status"],
        &["status", "t"],
        &["resume"],
        &["resume", "t"],
        &["report"],
        &["aggregate", "t"],
        &["show", label],
        &["explain", label],
        &["accept", "--all"],
    ];
    for verb in without_store {
        let ended = project.orchestrate(verb).code(4).says("there is no store at ");
        ended.says(
            "hint: run a matrix first: `orchestrate run MATRIX.yaml`; `--store DIR` names another store",
        );
    }
    assert!(!project.path("runs").exists(), "looking must not make a store");
}

#[test]
fn watching_ends_when_its_reader_closes() {
    let project = Project::new();
    let matrix = Matrix::new("t").flag("--release", &project.release());
    let project = project.and(matrix);
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let mut watching = project.start(&["status", "--watch"]);
    watching.wait_for_output("t: 1 job: ");
    watching.close_output();
    // There is no change, so nothing is written into the closed pipe.
    watching.wait().code(0);
    project.release_workers();
    run.wait().code(0);
}

#[test]
fn after_a_run_the_views_agree_on_done_and_failed_jobs() {
    let project = project();
    project.orchestrate(&["run", "t.yaml"]).code(10);
    let plan = project.orchestrate(&["plan", "t.yaml", "--json"]).json();
    assert_eq!((&plan["counts"]["run"], &plan["counts"]["done"]), (&2.into(), &2.into()));
    assert_eq!(plan["time_left"]["jobs_without_basis"], 0);
    let status = project.orchestrate(&["status", "t", "--json"]).json();
    assert_eq!((&status["counts"]["done"], &status["counts"]["failed"]), (&2.into(), &2.into()));
    let configs = status["configs"].as_array().unwrap();
    let good = configs.iter().find(|config| config["key"]["params"]["behave"] == "ok").unwrap();
    let groups = good["throughput"].as_array().unwrap();
    let left_out = |group: &Value| -> u64 {
        group["left_out"].as_object().unwrap().values().filter_map(Value::as_u64).sum()
    };
    // On a busy host a run can be marked as contended, which is then reported.
    let seen: u64 = groups.iter().map(|group| group["n"].as_u64().unwrap() + left_out(group)).sum();
    assert_eq!(seen, 2);
    let bad = configs.iter().find(|config| config["key"]["params"]["behave"] == "exit3").unwrap();
    assert_eq!(bad["failed"]["exited"], 2);
    // Only failures are left, so watching ends.
    let watched = project.orchestrate(&["status", "--watch"]).code(0);
    assert!(watched.stdout.contains("RuntimeError: it went wrong"), "{watched:?}");
    let selected = project.orchestrate(&["status", "--only", "behave=ok", "--json"]).json();
    assert_eq!(selected["counts"]["jobs"], 2);
}

#[test]
fn one_job_is_shown_by_any_of_its_names() {
    let project = project();
    project.orchestrate(&["run", "t.yaml"]).code(10);
    let label = "cpu_m_fp32_bs4_run1";
    let ambiguous = project.orchestrate(&["show", label]).code(2).says("behave=exit3");
    assert!(ambiguous.stderr.contains("matches 2 jobs"), "{ambiguous:?}");
    let status = project.orchestrate(&["status", "t", "--json"]).json();
    let failure = &status["failures"][0];
    let directory = failure["directory"].as_str().unwrap();
    let shown = project.orchestrate(&["show", &format!("runs/{directory}"), "--all"]).code(0);
    for part in ["exited with code 3: RuntimeError: it went wrong", "    exit3 \\\n", "host hostname"] {
        assert!(shown.stdout.contains(part), "no `{part}` in {shown:?}");
    }
    let record = project.orchestrate(&["show", &failure["id"].as_str().unwrap()[..12], "--json"]).json();
    assert_eq!(record["id"], failure["id"]);
    let logs = project.orchestrate(&["logs", directory]).code(0).stdout;
    assert!(logs.contains("stdout.log <==") && logs.contains("RuntimeError: it went wrong"), "{logs}");
    let err = project.orchestrate(&["logs", directory, "--stderr"]).code(0).stdout;
    assert!(err.contains("RuntimeError") && !err.contains("<=="), "{err}");
    project.orchestrate(&["logs", directory, "--attempt", "9"]).code(4).says("its attempts are: 1");
    project.orchestrate(&["logs", "cpu_m_fp32_bs4_run7"]).code(4).says("did you mean");
}

#[test]
fn a_running_job_is_shown_as_running() {
    let project = Project::new();
    let release = project.release();
    let project = project.and(Matrix::new("t").repeats(2).flag("--release", &release));
    let running = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let counts = project.orchestrate(&["status", "--json"]).json()["counts"].clone();
    assert_eq!((&counts["running"], &counts["waiting"]), (&1.into(), &1.into()));
    project.release_workers();
    running.wait().code(0);
    let status = project.orchestrate(&["status", "--json"]).json();
    assert_eq!(status["counts"]["done"], 2);
}

#[test]
fn a_closed_reader_is_not_an_error() {
    let project = project();
    let mut command = project.command(&["plan", "t.yaml"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
