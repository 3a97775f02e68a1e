//! As the first process of a container, `orchestrate` adopts all orphans in it, and ends only those of its workers.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

use orchestrate::processes::ProcessTable;

use crate::harness::{Matrix, Project, Running, wait_for};

/// Options of `unshare` that make its command the first process of a namespace, which ends with it.
const CONTAINER: [&str; 6] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"];

/// Whether this system permits PID namespaces. Most containers do not.
fn is_permitted() -> bool {
    let output = Command::new("unshare").args(CONTAINER).arg("true").output();
    output.is_ok_and(|output| output.status.success())
}

/// The PID, outside of the namespace, of the first process in the namespace that `unshare` created.
fn first_process(unshare: &Running) -> String {
    let (table, parent) = (ProcessTable::of_system(), unshare.pid().as_raw().unsigned_abs());
    let first =
        table.pids().into_iter().find(|pid| table.stat(*pid).is_some_and(|stat| stat.parent == parent));
    first.expect("it runs").to_string()
}

/// The output of a script that runs in the namespace of the process `first`.
fn inside(first: &str, script: &str) -> String {
    let mut command = Command::new("nsenter");
    let output = command.args(["--target", first, "--pid", "--mount", "--", "sh", "-c", script]).output();
    let output = output.expect("nsenter comes with unshare");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A script that prints the PID of every `sleep` in its namespace.
const SLEEPING: &str =
    r#"for it in /proc/[0-9]*; do [ "$(cat "$it/comm" 2>/dev/null)" != sleep ] || echo "${it#/proc/}"; done"#;

/// Between two jobs, only the background process of another shell is left.
#[test]
fn the_first_process_of_a_container_ends_only_the_orphans_of_workers() {
    if !is_permitted() {
        eprintln!("skipped: this system does not permit PID namespaces");
        return;
    }
    let project = Project::new();
    let matrix = Matrix::new("t").behave(&["leave-daemon"]).repeats(2);
    let matrix = matrix.flag("--release", &project.path("release{repeat}"));
    let project = project.and(matrix);
    let mut command = project.in_environment(Command::new("unshare"));
    command.args(CONTAINER).args([env!("CARGO_BIN_EXE_orchestrate"), "run", "t.yaml"]);
    let run = Running::start(command);
    project.wait_started(1);
    let first = first_process(&run);
    let stranger = inside(&first, "sleep 120 >/dev/null 2>&1 & echo $!");
    fs::write(project.path("release1"), "").unwrap();
    project.wait_started(2);
    wait_for("the stranger alone", || inside(&first, SLEEPING) == stranger);
    fs::write(project.path("release2"), "").unwrap();
    run.wait().code(0);
    let records = project.records();
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|record| record.observed.left_processes), "{records:?}");
}
