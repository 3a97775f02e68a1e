//! Envs on hosts that `ssh` reaches, with a fake `ssh`: copying, submitting, fetching, losing, stopping and showing
//! jobs. A host is a directory, which is its home.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::{Ended, Matrix, Project, Running, prints, wait_for};

/// The fake `ssh`: `hosts/` contains the homes, and files that cause faults.
const SSH: &str = r#"#!/bin/sh
hosts='HOSTS'
while [ "$1" != -- ]; do shift; done
host=$2 command=$3
if [ -e "$hosts/down-$host" ]; then
    echo "ssh: connect to host $host port 22: Connection refused" >&2
    exit 255
fi
HOME="$hosts/$host"
export HOME
cd "$HOME" 2>/dev/null || { echo "ssh: Could not resolve hostname $host" >&2; exit 255; }
if [ -e "$hosts/lose-answer" ]; then
    case $command in
    *"on-host start"*)
        rm "$hosts/lose-answer"
        sh -c "$command" >/dev/null
        echo "Connection to $host closed by remote host." >&2
        exit 255
        ;;
    esac
fi
echo "Welcome to $host"
exec sh -c "$command"
"#;

/// A project with hosts called `away` and `other`.
struct Hosts {
    project: Project,
}

impl Hosts {
    /// The matrix `t` with these repeats, whose env runs on `away`.
    fn new(repeats: u32) -> Hosts {
        Hosts::with(|_| Matrix::new("t").repeats(repeats).env(on_away("")))
    }

    /// The same, with workers that wait until they are released.
    fn waiting(repeats: u32) -> Hosts {
        Hosts::with(|project| {
            Matrix::new("t").repeats(repeats).env(on_away("")).flag("--release", &project.release())
        })
    }

    fn with(matrix: impl Fn(&Project) -> Matrix) -> Hosts {
        let project = Project::new();
        let matrix = matrix(&project);
        let project = project.and(matrix);
        for host in ["away", "other"] {
            fs::create_dir_all(project.path("hosts").join(host)).unwrap();
        }
        let text = SSH.replace("HOSTS", &project.path("hosts").display().to_string());
        project.add_program("ssh", &text);
        Hosts { project }
    }

    fn start(&self, arguments: &[&str]) -> Running {
        self.project.start_with_programs(arguments)
    }

    fn orchestrate(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).wait()
    }

    fn cause(&self, fault: &str) {
        fs::write(self.project.path("hosts").join(fault), "").unwrap();
    }

    fn cease(&self, fault: &str) {
        fs::remove_file(self.project.path("hosts").join(fault)).unwrap();
    }

    /// A path in the directory of the project on `away`.
    fn away(&self, path: &str) -> PathBuf {
        self.project.path("hosts/away/orchestrate/t").join(path)
    }

    /// Replaces a word of the matrix, which must be there.
    fn replace_in_matrix(&self, old: &str, new: &str) {
        let file = self.project.path("t.yaml");
        let yaml = fs::read_to_string(&file).unwrap();
        assert!(yaml.contains(old), "no `{old}` in {yaml}");
        fs::write(&file, yaml.replace(old, new)).unwrap();
    }

    /// The files of the queue of `away` with this ending.
    fn queue_files(&self, ending: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.away("runs/.hosted")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    }

    /// Restarts `away`: kills its run and the worker.
    fn pull_the_plug(&self) {
        let began: Value =
            serde_json::from_slice(&fs::read(&self.queue_files(".began")[0]).unwrap()).unwrap();
        let run = Pid::from_raw(i32::try_from(began["process"].as_u64().unwrap()).unwrap());
        kill(run, Signal::SIGKILL).unwrap();
        for worker in self.project.workers() {
            let _ = kill(Pid::from_raw(worker), Signal::SIGKILL);
        }
    }
}

/// An env on `away`, which uses this program, with the keys `more`.
fn on_away(more: &str) -> String {
    let program = env!("CARGO_BIN_EXE_orchestrate");
    format!("device: cpu, where: {{ ssh: {{ host: away, program: \"{program}\"{more} }} }}")
}

