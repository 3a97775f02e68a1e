//! Changed variables: the environment that a worker ran in, compared with what its env declares now.
//!
//! A key does not contain the `variables` of an env, but they can affect results, so changing them makes a job stale.
//! They are declared, not found on a host, so the host of the record does not matter.

use std::collections::{BTreeMap, BTreeSet};

use super::PlannedEnv;
use super::change::{Change, NOT_SET};
use super::invocation::{OUTPUT_VARIABLES, own_variables};
use crate::record::{PASSED_ON, Record, SET};
use crate::shared::Shared;

/// The value of a variable that workers inherit from the environment of `orchestrate`.
const NOT_DECLARED: &str = "not declared";

/// The differences between the variables of the run of `record` and those `declared` now, by name.
///
/// A record of an older version does not tell which variables were declared. An inherited one might have been, so it is
/// compared only if it is declared now.
///
/// Of a secret it is compared whether it is set, since its value is not known.
pub(super) fn variable_changes(record: &Record, env: &PlannedEnv) -> Vec<Change> {
    let ours = own_variables(&record.key);
    let had = &record.provenance.environment;
    let then = declared_then(record, &ours);
    let names = env.variable_names();
    let is_secret =
        |name: &String| env.secrets().any(|secret| secret == name) || record.provenance.is_secret(name);
    let change = |name: &String| {
        let now = env.variables.get(name).or_else(|| ours.get(name)).map(String::as_str);
        let (from, to) = match is_secret(name) {
            true => (had.get(name).map(|_| SET), names.contains(name).then_some(SET)),
            false => (had.get(name).map(String::as_str), now),
        };
        // It was declared, but the record lacks its value.
        let is_unknown = from.is_none() && then.contains(name);
        let gone = if PASSED_ON.contains(&name.as_str()) { NOT_DECLARED } else { NOT_SET };
        (from != to && !is_unknown).then(|| Change {
            what: format!("${name}"),
            from: from.unwrap_or(NOT_SET).to_owned(),
            to: to.unwrap_or(gone).to_owned(),
        })
    };
    let all: BTreeSet<&String> = names.iter().chain(then.iter()).collect();
    all.into_iter().filter(|name| !OUTPUT_VARIABLES.contains(&name.as_str())).filter_map(change).collect()
}

/// The names of the variables that were declared when `record` was made, if it tells them.
fn declared_then(record: &Record, ours: &BTreeMap<String, String>) -> Shared<BTreeSet<String>> {
    if let Some(names) = &record.provenance.variables {
        return names.clone();
    }
    let is_declared = |name: &String, value: &String| {
        !PASSED_ON.contains(&name.as_str())
            && !OUTPUT_VARIABLES.contains(&name.as_str())
            && ours.get(name) != Some(value)
    };
    let environment = record.provenance.environment.iter();
    let names = environment.filter(|(name, value)| is_declared(name, value)).map(|(name, _)| name.clone());
    Shared::new(names.collect())
}
