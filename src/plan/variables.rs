//! Changed variables: compares the environment that a worker ran in with its present one.
//!
//! A key does not contain the variables of a worker, but they can affect results, so changing them makes a job stale.
//! Variables declared by the env are the same on every host. Inherited ones depend on the host, and on the shell from
//! which `orchestrate` is called.

use std::collections::{BTreeMap, BTreeSet};

use super::PlannedEnv;
use super::change::{Change, NOT_SET};
use super::invocation::{OUTPUT_VARIABLES, own_variables};
use crate::job::WorkerTemplate;
use crate::record::{CudaEntries, Influence, Record, SET, influence, influence_on, looks_secret, passes};
use crate::shared::Shared;

/// The value of a variable that workers inherit from the environment of `orchestrate`, if that is not known.
const NOT_DECLARED: &str = "not declared";

/// The variables that workers inherited before records contained the declared names.
const FIRST_INHERITED: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "CUDA_HOME",
];

/// The differences between the variables of the run of `record` and those that its worker would get now, by name.
/// `ambient` is the environment of `orchestrate`, if it can be compared: it is that of the record's host.
///
/// A record of an older version does not contain the names of declared variables. An inherited one might have been
/// declared, so it is compared only if it is declared now.
///
/// For a secret, only its presence is compared, since its value is not known. An inherited variable is compared if it
/// is a setting of a library that the job's worker has ([`Influence::Setting`]), or if the env passes it on.
pub(super) fn variable_changes(
    record: &Record,
    env: &PlannedEnv,
    ambient: Option<&BTreeMap<String, String>>,
) -> Vec<Change> {
    // An env cannot declare the visible GPU, and a record without the names of declared variables has the GPU's index.
    let ours = own_variables(&record.key, &CudaEntries::default());
    let had = &record.provenance.environment;
    let then = declared_then(record, &ours);
    let names = env.variable_names();
    let guarded: BTreeSet<&String> =
        ambient.into_iter().flat_map(|ambient| env.guarded(ambient)).map(|(name, _)| name).collect();
    let is_secret = |name: &String| {
        env.secrets().any(|secret| secret == name)
            || guarded.contains(name)
            || record.provenance.is_secret(name)
    };
    let inherits = |name: &String| {
        ambient.and_then(|ambient| ambient.get(name)).filter(|_| passes(name, &env.pass)).map(String::as_str)
    };
    let change = |name: &String| {
        let declared = env.variables.get(name).or_else(|| ours.get(name)).map(String::as_str);
        let now = declared.or_else(|| inherits(name));
        let (from, to) = match is_secret(name) {
            true => (had.get(name).map(|_| SET), (names.contains(name) || now.is_some()).then_some(SET)),
            false => (had.get(name).map(String::as_str), now),
        };
        // It was declared, but the record lacks its value.
        let is_unknown = from.is_none() && then.contains(name);
        let gone = if ambient.is_none() && passes(name, &env.pass) { NOT_DECLARED } else { NOT_SET };
        (from != to && !is_unknown).then(|| Change {
            what: format!("${name}"),
            from: from.unwrap_or(NOT_SET).to_owned(),
            to: to.unwrap_or(gone).to_owned(),
        })
    };
    let inherited = ambient.into_iter().flat_map(|ambient| {
        let of_record = had.keys().filter(|name| !has_secret_name(record, name) && is_recorded(record, name));
        let now = ambient.keys().filter(|name| passes(name, &env.pass));
        let inherited = of_record.chain(now).filter(|name| !ours.contains_key(*name));
        inherited.filter(|name| is_setting(&record.key.worker, name))
    });
    let all: BTreeSet<&String> = names.iter().chain(then.iter()).chain(inherited).collect();
    all.into_iter().filter(|name| !OUTPUT_VARIABLES.contains(&name.as_str())).filter_map(change).collect()
}

/// Whether the inherited variable `name` can directly affect results of `worker`.
fn is_setting(worker: &WorkerTemplate, name: &str) -> bool {
    influence_on(worker, name).is_none_or(|influence| influence == Influence::Setting)
}

/// Whether the variable `name` of `record` is secret because of its name. Such a variable is no longer inherited.
fn has_secret_name(record: &Record, name: &str) -> bool {
    looks_secret(name) && record.provenance.is_secret(name)
}

/// Whether `record` shows that its worker inherited the variable `name`, if it was not declared. Records without the
/// names of declared variables are of versions without `pass`.
fn is_recorded(record: &Record, name: &str) -> bool {
    record.provenance.variables.is_some() || influence(name).is_some()
}

/// The names of the variables that were declared when `record` was made, if it contains them.
fn declared_then(record: &Record, ours: &BTreeMap<String, String>) -> Shared<BTreeSet<String>> {
    if let Some(names) = &record.provenance.variables {
        return names.clone();
    }
    let is_declared = |name: &String, value: &String| {
        !FIRST_INHERITED.contains(&name.as_str())
            && !OUTPUT_VARIABLES.contains(&name.as_str())
            && ours.get(name) != Some(value)
    };
    let environment = record.provenance.environment.iter();
    let names = environment.filter(|(name, value)| is_declared(name, value)).map(|(name, _)| name.clone());
    Shared::new(names.collect())
}
