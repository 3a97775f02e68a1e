//! Changed variables: the environment that a worker ran in, compared with what its env declares now.
//!
//! A key does not contain the `variables` of an env, but they can affect results, so changing them makes a job stale.
//! They are declared, not found on a host, so the host of the record does not matter.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::change::{Change, NOT_SET};
use super::invocation::{OUTPUT_VARIABLES, PASSED_ON, own_variables};
use crate::record::{Record, looks_secret};
use crate::shared::Shared;

/// The value of a variable that workers inherit from the environment of `orchestrate`.
const NOT_DECLARED: &str = "not declared";

/// The differences between the variables of the run of `record` and those `declared` now, by name.
///
/// A record of an older version does not tell which variables were declared. An inherited one might have been, so it is
/// compared only if it is declared now.
pub(super) fn variable_changes(record: &Record, declared: &BTreeMap<String, String>) -> Vec<Change> {
    let ours = own_variables(&record.key);
    let had = &record.provenance.environment;
    let then = declared_then(record, &ours);
    let names: BTreeSet<&String> = declared.keys().chain(then.iter()).collect();
    let change = |name: &String| {
        let (from, to) = (had.get(name), declared.get(name).or_else(|| ours.get(name)));
        // It was declared, but the record lacks its value.
        let is_unknown = from.is_none() && then.contains(name);
        let gone = if PASSED_ON.contains(&name.as_str()) { NOT_DECLARED } else { NOT_SET };
        (from != to && !is_unknown).then(|| Change {
            what: format!("${name}"),
            from: from.map_or_else(|| NOT_SET.to_owned(), |value| written(record, name, value)),
            to: to.map_or_else(|| gone.to_owned(), |value| written(record, name, value)),
        })
    };
    names.into_iter().filter(|name| !OUTPUT_VARIABLES.contains(&name.as_str())).filter_map(change).collect()
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

/// The value of a variable for storing and printing. A secret becomes a digest, which only shows whether the same
/// variable of the same job has changed.
fn written(record: &Record, name: &str, value: &str) -> String {
    if !looks_secret(name) {
        return value.to_owned();
    }
    let digest = Sha256::digest(format!("{}\0{name}\0{value}", record.id));
    format!("hidden {}", hex::encode(&digest[..6]))
}
