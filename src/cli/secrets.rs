//! The values of secret variables. They are in no file of the store, so every run of a plan finds them again.

use std::collections::BTreeSet;
use std::env::VarError;
use std::path::Path;

use super::load::load_matrix;
use super::output::say;
use super::{Exit, Failure, Global};
use crate::host::Programs;
use crate::job::Name;
use crate::matrix::{Matrix, Secret};
use crate::plan::{Decided, Plan, PlannedEnv, Secrets};

/// The secrets of the jobs of `decided` that run: the values that the matrix file has now, and those of orchestrate's
/// own environment for the others.
///
/// # Errors
/// Exit 1 with the names of all variables without a value, or whose values are not UTF-8.
pub(super) fn load_secrets(plan: &Plan, decided: &[Decided]) -> Result<Secrets, Failure> {
    if wanted(plan, decided).is_empty() {
        return Ok(Secrets::new());
    }
    // Without a file, or with mistakes in it, the environment can still have them.
    let matrix = load_matrix(Path::new(&plan.matrix.path)).ok().map(|(matrix, _)| matrix);
    find_secrets(plan, decided, matrix.as_ref())
}

/// Prints which variables of the environment are treated as secrets of the workers of `decided` without a declaration,
/// and why.
pub(super) fn report_guarded(plan: &Plan, decided: &[Decided], programs: &Programs, global: &Global) {
    let ambient = &programs.surroundings().ambient;
    let guarded = running(plan, decided).flat_map(|(_, planned)| planned.guarded(ambient));
    let names: BTreeSet<&String> = guarded.map(|(name, _)| name).collect();
    for name in names.into_iter().filter(|_| !global.quiet) {
        say(&format!(
            "note: ${name} contains a password, so it is treated as a secret: workers get it, and it is written \
             nowhere"
        ));
    }
}

/// The envs with jobs of `decided` that run.
fn running<'p>(plan: &'p Plan, decided: &[Decided]) -> impl Iterator<Item = (&'p Name, &'p PlannedEnv)> {
    let runs = |env: &Name| decided.iter().any(|it| it.decision.runs() && it.job.key().env == *env);
    plan.envs.iter().filter(move |(env, _)| runs(env))
}

/// The secret variables of the jobs of `decided` that run, each with its env.
fn wanted<'p>(plan: &'p Plan, decided: &[Decided]) -> Vec<(&'p Name, &'p String)> {
    running(plan, decided).flat_map(|(env, planned)| planned.secrets().map(move |name| (env, name))).collect()
}

/// The same as [`load_secrets`], given the `matrix`.
///
/// # Errors
/// As [`load_secrets`].
#[expect(clippy::disallowed_methods, reason = "secrets without a value in the matrix are in the environment")]
pub(super) fn find_secrets(
    plan: &Plan,
    decided: &[Decided],
    matrix: Option<&Matrix>,
) -> Result<Secrets, Failure> {
    let mut secrets = Secrets::new();
    let mut missing: BTreeSet<&str> = BTreeSet::new();
    let mut unreadable: BTreeSet<&str> = BTreeSet::new();
    for (env, name) in wanted(plan, decided) {
        let declared = matrix.and_then(|matrix| declared(matrix, env, name));
        match declared.map_or_else(|| std::env::var(name).map(Secret::new), Ok) {
            Ok(value) => drop(secrets.entry(env.clone()).or_default().insert(name.clone(), value)),
            Err(VarError::NotPresent) => _ = missing.insert(name),
            Err(VarError::NotUnicode(_)) => _ = unreadable.insert(name),
        }
    }
    match (missing.is_empty(), unreadable.is_empty()) {
        (true, true) => Ok(secrets),
        (false, _) => Err(no_value(&missing, plan)),
        (true, false) => Err(no_text(&unreadable)),
    }
}

/// The value of the secret `name` in `matrix`.
fn declared(matrix: &Matrix, env: &Name, name: &str) -> Option<Secret> {
    let env = matrix.envs.iter().find(|found| found.name == *env)?;
    env.variables.secret.get(name)?.clone()
}

fn no_value(missing: &BTreeSet<&str>, plan: &Plan) -> Failure {
    let (is, value) = if missing.len() == 1 { ("is", "a value") } else { ("are", "values") };
    let text = format!(
        "{} {is} secret, and neither {} nor the environment of orchestrate has {value}",
        dollars(missing),
        plan.matrix.path
    );
    Failure::new(Exit::Unexpected, text).hint(export(missing))
}

fn no_text(unreadable: &BTreeSet<&str>) -> Failure {
    let (its, value_is) = if unreadable.len() == 1 { ("its", "value is") } else { ("their", "values are") };
    let text = format!(
        "{}: {its} {value_is} not UTF-8 in the environment of orchestrate, and cannot be passed on",
        dollars(unreadable)
    );
    Failure::new(Exit::Unexpected, text).hint(export(unreadable))
}

fn dollars(names: &BTreeSet<&str>) -> String {
    names.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ")
}

fn export(names: &BTreeSet<&str>) -> String {
    let exports: Vec<String> = names.iter().map(|name| format!("{name}=…")).collect();
    format!("type `export {}`, then the same command again", exports.join(" "))
}
