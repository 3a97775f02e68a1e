//! Envs that Slurm starts, with a fake Slurm: submitting, following, losing, stopping and showing tasks.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;

use crate::harness::{Ended, Matrix, Project, Running, prints, wait_for};

/// A project on a machine with Slurm.
struct Cluster {
    project: Project,
}

impl Cluster {
    /// The matrix `t` with these repeats, whose env has the Slurm settings `request`.
    fn new(repeats: u32, request: &str) -> Cluster {
        Cluster::with(|_| Matrix::new("t").repeats(repeats).env(on_slurm(request)))
    }

    /// The same, with workers that wait until they are released.
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

    /// Makes Slurm misbehave as in slurm.py, until `cease`.
    fn cause(&self, fault: &str, how: &str) {
        fs::write(self.project.path("slurm").join(fault), how).unwrap();
    }

    fn cease(&self, fault: &str) {
        fs::remove_file(self.project.path("slurm").join(fault)).unwrap();
    }

    /// Adds a local env.
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
fn a_matrix_runs_in_an_array_and_done_jobs_are_not_submitted_again() {
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
fn ctrl_c_leaves_the_queue_alone_and_resume_follows_again() {
    let cluster = Cluster::waiting(2, "throttle: 1");
    let mut run = cluster.start(&["run", "t.yaml"]);
    cluster.project.wait_started(1);
    run.wait_for_line("1 running on n1");
    run.signal(Signal::SIGINT);
    run.wait().code(11).says("Slurm still has 2 jobs: `orchestrate status t --watch` follows them");
    let status = cluster.orchestrate(&["status"]).code(0);
    prints(status, "Slurm: running on n1: 1 job");
    prints(
        cluster.orchestrate(&["explain", "cpu_m_fp32_bs4_run1"]).code(0),
        "Slurm: running on n1, task 101_0",
    );
    let resumed = cluster.start(&["resume"]);
    cluster.project.release_workers();
    resumed.wait().code(0);
    cluster.project.assert_complete(2, 2);
    assert_eq!(cluster.arrays().len(), 1, "nothing was submitted twice");
}

#[test]
fn stop_cancels_waiting_and_running_tasks_and_resume_completes_them() {
    let cluster = Cluster::waiting(4, "");
    let run = cluster.start(&["run", "t.yaml"]);
    cluster.project.wait_started(1);
    prints(cluster.orchestrate(&["stop", "t"]).code(0), "cancelled 4 tasks of t with Slurm");
    cluster.project.assert_quiet();
    run.wait().code(11);
    assert!(cluster.project.records().iter().all(|record| record.outcome.kind() == "interrupted"));
    let stopped = cluster.project.started();
    prints(cluster.orchestrate(&["stop"]).code(0), "nothing runs in ");
    cluster.project.release_workers();
    cluster.orchestrate(&["resume"]).code(0);
    cluster.project.assert_complete(4, stopped + 4);
}

#[test]
fn a_lost_task_is_submitted_again_and_an_ended_one_is_not() {
    let cluster = Cluster::new(3, "");
    cluster.cause("fate-0", "NODE_FAIL");
    cluster.cause("fate-1", "TIMEOUT");
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(10);
    let run = run.says("run1: Slurm's task 101_0 was lost, because its node failed; it is handed over again");
    run.says("Slurm's task 101_1 was ended by Slurm at its time limit");
    cluster.project.assert_complete(2, 2);
    cluster.orchestrate(&["resume"]).code(0);
    cluster.project.assert_complete(3, 3);
    assert_eq!(cluster.arrays().len(), 3);
}

#[test]
fn an_array_that_slurm_forgot_is_submitted_again() {
    let cluster = Cluster::new(2, "");
    cluster.cause("hold", "Resources");
    let mut run = cluster.start(&["run", "t.yaml"]);
    run.wait_for_line("2 queued (Resources)");
    cluster.cause("forget-101", "");
    cluster.cease("hold");
    run.wait().code(0).says("is no longer known to Slurm; it is handed over again");
    cluster.project.assert_complete(2, 2);
}

#[test]
fn a_submission_with_a_lost_answer_is_found_again() {
    let cluster = Cluster::new(2, "");
    cluster.cause("lose-answer", "");
    cluster.orchestrate(&["run", "t.yaml"]).code(0).says("not handed to Slurm yet: ");
    cluster.project.assert_complete(2, 2);
    assert_eq!(cluster.arrays().len(), 1, "Slurm had it");
}

#[test]
fn slurm_is_asked_again_if_it_does_not_answer() {
    let cluster = Cluster::new(2, "");
    cluster.cause("dead", "");
    let mut run = cluster.start(&["run", "t.yaml"]);
    run.wait_for_line("Unable to contact slurm controller");
    run.wait_for_line("nothing is lost, and orchestrate tries again");
    cluster.cease("dead");
    run.wait().code(0);
    cluster.project.assert_complete(2, 2);
    assert_eq!(cluster.arrays().len(), 1);
}

#[test]
fn a_failed_job_is_no_failure_of_slurm() {
    let cluster = Cluster::with(|_| Matrix::new("t").behave(&["exit3"]).env(on_slurm("")));
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(10);
    run.says("FAILED cpu_m_fp32_bs4_run1 exited with code 3");
    assert_eq!(cluster.project.record().outcome.kind(), "exited");
    assert_eq!(cluster.arrays().len(), 1, "a failed job is not retried automatically");
}

#[test]
fn a_task_that_skips_a_job_reports_the_reason() {
    let cluster = Cluster::with(|_| Matrix::new("t").env(format!("{}, host: elsewhere", on_slurm(""))));
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(10);
    run.says("the env `cpu` belongs on the host elsewhere, but this is ");
    assert_eq!(cluster.project.started(), 0);
}

#[test]
fn a_task_that_slurm_runs_twice_concurrently_runs_each_job_once() {
    let cluster = Cluster::waiting(2, "pack: 2");
    let run = cluster.start(&["run", "t.yaml"]);
    cluster.project.wait_started(1);
    let again = cluster.start(&["run-task", &cluster.frozen().display().to_string(), "0"]);
    cluster.project.release_workers();
    again.wait().code(0);
    run.wait().code(0);
    cluster.project.assert_complete(2, 2);
}

#[test]
fn without_slurm_only_the_other_jobs_run() {
    let cluster = Cluster::with(|_| Matrix::new("t").env(on_slurm("")));
    cluster.also_run_here();
    fs::remove_file(cluster.project.path("bin/sbatch")).unwrap();
    let bare = |arguments: &[&str]| {
        let mut command = cluster.project.command(arguments);
        // This machine might have a real Slurm.
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
fn a_dry_run_prints_the_submission_and_submits_nothing() {
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
fn a_task_refuses_invalid_submissions() {
    let cluster = Cluster::new(1, "");
    cluster.orchestrate(&["run", "t.yaml"]).code(0);
    cluster.orchestrate(&["run-task", "t.yaml", "0"]).code(2).says("t.yaml is not a submission");
    cluster.orchestrate(&["run-task", "none.json", "0"]).code(12).says("cannot read none.json");
    let frozen = cluster.frozen();
    cluster
        .orchestrate(&["run-task", &frozen.display().to_string(), "7"])
        .code(2)
        .says("has no task 7, only 1");
    let text = fs::read_to_string(&frozen).unwrap();
    fs::write(&frozen, text.replace("\"keep_going\": false", "\"keep_going\": true")).unwrap();
    let torn = cluster.orchestrate(&["run-task", &frozen.display().to_string(), "0"]).code(12);
    torn.says("its seal does not match");
    wait_for("the queue", || cluster.arrays().len() == 1);
}

#[test]
fn a_queued_job_is_stopped_alone_only_if_its_task_has_no_other() {
    let cluster = Cluster::new(3, "");
    cluster.cause("hold", "Priority");
    let mut run = cluster.start(&["run", "t.yaml"]);
    run.wait_for_line("3 queued (Priority)");
    let stopped = cluster.orchestrate(&["stop", "cpu_m_fp32_bs4_run2"]).code(0);
    prints(stopped, "cancelled the task of cpu_m_fp32_bs4_run2-")
        .says("`orchestrate resume t` runs it again");
    cluster.cease("hold");
    run.wait().code(10).says("Slurm's task 101_1 was cancelled");
    cluster.project.assert_complete(2, 2);

    let packed = Cluster::new(3, "pack: 3");
    packed.cause("hold", "Priority");
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
fn squeue_settings_of_the_user_hide_no_task() {
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
fn a_lost_cancellation_is_repeated() {
    let cluster = Cluster::waiting(1, "");
    let run = cluster.start(&["run", "t.yaml"]);
    cluster.project.wait_started(1);
    cluster.cause("lose-cancel", "");
    prints(cluster.orchestrate(&["stop"]).code(0), "cancelled 1 task of t with Slurm");
    cluster.project.assert_quiet();
    run.wait().code(11);
}

#[test]
fn a_task_listed_after_its_jobs_are_done_is_ended() {
    let cluster = Cluster::new(2, "");
    cluster.cause("linger", "");
    let run = cluster.orchestrate(&["run", "t.yaml"]).code(0);
    run.says("Slurm's task 101_0 is ended: it is still listed, and its jobs are done");
    cluster.project.assert_complete(2, 2);
    let array = fs::read_to_string(&cluster.arrays()[0]).unwrap();
    assert!(array.matches("\"CANCELLED\"").count() == 2, "{array}");
}

#[test]
fn a_withdrawn_submission_starts_nothing_if_slurm_has_it() {
    let cluster = Cluster::new(1, "");
    cluster.cause("lose-answer", "");
    cluster.cause("hold", "Priority");
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
