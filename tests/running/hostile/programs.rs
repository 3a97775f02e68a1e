//! Missing programs.

use std::process::Command;

use super::assert_complete;
use crate::harness::hostile::Hostile;
use crate::harness::{Matrix, Project, Running};

#[test]
fn without_a_path_the_usual_time_is_found_and_the_run_succeeds() {
    for path in [None, Some(""), Some("/nonexistent")] {
        let project = Project::with(Matrix::new("t"));
        let mut command = project.command(&["run", "t.yaml"]);
        match path {
            None => command.env_remove("PATH"),
            Some(path) => command.env("PATH", path),
        };
        Running::start(command).wait().code(0);
        assert_complete(&project, 1);
    }
}

#[test]
fn a_missing_time_program_is_reported_before_anything_starts() {
    let project = Project::with(Matrix::new("t"));
    let hostile = Hostile::without(&project, "/usr/bin/time");
    let bare = |arguments: &[&str]| {
        let mut command = project.command(arguments);
        hostile.inflict(&mut command);
        command.env("PATH", project.path("bin"));
        Running::start(command).wait()
    };
    let run = bare(&["run", "t.yaml"]).code(1);
    run.says("there is no GNU or BSD time program in /usr/bin or on the PATH")
        .says("`./bootstrap.sh` installs it");
    assert_eq!(project.started(), 0);
    let doctor = bare(&["doctor", "t.yaml"]);
    assert!(doctor.stdout.contains("time"), "{doctor:?}");
    // Elsewhere on the path it is found.
    std::fs::create_dir(project.path("bin")).unwrap();
    // A child copies it: if another test forks while we have it open for writing, it cannot be executed.
    let copied = Command::new("cp").arg("/usr/bin/time").arg(project.path("bin")).status().unwrap();
    assert!(copied.success());
    bare(&["resume"]).code(0);
    assert_complete(&project, 1);
}

#[test]
fn a_worker_that_is_not_on_the_path_is_named() {
    let project = Project::with(Matrix::new("t").worker("no-such-worker".as_ref()));
    let run = project.orchestrate(&["run", "t.yaml"]).code(1);
    run.says("there is no program `no-such-worker` on the PATH").says("`worker.command`");
    assert_eq!(project.records().len(), 0);
}
