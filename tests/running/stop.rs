//! After a stop, no process is left behind and nothing is lost.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use orchestrate::record::Outcome;

use crate::harness::{Matrix, Project, WithoutSigchld, wait_for};

/// Checks that every job has exactly one success, and that only stopped jobs ran twice.
fn assert_complete(project: &Project, jobs: usize, executions: usize) {
    let records = project.records();
    assert_eq!(records.len(), jobs);
    assert!(records.iter().all(|record| record.outcome == Outcome::Succeeded));
    assert_eq!(project.started(), executions);
    project.assert_quiet();
}

fn waiting_matrix(project: &Project) -> Matrix {
    Matrix::new("t").repeats(3).flag("--release", &project.release())
}

#[test]
fn a_first_signal_stops_gently_and_resume_completes() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let project = Project::new();
        let matrix = waiting_matrix(&project);
        let project = project.and(matrix);
        let run = project.start(&["run", "t.yaml"]);
        project.wait_started(1);
        run.signal(signal);
        run.wait().code(11).says("orchestrate resume t").says(signal.as_str());
        project.assert_quiet();
        assert_eq!(project.record().outcome.kind(), "interrupted");
        project.release_workers();
        project.orchestrate(&["resume"]).code(0);
        assert_complete(&project, 3, 4);
    }
}

#[test]
fn a_second_interrupt_kills_immediately() {
    let project = Project::with(
        // The grace is longer than any test waits, so only the second signal can end it in time.
        Matrix::new("t").behave(&["ignore-sigint"]).limits("timeout: 1h, retries: 1, grace: 1h"),
    );
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.signal(Signal::SIGINT);
    // It must have received the first signal: two pending ones are merged.
    let dir = project.store().job_dirs().unwrap().remove(0);
    assert!(dir.attempt(1).attempt().exists());
    let stopped = stop_until_gone(run);
    assert_eq!(stopped.code, Some(11), "{stopped:?}");
    project.assert_quiet();
    assert_eq!(project.record().outcome.kind(), "interrupted");
    assert_eq!(project.started(), 1);
}

/// Sends SIGINT again and again until it has ended, like an impatient user.
fn stop_until_gone(run: crate::harness::Running) -> crate::harness::Ended {
    run.signal_until_gone(Signal::SIGINT)
}

#[test]
fn closing_the_terminal_loses_nothing() {
    let project = Project::new();
    let matrix = waiting_matrix(&project);
    let project = project.and(matrix);
    let mut run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.close_output();
    project.release_workers();
    run.wait().code(0);
    assert_complete(&project, 3, 3);
}

#[test]
fn under_nohup_a_hangup_is_ignored() {
    let project = Project::new();
    let matrix = waiting_matrix(&project);
    let project = project.and(matrix);
    let run = project.start_under_nohup(&["run", "t.yaml"]);
    project.wait_started(1);
    run.signal(Signal::SIGHUP);
    project.release_workers();
    run.wait().code(0);
    assert_complete(&project, 3, 3);
}

#[test]
fn a_program_that_ignores_its_children_can_start_a_run() {
    let project = Project::with(Matrix::new("t").repeats(2));
    project.start_without_sigchld(&["run", "t.yaml"], WithoutSigchld::Ignores).wait().code(0);
    assert_complete(&project, 2, 2);
}

#[test]
fn a_run_unblocks_signals_blocked_by_its_parent() {
    let project = Project::new();
    let matrix = waiting_matrix(&project);
    let project = project.and(matrix);
    let run = project.start_without_sigchld(&["run", "t.yaml"], WithoutSigchld::Blocks);
    project.wait_started(1);
    #[cfg(target_os = "linux")]
    // The C library blocks all signals for a moment while it starts a process.
    wait_for("SIGCHLD to be heard", || blocked_signals(run.pid()) & (1 << (Signal::SIGCHLD as u64 - 1)) == 0);
    run.signal(Signal::SIGTERM);
    run.wait().code(11).says("SIGTERM");
    project.release_workers();
    project.start_without_sigchld(&["resume"], WithoutSigchld::Blocks).wait().code(0);
    assert_complete(&project, 3, 4);
}

/// The signals that the process blocks, one bit each.
#[cfg(target_os = "linux")]
fn blocked_signals(pid: nix::unistd::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(blocked.trim(), 16).unwrap()
}

#[test]
fn a_cool_down_can_be_interrupted() {
    let project = Project::with(Matrix::new("t").repeats(2).limits("cool_down: 1h"));
    let run = project.start(&["run", "t.yaml", "--env", "cpu", "--only", "batch>=4", "--store", "my runs"]);
    crate::harness::wait_for("the end of the first worker", || project.executions().len() == 2);
    run.signal(Signal::SIGINT);
    // The command to continue with is complete, with selection and store.
    run.wait()
        .code(11)
        .says("continue with `orchestrate resume t --env cpu --only 'batch>=4' --store 'my runs'`");
    assert_eq!(project.started(), 1);
}

/// The worker ended in time, but the suspended run could not see that before the limit.
#[test]
fn a_run_suspended_beyond_a_limit_does_not_time_the_worker_out() {
    let project = Project::new();
    let matrix =
        Matrix::new("t").limits("timeout: 5s, retries: 0, grace: 1s").flag("--release", &project.release());
    let project = project.and(matrix);
    let start = Instant::now();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.signal(Signal::SIGSTOP);
    project.release_workers();
    wait_for("the end of the worker", || project.executions().len() == 2);
    wait_for("the limit", || start.elapsed() > Duration::from_secs(6));
    run.signal(Signal::SIGCONT);
    run.wait().code(0);
    assert_eq!(project.record().outcome, Outcome::Succeeded);
}
