//! `orchestrate stop` ends all that runs in a store, and nothing else.

use crate::harness::{Ended, Matrix, Project, wait_for};

const FIRST: &str = "cpu_m_fp32_bs4_run1";

/// A project with the matrix `t` of three jobs, which wait until they are released.
fn waiting() -> Project {
    let project = Project::new();
    let matrix = Matrix::new("t")
        .repeats(3)
        .limits("timeout: 60s, retries: 2, grace: 10s")
        .flag("--release", &project.release());
    project.and(matrix)
}

#[track_caller]
fn prints(ended: Ended, text: &str) -> Ended {
    let ended = ended.code(0);
    assert!(ended.stdout.contains(text), "no `{text}` in {ended:?}");
    ended
}

#[test]
fn a_run_is_stopped_as_by_ctrl_c_and_resume_completes_it() {
    for what in [&["stop"][..], &["stop", "t"]] {
        let project = waiting();
        let run = project.start(&["run", "t.yaml"]);
        project.wait_started(1);
        let stopped = project.orchestrate(what);
        prints(stopped, &format!("stopped the run of t: pid {} on ", run.pid()))
            .says("hint: `orchestrate resume t` continues");
        project.assert_quiet();
        run.wait().code(11).says("stopped by `orchestrate stop`; continue with `orchestrate resume t`");
        assert_eq!(project.record().outcome.kind(), "interrupted");
        prints(project.orchestrate(&["stop"]), "nothing runs in ");
        project.release_workers();
        project.orchestrate(&["resume"]).code(0);
        project.assert_complete(3, 4);
    }
}

#[test]
fn a_stopped_job_does_not_stop_its_run() {
    let project = waiting();
    let mut run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let stopped = project.orchestrate(&["stop", FIRST]);
    prints(stopped, &format!("stopped {FIRST}"))
        .says("hint: its run continues without it; `orchestrate resume t`");
    assert_eq!(project.inventory().records().next().unwrap().outcome.kind(), "interrupted");
    run.wait_for_line("start  cpu_m_fp32_bs4_run2");
    prints(project.orchestrate(&["stop", FIRST]), "does not run in ");
    project.release_workers();
    // No job failed, but one is left.
    run.wait().code(11).says("1 job was stopped by `orchestrate stop`; continue with `orchestrate resume t`");
    assert_eq!(project.started(), 3, "it is not tried again");
    project.orchestrate(&["resume"]).code(0);
    project.assert_complete(3, 4);
}

/// Otherwise it would start again immediately, because the other run is next.
#[test]
fn a_stopped_job_is_not_started_by_a_waiting_run() {
    let project = waiting();
    let first = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let mut second = project.start(&["run", "t.yaml"]);
    second.wait_for_line("waiting for this host");
    project.orchestrate(&["stop", FIRST]).code(0);
    project.release_workers();
    first.wait().code(11);
    second.wait().code(11);
    assert_eq!(project.started(), 3);
    project.orchestrate(&["resume"]).code(0);
    project.assert_complete(3, 4);
}

#[test]
fn a_worker_whose_orchestrate_died_is_ended() {
    for what in [&["stop"][..], &["stop", "t"], &["stop", FIRST]] {
        let project = waiting();
        let run = project.start(&["run", "t.yaml"]);
        project.wait_started(1);
        run.kill();
        let stopped = project.orchestrate(what);
        let stopped = prints(stopped, &format!("ended the worker of {FIRST}, whose orchestrate had died"));
        stopped.says("hint: `orchestrate resume t` continues");
        project.assert_quiet();
        let record = project.record();
        assert_eq!(record.outcome.kind(), "interrupted");
        assert!(record.observed.adopted);
        prints(project.orchestrate(what), "run");
        project.release_workers();
        project.orchestrate(&["resume"]).code(0);
        project.assert_complete(3, 4);
    }
}

/// Two processes want to end the attempt, and the first one must know of the stop.
#[test]
fn a_worker_being_adopted_is_ended() {
    let project = waiting();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    let mut resume = project.start(&["resume"]);
    resume.wait_for_line(&format!("the worker of {FIRST}"));
    project.orchestrate(&["stop", FIRST]).code(0);
    resume.wait_for_line("start  cpu_m_fp32_bs4_run");
    project.release_workers();
    resume.wait().code(11);
    assert_eq!(project.started(), 3, "it is not tried again");
    let first = project.store().job_dirs().unwrap().remove(0).attempt(1).load_record().unwrap().unwrap();
    assert_eq!(first.outcome.kind(), "interrupted");
    project.orchestrate(&["resume"]).code(0);
    project.assert_complete(3, 4);
}

#[test]
fn only_the_named_run_is_stopped() {
    let project = Project::new();
    let other = Matrix::new("other").batches(&[8]).flag("--release", &project.release());
    let project = project.and(other);
    let matrix = Matrix::new("t").flag("--release", &project.release());
    let project = project.and(matrix);
    let first = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let mut second = project.start(&["run", "other.yaml"]);
    second.wait_for_line("waiting for this host");
    prints(project.orchestrate(&["stop", "other"]), "stopped the run of other: pid ");
    second.wait().code(11);
    project.release_workers();
    first.wait().code(0);
    assert_eq!(project.started(), 1);
}

#[test]
fn a_worker_that_ignores_signals_is_killed_after_its_grace() {
    let project = Project::with(
        Matrix::new("t").behave(&["ignore-sigint"]).limits("timeout: 1h, retries: 0, grace: 100ms"),
    );
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    project.orchestrate(&["stop"]).code(0);
    project.assert_quiet();
    run.wait().code(11);
}

#[test]
fn an_unknown_name_gets_the_closest_suggestion() {
    let project = Project::with(Matrix::new("quickstart"));
    project.orchestrate(&["stop"]).code(4).says("there is no store at ");
    project.orchestrate(&["run", "quickstart.yaml"]).code(0);
    prints(project.orchestrate(&["stop"]), "nothing runs in ");
    prints(project.orchestrate(&["stop", "quickstart"]), "no job of quickstart runs in ");
    project
        .orchestrate(&["stop", "quikstart"])
        .code(4)
        .says("has no matrix or job `quikstart`")
        .says("did you mean `quickstart`?");
    project.orchestrate(&["stop", "cpu_m_fp32_bs4_run2"]).code(4).says(&format!("did you mean `{FIRST}`"));
}

#[test]
fn a_second_run_is_refused_with_the_ways_to_follow_or_end_the_first() {
    let project = waiting();
    let first = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let stdout = project.store().job_dirs().unwrap()[0].attempt(1).stdout();
    wait_for("its progress", || std::fs::read_to_string(&stdout).is_ok_and(|text| text.contains("measure")));
    let busy = project.orchestrate(&["run", "t.yaml", "--no-wait"]).code(12);
    busy.says(&format!("another orchestrate runs on this store: pid {} on ", first.pid()))
        .says(&format!("; it runs {FIRST} (attempt 1, measuring, 1 of 2)"))
        .says("`orchestrate status t --watch` follows it, `orchestrate logs cpu_m_fp32_bs4_run1-")
        .says("`orchestrate stop t` ends it");
    project.release_workers();
    first.wait().code(0);
}
