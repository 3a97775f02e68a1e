//! Completions in a real shell, by the printed script.

use std::fs;
use std::process::Command;

use crate::harness::{Project, Running};

/// The completions that bash offers for the last of `words`.
fn offered(project: &Project, words: &[&str]) -> Vec<String> {
    let orchestrate = env!("CARGO_BIN_EXE_orchestrate");
    let script = "eval \"$(orchestrate completions bash)\"\n\
                  COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMP_TYPE=9\n\
                  _clap_complete_orchestrate orchestrate \"${COMP_WORDS[COMP_CWORD]}\"\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    let mut bash = project.in_environment(Command::new("bash"));
    bash.args(["--norc", "-c", script, "bash", "orchestrate"]).args(words);
    let directory = std::path::Path::new(orchestrate).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::iter::once(directory.to_owned()).chain(std::env::split_paths(&path));
    bash.env("PATH", std::env::join_paths(path).unwrap());
    let ended = Running::start(bash).wait().code(0);
    assert_eq!(ended.stderr, "", "the user is typing");
    ended.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_offers_the_words_of_the_project() {
    let yaml = "name: m\nmodels: [vgg16, alexnet]\nbatches: [4]\nrepeats: 1\nlimits: { retries: 0 }\n\
                worker: { command: [sh, -c, exit 3] }\nenvs: { far: { device: cpu }, fast: { device: cpu } }\n";
    let project = Project::new().and_yaml(yaml);
    assert_eq!(offered(&project, &["run", "m.yaml", "--env", "f"]), ["far", "fast"]);
    assert_eq!(offered(&project, &["check", "m"]), ["m.yaml"]);
    assert_eq!(offered(&project, &["sh"]), ["show"]);
    assert!(!project.path("runs").exists(), "it writes nothing");

    project.orchestrate(&["run", "m.yaml"]).code(10);
    let jobs = ["far_alexnet_fp32_bs4_run1", "far_vgg16_fp32_bs4_run1"];
    assert_eq!(offered(&project, &["logs", "far"]), jobs);
    assert_eq!(offered(&project, &["status", "--store", "=", "runs", "--model", "v"]), ["vgg16"]);
    assert_eq!(offered(&project, &["resume", "m"]), ["m"]);

    // Unreadable files add no completions and no errors.
    fs::write(project.path("m.yaml"), "name: [").unwrap();
    fs::write(project.path("runs/.plans/m.json"), "").unwrap();
    assert_eq!(offered(&project, &["run", "m.yaml", "--env", "f"]), [""; 1]);
    assert_eq!(offered(&project, &["logs", "far"]), jobs, "from their directories");
}