#[test]
fn a_matrix_runs_on_a_host_and_its_results_are_fetched() {
    let hosts = Hosts::new(3);
    let run = hosts.orchestrate(&["run", "t.yaml"]).code(0);
    run.says("away has 3 jobs of cpu").says("done   cpu_m_fp32_bs4_run3");
    hosts.project.assert_complete(3, 3);
    assert_eq!(hosts.queue_files(".ended").len(), 1);
    prints(hosts.orchestrate(&["run", "t.yaml"]).code(0), "t: all 3 jobs are done");
    prints(hosts.orchestrate(&["status"]).code(0), "t: 3 jobs: 3 done");
    hosts.orchestrate(&["verify"]).code(0);
    assert_eq!(hosts.queue_files(".began").len(), 1, "done jobs are not submitted again");
}

#[test]
fn this_program_and_the_files_of_the_project_are_copied() {
    let hosts = Hosts::with(|_| {
        Matrix::new("t")
            .env("device: cpu, where: { ssh: { host: away, files: [conf], setup: [export A=1] } }")
    });
    fs::create_dir(hosts.project.path("conf")).unwrap();
    fs::write(hosts.project.path("conf/a.txt"), "a").unwrap();
    hosts.orchestrate(&["run", "t.yaml"]).code(0);
    hosts.project.assert_complete(1, 1);
    assert_eq!(fs::read_to_string(hosts.away("conf/a.txt")).unwrap(), "a");
    let programs: Vec<_> = fs::read_dir(hosts.away(".orchestrate/bin")).unwrap().collect();
    assert_eq!(programs.len(), 1);
}

#[test]
fn local_and_remote_jobs_belong_to_one_run() {
    let hosts = Hosts::new(2);
    hosts.replace_in_matrix("envs: { cpu: ", "envs: { here: { device: cpu }, cpu: ");
    hosts.orchestrate(&["run", "t.yaml"]).code(0);
    hosts.project.assert_complete(4, 4);
    assert_eq!(
        fs::read_dir(hosts.away("runs"))
            .unwrap()
            .flatten()
            .filter(|it| it.path().join("key.json").exists())
            .count(),
        2
    );
}

#[test]
fn ctrl_c_leaves_the_host_alone_and_resume_fetches() {
    let hosts = Hosts::waiting(2);
    let mut run = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    run.wait_for_line("away: 2 under way");
    run.signal(Signal::SIGINT);
    run.wait().code(11).says("away still has 2 jobs: `orchestrate status t --watch` follows them");
    prints(hosts.orchestrate(&["status"]).code(0), "away: under way: 2 jobs");
    prints(hosts.orchestrate(&["explain", "cpu_m_fp32_bs4_run2"]).code(0), "away: under way");
    hosts.project.release_workers();
    wait_for("the run to end on its host", || hosts.queue_files(".ended").len() == 1);
    hosts.orchestrate(&["resume"]).code(0);
    hosts.project.assert_complete(2, 2);
}

#[test]
fn two_followers_run_no_job_twice() {
    let hosts = Hosts::waiting(2);
    let first = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    let mut second = hosts.start(&["run", "t.yaml"]);
    second.wait_for_line("away: 2 under way");
    hosts.project.release_workers();
    first.wait().code(0);
    second.wait().code(0);
    hosts.project.assert_complete(2, 2);
    assert_eq!(hosts.queue_files(".began").len(), 1);
}

#[test]
fn a_late_follower_repeats_no_finished_task() {
    let hosts = Hosts::waiting(2);
    let first = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    let mut late = hosts.start(&["run", "t.yaml"]);
    late.wait_for_line("away: 2 under way");
    late.signal(Signal::SIGSTOP);
    hosts.project.release_workers();
    first.wait().code(0);
    late.signal(Signal::SIGCONT);
    late.wait().code(0);
    hosts.project.assert_complete(2, 2);
}

#[test]
fn an_unreachable_host_is_asked_again() {
    let hosts = Hosts::new(2);
    hosts.cause("down-away");
    let mut run = hosts.start(&["run", "t.yaml"]);
    run.wait_for_line("not handed to away yet: cannot ask `ssh`: away: ssh: connect to host away port 22");
    hosts.cease("down-away");
    run.wait().code(0);
    hosts.project.assert_complete(2, 2);
}

