//! File systems where `flock` succeeds but does nothing, as some network file systems, and stores shared with another
//! host: no job runs twice, and no jobs overlap on one host.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orchestrate::record::Outcome;
use serde_json::Value;

use crate::harness::{Ended, Matrix, Project, Running};

/// The name of a library whose `flock` does nothing.
const LIBRARY: &str = "flock.so";

/// Compiles that library in the project's directory.
fn make_library(project: &Project) {
    let source = project.path("flock.c");
    fs::write(&source, "int flock(int fd, int operation) { return 0; }\n").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(project.path(LIBRARY)).arg(&source);
    assert!(cc.status().expect("a C compiler").success());
}

/// Starts `orchestrate` where locks do nothing. Its workers have working locks, with which they detect overlaps.
fn start_without_locks(project: &Project, arguments: &[&str]) -> Running {
    if !project.path(LIBRARY).exists() {
        make_library(project);
    }
    let mut command = project.command(arguments);
    // A space would end a path in LD_PRELOAD, so it contains only the name.
    let mut path = vec![project.path("")];
    path.extend(env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()));
    command.env("LD_PRELOAD", LIBRARY).env("LD_LIBRARY_PATH", env::join_paths(path).unwrap());
    Running::start(command)
}

fn waiting(jobs: u32) -> Project {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(jobs).flag("--release", &project.release());
    project.and(matrix)
}

#[track_caller]
fn assert_each_ran_once(project: &Project, jobs: usize) {
    let records = project.records();
    assert_eq!(records.len(), jobs);
    assert!(records.iter().all(|record| record.outcome == Outcome::Succeeded), "{records:?}");
    assert_eq!(project.started(), jobs);
    project.assert_quiet();
}

#[test]
#[cfg(target_os = "linux")]
fn a_second_run_is_refused_with_the_way_to_join() {
    let project = waiting(3);
    let mut first = start_without_locks(&project, &["run", "t.yaml"]);
    first.wait_for_line("locks do not work on the file system of");
    project.wait_started(1);
    let second = start_without_locks(&project, &["run", "t.yaml"]).wait().code(12);
    let second = second.says(&format!(
        "another orchestrate runs on this store, and locks cannot coordinate the two: pid {}",
        first.pid()
    ));
    second.says("`orchestrate resume t --join` shares the jobs with it").says("`orchestrate stop` ends it");
    assert_eq!(project.started(), 1);
    project.release_workers();
    first.wait().code(0);
    assert_each_ran_once(&project, 3);
}

