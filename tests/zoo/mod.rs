//! The zoo of workers whose limit is known, below the roofs of a processor that was made up: the class of each row, found
//! from what its worker reports, is the one that it was made for. `just bound-zoo` does the same with real work.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::harness::{Matrix, Project};

/// The roofs that the worker simulates: see `src/bin/zoo_worker/simulated.rs`.
const PEAKS: &str = r#"schema: 1
device: Simulated processor
backend: cpu
names: ["Simulated processor"]
origin: vendor
flops:
  - { precision: fp32, tflops: 10, accumulate: fp32, sparsity: dense }
bandwidth: { gb_per_s: 1000 }
source: "made up"
date: "2026-11"
confidence: high
"#;

const ZOO_WORKER: &str = env!("CARGO_BIN_EXE_zoo-worker");

/// The class of each animal, as the worker lists it.
fn expected() -> BTreeMap<String, String> {
    let ended = Command::new(ZOO_WORKER).arg("--list").output().expect("the worker starts");
    let text = String::from_utf8(ended.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, class)| (name.into(), class.into()))
        .collect()
}

/// The class of each animal that `aggregate` finds, with its reason.
fn found(seed: &str, peaks: &str) -> BTreeMap<String, (String, String)> {
    let names: Vec<&'static str> =
        expected().into_keys().map(|name| &*Box::leak(name.into_boxed_str())).collect();
    let matrix =
        Matrix::new("zoo").behave(&names).repeats(3).profile("ops: {}").env("device: cpu, peaks: simulated");
    let matrix = matrix.worker(Path::new(ZOO_WORKER)).flag("--simulate", Path::new(seed));
    let project = Project::with(matrix);
    std::fs::create_dir(project.path("peaks")).unwrap();
    std::fs::write(project.path("peaks/simulated.yaml"), peaks).unwrap();
    project.orchestrate(&["run", "zoo.yaml", "-q"]).code(0);
    project.orchestrate(&["aggregate", "--include-marked", "-q"]).code(0);
    let mut table = csv::Reader::from_path(project.path("report/zoo/summary.csv")).unwrap();
    let rows: Vec<BTreeMap<String, String>> = table.deserialize().map(Result::unwrap).collect();
    let row = |row: BTreeMap<String, String>| {
        (row["param_behave"].clone(), (row["bound"].clone(), row["bound_why"].clone()))
    };
    rows.into_iter().map(row).collect()
}

#[test]
fn each_animal_has_the_class_that_it_was_made_for() {
    for seed in ["1", "2"] {
        let found = found(seed, PEAKS);
        for (name, class) in expected() {
            let (bound, why) = &found[&name];
            assert_eq!(bound, &class, "{name}, seed {seed}: {why}");
        }
    }
}

/// The zoo can be wrong: with a bandwidth that the processor does not have, streams are far from the roof.
#[test]
fn wrong_roofs_make_wrong_classes() {
    let found = found("1", &PEAKS.replace("gb_per_s: 1000", "gb_per_s: 20000"));
    let names = ["gemm", "sleep", "triad", "mostly-triad"];
    let [gemm, sleep, triad, mostly_triad] = names.map(|name| found[name].0.as_str());
    assert_eq!((gemm, sleep), ("compute-bound", "host-bound"));
    assert_eq!((triad, mostly_triad), ("latency-bound", "latency-bound"));
}

#[test]
fn a_seed_gives_the_same_measurement_again() {
    let measured = |seed: &str| {
        let words = ["--behave", "half", "--batch", "4", "--label", "a", "--simulate", seed];
        let ended = Command::new(ZOO_WORKER).args(words).env("ORCHESTRATE_OPERATORS", "2").output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        ended.stdout
    };
    assert_eq!(measured("1"), measured("1"));
    assert_ne!(measured("1"), measured("2"));
}
