//! `doctor` and `env`, on the machine that runs the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use orchestrate::record::HostFacts;
use serde_json::Value;

use crate::harness::{Matrix, Project};

/// A project whose shipped worker is this shell script.
struct WithWorker {
    project: Project,
    worker: PathBuf,
}

impl WithWorker {
    fn new(script: &str) -> Self {
        let project = Project::with(Matrix::new("t"));
        let worker = project.path("the worker");
        // A child process writes it: a file that is open for writing while a concurrent test forks cannot be executed.
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#;
        let status = Command::new("/bin/sh").args(["-c", write, "sh"]).arg(&worker).arg(script).status();
        assert!(status.unwrap().success());
        WithWorker { project, worker }
    }

    /// Runs a verb. Returns its exit code, standard output and standard error.
    fn orchestrate(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self
            .project
            .command(arguments)
            .env("ORCHESTRATE_WORKER", &self.worker)
            .output()
            .expect("orchestrate starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
    }

    /// The names in the project's directory.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.project.path(".")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

const SOUND: &str = "echo worker 0.1.0; echo libtorch 2.11.0";

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn findings(document: &Value) -> Vec<(&str, &str)> {
    let findings = document["findings"].as_array().unwrap().iter();
    findings.map(|it| (it["code"].as_str().unwrap(), it["severity"].as_str().unwrap())).collect()
}

#[test]
fn every_finding_of_doctor_has_a_remedy() {
    let here = WithWorker::new(SOUND);
    let before = here.files();
    let (code, out, err) = here.orchestrate(&["doctor", "--json", "--look", "0s"]);
    let document = parse(&out);
    assert_eq!(err, "");
    assert_eq!(document["worker"]["versions"]["libtorch"], "2.11.0");
    assert!(document["host"]["hostname"].as_str().is_some_and(|name| !name.is_empty()));
    for finding in document["findings"].as_array().unwrap() {
        for field in ["code", "what", "why", "remedy"] {
            assert!(finding[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {finding}");
        }
    }
    let severities: Vec<usize> = findings(&document)
        .iter()
        .map(|(_, severity)| {
            ["prevents", "spoils", "limits", "note"].iter().position(|it| it == severity).unwrap()
        })
        .collect();
    assert!(severities.is_sorted(), "the worst comes first: {severities:?}");
    assert_eq!(code, i32::from(severities.contains(&0)), "only findings that prevent runs are a failure");
    assert!(findings(&document).iter().all(|(code, _)| *code != "worker"), "{out}");
    assert_eq!(here.files(), before, "looking leaves nothing behind");
}

#[test]
fn doctor_samples_the_machine() {
    let (_, out, _) = WithWorker::new(SOUND).orchestrate(&["doctor", "--json", "--look", "1ms"]);
    let document = parse(&out);
    assert!(document["activity"]["over_s"].as_f64().is_some_and(|over| over > 0.0), "{out}");
    assert!(document["activity"]["busiest"].is_array(), "{out}");
}

/// A matrix of the shipped worker.
const SHIPPED: &str =
    "name: m\nmodels: [resnet18]\nbatches: [4]\nrepeats: 3\nenvs: { cpu: { device: cpu } }\n";

#[test]
fn a_worker_that_cannot_run_is_a_failure_with_its_remedy() {
    let here = WithWorker::new("echo 'libtorch_cpu.so: cannot open shared object file' >&2; exit 127");
    fs::write(here.project.path("m.yaml"), SHIPPED).unwrap();
    let (code, out, _) = here.orchestrate(&["doctor", "m.yaml", "--look", "0s"]);
    assert_eq!(code, 1, "{out}");
    for part in [
        "system\n",
        "processor\n",
        "matrix\n  file     m.yaml\n  env cpu  4 jobs on cpu, here\n",
        "prevents  the worker does not find libtorch",
        "do:  run `./bootstrap.sh`",
    ] {
        assert!(out.contains(part), "no `{part}` in {out}");
    }
    fs::remove_file(&here.worker).unwrap();
    let (code, out, _) = here.orchestrate(&["doctor", "m.yaml", "--look", "0s"]);
    assert_eq!(code, 1, "{out}");
    let line = format!("prevents  there is no worker at {}", here.worker.display());
    assert!(out.contains(&line), "no `{line}` in {out}");
}

#[test]
fn without_a_matrix_that_needs_it_a_missing_worker_is_a_note() {
    let here = WithWorker::new(SOUND);
    fs::remove_file(&here.worker).unwrap();
    let of = |arguments: &[&str]| {
        let (_, out, _) = here.orchestrate(&[&["doctor", "--json", "--look", "0s"], arguments].concat());
        let document = parse(&out);
        let found = findings(&document);
        found.iter().find(|(code, _)| *code == "worker").map(|(_, severity)| (*severity).to_owned())
    };
    assert_eq!(of(&[]).as_deref(), Some("note"), "no matrix is known");
    here.project.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(of(&[]).as_deref(), Some("note"), "the saved plan has a custom worker");
    assert_eq!(of(&["t.yaml"]), None, "the matrix has a custom worker");
    fs::write(here.project.path("m.yaml"), SHIPPED).unwrap();
    assert_eq!(of(&["m.yaml"]).as_deref(), Some("prevents"));
}

#[test]
fn doctor_checks_the_needs_of_a_matrix() {
    let here = WithWorker::new(SOUND);
    let matrix = "name: m\nmodels: [toy]\nbatches: [4]\nparams: { data: { folder: no/images } }\nenvs:\n\
                  \x20 here: { device: cpu, peaks: no-such-peaks }\n  there: { device: cpu, host: another }\n\
                  worker: { command: [no-such-program, no-such-script.py, \"{batch}\", \"{data}\"] }\n";
    fs::write(here.project.path("m.yaml"), matrix).unwrap();
    let (code, out, _) = here.orchestrate(&["doctor", "m.yaml", "--json", "--look", "0s"]);
    assert_eq!(code, 1, "{out}");
    let document = parse(&out);
    let found = findings(&document);
    for finding in [
        ("command", "prevents"),
        ("data", "prevents"),
        ("script", "limits"),
        ("peaks", "limits"),
        ("not_here", "note"),
    ] {
        assert!(found.contains(&finding), "no {finding:?} in {found:?}");
    }
    let (_, text, _) = here.orchestrate(&["doctor", "m.yaml", "--look", "0s"]);
    for part in [
        "the worker of env `here` cannot be started: there is no program `no-such-program` on the PATH",
        "`orchestrate dataset make no/images` generates one",
        "env `there` does not run on this host: the env `there` belongs on the host another, but this is",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let (code, _, err) = here.orchestrate(&["doctor", "no.yaml"]);
    assert_eq!(code, 3, "{err}");
}

#[test]
fn a_store_that_is_a_file_is_a_failure() {
    let here = WithWorker::new(SOUND);
    fs::write(here.project.path("runs"), "").unwrap();
    let (code, out, _) = here.orchestrate(&["doctor", "--json", "--look", "0s"]);
    assert_eq!(code, 1, "{out}");
    assert!(findings(&parse(&out)).contains(&("store", "prevents")), "{out}");
}

#[test]
fn env_writes_both_files_and_names_them() {
    let here = WithWorker::new(SOUND);
    here.project.orchestrate(&["run", "t.yaml"]).code(0);
    let (code, out, err) = here.orchestrate(&["env"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "wrote report/env_info.md\nwrote report/system.json\n");
    let page = fs::read_to_string(here.project.path("report/env_info.md")).unwrap();
    for part in
        ["## System\n", "## Processor\n", "| libtorch | 2.11.0", "```sh\norchestrate run t.yaml\n```\n"]
    {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    let system = parse(&fs::read_to_string(here.project.path("report/system.json")).unwrap());
    assert_eq!(system["schema"], 1);
    let host: HostFacts = serde_json::from_value(system["host"].clone()).unwrap();
    let recorded = here.project.record().provenance.host.clone();
    assert_eq!(
        (host.hostname, host.cpu, host.gpus),
        (recorded.hostname.clone(), recorded.cpu.clone(), recorded.gpus.clone())
    );
}

#[test]
fn env_prints_or_writes_elsewhere() {
    let here = WithWorker::new(SOUND);
    let before = here.files();
    let (code, out, _) = here.orchestrate(&["env", "--json"]);
    assert_eq!((code, &parse(&out)["schema"]), (0, &1.into()));
    assert_eq!(here.files(), before, "--json writes nothing");
    let (code, out, _) = here.orchestrate(&["env", "--out", "logs/here"]);
    assert_eq!((code, out.as_str()), (0, "wrote logs/here/env_info.md\nwrote logs/here/system.json\n"));
    assert!(here.project.path("logs/here/system.json").is_file());
    let (code, _, err) = here.orchestrate(&["env", "--json", "--out", "x"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn env_that_cannot_write_gives_the_reason_and_a_remedy() {
    let here = WithWorker::new(SOUND);
    fs::write(here.project.path("taken"), "").unwrap();
    let (code, out, err) = here.orchestrate(&["env", "--out", "taken/below"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(
        err,
        "error: cannot create the directory taken/below\n  caused by: Not a directory (os error 20)\n\n\
         hint: choose another directory with `--out DIR`\n"
    );
    fs::create_dir_all(here.project.path("report/system.json")).unwrap();
    let (code, _, err) = here.orchestrate(&["env"]);
    assert_eq!(code, 1, "{err}");
    for part in [
        "error: cannot write report/system.json\n  caused by: ",
        "\n\nhint: choose another directory with `--out DIR`",
    ] {
        assert!(err.contains(part), "no `{part}` in {err}");
    }
}

/// The output of `doctor --json` with this value of `ORCHESTRATE_PERF`.
fn doctor_where_perf_is(here: &WithWorker, perf: &Path) -> Value {
    let mut command = here.project.command(&["doctor", "--json", "--look", "0s"]);
    let output = command.env("ORCHESTRATE_WORKER", &here.worker).env("ORCHESTRATE_PERF", perf).output();
    parse(&String::from_utf8(output.unwrap().stdout).unwrap())
}

#[test]
fn doctor_and_run_find_the_same_profiler() {
    let here = WithWorker::new(SOUND);
    let other = WithWorker::new("echo perf version 42.0");
    let document = doctor_where_perf_is(&here, &other.worker);
    assert_eq!(document["perf"]["path"], other.worker.display().to_string());
    assert_eq!(document["perf"]["version"], "42.0");
    let gone = here.project.path("gone");
    let document = doctor_where_perf_is(&here, &gone);
    assert_eq!(document["perf"]["path"], gone.display().to_string());
    assert_eq!(document["perf"]["problem"], "ORCHESTRATE_PERF names it, but it does not exist");
}
