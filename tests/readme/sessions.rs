//! Runs the commands in the manual, and compares their output with the shown one.
//!
//! All sessions of a page are run in one directory, which has the files that the page shows. A page that links to the
//! first matrix continues that session. A block under `<!-- not run: why -->` is not run.
//!
//! Numbers that differ from run to run are not compared, nor is the rest of their line. `…` matches any lines, or the
//! rest of a line.

use std::fs;
use std::process::Command;

use super::pages::{Block, Page, manual, page};
use crate::harness::{HOST_WARNINGS, Project, Running};

/// The words by which a page continues the session of docs/getting-started.md.
const CONTINUES: &str = "(getting-started.md#your-first-matrix)";

/// Replaces PyTorch for a worker that imports it.
const TORCH: &str = include_str!("torch.py");

/// Lines that a busy machine adds beside [`HOST_WARNINGS`], and lines that a terminal does not show.
const NOISE: [&str; 5] = [
    "done but left out of the statistics (",
    " left out of the statistics: ",
    ": high-variation: ",
    "] start ",
    "hint: ",
];

/// A command and the output that is shown below it.
#[derive(Debug, PartialEq)]
struct Step<'a> {
    command: &'a str,
    shown: Vec<&'a str>,
}

fn steps(block: &Block) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command, shown: Vec::new() }),
            (None, Some(step)) => step.shown.push(line),
            (None, None) => panic!("{}: the session begins with no command: {line}", block.place),
        }
    }
    steps
}

/// The part of a line that is always the same: its words up to the first measured number. It is empty for the line
/// below the header of a table.
fn words(line: &str) -> Vec<String> {
    let is_row = line.trim().contains("  ") && !line.starts_with('[');
    let words = all_words(line);
    let is_measured = |word: &String| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let measured = words.iter().position(is_measured);
    // `660 to 1130` is an interval, and the word before it its centre. They can be whole numbers.
    let interval = words.iter().position(|word| is_row && word == "to").map(|at| at.saturating_sub(2));
    // In a row of results, the number of runs that count precedes the measured number and is as uncertain.
    let cut = measured.into_iter().chain(interval).min().map(|at| at.saturating_sub(usize::from(is_row)));
    words.into_iter().take(cut.unwrap_or(usize::MAX)).collect()
}

/// All words of a line.
fn all_words(line: &str) -> Vec<String> {
    let plain = line.replace('─', " ");
    plain.split_whitespace().map(|word| hashless(word.trim_end_matches(','))).collect()
}

/// `word` without hashes of files.
fn hashless(word: &str) -> String {
    let is_hash = word.len() == 12 && word.chars().all(|c| c.is_ascii_hexdigit());
    if is_hash { "#".to_owned() } else { word.to_owned() }
}

/// Whether the printed line `actual` matches the line `shown`.
fn is_shown(shown: &str, actual: &str) -> bool {
    let (shown, actual) = match shown.strip_suffix('…') {
        // Its end is marked by `…`.
        Some(beginning) => (words(beginning), all_words(actual)),
        None => (words(shown), words(actual)),
    };
    shown.len() <= actual.len() && shown.iter().zip(&actual).all(|(shown, actual)| shown == actual)
}

/// The first line that is shown but was not printed, or was printed but is not shown.
fn difference(shown: &[&str], printed: &str) -> Option<String> {
    let is_noise = |line: &&str| {
        words(line).is_empty() || NOISE.iter().chain(&HOST_WARNINGS).any(|noise| line.contains(noise))
    };
    let mut actual = printed.lines().filter(|line| !is_noise(line)).peekable();
    let mut anything = false;
    for line in shown.iter().filter(|line| !words(line).is_empty()) {
        if line.trim() == "…" {
            anything = true;
            continue;
        }
        let found = if anything {
            actual.any(|actual| is_shown(line, actual))
        } else {
            actual.next().is_some_and(|actual| is_shown(line, actual))
        };
        if !found {
            return Some(format!("shown, but not printed: {line}"));
        }
        anything = false;
    }
    let more = actual.next().filter(|_| !anything);
    more.map(|line| format!("printed, but not shown: {line}"))
}

