//! Two orchestrates never measure at once on one device, whatever their stores.

use nix::sys::signal::Signal;
use orchestrate::record::Outcome;

use crate::harness::{Matrix, Project};

#[test]
fn two_stores_on_one_host_never_overlap() {
    let project = Project::with(Matrix::new("t").repeats(4));
    let stores = ["runs", "other"];
    let runs: Vec<_> = stores.map(|store| project.start(&["run", "t.yaml", "--store", store])).into();
    for run in runs {
        run.wait().code(0);
    }
    assert_eq!(project.started(), 8);
    project.assert_quiet();
}

#[test]
fn two_runs_of_one_store_share_the_work() {
    let project = Project::with(Matrix::new("t").repeats(4));
    let runs = [0, 1].map(|_| project.start(&["run", "t.yaml"]));
    for run in runs {
        run.wait().code(0);
    }
    assert_eq!(project.started(), 4);
    assert!(project.records().iter().all(|record| record.outcome == Outcome::Succeeded));
    project.assert_quiet();
}

/// The lock of a host would go to whoever asks first, and that is the run that has just let go of it.
#[test]
fn two_runs_on_one_host_take_turns() {
    let project = Project::new();
    let matrix =
        |name, batch| Matrix::new(name).batches(&[batch]).repeats(3).flag("--release", &project.release());
    let (one, other) = (matrix("one", 4), matrix("other", 8));
    let project = project.and(one).and(other);
    let first = project.start(&["run", "one.yaml"]);
    project.wait_started(1);
    let mut second = project.start(&["run", "other.yaml", "--store", "elsewhere"]);
    second.wait_for_line("this host");
    project.let_go();
    first.wait().code(0);
    second.wait().code(0);
    let started: Vec<String> =
        project.executions().into_iter().filter(|line| line.starts_with("started ")).collect();
    assert_eq!(started[..2], ["started cpu_m_fp32_bs4_run1", "started cpu_m_fp32_bs8_run1"]);
    assert_eq!(started.len(), 6);
    project.assert_quiet();
}

/// Otherwise a run that was begun in the evening would be found in the morning with one job done.
#[test]
fn who_must_not_wait_for_the_first_job_waits_for_the_next() {
    let project = Project::new();
    let matrix =
        |name, batch| Matrix::new(name).batches(&[batch]).repeats(2).flag("--release", &project.release());
    let (one, other) = (matrix("one", 4), matrix("other", 8));
    let project = project.and(one).and(other);
    let first = project.start(&["run", "one.yaml", "--no-wait"]);
    project.wait_started(1);
    let mut second = project.start(&["run", "other.yaml", "--store", "elsewhere"]);
    second.wait_for_line("this host");
    project.let_go();
    first.wait().code(0).says("waiting for this host");
    second.wait().code(0);
    assert_eq!(project.started(), 4);
    project.assert_quiet();
}

#[test]
fn a_busy_host_is_waited_for_or_not() {
    let project = Project::new();
    let matrix = Matrix::new("t").flag("--release", &project.release());
    let project = project.and(matrix);
    let first = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let busy = project.orchestrate(&["run", "t.yaml", "--store", "other", "--no-wait"]).code(12);
    assert!(busy.stderr.contains("this host is busy: orchestrate (pid"), "{busy:?}");
    assert!(busy.stderr.contains("runs cpu_m_fp32_bs4_run1"), "{busy:?}");
    let mut second = project.start(&["run", "t.yaml", "--store", "other"]);
    second.wait_for_line("this host");
    assert_eq!(project.started(), 1);
    project.let_go();
    first.wait().code(0);
    second.wait().code(0);
    assert_eq!(project.started(), 2);
    project.assert_quiet();
}

/// It has left the worker's group, session and environment, so nobody can tell that it is the worker's. It keeps the
/// locks, and whoever waits is told its id.
#[test]
#[cfg(target_os = "linux")]
fn a_daemon_that_keeps_the_locks_is_named_by_its_id() {
    let project = Project::with(Matrix::new("t").behave(&["leave-hidden-daemon"]).repeats(2));
    let mut run = project.start(&["run", "t.yaml"]);
    run.wait_for_line("this host, held by a process that cpu_m_fp32_bs4_run1 left behind (kept by process ");
    let record = project.record();
    let attempt = project.store().job_dir(&orchestrate::job::Job::new(record.key)).attempt(1);
    let text = std::fs::read_to_string(attempt.stdout()).unwrap();
    let daemon: i32 = text.lines().find_map(|line| line.strip_prefix("left ")).unwrap().parse().unwrap();
    run.wait_for_line(&format!("{daemon})"));
    run.signal(Signal::SIGINT);
    run.wait().code(11);
    let gone = project.orchestrate(&["resume", "--no-wait"]).code(12);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon), Signal::SIGKILL).unwrap();
    gone.says("whose orchestrate (pid ").says(&format!("is gone (kept by process {daemon})"));
    assert_eq!(project.started(), 1);
}

#[test]
fn a_device_alone_leaves_the_host_to_others_of_its_kind() {
    let project = Project::new();
    let release = project.release();
    let project = project
        .and(Matrix::new("shared").env("device: cpu, share: device").flag("--release", &release))
        .and(Matrix::new("alone").flag("--release", &release));
    let first = project.start(&["run", "shared.yaml"]);
    project.wait_started(1);
    // The same device is taken; the host as a whole is too.
    let same = project.orchestrate(&["run", "shared.yaml", "--store", "other", "--no-wait"]).code(12);
    assert!(same.stderr.contains("the device cpu is busy"), "{same:?}");
    let whole = project.orchestrate(&["run", "alone.yaml", "--store", "other", "--no-wait"]).code(12);
    assert!(whole.stderr.contains("this host is busy"), "{whole:?}");
    project.let_go();
    first.wait().code(0);
    project.orchestrate(&["run", "alone.yaml", "--store", "other", "--no-wait"]).code(0);
    assert_eq!(project.started(), 2);
}
