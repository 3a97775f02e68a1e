//! Ctrl-Z and `fg`: a suspended run continues, whether or not its workers were suspended.

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

/// A run in its own process group, as a shell starts it, whose first worker waits; and the group of that worker.
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
fn a_suspended_run_continues_after_its_worker_finished() {
    let (project, run, _) = in_the_middle();
    killpg(run.pid(), Signal::SIGTSTP).unwrap();
    wait_stopped(run.pid());
    project.release_workers();
    wait_for("the end of the worker", || project.executions().len() == 2);
    // `status` runs in another process, and no job starts.
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
    project.release_workers();
    for group in [workers, run.pid()] {
        killpg(group, Signal::SIGCONT).unwrap();
    }
    run.wait().code(0);
    assert_complete(&project, 2);
    assert_eq!(project.started(), 2);
}

/// SIGHUP of a suspended run, as from a shell that is closed: it is pending until the run continues.
#[test]
fn a_hangup_of_a_suspended_run_ends_it_cleanly() {
    let (project, run, _) = in_the_middle();
    killpg(run.pid(), Signal::SIGTSTP).unwrap();
    wait_stopped(run.pid());
    for signal in [Signal::SIGHUP, Signal::SIGCONT] {
        killpg(run.pid(), signal).unwrap();
    }
    run.wait().code(11).says("orchestrate resume t").says("SIGHUP");
    project.assert_quiet();
    project.release_workers();
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 2);
}