/// Writes the files that `page` shows. Workers are changed to train for only a moment.
fn write_files(page: &Page, project: &Project) {
    for block in page.blocks() {
        if let Some(name) = block.file_name() {
            fs::write(project.path(name), block.text.replace("20_000", "20")).unwrap();
        }
        if block.text.contains("\nimport torch\n") {
            fs::write(project.path("torch.py"), TORCH).unwrap();
        }
    }
}

/// Runs the sessions of `page` in `project`. Returns the number of commands.
fn run(page: &Page, project: &Project) -> usize {
    write_files(page, project);
    let blocks = page.blocks();
    let sessions = blocks.iter().filter(|block| block.language == "console" && block.not_run.is_none());
    let mut number = 0;
    for block in sessions {
        for Step { command, shown } in steps(block) {
            number += 1;
            let ended = Running::start(shell(project, command)).wait();
            let is_failure = shown.first().is_some_and(|line| line.starts_with("error: "));
            assert_eq!(ended.code != Some(0), is_failure, "{}: {command}: {ended:?}", block.place);
            let printed = format!("{}{}", ended.stdout, ended.stderr);
            let difference = difference(&shown, &printed).filter(|_| !shown.is_empty());
            assert_eq!(difference, None, "{}: `{command}` prints\n{printed}", block.place);
        }
    }
    number
}

/// Runs `command` in a shell in the directory of `project`, with the built programs first on the `PATH`.
fn shell(project: &Project, command: &str) -> Command {
    let ours = std::path::Path::new(env!("CARGO_BIN_EXE_orchestrate")).parent().expect("a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([ours.to_owned()].into_iter().chain(std::env::split_paths(&path)));
    let mut shell = project.in_environment(Command::new("sh"));
    // Both outputs in one pipe, so that lines are in the order in which a terminal shows them.
    shell.arg("-c").arg(format!("{{ {command}\n}} 2>&1")).env("PATH", path.expect("no colon in the paths"));
    shell
}

#[test]
fn every_session_prints_the_shown_output() {
    let mut number = 0;
    for page in manual() {
        let project = Project::new();
        if page.text.contains(CONTINUES) {
            run(&self::page("docs/getting-started.md"), &project);
        }
        number += run(&page, &project);
    }
    assert!(number > 10, "the reader of sessions has found only {number} commands");
}

/// No session is skipped silently.
#[test]
fn a_session_that_is_not_run_has_a_reason() {
    for block in manual().iter().flat_map(Page::blocks) {
        let why = block.not_run.as_deref();
        assert!(why.is_none_or(|why| why.len() > 10), "{}: {why:?}", block.place);
        assert!(why.is_none() || block.language == "console", "{}: only sessions are run", block.place);
    }
}

#[test]
fn lines_are_compared_up_to_the_first_measured_number() {
    let table = "env  n  images/s  note\n──────────────────────\ncpu  3  901.5  899.1 to 903.9\n";
    let busy = "env  n  images/s  note\n──────────────────────\ncpu  0  -  -  all 3 runs are contended\n";
    for table in [table.to_owned(), table.replace("901.5  899.1 to 903.9", "900  660 to 1130")] {
        let shown: Vec<&str> = table.lines().collect();
        assert_eq!(difference(&shown, busy), None);
        assert!(difference(&shown, &busy.replace("cpu", "gpu")).is_some());
    }
    assert!(difference(&["a", "b"], "a\n").unwrap().contains("not printed: b"));
    assert!(difference(&["a"], "a\nb\n").unwrap().contains("not shown: b"));
    assert_eq!(difference(&["a", "…"], "a\nb\n"), None);
    assert_eq!(difference(&["…", "c"], "a\nb\nc\n"), None);
    assert_eq!(difference(&["a b…"], "a b c\n"), None);
    assert!(difference(&["6 jobs are done"], "5 jobs are done\n").is_some());
    assert_eq!(difference(&["worker 1f06d7c03a5b → x"], "worker 000000000000 → x\n"), None);
}
