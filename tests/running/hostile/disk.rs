//! Disks that are full, or become full at any write, and read-only disks.

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

/// Checks the message of a run on a full disk, and that the next one, on a disk with room, finishes without repeating
/// done jobs.
#[track_caller]
fn assert_recovers(project: &Project, run: Ended, context: &str) {
    let said_why = run.stderr.contains("No space left on device");
    match run.code {
        // Only a table of sensors could not be written.
        Some(0) => {
            assert!(said_why || run.stderr.lines().all(|line| !line.contains("error")), "{context}: {run:?}")
        }
        Some(10) => assert!(run.stderr.contains("orchestrate resume"), "{context}: {run:?}"),
        Some(12) => assert!(said_why && run.stderr.contains("free space on its disk"), "{context}: {run:?}"),
        _ => panic!("{context}: {run:?}"),
    }
    let done = project.records().into_iter().filter(|record| record.outcome.is_success());
    let done: Vec<String> = done.map(|record| record.label).collect();
    let before = starts(project);
    let verb = if project.path("runs/.plans/t.json").exists() { &["resume"][..] } else { &["run", "t.yaml"] };
    project.orchestrate(verb).code(0);
    assert_complete(project, 2);
    for label in done {
        assert_eq!(starts(project)[&label], before[&label], "{context}: {label} was done");
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

/// In each round, the disk permits one more operation. The first refused write is a short write.
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

/// A real full file system, which also refuses the writes of `time`. It needs the permission to mount.
#[test]
fn a_small_disk_that_is_full_loses_nothing() {
    for kib in (4..).step_by(4) {
        let project = Project::with(Matrix::new("t").repeats(2));
        std::fs::create_dir(project.path("runs")).unwrap();
        // In its own mount namespace, so that the disk vanishes when the shell ends. Its files are copied out before.
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
fn a_read_only_disk_is_reported_before_anything_starts() {
    let project = Project::with(Matrix::new("t").repeats(2));
    std::fs::create_dir(project.path("runs")).unwrap();
    let hostile = Hostile::disk(&project, Errno::EROFS, 0);
    let run = hostile.start(&project, &["run", "t.yaml"]).wait().code(12);
    let run = run.says("Read-only file system").says("its file system is read-only: remount it for writing");
    assert!(run.stderr.contains(&project.path("runs/.plans").display().to_string()), "{run:?}");
    assert_eq!(project.started(), 0);
    project.orchestrate(&["run", "t.yaml"]).code(0);
    assert_complete(&project, 2);
    // Read-only verbs work there.
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

/// As after an error of the disk, when Linux remounts it read-only.
#[test]
fn a_disk_that_becomes_read_only_in_the_middle_stops_the_run_and_loses_nothing() {
    let project = Project::new();
    let hostile = Hostile::disk(&project, Errno::EROFS, i64::MAX);
    let matrix = Matrix::new("t").repeats(2).flag("--release", &project.release());
    let project = project.and(hostile.for_workers(matrix));
    let run = hostile.start(&project, &["run", "t.yaml"]);
    project.wait_started(1);
    hostile.set_room(0);
    project.release_workers();
    let run = run.wait().code(12).says("Read-only file system");
    run.says("no result is lost; its file system is read-only: remount it for writing");
    assert_eq!((project.started(), project.records().len()), (1, 0));
    hostile.set_room(i64::MAX);
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 2);
}
