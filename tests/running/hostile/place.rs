//! Directories that disappear while a run goes on: the store, the data, the locks.

use std::fs;

use super::assert_complete;
use crate::harness::{Matrix, Project, Running};

/// Three jobs, the first of which has started and waits.
fn in_the_middle() -> (Project, Running) {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(3).flag("--release", &project.release());
    let project = project.and(matrix);
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    (project, run)
}

#[test]
fn a_store_that_was_moved_in_the_middle_stops_the_run_and_can_be_put_back() {
    for stands_in in [false, true] {
        let (project, run) = in_the_middle();
        fs::rename(project.path("runs"), project.path("away")).unwrap();
        if stands_in {
            // An empty directory, like the mount point of a disk that was unmounted.
            fs::create_dir(project.path("runs")).unwrap();
        }
        project.release_workers();
        let run = run.wait().code(12).says("was moved or deleted while the run went on");
        let run = run.says(&project.path("runs").display().to_string());
        run.says("put it back, then run `orchestrate resume t`; if it is lost, start again with `orchestrate run t.yaml`");
        let made = fs::read_dir(project.path("runs")).map_or(0, Iterator::count);
        assert_eq!(made, 0, "nothing is made in its place");
        if stands_in {
            fs::remove_dir(project.path("runs")).unwrap();
        }
        fs::rename(project.path("away"), project.path("runs")).unwrap();
        project.orchestrate(&["resume"]).code(0);
        assert_complete(&project, 3);
    }
}

#[test]
fn a_store_that_was_deleted_in_the_middle_is_not_made_again_by_that_run() {
    let (project, run) = in_the_middle();
    fs::remove_dir_all(project.path("runs")).unwrap();
    project.release_workers();
    run.wait().code(12).says("was moved or deleted while the run went on").says("`orchestrate run t.yaml`");
    assert!(!project.path("runs").exists());
    assert_eq!(project.started(), 1);
    project.orchestrate(&["run", "t.yaml"]).code(0);
    assert_complete(&project, 3);
}

#[test]
fn a_data_folder_that_disappears_in_the_middle_stops_the_run_and_is_named() {
    let project = Project::new();
    let folder = project.path("images");
    fs::create_dir(&folder).unwrap();
    let matrix =
        Matrix::new("t").repeats(3).flag("--release", &project.release()).flag("--data", "{data}".as_ref());
    let project = project.and(matrix);
    let path = project.path("t.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, format!("{text}params: {{ data: {{ folder: images }} }}\n")).unwrap();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    fs::remove_dir(&folder).unwrap();
    project.release_workers();
    // A failure of the running worker would be its own; the next job is not started.
    let run =
        run.wait().code(1).says(&format!("the data folder {} of cpu_m_fp32_bs4_run2", folder.display()));
    run.says("`orchestrate dataset make ").says("then run `orchestrate resume t`");
    assert_eq!(project.started(), 1);
    project.orchestrate(&["resume"]).code(1).says("the data folder");
    fs::create_dir(&folder).unwrap();
    project.orchestrate(&["resume"]).code(0);
    assert_complete(&project, 3);
    assert_eq!(project.started(), 3);
}

/// As by programs that clean up `/tmp`.
#[test]
fn a_directory_of_locks_that_disappears_in_the_middle_is_made_again() {
    let (project, run) = in_the_middle();
    fs::remove_dir_all(project.path("locks")).unwrap();
    project.release_workers();
    run.wait().code(0);
    assert_complete(&project, 3);
    assert_eq!(project.started(), 3);
}
