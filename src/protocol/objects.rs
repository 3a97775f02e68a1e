//! The objects of `measurement.json` and their fields, by its schema.

use std::collections::BTreeSet;

use serde_json::Value;

use super::schema::schema;

/// An object of `measurement.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectForm {
    /// Its path, such as `details.ranks`; empty for the whole file.
    pub path: String,
    /// Whether a list or a map of such objects is at the path.
    pub is_each: bool,
    /// The names of its fields.
    pub fields: BTreeSet<String>,
    /// Those that it must have; for the whole file, those of a measurement.
    pub required: BTreeSet<String>,
    /// Former names of fields, which are still read.
    pub former: BTreeSet<String>,
    /// Whether every other name is kept too.
    pub is_open: bool,
}

/// Every object of `measurement.json`, the whole file first.
pub fn objects() -> Vec<ObjectForm> {
    let schema = schema();
    let mut found = Vec::new();
    collect(&schema, "", false, &schema, &mut found);
    // The required fields of a measurement differ from those of a failure.
    found[0].required.extend(names(&schema["else"]["required"]));
    found
}

fn collect(rules: &Value, path: &str, is_each: bool, schema: &Value, found: &mut Vec<ObjectForm>) {
    let Some(fields) = rules["properties"].as_object() else { return };
    let named = |is_former| {
        let of = fields.iter().filter(move |(_, rules)| (rules["deprecated"] == true) == is_former);
        of.map(|(name, _)| name.clone()).collect()
    };
    found.push(ObjectForm {
        path: path.to_owned(),
        is_each,
        fields: named(false),
        required: names(&rules["required"]),
        former: named(true),
        is_open: rules.get("additionalProperties").is_some(),
    });
    for (name, rules) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some((rules, is_each)) = referred(rules, schema) {
            collect(rules, &path, is_each, schema, found);
        }
    }
}

/// The object that `rules` refer to, and whether it is one of several.
fn referred<'s>(rules: &'s Value, schema: &'s Value) -> Option<(&'s Value, bool)> {
    if let Some(name) = rules["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return Some((&schema["$defs"][name], false));
    }
    let each = ["items", "additionalProperties"].iter().find_map(|word| rules.get(word));
    let one = rules.get("then").and_then(|rules| referred(rules, schema));
    one.or_else(|| Some((referred(each?, schema)?.0, true)))
}

fn names(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_found_with_its_fields() {
        let objects = objects();
        let of = |path: &str| objects.iter().find(|object| object.path == path).expect(path);
        let required = ["effective", "elapsed_s", "samples", "schema", "synchronized"];
        assert!(of("").required.iter().eq(required), "{:?}", of(""));
        assert!(of("effective").is_open && of("effective").fields.contains("seed"));
        assert!(of("effective").required.iter().eq(["batch", "device", "precision"]));
        assert!(!of("details").is_open && !of("details").is_each);
        assert!(of("details").former.iter().eq(["startup_s"]) && !of("details").fields.contains("startup_s"));
        assert!(of("details.ranks").is_each && of("details.ranks").required.iter().eq(["rank"]));
        assert!(!of("ops").is_each && of("ops.operators").is_each);
        assert!(of("ops").required.iter().eq(["elapsed_s", "iterations", "operators", "source"]));
        assert!(of("ops.operators").required.iter().eq(["calls", "host_s", "name"]));
        assert!(of("failure").required.iter().eq(["kind", "message"]));
    }
}
