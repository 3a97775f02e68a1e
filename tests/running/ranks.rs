//! A launcher such as `torchrun` starts ranks that have no lock. If `orchestrate`, `time` and the launcher are killed,
//! the ranks are waited for, adopted and ended like any worker.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};
use orchestrate::processes::ProcessTable;
use orchestrate::record::{Outcome, Record};
use orchestrate::store::{Attempt, Survivors};

use crate::harness::{Matrix, Project, Running, edit_sealed, wait_for};

const FIRST: &str = "cpu_m_fp32_bs4_run1";

/// The beginning of the message about ranks that a run waits for.
const WAITING: &str =
    "waiting for the worker of cpu_m_fp32_bs4_run1, started by an orchestrate that died (processes ";

/// Three jobs with this launcher, whose ranks wait until they are released.
fn three_jobs(launcher: &'static str) -> Project {
    let project = Project::new();
    let matrix = Matrix::new("t").behave(&[launcher]).repeats(3).flag("--release", &project.release());
    project.and(matrix)
}

fn parent_of(pid: i32) -> Pid {
    let stat = ProcessTable::of_system().stat(pid.unsigned_abs()).expect("it runs");
    Pid::from_raw(stat.parent.cast_signed())
}

/// Kills `run`, the launcher of its first job, and its `time`.
fn kill_all_but_the_ranks(project: &Project, run: Running) {
    project.wait_started(1);
    let launcher = parent_of(project.workers()[0]);
    let chain = getpgid(Some(launcher)).unwrap();
    run.kill();
    killpg(chain, Signal::SIGKILL).unwrap();
    // In containers whose first process does not reap, zombies remain.
    let (table, group) = (ProcessTable::of_system(), chain.as_raw().unsigned_abs());
    let lives = |pid| table.stat(pid).is_some_and(|stat| stat.group == group && stat.state != 'Z');
    wait_for("the end of the launcher", || !table.pids().into_iter().any(lives));
}

/// The number of processes of the first attempt in `store`.
fn processes(project: &Project, store: &str) -> usize {
    let dir = project.path(store).read_dir().unwrap().map(|entry| entry.unwrap());
    let dir = dir.filter(|entry| entry.file_name().to_string_lossy().starts_with(FIRST)).map(|it| it.path());
    let dir = orchestrate::files::JobDir::at(dir.last().unwrap()).attempt(1);
    Survivors::of_system().of(&dir, &Attempt::load(&dir).unwrap()).len()
}

fn count(project: &Project, state: &str) -> u64 {
    project.orchestrate(&["status", "--json"]).json()["counts"][state].as_u64().unwrap()
}

/// Checks that every job succeeded, and the numbers of executions and adopted attempts.
#[track_caller]
fn assert_complete(project: &Project, executions: usize, adopted: usize) -> Vec<Record> {
    let records = project.records();
    assert!(
        records.len() == 3 && records.iter().all(|record| record.outcome == Outcome::Succeeded),
        "{records:?}"
    );
    assert_eq!(project.started(), executions);
    project.assert_quiet();
    assert_eq!(records.iter().filter(|record| record.observed.adopted).count(), adopted);
    records
}

#[test]
fn ranks_that_survive_their_launcher_are_adopted() {
    for launcher in ["ranks", "bare-ranks"] {
        let project = three_jobs(launcher);
        kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
        assert_eq!((count(&project, "running"), count(&project, "waiting")), (1, 2));
        let busy = project.orchestrate(&["resume", "--no-wait"]).code(12);
        busy.says(&format!("the worker of {FIRST}, started by an orchestrate that died (processes "));
        let mut resume = project.start(&["resume"]);
        resume.wait_for_line(WAITING);
        assert_eq!((project.started(), processes(&project, "runs")), (1, 2));
        project.release_workers();
        resume.wait().code(0);
        let records = assert_complete(&project, 3, 1);
        let first = records.iter().find(|record| record.label == FIRST).unwrap();
        assert!(first.attempt == 1 && first.measurement.is_some() && first.process.is_none());
    }
}

