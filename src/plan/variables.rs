//! Changed variables: the environment that a worker ran in, compared with what it would be now.
//!
//! A key does not contain the variables of a worker, but they can affect results, so changing them makes a job stale.
//! Those that its env declares are the same on every host. Those that it inherits belong to the host, and to the shell
//! from which `orchestrate` is called.

use std::collections::{BTreeMap, BTreeSet};

use super::PlannedEnv;
use super::change::{Change, NOT_SET};
use super::invocation::{OUTPUT_VARIABLES, own_variables};
use crate::job::WorkerTemplate;
use crate::record::{Bearing, CudaEntries, Record, SET, bearing, bearing_on, looks_secret, passes};
use crate::shared::Shared;

/// The value of a variable that workers inherit from the environment of `orchestrate`, if that is not known.
const NOT_DECLARED: &str = "not declared";

/// What workers inherited before their records told which variables were declared.
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
/// A record of an older version does not tell which variables were declared. An inherited one might have been, so it is
/// compared only if it is declared now.
///
/// Of a secret it is compared whether it is set, since its value is not known. What is inherited is compared if it is a
/// setting of a library that the job's worker has ([`Bearing::Setting`]), or if the env passes it on.
pub(super) fn variable_changes(
    record: &Record,
    env: &PlannedEnv,
    ambient: Option<&BTreeMap<String, String>>,
) -> Vec<Change> {
    // No env can declare which GPU is visible, and a record that does not tell what was declared has the GPU's index.
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
        let of_record = had.keys().filter(|name| !is_kept_back(record, name) && is_told(record, name));
        let now = ambient.keys().filter(|name| passes(name, &env.pass));
        let inherited = of_record.chain(now).filter(|name| !ours.contains_key(*name));
        inherited.filter(|name| is_setting(&record.key.worker, name))
    });
    let all: BTreeSet<&String> = names.iter().chain(then.iter()).chain(inherited).collect();
    all.into_iter().filter(|name| !OUTPUT_VARIABLES.contains(&name.as_str())).filter_map(change).collect()
}

/// Whether the inherited variable `name` can affect results of `worker` by itself.
fn is_setting(worker: &WorkerTemplate, name: &str) -> bool {
    bearing_on(worker, name).is_none_or(|bearing| bearing == Bearing::Setting)
}

/// Whether its name alone makes the variable `name` of `record` a secret. Such a variable is no longer inherited.
fn is_kept_back(record: &Record, name: &str) -> bool {
    looks_secret(name) && record.provenance.is_secret(name)
}

/// Whether `record` tells that its worker inherited the variable `name`, if it was not declared. Records that do not
/// tell which variables were declared are of versions without `pass`.
fn is_told(record: &Record, name: &str) -> bool {
    record.provenance.variables.is_some() || bearing(name).is_some()
}

/// The names of the variables that were declared when `record` was made, if it tells them.
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
