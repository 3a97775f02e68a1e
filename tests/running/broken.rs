//! One bad directory fails one job. A bad disk stops the run.

use std::fs;
use std::os::unix::fs::symlink;

use orchestrate::files::hidden_name;
use orchestrate::job::Job;
use orchestrate::record::Outcome;

use crate::harness::{Ended, Matrix, Project};

/// The jobs of a matrix of `repeats` that has run once and whose directories were then removed.
fn jobs(project: &Project) -> Vec<Job> {
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let jobs: Vec<Job> = project.records().into_iter().map(|record| Job::new(record.key)).collect();
    for job in &jobs {
        fs::remove_dir_all(project.store().job_dir(job).path()).unwrap();
    }
    jobs
}

/// Checks that the first of three jobs fails if `spoil` changes its directory, and that the others succeed.
/// Once that is removed, the first one runs too.
fn one_of_three(spoil: fn(&std::path::Path)) -> Ended {
    let project = Project::with(Matrix::new("t").repeats(3));
    let first = project.store().job_dir(&jobs(&project)[0]).path().to_owned();
    spoil(&first);
    let ended = project.orchestrate(&["resume"]).code(10).says("FAILED cpu_m_fp32_bs4_run1: cannot ");
    let again = format!("repair {} or move it away", first.display());
    let ended = ended.says(&again).says("orchestrate resume t");
    assert_eq!(project.started(), 3 + 2);
    if first.is_dir() {
        fs::remove_dir_all(&first).unwrap();
    } else {
        fs::remove_file(&first).unwrap();
    }
    project.orchestrate(&["resume"]).code(0);
    assert_eq!(project.started(), 3 + 3);
    project.assert_quiet();
    ended
}

#[test]
fn a_dangling_link_in_place_of_a_jobs_directory() {
    one_of_three(|path| symlink("nowhere", path).unwrap());
}

#[test]
fn a_file_in_place_of_a_jobs_directory() {
    one_of_three(|path| fs::write(path, "").unwrap());
}

#[test]
fn a_lock_that_is_a_directory_or_a_fifo() {
    one_of_three(|path| fs::create_dir_all(path.join("lock")).unwrap()).says("cannot lock");
    let fifo = |path: &std::path::Path| {
        fs::create_dir_all(path).unwrap();
        nix::unistd::mkfifo(&path.join("lock"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    one_of_three(fifo).says("it is a FIFO, not a regular file");
}

#[test]
fn attempts_that_are_a_file() {
    one_of_three(|path| {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("attempts"), "").unwrap();
    });
}

#[test]
fn a_worker_that_damages_its_own_directory_fails_alone() {
    let project = Project::with(Matrix::new("t").behave(&["attempts-file", "remove-job", "ok"]));
    project
        .orchestrate(&["run", "t.yaml"])
        .code(10)
        .says("were removed from its directory while it ran")
        .says("FAILED cpu_m_fp32_bs4_run1 behave=attempts-file: cannot write");
    let mut kinds: Vec<&str> = project.records().iter().map(|record| record.outcome.kind()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["bad_output", "succeeded"]);
    project.assert_quiet();
}

/// Later jobs are not tried, because they would use the same disk.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_stops_the_run_and_loses_nothing() {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(3).flag("--release", &project.release());
    let project = project.and(matrix);
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let full = project
        .store()
        .job_dirs()
        .unwrap()
        .remove(0)
        .path()
        .join(hidden_name("record.json".as_ref(), run.pid().as_raw().unsigned_abs()));
    symlink("/dev/full", &full).unwrap();
    project.release_workers();
    run.wait()
        .code(12)
        .says("No space left on device")
        .says("no result is lost; free space on its disk, then run `orchestrate resume t`");
    assert_eq!((project.started(), project.records().len()), (1, 0));
    project.orchestrate(&["resume"]).code(0);
    let records = project.records();
    assert!(records.len() == 3 && records.iter().all(|record| record.outcome == Outcome::Succeeded));
    assert_eq!(project.started(), 3);
    project.assert_quiet();
}

#[test]
fn a_lock_directory_that_is_a_file_stops_the_run_with_a_remedy() {
    let project = Project::with(Matrix::new("t").repeats(3));
    fs::write(project.path("locks"), "").unwrap();
    project.orchestrate(&["run", "t.yaml"]).code(12).says("ORCHESTRATE_LOCK_DIR");
    assert_eq!(project.started(), 0);
}
