//! Workers with unlimited output. The logs are bounded, the cut is reported, and the measurement is not affected.

use std::fs;
use std::path::PathBuf;

use orchestrate::record::Outcome;

use crate::harness::{Matrix, Project, wait_for};

const LIMITS: &str = "timeout: 60s, retries: 0, grace: 1s, output: 64KiB";
const LIMIT: u64 = 64 << 10;
/// The beginning of the line that replaces cut bytes.
const MARK: &str = "[orchestrate cut ";

/// The output file `name` of the only job's first attempt.
fn log(project: &Project, name: &str) -> PathBuf {
    let dirs = project.store().job_dirs().unwrap_or_default();
    dirs.first().map(|dir| dir.attempt(1).path().join(name)).unwrap_or_default()
}

/// The bytes that the mark in `text` names.
fn cut(text: &str) -> Option<u64> {
    text.split_once(MARK)?.1.split(' ').next()?.parse().ok()
}

#[test]
fn an_output_over_its_limit_is_cut_in_the_middle() {
    let project = Project::with(Matrix::new("t").behave(&["chatty"]).limits(LIMITS));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let record = project.record();
    for (name, line, lines, noted, end) in [
        ("stdout.log", "stdout", 100_000, record.observed.stdout_cut_bytes, "stdout\n"),
        ("stderr.log", "stderr", 50_000, record.observed.stderr_cut_bytes, "the last words\n"),
    ] {
        let text = fs::read_to_string(log(&project, name)).unwrap();
        assert!(text.len() as u64 <= LIMIT, "{name} has {} bytes", text.len());
        assert!(text.ends_with(end), "{name}: {}", &text[text.len() - 40..]);
        assert_eq!(cut(&text), noted, "{name}");
        // Each line of the middle is kept or cut. The ends of the cut can be within a line.
        let kept = text.matches(line).count() as u64;
        let missing = lines - kept;
        assert!(missing.abs_diff(noted.unwrap() / 7) <= 3, "{name}: {kept} lines kept, {noted:?} bytes cut");
    }
    let job = project.store().job_dirs().unwrap()[0].name();
    let shown = project.orchestrate(&["show", &job, "--all"]).code(0).stdout;
    assert!(shown.contains("stdout_cut_bytes") && shown.contains("stderr_cut_bytes"), "{shown}");
    assert!(project.orchestrate(&["logs", &job]).code(0).stdout.contains(MARK));
}

#[test]
fn the_last_lines_of_a_chatty_worker_are_its_failure_message() {
    let project = Project::with(Matrix::new("t").behave(&["chatty-exit3"]).limits(LIMITS));
    project.orchestrate(&["run", "t.yaml"]).code(10);
    let message = Some("RuntimeError: it went wrong".to_owned());
    assert_eq!(project.record().outcome, Outcome::Exited { code: 3, message });
}

/// A pipe through `orchestrate` would end the worker when `orchestrate` dies.
#[test]
fn an_endless_output_is_bounded_across_adoption() {
    let project = Project::new();
    let until = project.path("until");
    let project = project.and(Matrix::new("t").behave(&["endless"]).limits(LIMITS).flag("--until", &until));
    let first = project.start(&["run", "t.yaml"]);
    let now = || cut(&String::from_utf8_lossy(&fs::read(log(&project, "stdout.log")).unwrap_or_default()));
    wait_for("the first cut", || now().is_some());
    first.kill();
    let seen = now();
    let second = project.start(&["resume"]);
    wait_for("a cut by the one that adopted the worker", || now() > seen);
    fs::write(&until, "").unwrap();
    second.wait().code(0);
    let record = project.record();
    assert!(record.observed.adopted && record.outcome == Outcome::Succeeded, "{:?}", record.outcome);
    assert!(record.observed.stdout_cut_bytes > seen, "{:?} after {seen:?}", record.observed.stdout_cut_bytes);
    assert!(fs::metadata(log(&project, "stdout.log")).unwrap().len() <= LIMIT);
    assert_eq!(project.started(), 1);
}

#[test]
fn logs_of_any_length_are_printed_in_little_memory() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let bytes = 300 << 20;
    for name in ["stdout.log", "stderr.log"] {
        fs::OpenOptions::new().write(true).open(log(&project, name)).unwrap().set_len(bytes).unwrap();
    }
    let job = project.store().job_dirs().unwrap()[0].name();
    let call = format!("ulimit -v 200000 && exec \"$0\" logs {job} | tail -c +1 | wc -c");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &call, env!("CARGO_BIN_EXE_orchestrate")]);
    let ended = crate::harness::Running::start(project.in_environment(command)).wait().code(0);
    let printed: u64 = ended.stdout.trim().parse().unwrap();
    assert!(printed > 2 * bytes, "{printed} bytes of {bytes} twice: {}", ended.stderr);
}
