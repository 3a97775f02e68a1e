//! Texts of workers and foreign files are escaped and bounded: terminals do not obey them, pages show them as text, and
//! spreadsheets do not take them for formulas.

use std::fs;
use std::path::Path;

use orchestrate::clean::is_unsafe;

use crate::harness::{Matrix, Project};

/// The longest line: the kept part of a text, with the words around it.
const LONGEST_LINE: usize = 60_000;

/// Fails the test if `text` contains a character that a terminal obeys.
#[track_caller]
fn assert_safe(what: &str, text: &str) {
    for line in text.lines() {
        let unsafe_letter = line.chars().find(|letter| is_unsafe(*letter) && *letter != '\t');
        assert_eq!(unsafe_letter, None, "{what}: {line:?}");
        assert!(line.len() < LONGEST_LINE, "{what}: a line of {} bytes", line.len());
    }
    assert!(!text.contains('\r'), "{what}");
    for escaped in ["\\u001b", "\\u0007", "\\u0000"] {
        assert!(!text.contains(escaped), "{what}: {escaped} in JSON");
    }
}

/// The files below `directory`.
fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[track_caller]
fn assert_no_formula(path: &Path, text: &str) {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    for cell in
        reader.records().flat_map(|record| record.unwrap().iter().map(str::to_owned).collect::<Vec<_>>())
    {
        let is_number = cell.parse::<f64>().is_ok();
        assert!(
            is_number || !cell.trim_start().starts_with(['=', '+', '-', '@']),
            "{}: {cell}",
            path.display()
        );
        assert!(!cell.contains('\n'), "{}: {cell}", path.display());
    }
}

/// Fails the test if rows of a table differ in their number of cells, because a cell has broken the table.
#[track_caller]
fn assert_whole_tables(markdown: &str) {
    let cells = |line: &str| line.replace("\\\\", "").replace("\\|", "").matches('|').count();
    let lines: Vec<&str> = markdown.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair.iter().all(|line| line.starts_with('|'))) {
        assert_eq!(cells(pair[0]), cells(pair[1]), "{pair:?}");
    }
}

fn project() -> Project {
    let behaviours = ["ok", "hostile", "hostile-failure", "hostile-form", "hostile-exit"];
    Project::with(Matrix::new("t").behave(&behaviours))
}

#[test]
fn every_verb_escapes_the_words_of_a_worker() {
    let project = project();
    let run = project.orchestrate(&["run", "t.yaml"]).code(10);
    assert_safe("run", &run.stderr);
    assert_safe("run", &run.stdout);
    let done = project.records().into_iter().filter(|record| record.outcome.is_success()).count();
    assert_eq!(done, 2, "escape sequences alone do not make another device: {run:?}");
    let names: Vec<String> = project.store().job_dirs().unwrap().iter().map(|dir| dir.name()).collect();
    let mut calls: Vec<Vec<&str>> = vec![
        vec!["status"],
        vec!["status", "--json"],
        vec!["plan", "t.yaml"],
        vec!["plan", "t.yaml", "--json"],
        vec!["aggregate"],
        vec!["report"],
    ];
    for name in &names {
        calls.push(vec!["show", name]);
        calls.push(vec!["show", name, "--all"]);
        calls.push(vec!["show", name, "--json"]);
        calls.push(vec!["explain", name]);
    }
    for call in calls {
        let ended = project.orchestrate(&call);
        assert!(!ended.stdout.is_empty() && ended.code == Some(0), "{call:?}: {ended:?}");
        assert_safe(&call.join(" "), &ended.stdout);
        assert_safe(&call.join(" "), &ended.stderr);
    }
    for dir in project.store().job_dirs().unwrap() {
        assert_safe("record.json", &fs::read_to_string(dir.record()).unwrap());
    }
}

#[test]
fn every_file_of_a_report_escapes_the_words_of_a_worker() {
    let project = project();
    project.orchestrate(&["run", "t.yaml"]).code(10);
    project.orchestrate(&["report"]).code(0);
    let (mut pages, mut tables) = (0, 0);
    for path in files(&project.path("report")) {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if ending == "png" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_safe(&path.display().to_string(), &text);
        match ending {
            "csv" => {
                tables += 1;
                assert_no_formula(&path, &text);
            }
            "md" => {
                pages += 1;
                assert_whole_tables(&text);
                assert!(!text.contains("](http://x)") && text.contains("alert(1)"), "{text}");
            }
            _ => {}
        }
        // The page has one script.
        let scripts = usize::from(ending == "html");
        assert!(ending == "csv" || text.matches("<script").count() == scripts, "{}", path.display());
    }
    assert!(pages == 1 && tables > 6, "{pages} pages, {tables} tables");
}

#[test]
fn the_owner_of_a_lock_is_printed_without_foreign_words() {
    let project = project();
    fs::create_dir(project.path("locks")).unwrap();
    let path = project.path("locks").join("host.lock");
    let words = "\\u001b[31m\\r\\u202e<b>\\u0000";
    let text = format!("{{\"pid\":{},\"job\":\"{words}j\",\"store\":\"{words}s\"}}", std::process::id());
    fs::write(&path, text).unwrap();
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let mut run = project.start(&["run", "t.yaml"]);
    run.wait_for_line("<b>j");
    drop(held);
    let ended = run.wait().code(10);
    assert_safe("run", &ended.stderr);
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let ended = project.orchestrate(&["resume", "--no-wait"]);
    assert_safe("resume --no-wait", &ended.stderr);
}

/// A path can contain any byte but NUL, and a matrix any character.
#[test]
fn a_store_with_a_strange_name_is_shown_safely() {
    let project = Project::with(Matrix::new("t"));
    let store = "s\u{1b}[31m\u{202e}\rtore";
    let ended = project.orchestrate(&["run", "t.yaml", "--store", store]).code(0);
    assert_safe("run", &ended.stdout);
    assert_safe("run", &ended.stderr);
    for verb in ["status", "report", "doctor", "env"] {
        let ended = project.orchestrate(&[verb, "--store", store]);
        assert_safe(verb, &ended.stdout);
        assert_safe(verb, &ended.stderr);
    }
    let ended = project.orchestrate(&["status", "--store", "no\u{1b}[31mne"]).code(4);
    assert_safe("status", &ended.stderr);
}
