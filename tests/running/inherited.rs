//! Variables that a worker inherits from the environment of `orchestrate`, and the effect of changes on results.

use std::process::Command;

use crate::harness::{Ended, Project, Running, own_worker};

/// A matrix whose env has the further keys `env`.
fn matrix(repeats: u32, env: &str) -> String {
    own_worker("", &[], &format!("repeats: {repeats}"), env)
}

/// `orchestrate` with these arguments and variables, without any others that workers inherit as settings.
fn orchestrate(project: &Project, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    Running::start(command(project, arguments, variables)).wait()
}

fn command(project: &Project, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = project.command(arguments);
    for (name, _) in std::env::vars_os() {
        let is_ours = |name: &str| ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"].contains(&name);
        if !name.to_str().is_some_and(is_ours) {
            command.env_remove(name);
        }
    }
    command.env("ORCHESTRATE_LOCK_DIR", project.path("locks")).envs(variables.iter().copied());
    command
}

#[test]
fn a_worker_inherits_only_the_listed_variables() {
    let yaml = matrix(1, ", variables: { OMP_SCHEDULE: static }, pass: [MY_DATA, \"WANDB_*\"]");
    let project = Project::new().and_yaml(&yaml);
    let ours = [
        ("CONDA_PREFIX", "/conda"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("HF_HOME", "/hf"),
        ("HF_TOKEN", "hush"),
        ("LC_ALL", "C.UTF-8"),
        ("MY_DATA", "/data"),
        ("MY_DATA2", "/data2"),
        ("OMP_PROC_BIND", "close"),
        ("OMP_SCHEDULE", "dynamic"),
        ("ONEDNN_DEFAULT_FPMATH_MODE", "BF16"),
        ("PYTHONPATH", "/lib"),
        ("WANDB_API_KEY", "hush"),
        ("WANDB_MODE", "offline"),
    ];
    orchestrate(&project, &["run", "m.yaml"], &ours).code(0);
    let record = project.records().remove(0);
    let recorded = |name: &str| record.provenance.environment.get(name).map(String::as_str);
    for (name, expected) in [
        ("CONDA_PREFIX", Some("/conda")),
        ("CUDA_VISIBLE_DEVICES", Some("")),
        ("HF_HOME", Some("/hf")),
        ("HF_TOKEN", None),
        ("LC_ALL", Some("C")),
        ("MY_DATA", Some("/data")),
        ("MY_DATA2", None),
        ("OMP_PROC_BIND", Some("close")),
        ("OMP_SCHEDULE", Some("static")),
        ("ONEDNN_DEFAULT_FPMATH_MODE", None),
        ("PYTHONPATH", Some("/lib")),
        ("WANDB_API_KEY", None),
        ("WANDB_MODE", Some("offline")),
    ] {
        assert_eq!(recorded(name), expected, "{name}");
    }
}

#[test]
fn a_setting_of_the_shell_makes_jobs_stale_and_splits_their_row() {
    let project = Project::new().and_yaml(&matrix(1, ", pass: [NAP]"));
    let first = [("HF_HOME", "/a"), ("NAP", "0.2"), ("OMP_WAIT_POLICY", "active")];
    orchestrate(&project, &["run", "m.yaml"], &first).code(0);
    let why = |variables: &[(&str, &str)]| {
        let plan = orchestrate(&project, &["plan", "m.yaml", "--json"], variables).json();
        plan["jobs"][0]["why"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(why(&first), "");
    assert_eq!(why(&[("HF_HOME", "/b"), ("NAP", "0.2"), ("OMP_WAIT_POLICY", "active")]), "");
    let second = [("MKL_DYNAMIC", "TRUE"), ("NAP", "0.3")];
    assert_eq!(
        why(&second),
        "$MKL_DYNAMIC not set → TRUE; $NAP 0.2 → 0.3; $OMP_WAIT_POLICY active → not set"
    );

    // A variable that is no longer declared is inherited again.
    let declared = Project::new().and_yaml(&matrix(1, ", variables: { TMPDIR: /tmp, TZ: UTC }"));
    orchestrate(&declared, &["run", "m.yaml"], &[]).code(0);
    let declared = declared.and_yaml(&matrix(1, ""));
    let plan = orchestrate(&declared, &["plan", "m.yaml", "--json"], &[("TMPDIR", "/var/tmp")]).json();
    assert_eq!(plan["jobs"][0]["why"], "$TMPDIR /tmp → /var/tmp; $TZ UTC → not set");

    let project = project.and_yaml(&matrix(2, ", pass: [NAP]"));
    orchestrate(&project, &["run", "m.yaml"], &second).code(0);
    let status = orchestrate(&project, &["status", "--json"], &second).json();
    let groups = status["configs"][0]["throughput"].as_array().unwrap();
    let differences = [
        "$MKL_DYNAMIC not set / TRUE".to_owned(),
        "$NAP 0.2 / 0.3".to_owned(),
        "$OMP_WAIT_POLICY active / not set".to_owned(),
    ];
    assert_eq!(groups[1]["differences"], serde_json::json!(differences), "{status}");
}

#[test]
fn a_secret_that_becomes_inherited_is_still_set() {
    let variables = [("NAP", "0.2")];
    let why = |before: &str, now: &str| {
        let project = Project::new().and_yaml(&matrix(1, &format!(", {before}: [NAP]")));
        orchestrate(&project, &["run", "m.yaml"], &variables).code(0);
        let project = project.and_yaml(&matrix(1, &format!(", {now}: [NAP]")));
        let plan = orchestrate(&project, &["plan", "m.yaml", "--json"], &variables).json();
        plan["jobs"][0]["why"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(why("secret", "pass"), "");
    assert_eq!(why("pass", "secret"), "");
}

#[test]
fn variables_withheld_from_a_failed_worker_are_listed() {
    let yaml = |reason: &str| {
        format!(
            "name: m\nmodels: [m]\nbatches: [4, 8]\nrepeats: 1\nlimits: {{ retries: 0 }}\n\
             worker: {{ command: [sh, -c, \"echo {reason} >&2; exit 1\"], result: json }}\n\
             envs: {{ cpu: {{ device: cpu }} }}\n"
        )
    };
    let variables = [("DATA_ROOT", "/data"), ("HF_TOKEN", "hush"), ("TERM", "dumb")];
    let run = |reason: &str| {
        let project = Project::new().and_yaml(&yaml(reason));
        let stderr = orchestrate(&project, &["run", "m.yaml"], &variables).stderr;
        stderr.lines().filter(|line| line.contains("$")).map(str::to_owned).collect::<Vec<_>>()
    };
    let named = "note: $DATA_ROOT is set in your environment, but not passed on to the worker of env `cpu`: list it \
                 under `pass`";
    assert_eq!(run("KeyError: DATA_ROOT"), [named], "once, though two jobs fail");
    let all = "note: the worker of env `cpu` does not get these variables of your environment: $HF_TOKEN, $DATA_ROOT; \
               if it needs one, list it under `pass` of the env, or under `secret`";
    assert_eq!(run("KeyError"), [all]);
}
