//! The golden store: 60 configs from three fictitious machines, with failures, marks, a cliff, counted kernels and
//! profiles by operator.
//! `recompute` is a second, independent program in Python. It computes every number and every sentence of the report
//! again from the raw files. A column, a table or a sentence without a formula in it is a difference.

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

/// Runs `recompute` on the report in `report`.
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
    // All envs belong on other hosts, so this only saves the plan.
    project.orchestrate(&["run", "golden.yaml", "-q"]).code(0);
    python(&project, "make.py", &["runs"]).code(0);
    project
}

/// The files of the report that `orchestrate` writes to `out`.
fn report(project: &Project, out: &str) -> BTreeMap<String, Vec<u8>> {
    project.orchestrate(&["report", "golden", "-q", "--out", out]).code(0);
    files(&project.path(out))
}

/// The number before `word` in the last line that `recompute` prints.
fn number(printed: &str, word: &str) -> usize {
    let words: Vec<&str> = printed.lines().last().unwrap_or_default().split(' ').collect();
    let place = words.iter().position(|other| other.starts_with(word)).expect("a summary");
    words[place - 1].parse().expect("a number")
}

#[test]
fn every_number_and_sentence_is_recomputed_from_the_raw_files() {
    let project = golden();
    project.orchestrate(&["verify", "-q"]).code(0);
    let first = report(&project, "first");
    assert!(report(&project, "second") == first, "the second report differs");
    let printed = recompute(&project, "golden", "first/golden").code(0).stdout;
    assert!(number(&printed, "cells") > 170_000 && number(&printed, "texts") > 180, "{printed}");
    requires_all_classes(&first);
    requires_detected_changes(&project);
    requires_rejected_seal(&project);
}

/// Requires that each class of a row, each kind of evidence and each experiment occurs, so that `recompute` covers it.
fn requires_all_classes(report: &BTreeMap<String, Vec<u8>>) {
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

/// Changes raw files and the report with `change.py`, and requires the lines that it expects from `recompute`.
fn requires_detected_changes(project: &Project) {
    python(project, "change.py", &["runs", "first/golden"]).code(0);
    let printed = recompute(project, "golden", "first/golden").code(1).stdout;
    let expected = fs::read_to_string(project.path("first/golden/expected")).unwrap();
    assert!(expected.lines().count() >= 10, "{expected}");
    for line in expected.lines() {
        assert!(printed.lines().any(|other| other.contains(line)), "no line contains `{line}`: {printed}");
    }
}

fn requires_rejected_seal(project: &Project) {
    let plan = project.path("runs/.plans/golden.json");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("\"usd_per_hour\": 2.5", "\"usd_per_hour\": 2.6")).unwrap();
    recompute(project, "golden", "first/golden").code(1).says("its seal does not match");
}
