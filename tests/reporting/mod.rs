//! `aggregate`, `report` and `peaks`, driven from outside: real runs of fake workers, real files.
#![expect(clippy::disallowed_methods, reason = "tests read what programs leave behind")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::harness::{Matrix, Project};

/// All files below `directory`, by path.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)));
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

fn rows(project: &Project, file: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(project.path("report/m").join(file)).unwrap();
    reader.deserialize().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_store_with_failures_becomes_a_report_twice_the_same() {
    let project = Project::with(Matrix::new("m").behave(&["ok", "segfault"]).batches(&[4, 8]).repeats(2));
    project.orchestrate(&["run", "m.yaml"]).code(10);
    let ended = project.orchestrate(&["report"]).code(0);
    assert!(ended.stdout.contains("report: report/m/report.md"), "{}", ended.stdout);
    let metrics = rows(&project, "metrics.csv");
    assert_eq!(metrics.len(), 8);
    for row in &metrics {
        let failed = row["params"].contains("segfault");
        assert_eq!(row["status"], if failed { "failed" } else { "succeeded" });
        assert_eq!(row["images_per_s"] == "NA", failed, "{row:?}");
        assert_eq!(row["reason"] != "none", failed, "{row:?}");
    }
    assert_eq!(rows(&project, "failures.csv").len(), 4);
    assert_eq!(rows(&project, "summary.csv").len(), 4);
    let first = files(&project.path("report/m"));
    for name in [
        "report.md",
        "report.html",
        "figures/throughput_cpu.svg",
        "figures/throughput_cpu.png",
        "figures/throughput_cpu.csv",
    ] {
        assert!(first.contains_key(name), "{name} is not among {:?}", first.keys());
    }
    fs::write(project.path("report/m/figures/throughput_gone.png"), "of an earlier report").unwrap();
    project.orchestrate(&["report", "m", "-q"]).code(0);
    assert!(files(&project.path("report/m")) == first, "the second report differs");
}

#[test]
fn what_was_not_run_is_in_the_tables_too() {
    let project = Project::with(Matrix::new("m").batches(&[4]).repeats(1));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let project = project.and(Matrix::new("m").batches(&[4, 8]).repeats(1));
    project.orchestrate(&["aggregate", "m.yaml"]).code(0);
    let metrics = rows(&project, "metrics.csv");
    let states: Vec<_> = metrics.iter().map(|row| (row["status"].as_str(), row["reason"].as_str())).collect();
    assert_eq!(states, [("succeeded", "none"), ("not_run", "not run yet")]);
    assert!(!project.path("report/m/report.md").exists(), "aggregate writes tables alone");
}

#[test]
fn nothing_to_aggregate_is_13_with_a_hint() {
    let project = Project::with(Matrix::new("m"));
    for verb in ["aggregate", "report"] {
        project.orchestrate(&[verb]).code(13).says("hint: run a matrix first");
    }
    project.orchestrate(&["run", "m.yaml"]).code(0);
    project.orchestrate(&["report", "n"]).code(13).says("the saved plans are: m");
    let project = project.and(Matrix::new("n").batches(&[16]));
    project.orchestrate(&["report", "n.yaml"]).code(13).says("hint: run it first: `orchestrate run n.yaml`");
}

#[test]
fn measured_peaks_are_kept_and_found_again() {
    let project = Project::new();
    let worker = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reporting/fake_peaks.sh");
    let measure =
        |flags: &[&str]| project.orchestrate(&[&["peaks", "measure", "--worker", worker], flags].concat());
    let ended = measure(&[]).code(0).says("called: peaks --device cpu");
    assert!(ended.stdout.contains("125.00") && ended.stdout.contains("triad of 1500 MB"), "{}", ended.stdout);
    let again = measure(&["--if-missing"]).code(0);
    assert!(again.stdout.contains("are there already") && !again.stderr.contains("called"), "{again:?}");
    let list = project.orchestrate(&["peaks", "list"]).code(0);
    assert!(list.stdout.contains("Fake CPU @ 1 GHz") && list.stdout.contains("0.125"), "{}", list.stdout);
    measure(&["--device", "cuda"]).code(1).says("error: the worker cannot measure cuda");
    measure(&["--threads", "3"]).code(1).says("failed (exit status: 7)");
    measure(&["--threads", "4"]).code(1).says("printed no peaks");
    project.orchestrate(&["peaks", "measure", "--worker", "gone"]).code(1).says("there is no worker at");
}
