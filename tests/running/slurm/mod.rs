//! Envs that Slurm starts, with a Slurm of the tests' own: what is handed over, followed, lost, stopped and shown.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;

use crate::harness::{Ended, Matrix, Project, Running, prints, wait_for};

/// A project on a machine with Slurm.
struct Cluster {
    project: Project,
}

impl Cluster {
    /// The matrix `t` of these repeats, whose env asks Slurm for `request`.
    fn new(repeats: u32, request: &str) -> Cluster {
        Cluster::with(|_| Matrix::new("t").repeats(repeats).env(on_slurm(request)))
    }

    /// The same, with workers that wait until they are let go.
    fn waiting(repeats: u32, request: &str) -> Cluster {
        Cluster::with(|project| {
            let matrix = Matrix::new("t").repeats(repeats).env(on_slurm(request));
            matrix.flag("--release", &project.release())
        })
    }

    fn with(matrix: impl Fn(&Project) -> Matrix) -> Cluster {
        let project = Project::new();
        let matrix = matrix(&project);
        let project = project.and(matrix);
        fs::create_dir_all(project.path("slurm")).unwrap();
        let (source, state) =
            (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/running/slurm/slurm.py"), project.path("slurm"));
        for name in ["sbatch", "squeue", "scancel", "scontrol"] {
            let text = format!("#!/bin/sh\nexec python3 -B '{source}' '{}' {name} \"$@\"\n", state.display());
            project.add_program(name, &text);
        }
        Cluster { project }
    }

    fn start(&self, arguments: &[&str]) -> Running {
        self.project.start_with_programs(arguments)
    }

    fn orchestrate(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).wait()
    }

    /// Has Slurm do something wrong.
    fn order(&self, what: &str, how: &str) {
        fs::write(self.project.path("slurm").join(what), how).unwrap();
    }

    fn no_longer(&self, what: &str) {
        fs::remove_file(self.project.path("slurm").join(what)).unwrap();
    }

    /// Adds an env that runs here.
    fn also_run_here(&self) {
        let file = self.project.path("t.yaml");
        let yaml = fs::read_to_string(&file).unwrap();
        let both = yaml.replace("envs: { cpu: ", "envs: { here: { device: cpu }, cpu: ");
        assert_ne!(both, yaml);
        fs::write(&file, both).unwrap();
    }

    /// The file of a submission.
    fn frozen(&self) -> PathBuf {
        let entries = fs::read_dir(self.project.path("runs/.queue")).unwrap();
        let is_frozen = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.ends_with(".json") && !name.contains(".ticket.")
        };
        entries.map(|entry| entry.unwrap().path()).find(is_frozen).unwrap()
    }

    /// The files of the arrays that Slurm accepted.
    fn arrays(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.project.path("slurm")).unwrap();
        let names = entries.map(|entry| entry.unwrap().path());
        let mut arrays: Vec<PathBuf> =
            names.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
        arrays.sort();
        arrays
    }
}

fn on_slurm(request: &str) -> String {
    format!("device: cpu, where: {{ slurm: {{ {request} }} }}")
}

#[test]
fn a_matrix_runs_in_an_array_and_what_is_done_is_not_handed_over_again() {
    let cluster = Cluster::new(5, "pack: 2, partition: gpu");
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(0);
    run.says("Slurm has 5 jobs of cpu as 3 tasks of array 101").says("done   cpu_m_fp32_bs4_run5");
    cluster.project.assert_complete(5, 5);
    for record in cluster.project.records() {
        let slurm = record.provenance.slurm.clone().expect("it ran in a task");
        assert!(slurm.task.starts_with("101_") && slurm.node.is_some(), "{slurm:?}");
        assert_eq!(slurm.cluster.as_deref(), Some("test"));
    }
    prints(cluster.orchestrate(&["run", "t.yaml"]).code(0), "t: all 5 jobs are done");
    prints(cluster.orchestrate(&["status"]).code(0), "t: 5 jobs: 5 done");
    assert_eq!(cluster.arrays().len(), 1);
    let array = fs::read_to_string(&cluster.arrays()[0]).unwrap();
    for word in ["--array=0-2", "--partition=gpu", "--exclusive", "--no-requeue", "--parsable"] {
        assert!(array.contains(word), "no {word} in {array}");
    }
}

