//! The zoo of workers whose limit is known, below the roofs of a simulated processor and GPU: the class of
//! each row, found from its worker's report, is the one that it was made for. `just bound-zoo` does the same with
//! real work.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::harness::{Ended, Matrix, Project, Running, write_program};

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

/// The class of each animal that fits its device, as the worker lists it.
fn expected() -> BTreeMap<String, String> {
    let mut listed = listed("cpu");
    listed.retain(|_, class| class != "spilled");
    listed
}

/// The class of each animal of `device`.
fn listed(device: &str) -> BTreeMap<String, String> {
    let ended =
        Command::new(ZOO_WORKER).args(["--list", "--device", device]).output().expect("the worker starts");
    let text = String::from_utf8(ended.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, class)| (name.into(), class.into()))
        .collect()
}

/// A store with the zoo on `device`, below these roofs, profiled as `profile` says.
fn zoo(seed: &str, peaks: &str, device: &str, profile: &'static str) -> Project {
    let names: Vec<&'static str> =
        expected().into_keys().map(|name| &*Box::leak(name.into_boxed_str())).collect();
    let matrix = Matrix::new("zoo").behave(&names).repeats(3).profile(profile);
    simulated(matrix, seed, peaks, device)
}

/// A store with `matrix` on `device`, below these roofs.
fn simulated(matrix: Matrix, seed: &str, peaks: &str, device: &str) -> Project {
    let matrix = matrix.env(format!("device: {device}, peaks: simulated"));
    let matrix = matrix.worker(Path::new(ZOO_WORKER)).flag("--simulate", Path::new(seed));
    let project = Project::with(matrix);
    std::fs::create_dir(project.path("peaks")).unwrap();
    std::fs::write(project.path("peaks/simulated.yaml"), peaks).unwrap();
    project
}

/// Calls orchestrate on a host that claims to have a GPU, without permission to read its counters.
fn on_rented_gpu(project: &Project, arguments: &[&str]) -> Ended {
    let ncu = project.path("ncu");
    if !ncu.exists() {
        write_program(&ncu, &include_str!("../profiling/fake_ncu.sh").replace("MODE", "no_permission"));
    }
    let mut command = project.command(arguments);
    command.env("ORCHESTRATE_DEVICES", "cpu,cuda").env("ORCHESTRATE_NCU", ncu);
    Running::start(command).wait()
}

/// The lines of `summary.csv`.
fn rows(project: &Project) -> Vec<BTreeMap<String, String>> {
    let mut table = csv::Reader::from_path(project.path("report/zoo/summary.csv")).unwrap();
    table.deserialize().map(Result::unwrap).collect()
}

/// The class of each animal in `summary.csv`, with its reason.
fn classes(project: &Project) -> BTreeMap<String, (String, String)> {
    let row = |row: BTreeMap<String, String>| {
        (row["param_behave"].clone(), (row["bound"].clone(), row["bound_why"].clone()))
    };
    rows(project).into_iter().map(row).collect()
}

/// The class of each animal that `aggregate` finds on a processor, with its reason.
fn found(seed: &str, peaks: &str) -> BTreeMap<String, (String, String)> {
    let project = zoo(seed, peaks, "cpu", "ops: {}");
    project.orchestrate(&["run", "zoo.yaml", "-q"]).code(0);
    project.orchestrate(&["aggregate", "--include-marked", "-q"]).code(0);
    classes(&project)
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

/// On a rented GPU, counters are forbidden. Each row has its class all the same, from the time of its operators.
#[test]
fn on_a_gpu_without_counters_each_animal_has_its_class_by_its_operators() {
    let peaks = PEAKS.replace("processor", "GPU").replace("backend: cpu", "backend: cuda");
    let project = zoo("3", &peaks, "cuda", "ncu: {}, ops: {}");
    on_rented_gpu(&project, &["run", "zoo.yaml", "-q", "--keep-going"])
        .code(10)
        .says("ERR_NVGPUCTRPERM")
        .says("NVreg_RestrictProfilingToAdminUsers=0");
    on_rented_gpu(&project, &["aggregate", "--include-marked", "-q"]).code(0);
    let found = classes(&project);
    for (name, class) in expected() {
        let (bound, why) = &found[&name];
        assert_eq!(bound, &class, "{name}: {why}");
    }
    let explained = on_rented_gpu(&project, &["explain", "cpu_m_fp32_bs4_run1 behave=gemm"]).code(0).stdout;
    assert!(explained.contains("compute-bound"), "{explained}");
}

/// The memory of the GPU fits one batch but not the next, which takes six times as long because the driver pages.
#[test]
fn an_animal_that_spills_is_found_by_its_neighbour_that_does_not() {
    let peaks = PEAKS.replace("processor", "GPU").replace("backend: cpu", "backend: cuda");
    let matrix = Matrix::new("zoo").behave(&["spilled"]).batches(&[4, 5]).repeats(3);
    let project = simulated(matrix, "4", &peaks, "cuda");
    on_rented_gpu(&project, &["run", "zoo.yaml", "-q"]).code(0);
    on_rented_gpu(&project, &["aggregate", "--include-marked", "-q"]).code(0);
    let found: Vec<(String, String)> =
        rows(&project).into_iter().map(|row| (row["batch"].clone(), row["bound"].clone())).collect();
    let spilled = &listed("cuda")["spilled"];
    assert_eq!(found, [("4".into(), "compute-bound".into()), ("5".into(), spilled.clone())]);
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
