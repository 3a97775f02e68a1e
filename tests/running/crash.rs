//! `kill -9` of any process, at any moment: nothing is lost, nothing runs twice, nothing overlaps.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};
use orchestrate::files::hidden_name;
use orchestrate::record::Outcome;

use crate::harness::{Matrix, Project, edit_sealed, wait_for};

fn three_jobs() -> Project {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(3).flag("--release", &project.release());
    project.and(matrix)
}

#[track_caller]
fn assert_complete(project: &Project, executions: usize) {
    let records = project.records();
    assert_eq!(records.len(), 3);
    for record in &records {
        assert_eq!(record.outcome, Outcome::Succeeded);
    }
    assert_eq!(project.started(), executions);
    project.assert_quiet();
}

#[test]
fn a_worker_outlives_its_orchestrate_and_is_adopted() {
    let project = three_jobs();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    let mut resume = project.start(&["resume"]);
    resume.wait_for_line("the worker of cpu_m_fp32_bs4_run1");
    assert_eq!(project.started(), 1);
    project.release_workers();
    resume.wait().code(0);
    assert_complete(&project, 3);
    let adopted = project.records().into_iter().filter(|record| record.observed.adopted).count();
    assert_eq!(adopted, 1);
}

#[test]
fn an_orphaned_worker_still_has_the_host_to_itself() {
    let project = three_jobs();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    let other = project.orchestrate(&["run", "t.yaml", "--store", "other", "--no-wait"]).code(12);
    assert!(other.stderr.contains("this host is busy: the worker of cpu_m_fp32_bs4_run1"), "{other:?}");
    project.release_workers();
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 3);
}

#[test]
fn a_record_that_cannot_be_written_loses_nothing() {
    let project = three_jobs();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    // Blocks the file that becomes the record, even for root.
    let tmp = hidden_name("record.json".as_ref(), run.pid().as_raw().unsigned_abs());
    let obstacle = project.store().job_dirs().unwrap().remove(0).path().join(tmp);
    std::fs::create_dir(&obstacle).unwrap();
    project.release_workers();
    run.wait().code(10).says("FAILED cpu_m_fp32_bs4_run1: cannot write").says("the next run will try again");
    assert_eq!((project.started(), project.records().len()), (3, 2));
    std::fs::remove_dir(&obstacle).unwrap();
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 3);
}

#[test]
fn a_worker_that_has_ended_is_adopted() {
    let project = three_jobs();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    project.release_workers();
    project.assert_quiet();
    wait_for("the report of time", || {
        let dir = project.store().job_dirs().unwrap().remove(0);
        std::fs::read_to_string(dir.attempt(1).time()).is_ok_and(|text| text.contains("Exit status"))
    });
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 3);
}

#[test]
fn resume_names_the_worker_it_waits_for_unless_no_wait() {
    let project = three_jobs();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    let busy = project.orchestrate(&["resume", "--no-wait"]).code(12);
    assert!(busy.stderr.contains("the worker of cpu_m_fp32_bs4_run1, started by"), "{busy:?}");
    assert!(busy.stderr.contains("an orchestrate that died"), "{busy:?}");
    // A stop while it waits does not touch the worker.
    let mut resume = project.start(&["resume"]);
    resume.wait_for_line("the worker of cpu_m_fp32_bs4_run1");
    resume.signal(Signal::SIGINT);
    resume
        .wait()
        .code(11)
        .says("the worker of cpu_m_fp32_bs4_run1 keeps running, and `orchestrate resume` will wait for it");
    project.release_workers();
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 3);
}

#[test]
fn a_killed_worker_is_a_failure_and_runs_again() {
    let project = three_jobs();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    kill(Pid::from_raw(project.workers()[0]), Signal::SIGKILL).unwrap();
    project.release_workers();
    run.wait().code(10);
    assert_eq!(project.started(), 3);
    let killed =
        project.records().into_iter().filter(|record| record.outcome == Outcome::Signalled { signal: 9 });
    assert_eq!(killed.count(), 1);
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 4);
}

#[test]
fn orchestrate_and_its_whole_group_of_workers_killed() {
    let project = three_jobs();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let group = getpgid(Some(Pid::from_raw(project.workers()[0]))).unwrap();
    run.kill();
    killpg(group, Signal::SIGKILL).unwrap();
    project.release_workers();
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 4);
}

#[test]
fn an_adopted_worker_is_stopped_at_its_time_limit() {
    let project = Project::with(
        Matrix::new("t").behave(&["ignore-sigint"]).limits("timeout: 1s, retries: 0, grace: 100ms"),
    );
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    project.orchestrate(&["resume"]).code(10);
    project.assert_quiet();
    let record = project.record();
    assert_eq!(record.outcome, Outcome::TimedOut { after_s: 1.0 });
    // The adopted attempt, and the retry after its failure.
    assert_eq!(record.attempt, 2);
}

