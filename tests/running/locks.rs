//! Two runs never measure on one device at the same time, whatever their stores.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use orchestrate::plan::quote;
use orchestrate::record::Outcome;

use crate::harness::{Matrix, Project, is_alive, wait_for};

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

/// Without turns, the run that has just released the host's lock would get it again.
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
    project.release_workers();
    first.wait().code(0);
    second.wait().code(0);
    let started: Vec<String> =
        project.executions().into_iter().filter(|line| line.starts_with("started ")).collect();
    assert_eq!(started[..2], ["started cpu_m_fp32_bs4_run1", "started cpu_m_fp32_bs8_run1"]);
    assert_eq!(started.len(), 6);
    project.assert_quiet();
}

/// Otherwise a run that was started in the evening would have finished only one job by morning.
#[test]
fn no_wait_applies_only_to_the_first_job() {
    let project = Project::new();
    let matrix =
        |name, batch| Matrix::new(name).batches(&[batch]).repeats(2).flag("--release", &project.release());
    let (one, other) = (matrix("one", 4), matrix("other", 8));
    let project = project.and(one).and(other);
    let first = project.start(&["run", "one.yaml", "--no-wait"]);
    project.wait_started(1);
    let mut second = project.start(&["run", "other.yaml", "--store", "elsewhere"]);
    second.wait_for_line("this host");
    project.release_workers();
    first.wait().code(0).says("waiting for this host");
    second.wait().code(0);
    assert_eq!(project.started(), 4);
    project.assert_quiet();
}

#[test]
fn a_run_waits_for_a_busy_host_unless_no_wait() {
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
    project.release_workers();
    first.wait().code(0);
    second.wait().code(0);
    assert_eq!(project.started(), 2);
    project.assert_quiet();
}

/// The daemon has left the worker's group, session and environment, and the `orchestrate` that adopted it as an orphan
/// died before. It keeps the locks, so waiting processes name it, and the process that adopts the worker ends it.
#[test]
#[cfg(target_os = "linux")]
fn a_daemon_holding_the_locks_of_an_adopted_worker_is_ended() {
    let project = Project::new();
    let matrix = Matrix::new("t").behave(&["leave-hidden-daemon"]).flag("--release", &project.release());
    let project = project.and(matrix);
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    run.kill();
    project.release_workers();
    let stdout = project.store().job_dirs().unwrap()[0].attempt(1).stdout();
    let mut daemon = 0;
    wait_for("the daemon", || {
        let text = std::fs::read_to_string(&stdout).unwrap();
        let left = text.lines().find_map(|line| line.strip_prefix("left ")?.parse().ok());
        left.map(|pid| daemon = pid).is_some()
    });
    for worker in project.workers() {
        wait_for("the end of the worker", || !is_alive(worker));
    }
    project
        .orchestrate(&["resume", "--no-wait"])
        .code(12)
        .says("started by an orchestrate that died (pid ")
        .says(&format!("is busy: process {daemon}"));
    project.orchestrate(&["resume"]).code(0).says(&format!("held by process {daemon}"));
    assert!(!is_alive(daemon));
    let record = project.record();
    assert!(
        record.outcome == Outcome::Succeeded && record.observed.adopted && record.observed.left_processes
    );
    assert_eq!(project.started(), 1);
}

#[test]
fn share_device_locks_the_device_and_blocks_jobs_that_need_the_whole_host() {
    let project = Project::new();
    let release = project.release();
    let project = project
        .and(Matrix::new("shared").env("device: cpu, share: device").flag("--release", &release))
        .and(Matrix::new("alone").flag("--release", &release));
    let first = project.start(&["run", "shared.yaml"]);
    project.wait_started(1);
    // The same device is locked, and the host as a whole.
    let same = project.orchestrate(&["run", "shared.yaml", "--store", "other", "--no-wait"]).code(12);
    assert!(same.stderr.contains("the device cpu is busy"), "{same:?}");
    let whole = project.orchestrate(&["run", "alone.yaml", "--store", "other", "--no-wait"]).code(12);
    assert!(whole.stderr.contains("this host is busy"), "{whole:?}");
    project.release_workers();
    first.wait().code(0);
    project.orchestrate(&["run", "alone.yaml", "--store", "other", "--no-wait"]).code(0);
    assert_eq!(project.started(), 2);
}

/// In a folder that is writable for all users, only lock files are opened. Other files are not changed or followed.
#[test]
fn other_files_in_place_of_a_lock_are_refused_unchanged() {
    let victim = "years of work\n";
    type Spoil = fn(&Path, &Path);
    let spoilers: [(&str, &str, Spoil); 5] = [
        ("host.lock", "it is a symbolic link", |lock, victim| symlink(victim, lock).unwrap()),
        ("host.turn", "it has 2 names (hard links)", |lock, victim| fs::hard_link(victim, lock).unwrap()),
        ("host.lock", "it is a FIFO", |lock, _| {
            nix::unistd::mkfifo(lock, nix::sys::stat::Mode::S_IRWXU).unwrap()
        }),
        ("host.lock", "it is a directory", |lock, _| fs::create_dir(lock).unwrap()),
        ("host.lock", "it contains something that orchestrate did not write", |lock, victim| {
            fs::copy(victim, lock).map(drop).unwrap()
        }),
    ];
    for (name, why, spoil) in spoilers {
        let project = Project::with(Matrix::new("t"));
        fs::write(project.path("victim"), victim).unwrap();
        fs::create_dir(project.path("locks")).unwrap();
        fs::set_permissions(project.path("locks"), fs::Permissions::from_mode(0o1777)).unwrap();
        let lock = project.path("locks").join(name);
        spoil(&lock, &project.path("victim"));
        let hint = format!("`ls -l {}` shows its owner", quote(&lock.display().to_string()));
        project
            .orchestrate(&["run", "t.yaml"])
            .code(12)
            .says(&format!("error: cannot lock {}", lock.display()))
            .says(why)
            .says(&hint)
            .says("ORCHESTRATE_LOCK_DIR");
        assert_eq!(fs::read_to_string(project.path("victim")).unwrap(), victim, "{why}");
        assert_eq!(project.started(), 0, "{why}");
        if lock.is_dir() {
            fs::remove_dir(&lock).unwrap()
        } else {
            fs::remove_file(&lock).unwrap()
        }
        project.orchestrate(&["run", "t.yaml"]).code(0);
    }
}

/// Links in the store are not followed: the run continues with the next job, and no plan is saved through a link.
#[test]
fn links_in_place_of_the_locks_of_a_store_are_not_followed() {
    let project = Project::with(Matrix::new("t").repeats(2)).and(Matrix::new("other"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    fs::write(project.path("victim"), "years of work\n").unwrap();
    let dir = project.store().job_dirs().unwrap().remove(0);
    fs::remove_file(dir.record()).unwrap();
    for lock in [dir.lock(), project.path("runs/.plans/lock")] {
        fs::remove_file(&lock).unwrap();
        symlink(project.path("victim"), &lock).unwrap();
    }
    project.orchestrate(&["resume"]).code(10).says("cannot lock").says("it is a symbolic link");
    project.orchestrate(&["run", "other.yaml"]).code(12).says("it is a symbolic link");
    assert_eq!(fs::read_to_string(project.path("victim")).unwrap(), "years of work\n");
    assert_eq!(project.started(), 2);
}
