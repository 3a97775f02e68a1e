//! Findings about a matrix: its needs that this host does not meet. Pure.

use super::super::demand::{Demand, EnvDemand, MatrixDemand};
use super::super::finding::{Finding, Severity};
use crate::plan::quote;

/// The findings about the matrix of `demand`; none without a matrix.
pub(super) fn matrix(demand: &Demand) -> Vec<Finding> {
    let Some(matrix) = &demand.matrix else { return Vec::new() };
    let nowhere = matrix.envs.iter().all(|env| env.not_here.is_some());
    let severity = if nowhere { Severity::Prevents } else { Severity::Note };
    let mut found = Vec::new();
    for env in &matrix.envs {
        found.extend(not_here(env, severity));
        found.extend(env.broken_commands.iter().map(|why| command(env, why, &matrix.file)));
        found.extend(env.missing_scripts.iter().map(|script| missing_script(env, script)));
        found.extend(env.missing_data.iter().map(|folder| data(env, folder)));
        found.extend(peaks(env, matrix));
        found.extend(other_place(env, &matrix.file));
    }
    found
}

fn not_here(env: &EnvDemand, severity: Severity) -> Option<Finding> {
    let why = env.not_here.as_ref()?;
    Some(Finding {
        code: "not_here",
        severity,
        what: format!("env `{}` does not run on this host: {why}", env.name),
        why: "its jobs are not here: a run on this host skips them",
        remedy: "run the matrix on a host that has it too, or correct the env's `device`, `host` or `os`"
            .to_owned(),
    })
}

fn command(env: &EnvDemand, why: &str, file: &str) -> Finding {
    Finding {
        code: "command",
        severity: Severity::Prevents,
        what: format!("the worker of env `{}` cannot be started: {why}", env.name),
        why: "no job of it can run",
        remedy: format!("install the program, or correct the first word of `worker.command` in {file}"),
    }
}

fn missing_script(env: &EnvDemand, script: &str) -> Finding {
    Finding {
        code: "script",
        severity: Severity::Limits,
        what: format!("the worker of env `{}` names `{script}`, which does not exist here", env.name),
        why: "paths start from the current directory, and a worker without its script fails",
        remedy: "change to the directory with the script, or write its whole path into `worker.command`"
            .to_owned(),
    }
}

fn data(env: &EnvDemand, folder: &str) -> Finding {
    Finding {
        code: "data",
        severity: Severity::Prevents,
        what: format!("the data folder {folder} of env `{}` does not exist", env.name),
        why: "a run stops before its first job; paths start from the current directory",
        remedy: format!("`orchestrate dataset make {}` generates one", quote(folder)),
    }
}

fn peaks(env: &EnvDemand, matrix: &MatrixDemand) -> Option<Finding> {
    let why = env.no_peaks.as_ref()?;
    // One measurement is enough for all envs of a device.
    let first =
        matrix.envs.iter().find(|other| other.device == env.device && other.no_peaks == env.no_peaks)?;
    (first.name == env.name).then(|| Finding {
        code: "peaks",
        severity: Severity::Limits,
        what: format!("env `{}` has no peaks: {why}", env.name),
        why: "without them, the report has no roofline and no share of the peak",
        remedy: format!("`orchestrate peaks measure --device {}`, before the report", env.device),
    })
}

fn other_place(env: &EnvDemand, file: &str) -> Option<Finding> {
    let what = env.other_place.as_ref()?;
    Some(Finding {
        code: "cloud",
        severity: Severity::Note,
        what: format!("env `{}` {what}", env.name),
        why: "records contain what the machine reports, and a matrix that differs from it misleads its readers",
        remedy: format!(
            "correct `cloud` of the env in {file}, or name the machine that it is for with `host: HOSTNAME`"
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn env(name: &str, change: impl FnOnce(&mut EnvDemand)) -> EnvDemand {
        let mut env = EnvDemand {
            name: name.into(),
            device: "cpu".into(),
            jobs: 3,
            not_here: None,
            broken_commands: BTreeSet::new(),
            missing_scripts: BTreeSet::new(),
            missing_data: BTreeSet::new(),
            no_peaks: None,
            other_place: None,
            elsewhere: None,
        };
        change(&mut env);
        env
    }

    fn found(envs: Vec<EnvDemand>) -> Vec<(&'static str, Severity)> {
        let matrix_demand = MatrixDemand { file: "m.yaml".into(), envs };
        let findings = matrix(&Demand { shipped_worker: false, matrix: Some(matrix_demand) });
        findings.into_iter().map(|finding| (finding.code, finding.severity)).collect()
    }

    fn one(word: &str) -> BTreeSet<String> {
        BTreeSet::from([word.to_owned()])
    }

    #[test]
    fn available_things_are_not_findings() {
        assert_eq!(found(vec![env("a", |_| {})]), []);
        assert_eq!(matrix(&Demand::default()), []);
    }

    #[test]
    fn each_missing_thing_is_found() {
        let lacking = env("a", |env| {
            env.broken_commands = one("there is no program `x` on the PATH");
            env.missing_scripts = one("train.py");
            env.missing_data = one("data/x");
            env.no_peaks = Some("there are no peaks `y`".into());
            env.other_place =
                Some("declares the zone a, but this machine's metadata service reports b".into());
        });
        let expected = [
            ("command", Severity::Prevents),
            ("script", Severity::Limits),
            ("data", Severity::Prevents),
            ("peaks", Severity::Limits),
            ("cloud", Severity::Note),
        ];
        assert_eq!(found(vec![lacking]), expected);
    }

    #[test]
    fn an_env_of_another_host_prevents_runs_only_if_all_are() {
        let elsewhere = |name| env(name, |env| env.not_here = Some("no".into()));
        assert_eq!(found(vec![elsewhere("a"), env("b", |_| {})]), [("not_here", Severity::Note)]);
        let nowhere = found(vec![elsewhere("a"), elsewhere("b")]);
        assert_eq!(nowhere, [("not_here", Severity::Prevents); 2]);
    }

    #[test]
    fn missing_peaks_are_reported_once_per_device() {
        let without = |name| env(name, |env| env.no_peaks = Some("not measured".into()));
        assert_eq!(found(vec![without("a"), without("b")]), [("peaks", Severity::Limits)]);
    }
}