#[test]
fn whoever_stops_following_leaves_the_queue_alone_and_resume_follows_again() {
    let cluster = Cluster::waiting(2, "throttle: 1");
    let mut run = cluster.start(&["run", "t.yaml"]);
    cluster.project.wait_started(1);
    run.wait_for_line("1 running on n1");
    run.signal(Signal::SIGINT);
    run.wait().code(11).says("Slurm keeps 2 jobs: `orchestrate status t --watch` follows them");
    let status = cluster.orchestrate(&["status"]).code(0);
    prints(status, "Slurm: running on n1: 1 job");
    prints(
        cluster.orchestrate(&["explain", "cpu_m_fp32_bs4_run1"]).code(0),
        "Slurm: running on n1, task 101_0",
    );
    let resumed = cluster.start(&["resume"]);
    cluster.project.let_go();
    resumed.wait().code(0);
    cluster.project.assert_complete(2, 2);
    assert_eq!(cluster.arrays().len(), 1, "nothing was handed over twice");
}

#[test]
fn stop_cancels_what_waits_and_what_runs_and_resume_completes_it() {
    let cluster = Cluster::waiting(4, "");
    let run = cluster.start(&["run", "t.yaml"]);
    cluster.project.wait_started(1);
    prints(cluster.orchestrate(&["stop", "t"]).code(0), "cancelled 4 tasks of t with Slurm");
    cluster.project.assert_quiet();
    run.wait().code(11);
    assert!(cluster.project.records().iter().all(|record| record.outcome.kind() == "interrupted"));
    let stopped = cluster.project.started();
    prints(cluster.orchestrate(&["stop"]).code(0), "nothing runs in ");
    cluster.project.let_go();
    cluster.orchestrate(&["resume"]).code(0);
    cluster.project.assert_complete(4, stopped + 4);
}

#[test]
fn a_task_that_slurm_lost_is_handed_over_again_and_one_that_ended_is_not() {
    let cluster = Cluster::new(3, "");
    cluster.order("fate-0", "NODE_FAIL");
    cluster.order("fate-1", "TIMEOUT");
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(10);
    let run = run.says("run1: Slurm's task 101_0 was lost, because its node failed; it is handed over again");
    run.says("Slurm's task 101_1 was ended by Slurm at its time limit");
    cluster.project.assert_complete(2, 2);
    cluster.orchestrate(&["resume"]).code(0);
    cluster.project.assert_complete(3, 3);
    assert_eq!(cluster.arrays().len(), 3);
}

#[test]
fn an_array_that_slurm_forgot_is_handed_over_again() {
    let cluster = Cluster::new(2, "");
    cluster.order("hold", "Resources");
    let mut run = cluster.start(&["run", "t.yaml"]);
    run.wait_for_line("2 queued (Resources)");
    cluster.order("forget-101", "");
    cluster.no_longer("hold");
    run.wait().code(0).says("is no longer known to Slurm; it is handed over again");
    cluster.project.assert_complete(2, 2);
}

#[test]
fn a_submission_whose_answer_was_lost_is_found_again() {
    let cluster = Cluster::new(2, "");
    cluster.order("lose-answer", "");
    cluster.orchestrate(&["run", "t.yaml"]).code(0).says("not handed to Slurm yet: ");
    cluster.project.assert_complete(2, 2);
    assert_eq!(cluster.arrays().len(), 1, "Slurm had it");
}

#[test]
fn without_an_answer_nothing_is_lost_and_slurm_is_asked_again() {
    let cluster = Cluster::new(2, "");
    cluster.order("dead", "");
    let mut run = cluster.start(&["run", "t.yaml"]);
    run.wait_for_line("Unable to contact slurm controller");
    run.wait_for_line("nothing is lost, and it is tried again");
    cluster.no_longer("dead");
    run.wait().code(0);
    cluster.project.assert_complete(2, 2);
    assert_eq!(cluster.arrays().len(), 1);
}

