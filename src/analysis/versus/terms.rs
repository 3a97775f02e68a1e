//! The declared terms of configs, such as `precision` or `compile`: those in which the sides differ, and those by which
//! configs are matched.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::group::Row;
use crate::job::{Key, WorkerTemplate};

/// The term that names the network.
pub(super) const MODEL: &str = "model";

/// The value of a term that a config does not declare.
const UNDECLARED: &str = "-";

/// The terms whose values are in a config's name without their names, in this order.
const WORDS: [&str; 4] = ["env", MODEL, "precision", "batch"];

/// The terms of the configs of two sides.
pub(super) struct Terms<'r> {
    /// The names of the parameters that any config declares.
    parameters: BTreeSet<&'r str>,
    /// The terms that have one value on each side, a different one: name, value on the first side, on the second side.
    pub(super) differing: Vec<(String, String, String)>,
    /// The names of all other terms that vary: configs are matched by them.
    matched: Vec<String>,
}

impl<'r> Terms<'r> {
    pub(super) fn of(from: &[&'r Row<'_>], to: &[&'r Row<'_>]) -> Self {
        let keys = || from.iter().chain(to).map(|row| &row.config);
        let parameters: BTreeSet<&str> = keys().flat_map(|key| key.params.keys()).collect();
        let mut terms = Terms { parameters, differing: Vec::new(), matched: Vec::new() };
        let [ours, theirs] = [from, to].map(|rows| terms.values(rows));
        for (name, values) in ours {
            let others = theirs.get(&name).cloned().unwrap_or_default();
            match (only(&values), only(&others)) {
                (Some(value), Some(other)) if value != other => {
                    terms.differing.push((name, value.clone(), other.clone()));
                }
                (Some(_), Some(_)) => {}
                _ => terms.matched.push(name),
            }
        }
        terms
    }

    /// The values of each term.
    fn values(&self, rows: &[&Row<'_>]) -> BTreeMap<String, BTreeSet<String>> {
        let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in rows {
            for (name, value) in self.declared(&row.config) {
                values.entry(name).or_default().insert(value);
            }
        }
        values
    }

    /// The values of all terms of a config, by name.
    fn declared(&self, key: &Key) -> BTreeMap<String, String> {
        let Key { env, device, model, precision, batch, worker, .. } = key;
        let worker = match worker {
            WorkerTemplate::Shipped => "shipped".to_owned(),
            WorkerTemplate::Command(words) => words.join(" "),
        };
        let fields = [
            ("env", env.to_string()),
            ("device", device.to_string()),
            (MODEL, model.to_string()),
            ("precision", precision.to_string()),
            ("batch", batch.to_string()),
            ("worker", worker),
        ];
        let parameter = |name: &&str| {
            let value = key.param(name).map_or_else(|| UNDECLARED.to_owned(), |value| value.to_string());
            ((*name).to_owned(), value)
        };
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
        fields.chain(self.parameters.iter().map(parameter)).collect()
    }

    /// The values that two configs must have in common to be compared.
    pub(super) fn common(&self, key: &Key) -> Vec<String> {
        let declared = self.declared(key);
        self.matched.iter().map(|name| declared[name].clone()).collect()
    }

    /// The name of a config, without the terms that differ between the sides: `resnet18 fp32 bs16 compile=true`.
    pub(super) fn name(&self, key: &Key) -> String {
        let declared = self.declared(key);
        let differs = |name: &str| self.differing.iter().any(|(differing, ..)| differing == name);
        let is_matched = |name: &str| self.matched.iter().any(|matched| matched == name);
        // An env that all configs share is left out. Network, precision and batch are always in the name.
        let word = |name: &&str| !differs(name) && (*name != "env" || is_matched(name));
        let words = WORDS.iter().filter(|name| word(name)).map(|name| match *name {
            "batch" => format!("bs{}", declared["batch"]),
            name => declared[name].clone(),
        });
        // The env determines the device and the worker.
        let is_implied = |name: &str| WORDS.contains(&name) || ["device", "worker"].contains(&name);
        let rest = self.matched.iter().filter(|name| !is_implied(name));
        words.chain(rest.map(|name| format!("{name}={}", declared[name]))).collect::<Vec<_>>().join(" ")
    }
}

fn only(values: &BTreeSet<String>) -> Option<&String> {
    values.first().filter(|_| values.len() == 1)
}