#[test]
fn two_runs_waiting_for_the_same_ranks_adopt_them_once() {
    let project = three_jobs("bare-ranks");
    kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
    let mut one = project.start(&["resume"]);
    one.wait_for_line(WAITING);
    let mut other = project.start(&["run", "t.yaml"]);
    other.wait_for_line(&format!("waiting for {FIRST}, held by orchestrate (pid {})", one.pid()));
    project.release_workers();
    one.wait().code(0);
    other.wait().code(0);
    assert_complete(&project, 3, 1);
}

#[test]
fn a_run_waiting_for_a_killed_one_waits_for_its_ranks() {
    let project = three_jobs("bare-ranks");
    let first = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let mut second = project.start(&["run", "t.yaml"]);
    second.wait_for_line("waiting for this host");
    kill_all_but_the_ranks(&project, first);
    second.wait_for_line(WAITING);
    project.release_workers();
    second.wait().code(0);
    assert_complete(&project, 3, 1);
}

#[test]
fn a_run_of_other_jobs_waits_for_the_ranks_without_adopting_them() {
    let project = three_jobs("bare-ranks");
    let project = project.and(Matrix::new("other").batches(&[8]));
    kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
    let held = format!("held by the worker of {FIRST}, whose orchestrate died (processes ");
    let busy = project.orchestrate(&["run", "other.yaml", "--no-wait"]).code(12);
    busy.says(&format!("this host is busy: the worker of {FIRST}, whose orchestrate died (processes "));
    let mut other = project.start(&["run", "other.yaml"]);
    other.wait_for_line(&held);
    let mut resume = project.start(&["resume", "t"]);
    resume.wait_for_line(WAITING);
    assert_eq!(project.started(), 1);
    project.release_workers();
    resume.wait().code(0);
    other.wait().code(0);
    assert_eq!((project.started(), project.records().len()), (4, 4));
    project.assert_quiet();
}

#[test]
fn ranks_beyond_the_time_limit_are_ended() {
    let project = Project::new();
    let matrix = Matrix::new("t").behave(&["bare-ranks"]).limits("timeout: 60s, retries: 0, grace: 1s");
    let matrix = matrix.flag("--release", &project.release());
    let project = project.and(matrix);
    kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
    project.start_earlier(61.0);
    let mut resume = project.start(&["resume"]);
    resume.wait_for_line("exceeds its time limit of 1m");
    project.wait_started(2);
    assert_eq!(processes(&project, "runs"), 0);
    project.release_workers();
    resume.wait().code(0);
    let dir = project.store().job_dirs().unwrap().remove(0);
    let adopted = dir.attempt(1).load_record().unwrap().unwrap();
    assert_eq!(adopted.outcome, Outcome::TimedOut { after_s: 60.0 });
    assert!(adopted.observed.adopted);
    project.assert_quiet();
}

#[test]
fn ctrl_c_leaves_the_ranks_alone() {
    let project = three_jobs("bare-ranks");
    kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
    let mut resume = project.start(&["resume"]);
    resume.wait_for_line(WAITING);
    resume.signal(Signal::SIGINT);
    resume.wait().code(11).says(&format!("the worker of {FIRST} keeps running"));
    assert_eq!(processes(&project, "runs"), 2);
    let mut resume = project.start(&["resume"]);
    resume.wait_for_line(WAITING);
    project.release_workers();
    resume.wait().code(0);
    assert_complete(&project, 3, 1);
}