#[test]
fn a_cut_connection_loses_and_repeats_no_job() {
    let hosts = Hosts::new(2);
    hosts.cause("lose-answer");
    hosts.orchestrate(&["run", "t.yaml"]).code(0).says("closed by remote host");
    hosts.project.assert_complete(2, 2);
    assert_eq!(hosts.queue_files(".began").len(), 1, "the host had it");
}

#[test]
fn a_host_that_was_restarted_gets_its_jobs_again() {
    let hosts = Hosts::waiting(2);
    let run = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    hosts.pull_the_plug();
    hosts.project.release_workers();
    run.wait().code(0).says("its run on away was lost, because its host was restarted or it was killed");
    assert_eq!(hosts.queue_files(".began").len(), 2);
    hosts.project.assert_complete(2, 3);
}

#[test]
fn stop_ends_remote_jobs_and_resume_completes_them() {
    let hosts = Hosts::waiting(2);
    let run = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    prints(hosts.orchestrate(&["stop", "t"]).code(0), "cancelled 1 task of t with away");
    hosts.project.assert_quiet();
    run.wait().code(11);
    let stopped = hosts.project.started();
    hosts.project.release_workers();
    hosts.orchestrate(&["resume"]).code(0);
    hosts.project.assert_complete(2, stopped + 2);
}

#[test]
fn a_failure_on_a_host_is_replaced_by_a_later_success() {
    let hosts = Hosts::with(|_| Matrix::new("t").behave(&["exit3"]).env(on_away("")));
    let run = hosts.orchestrate(&["run", "t.yaml"]).code(10);
    run.says("FAILED cpu_m_fp32_bs4_run1 exited with code 3");
    let first = hosts.project.record();
    hosts.orchestrate(&["resume"]).code(10).says("exited with code 3");
    assert!(hosts.project.record().attempt > first.attempt, "the record is that of the last attempt");
}

#[test]
fn a_rerun_on_a_host_replaces_the_local_result() {
    let hosts = Hosts::with(|_| Matrix::new("t").behave(&["unsynchronised"]).env(on_away("")));
    hosts.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(hosts.project.record().attempt, 1);
    hosts.orchestrate(&["resume", "t", "--rerun-marked"]).code(0);
    assert_eq!(hosts.project.record().attempt, 2);
    hosts.orchestrate(&["verify"]).code(0);
}

#[test]
fn output_of_a_remote_worker_is_shown_locally() {
    let hosts = Hosts::waiting(1);
    let mut run = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    run.wait_for_line("away: 1 under way");
    prints(hosts.orchestrate(&["logs", "cpu_m_fp32_bs4_run1"]).code(0), "");
    hosts.project.release_workers();
    run.wait().code(0);
}

#[test]
fn a_dry_run_prints_the_host_without_connecting() {
    let hosts = Hosts::new(2);
    hosts.cause("down-away");
    let run = hosts.orchestrate(&["run", "t.yaml", "--dry-run"]).code(0);
    prints(run, "# 2 jobs of cpu on away, in orchestrate/t");
    assert!(!hosts.project.path("runs").exists());
}

#[test]
fn hosts_check_reports_unreachable_hosts() {
    let hosts = Hosts::new(2);
    let checked = hosts.orchestrate(&["hosts", "check", "t.yaml"]).code(0);
    prints(checked, "away: 2 jobs of cpu, in orchestrate/t");
    assert_eq!(hosts.project.started(), 0);
    hosts.cause("down-away");
    let checked = hosts.orchestrate(&["hosts", "check", "t.yaml"]).code(1);
    let checked = prints(checked, "cannot run: cannot ask `ssh`: away: ssh: connect to host away port 22");
    checked.says("hint: `ssh away true` must work without a password:");
    let json = hosts.orchestrate(&["hosts", "check", "t.yaml", "--json"]).code(1);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json[0]["host"].as_str(), json[0]["can_run"].as_bool()), (Some("away"), Some(false)));
    let local = Project::with(Matrix::new("t"));
    local.orchestrate(&["hosts", "check", "t.yaml"]).code(4).says("no env of t.yaml runs on a host");
}

