//! Changed variables: the environment that a worker ran in, compared with what its env declares now.
//!
//! A key does not hold the `variables` of an env, but people tune with them, so changing them makes a job stale. They
//! are declared, not found on a host, so it does not matter on which host the record was made.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::change::{Change, NOT_SET};
use super::invocation::{OUTPUT_VARIABLES, PASSED_ON, own_variables};
use crate::record::{Record, looks_secret};

/// Stands for the value of a variable that workers inherit from whoever runs `orchestrate`.
const NOT_DECLARED: &str = "not declared";

/// What changed between the variables of the run that left `record` and those `declared` now, by name.
///
/// A record of an older version does not say which variables were declared. One that workers inherit might have been,
/// so it is compared only if it is declared now.
pub(super) fn variable_changes(record: &Record, declared: &BTreeMap<String, String>) -> Vec<Change> {
    let ours = own_variables(&record.key);
    let had = &record.provenance.environment;
    let then = declared_then(record, &ours);
    let names: BTreeSet<&String> = declared.keys().chain(&then).collect();
    let change = |name: &String| {
        let (from, to) = (had.get(name), declared.get(name).or_else(|| ours.get(name)));
        // It was declared, but the record does not hold its value.
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

/// Names of the variables that were declared when `record` was made, as far as it says.
fn declared_then(record: &Record, ours: &BTreeMap<String, String>) -> BTreeSet<String> {
    if let Some(names) = &record.provenance.variables {
        return names.clone();
    }
    let is_declared = |name: &String, value: &String| {
        !PASSED_ON.contains(&name.as_str())
            && !OUTPUT_VARIABLES.contains(&name.as_str())
            && ours.get(name) != Some(value)
    };
    let environment = record.provenance.environment.iter();
    environment.filter(|(name, value)| is_declared(name, value)).map(|(name, _)| name.clone()).collect()
}

/// The value of a variable as it may be stored and printed. Of a secret that is a digest, which only tells whether
/// the same variable of the same job has changed.
fn written(record: &Record, name: &str, value: &str) -> String {
    if !looks_secret(name) {
        return value.to_owned();
    }
    let digest = Sha256::digest(format!("{}\0{name}\0{value}", record.id));
    format!("hidden {}", hex::encode(&digest[..6]))
}
