//! The class, the rule and the callees of an operator, by its name.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::protocol::OperatorClass;

use super::callees::{CALLEES, Callees};
use super::inputs::Inputs;
use super::rule::Rule;
use super::table::ROWS;
use super::work::Work;

/// The class, the rule and the callees of an operator.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) class: OperatorClass,
    pub(super) rule: Rule,
    /// The operators to which it may leave its work.
    pub(super) callees: Option<Callees>,
}

impl Entry {
    pub(super) const fn new(class: OperatorClass, rule: fn(&Inputs<'_>) -> Work) -> Self {
        Entry { class, rule: Rule::Of(rule), callees: None }
    }
}

/// The entry of PyTorch's operator called `name`.
pub(super) fn named(name: &str) -> Option<Entry> {
    static ENTRIES: LazyLock<HashMap<&str, Entry>> = LazyLock::new(entries);
    let name = name.strip_prefix("aten::").unwrap_or(name);
    ENTRIES.get(name).or_else(|| ENTRIES.get(name.strip_suffix('_')?)).copied()
}

/// All names of the table.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|(_, _, names)| names.split_whitespace())
}

fn entries() -> HashMap<&'static str, Entry> {
    let rows = ROWS.iter().flat_map(|(class, rule, names)| {
        let entry = Entry { class: *class, rule: *rule, callees: None };
        names.split_whitespace().map(move |name| (name, entry))
    });
    let mut entries: HashMap<&str, Entry> = rows.collect();
    for (name, callees) in CALLEES {
        if let Some(entry) = entries.get_mut(name) {
            entry.callees = Some(*callees);
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_name_is_in_one_row() {
        let mut seen = HashSet::new();
        let twice: Vec<&str> = names().filter(|name| !seen.insert(*name)).collect();
        assert_eq!(twice, [""; 0]);
    }

    #[test]
    fn operators_with_callees_and_their_callees_are_in_the_table() {
        for (name, callees) in CALLEES {
            assert!(named(name).is_some_and(|entry| entry.callees.is_some()), "{name}");
            for callee in callees.names {
                assert!(named(callee).is_some(), "{callee}");
            }
        }
    }

    #[test]
    fn variants_in_place_are_found() {
        for name in
            ["aten::relu", "aten::relu_", "aten::copy_", "aten::bernoulli_", "aten::_fused_sgd_", "detach"]
        {
            assert!(named(name).is_some(), "{name}");
        }
        assert!(named("aten::foo_").is_none());
    }
}