#[test]
fn stop_ends_the_ranks() {
    for what in [&["stop"][..], &["stop", "t"], &["stop", FIRST]] {
        let project = three_jobs("bare-ranks");
        kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
        let stopped = project.orchestrate(what).code(0);
        let text = format!("ended the worker of {FIRST}, whose orchestrate had died");
        assert!(stopped.stdout.contains(&text), "{stopped:?}");
        assert_eq!(processes(&project, "runs"), 0);
        let record = project.record();
        assert!(record.observed.adopted && record.outcome.kind() == "interrupted", "{record:?}");
    }
}

#[test]
fn stop_ends_ranks_that_a_run_waits_for() {
    let project = three_jobs("bare-ranks");
    kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
    let mut resume = project.start(&["resume"]);
    resume.wait_for_line(WAITING);
    project.orchestrate(&["stop", FIRST]).code(0);
    resume.wait_for_line("start  cpu_m_fp32_bs4_run");
    project.release_workers();
    resume.wait().code(11);
    assert_eq!(project.started(), 3, "it is not tried again");
    project.assert_quiet();
}

/// Only the launcher was killed, so its end is known, and its leftover processes are ended.
#[test]
fn ranks_are_ended_if_only_their_launcher_was_killed() {
    let project = three_jobs("bare-ranks");
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    kill(parent_of(project.workers()[0]), Signal::SIGKILL).unwrap();
    let resume = project.start(&["resume"]);
    project.wait_started(2);
    assert_eq!(processes(&project, "runs"), 0);
    project.release_workers();
    resume.wait().code(0);
    assert_complete(&project, 4, 0);
    let dir = project.store().job_dirs().unwrap().remove(0);
    let adopted = dir.attempt(1).load_record().unwrap().unwrap();
    assert_eq!(adopted.outcome, Outcome::Signalled { signal: 9 });
    assert!(adopted.observed.adopted && adopted.observed.left_processes);
}

#[test]
fn ranks_are_found_through_another_path_to_the_store() {
    let project = three_jobs("bare-ranks");
    kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
    symlink(project.path("runs"), project.path("link")).unwrap();
    let mut resume = project.start(&["resume", "--store", "link"]);
    resume.wait_for_line(WAITING);
    project.release_workers();
    resume.wait().code(0);
    assert_complete(&project, 3, 1);
}

/// Their measurement is lost, because they write to the former path. But no job runs beside them.
#[test]
fn ranks_of_a_store_that_was_moved_are_waited_for() {
    let project = three_jobs("ranks");
    kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
    fs::rename(project.path("runs"), project.path("moved")).unwrap();
    let mut resume = project.start(&["resume", "--store", "moved"]);
    resume.wait_for_line(WAITING);
    assert_eq!(project.started(), 1);
    project.release_workers();
    resume.wait().code(0);
    fs::rename(project.path("moved"), project.path("runs")).unwrap();
    assert_complete(&project, 4, 0);
}

/// A copy of the store has no ranks. The same is true of attempts of another boot, or that began after the ranks.
#[test]
fn ranks_belong_to_no_other_attempt() {
    let project = three_jobs("ranks");
    kill_all_but_the_ranks(&project, project.start(&["run", "t.yaml"]));
    let mut cp = std::process::Command::new("cp");
    assert!(cp.arg("-R").args([project.path("runs"), project.path("copy")]).status().unwrap().success());
    assert_eq!([processes(&project, "runs"), processes(&project, "copy")], [2, 0]);
    let path = project.store().job_dirs().unwrap().remove(0).attempt(1).attempt();
    let sound = fs::read(&path).unwrap();
    assert_eq!(count(&project, "running"), 1);
    edit_sealed(&path, |attempt| attempt["provenance"]["host"]["boot_id"] = "another".into());
    assert_eq!(count(&project, "running"), 0);
    fs::write(&path, &sound).unwrap();
    project.start_earlier(-10.0);
    assert_eq!(count(&project, "running"), 0);
    fs::write(&path, &sound).unwrap();
    assert_eq!(count(&project, "running"), 1);
    project.orchestrate(&["stop"]).code(0);
    assert_eq!(processes(&project, "runs"), 0);
}
