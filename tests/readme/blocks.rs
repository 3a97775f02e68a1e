//! Code blocks are valid in their language.

use std::io::Write;
use std::process::{Command, Stdio};

use orchestrate::matrix::check;
use orchestrate::protocol::{Iterations, Measurement, Progress, Report};

use super::pages::{Block, manual};

/// Every block of the manual in `language`.
fn blocks(language: &str) -> Vec<Block> {
    let all = manual().into_iter().flat_map(|page| page.blocks());
    let found: Vec<Block> = all.filter(|block| block.language == language).collect();
    assert!(!found.is_empty(), "the manual shows no {language}");
    found
}

/// A partial matrix, completed with every key that it lacks.
fn completed(part: &str) -> String {
    let keys = [
        ("name", "docs"),
        ("models", "[resnet18]"),
        ("batches", "[16]"),
        ("envs", "{ here: { device: cpu } }"),
    ];
    let lacks = |key: &str| !part.lines().any(|line| line.starts_with(&format!("{key}:")));
    let missing = keys.iter().filter(|(key, _)| lacks(key));
    missing.map(|(key, value)| format!("{key}: {value}\n")).chain([part.to_owned()]).collect()
}

#[test]
fn every_block_has_a_tested_language() {
    let known = ["console", "csv", "json", "python", "text", "yaml"];
    for block in manual().into_iter().flat_map(|page| page.blocks()) {
        assert!(known.contains(&block.language.as_str()), "{}: `{}`", block.place, block.language);
    }
}

/// A file whose name starts with `wrong` is shown for its mistakes.
#[test]
fn every_matrix_is_valid() {
    for block in blocks("yaml") {
        let checked = check(&completed(&block.text));
        let is_wrong = block.file_name().is_some_and(|name| name.starts_with("wrong"));
        assert_eq!(checked.is_err(), is_wrong, "{}: {:?}", block.place, checked.err());
    }
}

#[test]
fn a_part_of_a_matrix_is_completed() {
    assert!(check(&completed("limits: { retries: 2 }\n")).is_ok());
    assert!(check(&completed("limits: { retires: 2 }\n")).is_err());
    assert!(check(&completed("name: a\nenvs:\n  b: { device: cpu }\n")).is_ok());
}

#[test]
fn every_python_program_compiles() {
    for block in blocks("python") {
        let parse = "import ast, sys; ast.parse(sys.stdin.read())";
        let mut command = Command::new("python3");
        command.args(["-c", parse]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut python = command.spawn().expect("python3 runs the workers that the manual shows");
        let input = python.stdin.take().expect("standard input is a pipe");
        { input }.write_all(block.text.as_bytes()).unwrap();
        let output = python.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", block.place);
    }
}

/// Lines of progress, or a complete `measurement.json` of which nothing is ignored.
#[test]
fn every_json_is_understood() {
    for block in blocks("json") {
        if block.text.contains("\"event\"") {
            assert!(block.text.lines().all(|line| Progress::parse(line).is_some()), "{}", block.place);
            continue;
        }
        let shown: serde_json::Value = serde_json::from_str(&block.text).expect(&block.place);
        let understood = match Report::parse(&block.text).expect(&block.place) {
            Report::Measured(measurement) => serde_json::to_value(&*measurement).unwrap(),
            Report::Failed(failure) => serde_json::json!({ "schema": 1, "failure": failure }),
        };
        assert_eq!(names(&shown), names(&understood), "{}", block.place);
    }
}

/// The paths of all values of an object that are not objects.
fn names(value: &serde_json::Value) -> Vec<String> {
    let serde_json::Value::Object(map) = value else { return vec![String::new()] };
    let of = |(name, value)| names(value).into_iter().map(move |rest| format!("{name}.{rest}"));
    let mut found: Vec<String> = map.iter().flat_map(of).collect();
    found.sort();
    found
}

#[test]
fn every_csv_is_read_as_iterations() {
    for block in blocks("csv") {
        let iterations = block.text.lines().count() - 1;
        let text = format!(
            r#"{{ "schema": 1, "samples": {iterations}, "elapsed_s": 1.0, "synchronized": true,
                 "effective": {{ "device": "cpu", "precision": "fp32", "batch": 1 }} }}"#
        );
        let measurement: Measurement = serde_json::from_str(&text).unwrap();
        Iterations::parse(&block.text, &measurement).expect(&block.place);
    }
}