#[test]
#[cfg(target_os = "linux")]
fn runs_with_and_without_working_locks_see_each_other() {
    type Start = fn(&Project, &[&str]) -> Running;
    let with_locks: Start = |project, arguments| project.start(arguments);
    let pairs: [[Start; 2]; 2] = [[start_without_locks, with_locks], [with_locks, start_without_locks]];
    for [first, second] in pairs {
        let project = waiting(2);
        let first = first(&project, &["run", "t.yaml"]);
        project.wait_started(1);
        let refused = second(&project, &["run", "t.yaml"]).wait().code(12);
        refused.says(&format!("locks cannot coordinate the two: pid {}", first.pid()));
        let counts = project.orchestrate(&["status", "--json"]).json()["counts"].clone();
        assert_eq!((&counts["running"], &counts["waiting"]), (&1.into(), &1.into()), "{counts}");
        assert_eq!(owners(&project).len(), 1, "it is considered alive");
        project.release_workers();
        first.wait().code(0);
        assert_each_ran_once(&project, 2);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn joined_runs_share_the_jobs_one_at_a_time() {
    let project = Project::with(Matrix::new("t").repeats(6));
    make_library(&project);
    let runs: Vec<_> = (0..3).map(|_| start_without_locks(&project, &["run", "t.yaml", "--join"])).collect();
    for run in runs {
        run.wait().code(0);
    }
    assert_each_ran_once(&project, 6);
    let useless = project.records().remove(0).provenance.useless_locks.clone();
    assert_eq!(Vec::from_iter(useless), ["host", "store"]);
}

#[test]
fn joined_runs_share_the_retries_of_a_job() {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(1).behave(&["exit3"]).limits("retries: 3, grace: 10s");
    let matrix = matrix.flag("--release", &project.release());
    let project = project.and(matrix);
    let first = project.start(&["run", "t.yaml", "--join"]);
    project.wait_started(1);
    let mut second = project.start(&["run", "t.yaml", "--join"]);
    second.wait_for_line("waiting for");
    project.release_workers();
    for run in [first, second] {
        run.wait().code(10);
    }
    assert_eq!(project.started(), 4);
    project.orchestrate(&["resume"]).code(10);
    assert_eq!(project.started(), 8, "each later run has new retries");
    project.assert_quiet();
}

#[test]
#[cfg(target_os = "linux")]
fn doctor_tests_the_locks_and_cleans_up() {
    let project = Project::with(Matrix::new("t"));
    make_library(&project);
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let works = |document: &Value| {
        let place = |name: &str| document[name]["locks_work"].clone();
        [place("store"), place("locks")]
    };
    let arguments = ["doctor", "--json", "--look", "0s"];
    let text = |ended: Ended| serde_json::from_str::<Value>(&ended.stdout).unwrap();
    assert_eq!(works(&text(project.orchestrate(&arguments))), [true, true]);
    let before = fs::read_dir(project.path("runs")).unwrap().count();
    let document = text(start_without_locks(&project, &arguments).wait());
    assert_eq!(works(&document), [false, false]);
    let codes: Vec<&Value> = document["findings"].as_array().unwrap().iter().map(|it| &it["code"]).collect();
    assert!(codes.contains(&&"useless_locks".into()), "{codes:?}");
    assert_eq!(fs::read_dir(project.path("runs")).unwrap().count(), before);
}

#[test]
#[cfg(target_os = "linux")]
fn two_stores_on_one_host_never_overlap() {
    let project = Project::with(Matrix::new("t").repeats(3));
    make_library(&project);
    let stores = ["runs", "other"];
    let runs = stores.map(|store| start_without_locks(&project, &["run", "t.yaml", "--store", store]));
    for run in runs {
        run.wait().code(0);
    }
    assert_eq!(project.started(), 6);
    project.assert_quiet();
}

#[test]
#[cfg(target_os = "linux")]
fn the_worker_of_a_killed_run_is_waited_for_and_not_repeated() {
    let project = waiting(3);
    let first = start_without_locks(&project, &["run", "t.yaml"]);
    project.wait_started(1);
    first.kill();
    let mut second = start_without_locks(&project, &["run", "t.yaml"]);
    second.wait_for_line("waiting for the worker of cpu_m_fp32_bs4_run1");
    let mut elsewhere = start_without_locks(&project, &["run", "t.yaml", "--store", "other"]);
    elsewhere.wait_for_line("waiting for this host");
    assert_eq!(project.started(), 1);
    project.release_workers();
    second.wait().code(0);
    elsewhere.wait().code(0);
    assert_eq!(project.records().iter().filter(|record| record.observed.adopted).count(), 1);
    assert_eq!(project.started(), 6);
    project.assert_quiet();
}

/// The lock files of the processes that run on the store.
fn owners(project: &Project) -> Vec<PathBuf> {
    let entries = fs::read_dir(project.path("runs/.running")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == "lock")).collect()
}

/// Changes the owner of `lock` to a process of another host, which was last seen `silent` ago.
fn move_elsewhere(lock: &Path, silent: Duration) {
    let text = fs::read_to_string(lock).unwrap();
    let (who, _) = text.split_once("\"place\"").unwrap();
    fs::write(lock, format!("{who}\"place\":{{\"host\":\"beta\",\"boot\":\"another\"}}}}")).unwrap();
    File::options().write(true).open(lock).unwrap().set_modified(SystemTime::now() - silent).unwrap();
}

/// A store in which an `orchestrate` of another host runs the first job.
fn with_foreign_owner(project: &Project) -> PathBuf {
    let first = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    first.kill();
    kill(Pid::from_raw(project.workers()[0]), Signal::SIGKILL).unwrap();
    project.assert_quiet();
    let lock = owners(project).remove(0);
    move_elsewhere(&lock, Duration::ZERO);
    project.release_workers();
    lock
}

#[test]
fn jobs_of_a_live_host_are_kept_and_of_a_lost_host_adopted() {
    let project = waiting(3);
    let lock = with_foreign_owner(&project);
    let refused = project.orchestrate(&["run", "t.yaml"]).code(12);
    refused
        .says("locks cannot coordinate the two: pid ")
        .says(" on beta, started by ")
        .says("--join` shares the jobs");
    let counts = project.orchestrate(&["status", "--json"]).json()["counts"].clone();
    assert_eq!((&counts["running"], &counts["waiting"]), (&1.into(), &2.into()), "{counts}");
    let mut joined = project.start(&["run", "t.yaml", "--join"]);
    joined.wait_for_line("waiting for another orchestrate, which runs 1 job");
    assert_eq!(project.started(), 3, "it has run the others");
    move_elsewhere(&lock, Duration::from_secs(3600));
    joined.wait().code(0);
    assert_eq!(project.started(), 4);
    let records = project.records();
    assert!(records.len() == 3 && records.iter().all(|record| record.outcome == Outcome::Succeeded));
    assert_eq!(
        records.iter().filter(|record| record.attempt == 2).count(),
        1,
        "the lost attempt was repeated"
    );
    project.assert_quiet();
}
