//! Where `flock` succeeds and does nothing, as on some network file systems, and where another host shares the store:
//! no job runs twice, and nothing overlaps on one host.

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

/// Makes that library in the project's directory, by the compiler that links this program too.
fn make_library(project: &Project) {
    let source = project.path("flock.c");
    fs::write(&source, "int flock(int fd, int operation) { return 0; }\n").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(project.path(LIBRARY)).arg(&source);
    assert!(cc.status().expect("a C compiler").success());
}

/// Starts `orchestrate` where locks do nothing. Its workers do not inherit that, so they see who overlaps.
fn start_without_locks(project: &Project, arguments: &[&str]) -> Running {
    if !project.path(LIBRARY).exists() {
        make_library(project);
    }
    let mut command = project.command(arguments);
    // A space would end a path in LD_PRELOAD, so it has the name alone.
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
fn a_second_run_is_refused_and_told_who_runs_and_how_to_join() {
    let project = waiting(3);
    let mut first = start_without_locks(&project, &["run", "t.yaml"]);
    first.wait_for_line("locks do not work on the file system of");
    project.wait_started(1);
    let second = start_without_locks(&project, &["run", "t.yaml"]).wait().code(12);
    let second = second.says(&format!(
        "another orchestrate runs on this store, and no lock keeps the two apart: pid {}",
        first.pid()
    ));
    second.says("`orchestrate resume t --join` shares the jobs with it").says("`orchestrate stop` ends it");
    assert_eq!(project.started(), 1);
    project.let_go();
    first.wait().code(0);
    assert_each_ran_once(&project, 3);
}

#[test]
#[cfg(target_os = "linux")]
fn one_whose_locks_work_sees_one_whose_locks_do_nothing_and_the_other_way_round() {
    type Start = fn(&Project, &[&str]) -> Running;
    let with_locks: Start = |project, arguments| project.start(arguments);
    let pairs: [[Start; 2]; 2] = [[start_without_locks, with_locks], [with_locks, start_without_locks]];
    for [first, second] in pairs {
        let project = waiting(2);
        let first = first(&project, &["run", "t.yaml"]);
        project.wait_started(1);
        let refused = second(&project, &["run", "t.yaml"]).wait().code(12);
        refused.says(&format!("no lock keeps the two apart: pid {}", first.pid()));
        let counts = project.orchestrate(&["status", "--json"]).json()["counts"].clone();
        assert_eq!((&counts["running"], &counts["waiting"]), (&1.into(), &1.into()), "{counts}");
        assert_eq!(owners(&project).len(), 1, "it is not taken for dead");
        project.let_go();
        first.wait().code(0);
        assert_each_ran_once(&project, 2);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn several_that_join_share_the_jobs_and_run_none_twice_nor_two_at_once() {
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
fn a_job_that_fails_is_tried_as_often_by_all_that_join_as_by_one() {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(1).behave(&["exit3"]).limits("retries: 3, grace: 10s");
    let matrix = matrix.flag("--release", &project.release());
    let project = project.and(matrix);
    let first = project.start(&["run", "t.yaml", "--join"]);
    project.wait_started(1);
    let mut second = project.start(&["run", "t.yaml", "--join"]);
    second.wait_for_line("waiting for");
    project.let_go();
    for run in [first, second] {
        run.wait().code(10);
    }
    assert_eq!(project.started(), 4);
    project.orchestrate(&["resume"]).code(10);
    assert_eq!(project.started(), 8, "each later run tries it anew");
    project.assert_quiet();
}

#[test]
#[cfg(target_os = "linux")]
fn doctor_tries_the_locks_and_leaves_nothing_behind() {
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
fn the_worker_of_a_dead_one_is_waited_for_and_has_no_twin() {
    let project = waiting(3);
    let first = start_without_locks(&project, &["run", "t.yaml"]);
    project.wait_started(1);
    first.kill();
    let mut second = start_without_locks(&project, &["run", "t.yaml"]);
    second.wait_for_line("waiting for the worker of cpu_m_fp32_bs4_run1");
    let mut elsewhere = start_without_locks(&project, &["run", "t.yaml", "--store", "other"]);
    elsewhere.wait_for_line("waiting for this host");
    assert_eq!(project.started(), 1);
    project.let_go();
    second.wait().code(0);
    elsewhere.wait().code(0);
    assert_eq!(project.records().iter().filter(|record| record.observed.adopted).count(), 1);
    assert_eq!(project.started(), 6);
    project.assert_quiet();
}

/// The lock files of those who run on the store.
fn owners(project: &Project) -> Vec<PathBuf> {
    let entries = fs::read_dir(project.path("runs/.running")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == "lock")).collect()
}

/// Makes the owner of `lock` one of another host, which was last seen `silent` ago.
fn move_elsewhere(lock: &Path, silent: Duration) {
    let text = fs::read_to_string(lock).unwrap();
    let (who, _) = text.split_once("\"place\"").unwrap();
    fs::write(lock, format!("{who}\"place\":{{\"host\":\"beta\",\"boot\":\"another\"}}}}")).unwrap();
    File::options().write(true).open(lock).unwrap().set_modified(SystemTime::now() - silent).unwrap();
}

/// A store in which an `orchestrate` of another host is in the middle of the first job.
fn with_foreign_owner(project: &Project) -> PathBuf {
    let first = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    first.kill();
    kill(Pid::from_raw(project.workers()[0]), Signal::SIGKILL).unwrap();
    project.assert_quiet();
    let lock = owners(project).remove(0);
    move_elsewhere(&lock, Duration::ZERO);
    project.let_go();
    lock
}

#[test]
fn another_host_that_is_alive_is_respected_and_one_that_is_lost_is_adopted() {
    let project = waiting(3);
    let lock = with_foreign_owner(&project);
    let refused = project.orchestrate(&["run", "t.yaml"]).code(12);
    refused
        .says("no lock keeps the two apart: pid ")
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
