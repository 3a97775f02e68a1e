//! Matrix files: the shipped ones, invalid ones, and the schema's verdict on both.
#![expect(clippy::disallowed_methods, reason = "the tests read the matrix files of the checkout")]

mod garbage;
mod schema;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use orchestrate::matrix::{Executor, Matrix, check, render_notes};
use orchestrate::plan::expand;
use orchestrate::record::MatrixFacts;

/// The YAML files in a directory of the checkout, in order, with their text.
fn files(directory: &str) -> Vec<(PathBuf, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = std::fs::read_dir(&directory).unwrap();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}", directory.display());
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn checked(path: &Path, text: &str) -> Matrix {
    check(text).unwrap_or_else(|notes| panic!("{}", render_notes(&path.display().to_string(), text, &notes)))
}

#[test]
fn the_shipped_matrices_have_the_expected_jobs() {
    let expected: BTreeMap<&str, &[(&str, usize)]> = BTreeMap::from([
        ("quickstart.yaml", &[("cpu", 28)][..]),
        ("quickstart-slurm.yaml", &[("node", 28)]),
        ("quickstart-ssh.yaml", &[("host_a", 6), ("host_b", 6)]),
        ("pipeline.yaml", &[("cpu", 24)]),
        ("mac.yaml", &[("mac_cpu", 54), ("mac_mps", 54)]),
        ("cuda.yaml", &[("gcp_l4", 144), ("rtx4090", 108)]),
        ("rtx4080-t4-cpu.yaml", &[("i9_cpu", 6), ("rtx4080", 30), ("t4", 30)]),
    ]);
    let files = files("matrices");
    assert_eq!(files.len(), expected.len());
    for (path, text) in files {
        let matrix = checked(&path, &text);
        assert_eq!(format!("{}.yaml", matrix.name), name(&path));
        let mut jobs: BTreeMap<String, usize> = BTreeMap::new();
        let facts = MatrixFacts { name: matrix.name.clone(), path: String::new(), sha256: String::new() };
        for key in expand(&matrix, facts).keys() {
            *jobs.entry(key.env.to_string()).or_default() += 1;
        }
        let jobs: Vec<(&str, usize)> = jobs.iter().map(|(env, jobs)| (env.as_str(), *jobs)).collect();
        assert_eq!(jobs, expected[name(&path)], "{}", path.display());
    }
}

#[test]
fn a_matrix_with_every_key_is_valid() {
    for (path, text) in files("tests/matrices/valid") {
        checked(&path, &text);
    }
}

/// The settings for Slurm of each env of `where.yaml`, with the defaults.
#[test]
fn settings_for_slurm_are_complete() {
    let (path, text) =
        files("tests/matrices/valid").into_iter().find(|(path, _)| name(path) == "where.yaml").unwrap();
    let matrix = checked(&path, &text);
    let executors: BTreeMap<&str, &Executor> =
        matrix.envs.iter().map(|env| (env.name.as_str(), &env.executor)).collect();
    insta::assert_snapshot!("asked_of_slurm", serde_json::to_string_pretty(&executors).unwrap());
}

/// The output for each file with mistakes. Read a changed snapshot as a user would.
#[test]
fn mistakes_are_shown() {
    for (path, text) in files("tests/matrices/invalid") {
        let shown = render_notes(name(&path), &text, &check(&text).unwrap_err());
        insta::assert_snapshot!(name(&path), shown);
    }
}

fn orchestrate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrate"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

#[test]
fn check_reports_ten_mistakes_together_and_exits_3() {
    let output = orchestrate()
        .args(["check", "tests/matrices/invalid/ten.yaml"])
        .assert()
        .code(3)
        .get_output()
        .clone();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: tests/matrices/invalid/ten.yaml has 10 mistakes\n"), "{stderr}");
    assert_eq!(stderr.matches("tests/matrices/invalid/ten.yaml:").count(), 10, "{stderr}");
    assert!(stderr.contains("hint: `orchestrate schema`"), "{stderr}");
}

#[test]
fn check_prints_mistakes_as_json_and_exits_3() {
    let output = orchestrate()
        .args(["check", "--json", "tests/matrices/invalid/ten.yaml"])
        .assert()
        .code(3)
        .get_output()
        .clone();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["valid"], false);
    assert_eq!(json["mistakes"].as_array().unwrap().len(), 10);
    assert_eq!(json["mistakes"][0]["line"], 2);
    assert_eq!(json["mistakes"][0]["column"], 20);
}

#[test]
fn check_summarises_a_valid_matrix() {
    let output = orchestrate().args(["check", "matrices/mac.yaml"]).assert().code(0).get_output().clone();
    insta::assert_snapshot!("check_mac", String::from_utf8(output.stdout).unwrap());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let output =
        orchestrate().args(["check", "--json", "matrices/mac.yaml"]).assert().code(0).get_output().clone();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["valid"], &json["jobs"], &json["envs"][1]["jobs"]),
        (&true.into(), &108.into(), &54.into())
    );
}

/// Four lists of a thousand values, in two kilobytes of text each.
#[test]
fn a_matrix_that_explodes_is_refused_with_its_size_before_it_takes_memory() {
    let list = |from: u32| (from..from + 1000).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!(
        "name: m\nmodels: [m]\nbatches: [{0}]\nrepeats: 1000\naxes: {{ one: [{0}], two: [{0}] }}\n\
         exclude: [{{ one: \"> 1\" }}, {{ two: \"> 1\" }}]\nworker: {{ command: [w, \"{{one}}\", \"{{two}}\"] }}\n\
         envs:\n  small: {{ device: cpu, axes: {{ one: [1], two: [1] }} }}\n  large: {{ device: cpu }}\n",
        list(1)
    );
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("m.yaml"), text).unwrap();
    for verb in ["check", "plan", "run", "run --dry-run"] {
        let call = format!("ulimit -v 200000 && exec \"$0\" {verb} m.yaml");
        let mut command = Command::new("sh");
        command.args(["-c", &call, env!("CARGO_BIN_EXE_orchestrate")]).current_dir(&directory);
        let output = command.assert().code(3).get_output().clone();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = "m.yaml:10:3: `matrix` has 1,000,001,000,000 jobs before `exclude`, but `max_jobs` allows 100,000: \
                        shorten the axes of `large`, zip some of them, or raise `max_jobs`";
        assert!(stderr.contains(expected), "{verb}: {stderr}");
        assert!(!directory.path().join("runs").exists(), "{verb}");
    }
}

#[test]
fn max_jobs_limits_the_jobs_of_a_matrix() {
    let jobs = |most: &str| {
        let text = format!(
            "name: m\nmodels: [resnet18]\nbatches: [1, 2, 3]\nrepeats: 2\n{most}\nprofile: {{ ops: false, perf: }}\n\
             envs: {{ cpu: {{ device: cpu }} }}\n\
             include: [{{ model: vgg16, batch: 1, precision: fp32, repeats: 4 }}]\n"
        );
        check(&text).map(|matrix| matrix.configs().count()).map_err(|notes| notes.len())
    };
    assert_eq!(jobs(""), Ok(4));
    // Three configs with two repeats, one with four, and a profiled job of each.
    assert_eq!(jobs("max_jobs: 14"), Ok(4));
    assert_eq!(jobs("max_jobs: 13"), Err(1));
    assert_eq!(jobs("max_jobs: 0"), Err(1));
}
