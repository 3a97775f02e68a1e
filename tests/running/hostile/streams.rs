//! Standard streams that are closed, full or not read.

use std::process::Command;

use super::assert_complete;
use crate::harness::{Ended, Matrix, Project, Running};

/// Every verb that prints, on a store with three done jobs.
const CALLS: &[&str] = &[
    "status",
    "status --json",
    "plan t.yaml",
    "plan t.yaml --json",
    "check t.yaml",
    "schema",
    "show cpu_m_fp32_bs4_run1",
    "show cpu_m_fp32_bs4_run1 --json",
    "explain cpu_m_fp32_bs4_run1",
    "logs cpu_m_fp32_bs4_run1",
    "accept cpu_m_fp32_bs4_run1",
    "verify",
    "aggregate",
    "report",
    "doctor",
    "env --out facts",
    "complexity resnet18",
    "peaks list",
    "completions bash",
    "run t.yaml --dry-run",
    "--help",
    "run --help",
    "--version",
];

/// Runs `orchestrate CALL` in a shell, with the redirections `streams`.
fn call(project: &Project, call: &str, streams: &str) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("\"$0\" {call} {streams}"), env!("CARGO_BIN_EXE_orchestrate")]);
    Running::start(project.in_environment(command)).wait()
}

/// A project with three done jobs, one of which runs again.
fn project() -> Project {
    let project = Project::with(Matrix::new("t").repeats(3));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    std::fs::remove_dir_all(project.store().job_dirs().unwrap()[2].path()).unwrap();
    project
}

#[test]
fn every_verb_works_with_closed_or_unread_streams() {
    let project = project();
    for verb in CALLS {
        for streams in [">&-", "2>&-", "<&-", "<&- >&- 2>&-", "2>/dev/full"] {
            let ended = call(&project, verb, streams);
            assert_eq!(ended.code, Some(0), "{verb} {streams}: {ended:?}");
        }
        let ended = call(&project, verb, "| head -c 1 >&2; echo");
        assert_eq!(ended.code, Some(0), "{verb}: {ended:?}");
        assert!(!ended.stderr.contains("error") && !ended.stderr.contains("panicked"), "{verb}: {ended:?}");
    }
    assert_eq!(project.started(), 3);
}

/// A script that reads the output must be able to detect that it is incomplete.
#[test]
fn an_unwritable_output_is_an_error() {
    let project = project();
    for verb in CALLS {
        let ended = call(&project, verb, ">/dev/full");
        assert_eq!(ended.code, Some(1), "{verb}: {ended:?}");
        assert!(ended.stderr.contains("error: cannot write to standard output"), "{verb}: {ended:?}");
        assert!(
            ended.stderr.contains("\nhint: free space on its disk, or send the output elsewhere"),
            "{verb}: {ended:?}"
        );
    }
}

/// The results are in the store, so lost output is not an error.
#[test]
fn a_run_works_with_closed_or_unread_streams() {
    for verb in ["run t.yaml", "run t.yaml -q"] {
        for streams in [
            ">&-",
            "2>&-",
            "<&-",
            "<&- >&- 2>&-",
            ">/dev/full",
            "2>/dev/full",
            ">/dev/full 2>&1",
            "2>&1 | head -1",
        ] {
            let project = Project::with(Matrix::new("t").repeats(3));
            let ended = call(&project, verb, streams);
            assert_eq!(ended.code, Some(0), "{verb} {streams}: {ended:?}");
            // A pipe ends when its reader does, not when the run does.
            crate::harness::wait_for("the records", || {
                let dirs = project.store().job_dirs().unwrap_or_default();
                dirs.iter().filter(|dir| dir.record().exists()).count() == 3
            });
            project.orchestrate(&["resume"]).code(0);
            assert_complete(&project, 3);
            assert_eq!(project.started(), 3, "{verb} {streams}");
        }
    }
}