#[test]
fn a_failure_is_the_jobs_and_not_slurms() {
    let cluster = Cluster::with(|_| Matrix::new("t").behave(&["exit3"]).env(on_slurm("")));
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(10);
    run.says("FAILED cpu_m_fp32_bs4_run1 exited with code 3");
    assert_eq!(cluster.project.record().outcome.kind(), "exited");
    assert_eq!(cluster.arrays().len(), 1, "a verdict is not tried again by itself");
}

#[test]
fn a_task_that_leaves_a_job_says_why() {
    let cluster = Cluster::with(|_| Matrix::new("t").env(format!("{}, host: elsewhere", on_slurm(""))));
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(10);
    run.says("the env `cpu` belongs on the host elsewhere, but this is ");
    assert_eq!(cluster.project.started(), 0);
}

#[test]
fn a_task_that_slurm_runs_twice_at_once_runs_each_job_once() {
    let cluster = Cluster::waiting(2, "pack: 2");
    let run = cluster.start(&["run", "t.yaml"]);
    cluster.project.wait_started(1);
    let again = cluster.start(&["run-task", &cluster.frozen().display().to_string(), "0"]);
    cluster.project.let_go();
    again.wait().code(0);
    run.wait().code(0);
    cluster.project.assert_complete(2, 2);
}

#[test]
fn where_there_is_no_slurm_its_jobs_are_not_here_and_the_others_run() {
    let cluster = Cluster::with(|_| Matrix::new("t").env(on_slurm("")));
    cluster.also_run_here();
    fs::remove_file(cluster.project.path("bin/sbatch")).unwrap();
    let bare = |arguments: &[&str]| {
        let mut command = cluster.project.command(arguments);
        // This machine might have a Slurm of its own.
        command.env("PATH", cluster.project.path("bin"));
        Running::start(command).wait()
    };
    bare(&["run", "t.yaml"]).code(0);
    cluster.project.assert_complete(1, 1);
    prints(
        bare(&["status"]).code(0),
        "Slurm starts the jobs of the env `cpu`, and its programs are not here",
    );
}

#[test]
fn a_dry_run_prints_what_would_be_handed_over_and_hands_over_nothing() {
    let cluster = Cluster::new(3, "pack: 2, time: 2h, setup: [\"module load cuda/12\"]");
    let printed = cluster.orchestrate(&["run", "t.yaml", "--dry-run"]).code(0);
    let printed =
        prints(printed, "# 3 jobs of cpu in 2 tasks of Slurm\nsbatch --parsable --job-name=orch-t-");
    let printed = prints(printed, "--time=02:00:00");
    prints(printed, "#   module load cuda/12");
    assert!(cluster.arrays().is_empty() && !cluster.project.path("runs").exists());
}

#[test]
fn a_matrix_can_have_local_envs_beside_those_of_slurm() {
    let cluster = Cluster::new(2, "");
    cluster.also_run_here();
    cluster.orchestrate(&["run", "t.yaml"]).code(0);
    cluster.project.assert_complete(4, 4);
    let by_slurm = cluster.project.records().iter().filter(|it| it.provenance.slurm.is_some()).count();
    assert_eq!(by_slurm, 2);
}

#[test]
fn a_task_refuses_what_is_no_submission_of_it() {
    let cluster = Cluster::new(1, "");
    cluster.orchestrate(&["run", "t.yaml"]).code(0);
    cluster.orchestrate(&["run-task", "t.yaml", "0"]).code(2).says("t.yaml is no submission");
    cluster.orchestrate(&["run-task", "none.json", "0"]).code(12).says("cannot read none.json");
    let frozen = cluster.frozen();
    cluster
        .orchestrate(&["run-task", &frozen.display().to_string(), "7"])
        .code(2)
        .says("has no task 7, only 1");
    let text = fs::read_to_string(&frozen).unwrap();
    fs::write(&frozen, text.replace("\"keep_going\": false", "\"keep_going\": true")).unwrap();
    let torn = cluster.orchestrate(&["run-task", &frozen.display().to_string(), "0"]).code(12);
    torn.says("its seal does not hold");
    wait_for("the queue", || cluster.arrays().len() == 1);
}

