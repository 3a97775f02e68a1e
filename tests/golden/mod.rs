//! The golden store: 60 configs from three machines that never were, with failures, marks, a cliff, counted kernels and
//! profiles by operator.
//! `recompute` is a second program, in Python, that knows no code of ours. It makes every number and every sentence of
//! the report again from the raw files. A column, a table or a sentence that it does not know is a difference.

#[cfg(target_os = "linux")]
mod real;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use orchestrate::analysis::bound::Bound;

use super::harness::{Ended, Project, Running, files};
use super::readme::pages::root;

/// A file of this directory.
fn file(name: &str) -> PathBuf {
    root().join("tests/golden").join(name)
}

/// Runs a Python program of this directory in `project`.
fn python(project: &Project, program: &str, arguments: &[&str]) -> Ended {
    let mut command = project.in_environment(Command::new("python3"));
    command.arg("-B").arg(file(program)).args(arguments).env("PYTHONUTF8", "1");
    Running::start(command).wait()
}

/// What the second program says of the report in `report`.
fn recompute(project: &Project, matrix: &str, report: &str) -> Ended {
    python(project, "recompute", &["runs", matrix, "peaks", report])
}

/// A project with the golden store and the peaks of its machines.
fn golden() -> Project {
    let project = Project::new();
    fs::copy(file("golden.yaml"), project.path("golden.yaml")).unwrap();
    fs::create_dir(project.path("peaks")).unwrap();
    let published = ["nvidia-h100-sxm.yaml", "nvidia-rtx-4090-laptop.yaml"];
    let peaks = published.map(|name| root().join("peaks").join(name)).into_iter();
    for path in peaks.chain([file("alpha-cpu.yaml")]) {
        fs::copy(&path, project.path("peaks").join(path.file_name().unwrap())).unwrap();
    }
    // Nothing belongs on this machine, so this saves the plan and runs nothing.
    project.orchestrate(&["run", "golden.yaml", "-q"]).code(0);
    python(&project, "make.py", &["runs"]).code(0);
    project
}

/// The files of the report that `orchestrate` writes to `out`.
fn report(project: &Project, out: &str) -> BTreeMap<String, Vec<u8>> {
    project.orchestrate(&["report", "golden", "-q", "--out", out]).code(0);
    files(&project.path(out))
}

/// The number before `word` in what the second program says at the end.
fn number(said: &str, word: &str) -> usize {
    let words: Vec<&str> = said.lines().last().unwrap_or_default().split(' ').collect();
    let place = words.iter().position(|other| other.starts_with(word)).expect("a summary");
    words[place - 1].parse().expect("a number")
}

#[test]
fn every_number_and_sentence_is_recomputed_from_the_raw_files() {
    let project = golden();
    project.orchestrate(&["verify", "-q"]).code(0);
    let first = report(&project, "first");
    assert!(report(&project, "second") == first, "the second report differs");
    let said = recompute(&project, "golden", "first/golden").code(0).stdout;
    assert!(number(&said, "cells") > 170_000 && number(&said, "texts") > 180, "{said}");
    every_limit_occurs(&first);
    every_change_is_seen(&project);
    no_broken_seal_is_believed(&project);
}

/// Each class of a row, each kind of evidence and each experiment is in the store, so the second program is asked for it.
fn every_limit_occurs(report: &BTreeMap<String, Vec<u8>>) {
    let summary = String::from_utf8_lossy(&report["golden/summary.csv"]);
    let bounds = Bound::ALL.map(|bound| bound.to_string());
    let evidence =
        ["process", "counters", "throughput", "activity", "operators"].map(|kind| format!(",{kind},"));
    let experiments =
        ["profile it by", "count its", "measure the", "run a larger", "report `flops`", "profile a larger"];
    let experiments = experiments.map(str::to_owned);
    for word in bounds.iter().chain(&evidence).chain(&experiments) {
        assert!(summary.contains(word.as_str()), "no row has `{word}`");
    }
}

/// Changes of the raw files and of the report, each with what must be said about it.
fn every_change_is_seen(project: &Project) {
    python(project, "change.py", &["runs", "first/golden"]).code(0);
    let said = recompute(project, "golden", "first/golden").code(1).stdout;
    let expected = fs::read_to_string(project.path("first/golden/expected")).unwrap();
    assert!(expected.lines().count() >= 10, "{expected}");
    for line in expected.lines() {
        assert!(said.lines().any(|other| other.contains(line)), "nobody says `{line}`: {said}");
    }
}

fn no_broken_seal_is_believed(project: &Project) {
    let plan = project.path("runs/.plans/golden.json");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("\"usd_per_hour\": 2.5", "\"usd_per_hour\": 2.6")).unwrap();
    recompute(project, "golden", "first/golden").code(1).says("its seal does not hold");
}
