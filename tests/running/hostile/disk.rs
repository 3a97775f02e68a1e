//! Disks that are full, or become so at any write, and disks that cannot be written.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;

use super::assert_complete;
use crate::harness::hostile::Hostile;
use crate::harness::{Ended, Matrix, Project, Running};

/// How often each job was started, by label.
fn starts(project: &Project) -> BTreeMap<String, usize> {
    let mut starts = BTreeMap::new();
    for line in project.executions() {
        if let Some(label) = line.strip_prefix("started ") {
            *starts.entry(label.to_owned()).or_default() += 1;
        }
    }
    starts
}

/// Checks what a run on a full disk says, and that the next one, on a disk with room, finishes without repeating what
/// was done.
#[track_caller]
fn assert_recovers(project: &Project, run: Ended, what: &str) {
    let said_why = run.stderr.contains("No space left on device");
    match run.code {
        // Only a table of sensors could not be written.
        Some(0) => {
            assert!(said_why || run.stderr.lines().all(|line| !line.contains("error")), "{what}: {run:?}")
        }
        Some(10) => assert!(run.stderr.contains("orchestrate resume"), "{what}: {run:?}"),
        Some(12) => assert!(said_why && run.stderr.contains("free space on its disk"), "{what}: {run:?}"),
        _ => panic!("{what}: {run:?}"),
    }
    let done = project.records().into_iter().filter(|record| record.outcome.is_success());
    let done: Vec<String> = done.map(|record| record.label).collect();
    let before = starts(project);
    let verb = if project.path("runs/.plans/t.json").exists() { &["resume"][..] } else { &["run", "t.yaml"] };
    project.orchestrate(verb).code(0);
    assert_complete(project, 2);
    for label in done {
        assert_eq!(starts(project)[&label], before[&label], "{what}: {label} was done");
    }
}

fn find_tmp(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        found.extend(name.ends_with(".tmp").then_some(name));
        found.extend(find_tmp(&entry.path()));
    }
    found
}

/// In each round, the disk takes one operation more. The first write that it refuses is cut short.
#[test]
fn a_disk_that_is_full_at_any_write_loses_nothing() {
    let mut refused = 0;
    for room in 0.. {
        let project = Project::new();
        let hostile = Hostile::disk(&project, Errno::ENOSPC, room);
        let project = project.and(hostile.for_workers(Matrix::new("t").repeats(2)));
        let run = hostile.start(&project, &["run", "t.yaml"]).wait();
        if hostile.room() >= 0 {
            assert_complete(&project, 2);
            run.code(0);
            break;
        }
        refused += 1;
        hostile.set_room(i64::MAX);
        assert_recovers(&project, run, &format!("after {room} operations"));
        assert_eq!(find_tmp(&project.path("runs")), [""; 0], "after {room} operations");
    }
    assert!(refused > 20, "only {refused} writes were refused");
}

/// The real thing, which also refuses what `time` writes. Where nobody but root may mount, the test above is all there
/// is.
#[test]
fn a_small_disk_that_is_full_loses_nothing() {
    for kib in (4..).step_by(4) {
        let project = Project::with(Matrix::new("t").repeats(2));
        std::fs::create_dir(project.path("runs")).unwrap();
        // In a mount namespace of its own, so that the disk is gone when the shell ends. What it held is copied out.
        let script = format!(
            "mount -t tmpfs -o size={kib}k tmpfs runs || exit 99\n\"$0\" run t.yaml\ncode=$?\n\
             cp -a runs held && exit $code"
        );
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        command.arg(env!("CARGO_BIN_EXE_orchestrate"));
        let run = Running::start(project.in_environment(command)).wait();
        if run.code == Some(99) || run.stderr.contains("unshare: ") {
            return;
        }
        std::fs::remove_dir(project.path("runs")).unwrap();
        std::fs::rename(project.path("held"), project.path("runs")).unwrap();
        if run.code == Some(0) && !run.stderr.contains("No space left") {
            assert_complete(&project, 2);
            assert!(kib > 40, "{kib} KiB were enough");
            break;
        }
        assert_recovers(&project, run, &format!("{kib} KiB"));
    }
}

#[test]
fn a_disk_that_cannot_be_written_is_named_and_nothing_is_started() {
    let project = Project::with(Matrix::new("t").repeats(2));
    std::fs::create_dir(project.path("runs")).unwrap();
    let hostile = Hostile::disk(&project, Errno::EROFS, 0);
    let run = hostile.start(&project, &["run", "t.yaml"]).wait().code(12);
    let run = run.says("Read-only file system").says("its file system is read-only: remount it for writing");
    assert!(run.stderr.contains(&project.path("runs/.plans").display().to_string()), "{run:?}");
    assert_eq!(project.started(), 0);
    project.orchestrate(&["run", "t.yaml"]).code(0);
    assert_complete(&project, 2);
    // What only reads works there.
    hostile.set_room(0);
    for verb in ["status", "verify", "plan t.yaml", "show cpu_m_fp32_bs4_run1", "explain cpu_m_fp32_bs4_run1"]
    {
        let words: Vec<&str> = verb.split(' ').collect();
        hostile.start(&project, &words).wait().code(0);
    }
    hostile.start(&project, &["aggregate", "--out", "tables"]).wait().code(0);
    let run = hostile.start(&project, &["run", "t.yaml"]).wait().code(0);
    assert_eq!(run.stdout, "t: all 2 jobs are done\n");
}

/// As Linux does after an error of the disk.
#[test]
fn a_disk_that_becomes_read_only_in_the_middle_stops_the_run_and_loses_nothing() {
    let project = Project::new();
    let hostile = Hostile::disk(&project, Errno::EROFS, i64::MAX);
    let matrix = Matrix::new("t").repeats(2).flag("--release", &project.release());
    let project = project.and(hostile.for_workers(matrix));
    let run = hostile.start(&project, &["run", "t.yaml"]);
    project.wait_started(1);
    hostile.set_room(0);
    project.let_go();
    let run = run.wait().code(12).says("Read-only file system");
    run.says("no result is lost; its file system is read-only: remount it for writing");
    assert_eq!((project.started(), project.records().len()), (1, 0));
    hostile.set_room(i64::MAX);
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 2);
}
