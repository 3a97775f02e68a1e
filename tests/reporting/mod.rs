//! `aggregate`, `report` and `peaks`, driven through the command line with fake workers.
#![expect(clippy::disallowed_methods, reason = "tests read what programs leave behind")]

mod marks;
mod own_worker;
mod package;

use std::collections::BTreeMap;
use std::fs;

use super::harness::{Ended, Matrix, Project, files};

fn rows(project: &Project, file: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(project.path("report/m").join(file)).unwrap();
    reader.deserialize().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_store_with_failures_gives_the_same_report_twice() {
    let project = Project::with(Matrix::new("m").behave(&["ok", "segfault"]).batches(&[4, 8]).repeats(2));
    project.orchestrate(&["run", "m.yaml"]).code(10);
    let ended = project.orchestrate(&["report"]).code(0);
    assert!(ended.stdout.contains("report: report/m/report.html and report/m/report.md"), "{}", ended.stdout);
    let metrics = rows(&project, "metrics.csv");
    assert_eq!(metrics.len(), 8);
    for row in &metrics {
        let failed = row["params"].contains("segfault");
        assert_eq!(row["status"], if failed { "failed" } else { "succeeded" });
        assert_eq!(row["samples_per_s"] == "NA", failed, "{row:?}");
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
    let page = String::from_utf8(first["report.html"].clone()).unwrap();
    let links = page.split("href=\"../../runs/").skip(1).map(|rest| rest.split('"').next().unwrap());
    let linked: std::collections::BTreeSet<&str> = links.collect();
    assert_eq!(linked.len(), 8, "every job, be it of a success or of a failure, has files: {linked:?}");
    assert!(linked.iter().all(|name| project.path("runs").join(name).is_dir()), "{linked:?}");
    fs::write(project.path("report/m/figures/throughput_gone.png"), "from an earlier report").unwrap();
    project.orchestrate(&["report", "m", "-q"]).code(0);
    assert!(files(&project.path("report/m")) == first, "the second report differs");
}

#[test]
fn jobs_that_were_not_run_are_in_the_tables() {
    let project = Project::with(Matrix::new("m").batches(&[4]).repeats(1));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let project = project.and(Matrix::new("m").batches(&[4, 8]).repeats(1));
    project.orchestrate(&["aggregate", "m.yaml"]).code(0);
    let metrics = rows(&project, "metrics.csv");
    let states: Vec<_> = metrics.iter().map(|row| (row["status"].as_str(), row["reason"].as_str())).collect();
    assert_eq!(states, [("succeeded", "none"), ("not_run", "it never ran")]);
    assert!(!project.path("report/m/report.md").exists(), "aggregate writes only tables");
}

#[test]
fn without_a_plan_nothing_is_selected_and_without_records_there_is_nothing_to_aggregate() {
    let project = Project::with(Matrix::new("m"));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    project.orchestrate(&["report", "n"]).code(4).says("the saved plans are: m");
    let project = project.and(Matrix::new("n").batches(&[16]));
    project.orchestrate(&["report", "n.yaml"]).code(13).says("hint: run it first: `orchestrate run n.yaml`");
}

/// A script of this directory.
fn script(name: &str) -> String {
    format!("{}/tests/reporting/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn measure(project: &Project, flags: &[&str]) -> Ended {
    let worker = script("fake_peaks.sh");
    project.orchestrate(&[&["peaks", "measure", "--worker", &worker], flags].concat())
}

#[test]
fn measured_peaks_are_stored_and_found_again() {
    let project = Project::new();
    let quick = measure(&project, &["--quick"]).code(0).says("called: peaks --device cpu --quick");
    assert!(quick.stdout.contains("GEMM bf16 NT 2048 × 2048"), "{}", quick.stdout);
    let again = measure(&project, &["--if-missing", "--quick"]).code(0);
    assert!(again.stdout.contains("was measured already") && !again.stderr.contains("called"), "{again:?}");
    // A quick measurement does not replace a thorough one.
    let ended = measure(&project, &["--if-missing"]).code(0).says("called: peaks --device cpu\n");
    assert!(ended.stdout.contains("125.00") && ended.stdout.contains("triad of 1500 MB"), "{}", ended.stdout);
    assert!(ended.stdout.contains("no ceiling for tf32: it needs another device"), "{}", ended.stdout);
    let again = measure(&project, &["--if-missing"]).code(0);
    assert!(again.stdout.contains("was measured already") && !again.stderr.contains("called"), "{again:?}");
    let list = project.orchestrate(&["peaks", "list"]).code(0);
    assert!(list.stdout.contains("Fake CPU @ 1 GHz") && list.stdout.contains("0.125"), "{}", list.stdout);
    let silent = measure(&project, &["-q"]).code(0);
    assert!(!silent.stderr.contains("called") && !silent.stderr.contains("measuring"), "{silent:?}");
}

/// Otherwise, a report would have no shares of a peak, without a reason.
#[test]
fn a_missing_directory_of_peaks_is_named() {
    let project = Project::new();
    for verb in ["list", "measure"] {
        let ended = project.orchestrate(&["peaks", verb, "--peaks-dir", "nowhere"]);
        let says_so = ended.stderr.contains("`--peaks-dir nowhere`: there is no such directory");
        // A measurement creates it.
        assert_eq!(says_so, verb == "list", "{ended:?}");
    }
    project.orchestrate(&["peaks", "list"]).code(0);
}

/// The files that come with the program are read, and say how reliable they are.
#[test]
fn published_peaks_are_listed_with_their_confidence() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/peaks");
    let list = Project::new().orchestrate(&["peaks", "list", "--peaks-dir", directory]).code(0).stdout;
    let line =
        |name: &str| list.lines().find(|line| line.starts_with(&format!("{name} "))).map(str::to_owned);
    for (name, words) in [
        ("nvidia-rtx-4090-laptop", ["28.3 to 39.7", "medium"]),
        ("nvidia-h100-sxm", ["989.4 to 1070.5", "high"]),
        ("nvidia-a10g", ["31.2 to 35.0", "low"]),
        ("apple-m3-max-cpu", ["105.0 to 400.0", "low"]),
        ("amd-epyc-7742", ["4.600 to 7.000", "estimate"]),
    ] {
        let line = line(name).unwrap_or_else(|| panic!("{name} is not in {list}"));
        assert!(words.iter().all(|word| line.contains(word)), "{words:?} are not in {line}");
    }
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(line(&name).is_some(), "{name} is not in {list}");
    }
}

#[test]
fn a_failed_measurement_of_peaks_leaves_no_files() {
    let project = Project::new();
    let reason = "error: cuda is not available: GPUs visible: 1";
    let absent = measure(&project, &["--device", "cuda:1"]).code(1).says(reason);
    assert!(absent.stderr.contains("error: the worker cannot measure cuda:1"), "{}", absent.stderr);
    measure(&project, &["--device", "cuda", "-q"]).code(1).says("error: cuda is not available");
    measure(&project, &["--threads", "3"]).code(1).says("failed (exit status: 7)");
    measure(&project, &["--threads", "4"]).code(1).says("printed no peaks");
    project.orchestrate(&["peaks", "measure", "--worker", "gone"]).code(1).says("there is no worker at");
    assert!(!project.path("peaks").exists());
}

/// Results are compared with the measured peak of their precision.
#[test]
fn aggregate_uses_the_peaks_measured_on_this_host() {
    let project = Project::new();
    let worker = script("fake_training.sh");
    let matrix = format!(
        "name: m\nmodels: [resnet18]\nbatches: [1]\nrepeats: 1\nprecisions: [fp32, tf32, amp, bf16]\n\
         worker: {{ command: [sh, {worker:?}, \"{{precision}}\", \"{{batch}}\", \"{{out}}\"], result: json }}\n\
         envs: {{ cpu: {{ device: cpu }} }}\n"
    );
    fs::write(project.path("m.yaml"), matrix).unwrap();
    project.orchestrate(&["run", "m.yaml"]).code(0);
    measure(&project, &[]).code(0);
    project.orchestrate(&["aggregate", "m.yaml"]).code(0);
    let mut peaks: Vec<_> = rows(&project, "summary.csv")
        .into_iter()
        .map(|row| [&row["precision"], &row["peak_gflop_per_s"], &row["peaks_origin"]].map(String::clone))
        .collect();
    peaks.sort();
    let host = nix::unistd::gethostname().unwrap().to_string_lossy().into_owned();
    let origin = format!("measured on {host} with 1 thread");
    let expected = [("amp", "250"), ("bf16", "250"), ("fp32", "125"), ("tf32", "NA")];
    assert_eq!(
        peaks,
        expected.map(|(precision, peak)| [precision.to_owned(), peak.to_owned(), origin.clone()])
    );
}