#[test]
fn signals_work_during_the_grace_of_an_adopted_worker() {
    let project = Project::with(
        Matrix::new("t").behave(&["ignore-sigint"]).limits("timeout: 1s, retries: 0, grace: 1h"),
    );
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    let mut resume = project.start(&["resume"]);
    resume.wait_for_line("exceeds its time limit of 1s: it was asked to end, and is killed after 1h");
    resume.signal(Signal::SIGTERM);
    resume.wait_for_line("stopping (SIGTERM): no more jobs will start");
    resume.signal(Signal::SIGINT);
    resume.wait().code(11).says("stopping immediately (SIGINT): killing the worker");
    project.assert_quiet();
    let record = project.record();
    assert_eq!((record.outcome, record.attempt), (Outcome::TimedOut { after_s: 1.0 }, 1));
}

/// The worker keeps running, whether the clock was set or the attempt's version did not record the time since boot.
#[test]
fn a_clock_that_was_set_does_not_end_an_adopted_worker() {
    for without_time_since_boot in [false, true] {
        let project = three_jobs();
        let run = project.start(&["run", "t.yaml"]);
        project.wait_started(1);
        run.kill();
        let path = project.store().job_dirs().unwrap().remove(0).attempt(1).attempt();
        edit_sealed(&path, |attempt| {
            attempt["started_at"] = "2001-01-01T00:00:00Z".into();
            let noted = attempt["started_since_boot_s"].take();
            assert!(noted.is_f64(), "{attempt}");
            if !without_time_since_boot {
                attempt["started_since_boot_s"] = noted;
            }
        });
        let mut resume = project.start(&["resume"]);
        resume.wait_for_line("the worker of cpu_m_fp32_bs4_run1");
        project.release_workers();
        resume.wait().code(0);
        assert_complete(&project, 3);
    }
}

/// Kills `orchestrate` at many different moments until the plan is complete.
#[test]
fn a_run_killed_repeatedly_completes_with_one_success_per_job() {
    let project = Project::with(Matrix::new("t").repeats(4));
    project.orchestrate(&["run", "t.yaml", "--dry-run"]).code(0);
    let mut code = None;
    for round in 0..200_u64 {
        let verb = if round == 0 { &["run", "t.yaml"][..] } else { &["resume"] };
        let mut run = project.start(if project.path("runs/.plans/t.json").exists() {
            verb
        } else {
            &["run", "t.yaml"]
        });
        code = run.kill_after_spinning(round * 20_000);
        if code == Some(0) {
            break;
        }
    }
    if code != Some(0) {
        // On a slow machine, the first rounds can be killed before there is a plan to resume.
        project.orchestrate(&["run", "t.yaml"]).code(0);
    }
    let records = project.records();
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|record| record.outcome == Outcome::Succeeded));
    // No job ran again after it had succeeded: each successful execution is the job's last.
    let executions = project.executions();
    for record in &records {
        let ended = executions.iter().filter(|line| **line == format!("ended {}", record.label)).count();
        assert_eq!(ended, 1, "{executions:?}");
    }
    project.assert_quiet();
}

/// No other process would stop its worker.
#[test]
fn a_worker_whose_orchestrate_dies_while_another_waits_is_stopped_at_its_limit() {
    let project = Project::new();
    let matrix = Matrix::new("t").limits("timeout: 60s, retries: 0, grace: 1s");
    let matrix = matrix.flag("--release", &project.release());
    let project = project.and(matrix);
    let mut first = project.start(&["run", "t.yaml"]);
    // By then, it has written all its files of the attempt.
    first.wait_for_line("start  cpu_m_fp32_bs4_run1");
    project.wait_started(1);
    let mut second = project.start(&["run", "t.yaml"]);
    second.wait_for_line("waiting for this host");
    // As if its time limit had passed. Only an adopting process reads the start from this file.
    project.start_earlier(61.0);
    first.kill();
    project.wait_started(2);
    project.release_workers();
    second.wait().code(0);
    // The second one adopted the attempt, and then tried the job itself.
    let adopted = project.store().job_dirs().unwrap().remove(0).attempt(1).load_record().unwrap().unwrap();
    assert_eq!(adopted.outcome, Outcome::TimedOut { after_s: 60.0 });
    assert!(adopted.observed.adopted);
    assert_eq!(project.started(), 2);
    project.assert_quiet();
    let left = std::fs::read_dir(project.path("runs/.running")).unwrap().count();
    assert_eq!(left, 1, "the next run removes the leftovers of the killed one");
}