#[test]
fn envs_that_share_a_directory_get_their_own_files_and_setup() {
    let hosts = Hosts::with(|_| Matrix::new("t").env(on_away(", files: [conf], setup: [\"mkdir one\"]")));
    let other = on_away(", files: [more], setup: [\"mkdir two\"]");
    hosts.replace_in_matrix("envs: { cpu: ", &format!("envs: {{ late: {{ {other} }}, cpu: "));
    for name in ["conf", "more"] {
        fs::create_dir(hosts.project.path(name)).unwrap();
        fs::write(hosts.project.path(name).join("a.txt"), name).unwrap();
    }
    hosts.orchestrate(&["run", "t.yaml"]).code(0);
    hosts.project.assert_complete(2, 2);
    for path in ["conf/a.txt", "more/a.txt", "one", "two"] {
        assert!(hosts.away(path).exists(), "{path}");
    }
}

#[test]
fn status_changes_no_file_that_jobs_use() {
    let hosts = Hosts::with(|project| {
        Matrix::new("t")
            .env("device: cpu, where: { ssh: { host: away, files: [conf] } }")
            .flag("--release", &project.release())
    });
    fs::create_dir(hosts.project.path("conf")).unwrap();
    fs::write(hosts.project.path("conf/a.txt"), "handed over").unwrap();
    let mut run = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    run.wait_for_line("away: 1 under way");
    run.signal(Signal::SIGINT);
    run.wait().code(11);
    fs::write(hosts.project.path("conf/a.txt"), "edited").unwrap();
    // As if another build had submitted the job.
    fs::rename(hosts.away(".orchestrate/bin"), hosts.away(".orchestrate/earlier")).unwrap();
    prints(hosts.orchestrate(&["status"]).code(0), "away: under way: 1 job");
    assert_eq!(fs::read_to_string(hosts.away("conf/a.txt")).unwrap(), "handed over");
    hosts.project.release_workers();
    hosts.orchestrate(&["resume"]).code(0);
    hosts.project.assert_complete(1, 1);
}

#[test]
fn stop_ends_all_reachable_jobs_and_reports_the_others() {
    let hosts = Hosts::waiting(1);
    let other = on_away("").replace("away", "other");
    hosts.replace_in_matrix(
        "envs: { cpu: ",
        &format!("envs: {{ here: {{ device: cpu }}, late: {{ {other} }}, cpu: "),
    );
    let run = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    wait_for("the run on each host", || {
        ["away", "other"].iter().all(|host| {
            let queue = hosts.project.path(&format!("hosts/{host}/orchestrate/t/runs/.running"));
            fs::read_dir(queue).is_ok_and(|mut entries| entries.next().is_some())
        })
    });
    hosts.cause("down-away");
    hosts.orchestrate(&["stop"]).code(12).says("connect to host away").says("not everything was ended");
    run.wait().code(11);
    let ended = fs::read_dir(hosts.project.path("hosts/other/orchestrate/t/runs/.hosted")).unwrap();
    assert!(ended.flatten().any(|it| it.path().extension().is_some_and(|ending| ending == "ended")));
    hosts.cease("down-away");
    prints(hosts.orchestrate(&["stop"]).code(0), "cancelled 1 task of t with away");
    hosts.project.assert_quiet();
}

#[test]
fn a_job_queued_on_a_host_is_not_reported_as_stopped() {
    let hosts = Hosts::waiting(2);
    let mut run = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    run.wait_for_line("away: 2 under way");
    let refused = hosts.orchestrate(&["stop", "cpu_m_fp32_bs4_run2"]).code(12);
    refused.says("cpu_m_fp32_bs4_run2 does not run on away now").says("`orchestrate stop t` ends all");
    prints(
        hosts.orchestrate(&["stop", "cpu_m_fp32_bs4_run1"]).code(0),
        "cancelled the task of cpu_m_fp32_bs4_run1-",
    );
    hosts.project.release_workers();
    run.wait();
}

#[test]
fn ctrl_c_works_while_another_run_submits() {
    let hosts = Hosts::waiting(1);
    let mut run = hosts.start(&["run", "t.yaml"]);
    hosts.project.wait_started(1);
    run.wait_for_line("away: 1 under way");
    let lock = fs::File::open(hosts.project.path("runs/.queue/lock")).unwrap();
    lock.lock().unwrap();
    // Its jobs must be submitted again, but this process has the lock of the queue.
    hosts.pull_the_plug();
    run.wait_for_line("it is handed over again");
    run.signal(Signal::SIGINT);
    run.wait().code(11);
}
