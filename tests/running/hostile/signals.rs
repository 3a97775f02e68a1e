//! Ctrl-Z and `fg`: a run that is suspended goes on, with its workers or without them.

use std::os::unix::process::CommandExt;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};

use super::assert_complete;
use crate::harness::{Matrix, Project, Running, wait_for};

fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[track_caller]
fn wait_stopped(pid: Pid) {
    wait_for("the suspension", || state(pid) == Some('T'));
}

/// A run in a group of its own, as a shell starts it, whose first worker has started and waits. The worker's group.
fn in_the_middle() -> (Project, Running, Pid) {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(2).flag("--release", &project.release());
    let project = project.and(matrix);
    let mut command = project.command(&["run", "t.yaml"]);
    command.process_group(0);
    let run = Running::start(command);
    project.wait_started(1);
    let workers = getpgid(Some(Pid::from_raw(project.workers()[0]))).unwrap();
    (project, run, workers)
}

#[test]
fn a_suspended_run_lets_its_worker_finish_and_goes_on_when_it_is_continued() {
    let (project, run, _) = in_the_middle();
    killpg(run.pid(), Signal::SIGTSTP).unwrap();
    wait_stopped(run.pid());
    project.let_go();
    wait_for("the end of the worker", || project.executions().len() == 2);
    // Status looks from outside, and nothing new starts.
    project.orchestrate(&["status"]).code(0);
    assert_eq!(project.started(), 1);
    killpg(run.pid(), Signal::SIGCONT).unwrap();
    run.wait().code(0);
    assert_complete(&project, 2);
    assert_eq!(project.started(), 2);
}

#[test]
fn a_run_that_is_suspended_with_its_workers_goes_on_with_them() {
    let (project, run, workers) = in_the_middle();
    let worker = Pid::from_raw(project.workers()[0]);
    for group in [run.pid(), workers] {
        killpg(group, Signal::SIGTSTP).unwrap();
    }
    // `time` is the group's first process.
    for pid in [run.pid(), workers, worker] {
        wait_stopped(pid);
    }
    project.let_go();
    for group in [workers, run.pid()] {
        killpg(group, Signal::SIGCONT).unwrap();
    }
    run.wait().code(0);
    assert_complete(&project, 2);
    assert_eq!(project.started(), 2);
}

/// Stopped while it is suspended, as by a shell that is closed: the signals wait until it goes on.
#[test]
fn a_hangup_of_a_suspended_run_ends_it_in_an_orderly_way() {
    let (project, run, _) = in_the_middle();
    killpg(run.pid(), Signal::SIGTSTP).unwrap();
    wait_stopped(run.pid());
    for signal in [Signal::SIGHUP, Signal::SIGCONT] {
        killpg(run.pid(), signal).unwrap();
    }
    run.wait().code(11).says("orchestrate resume t").says("SIGHUP");
    project.assert_quiet();
    project.let_go();
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 2);
}