#[test]
fn a_job_that_waits_in_the_queue_is_stopped_alone_if_its_task_has_no_other() {
    let cluster = Cluster::new(3, "");
    cluster.order("hold", "Priority");
    let mut run = cluster.start(&["run", "t.yaml"]);
    run.wait_for_line("3 queued (Priority)");
    let stopped = cluster.orchestrate(&["stop", "cpu_m_fp32_bs4_run2"]).code(0);
    prints(stopped, "cancelled the task of cpu_m_fp32_bs4_run2-")
        .says("`orchestrate resume t` runs it again");
    cluster.no_longer("hold");
    run.wait().code(10).says("Slurm's task 101_1 was cancelled");
    cluster.project.assert_complete(2, 2);

    let packed = Cluster::new(3, "pack: 3");
    packed.order("hold", "Priority");
    let mut run = packed.start(&["run", "t.yaml"]);
    run.wait_for_line("3 queued (Priority)");
    let refused = packed.orchestrate(&["stop", "cpu_m_fp32_bs4_run2"]).code(12);
    refused
        .says("queued (Priority), task 101_0, in a task with 3 jobs")
        .says("`scancel 101_0` ends all of them");
    prints(packed.orchestrate(&["stop"]).code(0), "cancelled 1 task of t with Slurm");
    run.wait().code(11);
}

#[test]
fn what_the_user_prefers_to_see_of_slurm_hides_no_task() {
    let cluster = Cluster::waiting(2, "");
    let prefers = [("SQUEUE_PARTITION", "other"), ("SCANCEL_STATE", "PENDING")];
    let mut run = cluster.project.start_with_variables(&["run", "t.yaml"], &prefers);
    cluster.project.wait_started(1);
    run.wait_for_line("running on n1");
    let stopped = cluster.project.start_with_variables(&["stop"], &prefers).wait().code(0);
    prints(stopped, "cancelled 2 tasks of t with Slurm");
    run.wait().code(11);
    assert_eq!(cluster.arrays().len(), 1, "nothing was taken for forgotten");
}

#[test]
fn a_request_to_cancel_that_slurm_forgot_is_made_again() {
    let cluster = Cluster::waiting(1, "");
    let run = cluster.start(&["run", "t.yaml"]);
    cluster.project.wait_started(1);
    cluster.order("lose-cancel", "");
    prints(cluster.orchestrate(&["stop"]).code(0), "cancelled 1 task of t with Slurm");
    cluster.project.assert_quiet();
    run.wait().code(11);
}

#[test]
fn a_task_that_slurm_lists_after_its_jobs_are_done_is_ended() {
    let cluster = Cluster::new(2, "");
    cluster.order("linger", "");
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(0);
    run.says("Slurm's task 101_0 is ended: it is still listed, and its jobs are done");
    cluster.project.assert_complete(2, 2);
    let array = fs::read_to_string(&cluster.arrays()[0]).unwrap();
    assert!(array.matches("\"CANCELLED\"").count() == 2, "{array}");
}

#[test]
fn what_stop_took_back_starts_nothing_if_slurm_has_it_after_all() {
    let cluster = Cluster::new(1, "");
    cluster.order("lose-answer", "");
    cluster.order("hold", "Priority");
    let mut run = cluster.start(&["run", "t.yaml"]);
    run.wait_for_line("not handed to Slurm yet");
    run.signal(Signal::SIGKILL);
    run.wait();
    fs::remove_file(cluster.frozen().with_extension("ticket.json")).unwrap_or_default();
    cluster.orchestrate(&["stop"]).code(0);
    cluster
        .orchestrate(&["run-task", &cluster.frozen().display().to_string(), "0"])
        .code(0)
        .says("was stopped");
    assert_eq!(cluster.project.started(), 0);
}
