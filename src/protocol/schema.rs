//! The JSON Schema (draft 2020-12) of `measurement.json`, made from the types that read it. A field that is added there
//! is in the schema, with its doc comment as the description.
//!
//! It accepts and rejects the same files as [`Report::parse`](super::Report::parse), except for a few rules that a
//! schema cannot express. Only the reader of the file checks them:
//!
//! - `samples` is a multiple of `effective.batch`, and is `effective.iters` × `effective.batch`.
//! - A whole number has no fraction: `1600.0` is whole for a schema, but not a count.
//! - Every field occurs at most once.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{GREATEST_WINDOW_S, LEAST_WINDOW_S, WireMeasurement};
use crate::job::PARAMETERS;

/// Renamed fields of `details`: the former name, which is still read, and the present one.
const FORMER_NAMES: &[(&str, &str)] = &[("startup_s", "first_step_s")];

/// The schema of `measurement.json`.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut root = generator.into_root_schema_for::<WireMeasurement>().to_value();
    tidy(&mut root);
    root["title"] = "The measurement of a worker of orchestrate".into();
    add_parameters(&mut root["$defs"]["Effective"]["properties"]);
    FORMER_NAMES.iter().for_each(|(former, name)| add_former(&mut root["$defs"]["Details"], former, name));
    // Not `oneOf`: a validator reports the missing field, and not that both forms fail.
    root["if"] = json!({ "required": ["failure"], "properties": { "failure": { "type": "object" } } });
    root["then"] = true.into();
    root["else"] = measured();
    root
}

/// The rules for a file without a failure.
fn measured() -> Value {
    json!({
        "required": ["samples", "elapsed_s", "synchronized", "effective"],
        "properties": {
            "samples": { "type": "integer", "minimum": 1 },
            "elapsed_s": { "type": "number", "minimum": LEAST_WINDOW_S, "maximum": GREATEST_WINDOW_S },
            "synchronized": { "type": "boolean" },
            "effective": { "type": "object", "properties": { "batch": { "minimum": 1 } } },
        },
    })
}

/// Names the shipped worker's parameters among the settings, for editors. A worker reports them as any JSON: they are
/// compared by value.
fn add_parameters(settings: &mut Value) {
    for parameter in PARAMETERS {
        settings[parameter.name()] = json!({ "description": parameter.help() });
    }
}

/// Allows `former` in `object` in place of `name`, but not beside it.
fn add_former(object: &mut Value, former: &str, name: &str) {
    let mut field = object["properties"][name].clone();
    field["description"] = format!("The former name of `{name}`.").into();
    field["deprecated"] = true.into();
    object["properties"][former] = field;
    object["not"] = json!({ "required": [former, name] });
}

/// Removes from `rules` and everything below them what only Rust understands: the widths of numbers, defaults, and
/// links between doc comments.
fn tidy(rules: &mut Value) {
    match rules {
        Value::Object(map) => {
            tidy_object(map);
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn tidy_object(rules: &mut Map<String, Value>) {
    let format = rules.get("format").and_then(Value::as_str).map(str::to_owned);
    if let Some(greatest) = format.as_deref().and_then(greatest) {
        rules.insert("maximum".into(), greatest.into());
    }
    if format.is_some() {
        rules.remove("format");
    }
    // A field can be called `default`; then it has rules.
    if rules.contains_key("type") || rules.contains_key("$ref") || rules.contains_key("anyOf") {
        rules.remove("default");
    }
    if let Some(Value::String(text)) = rules.get("description") {
        let text = description(text);
        rules.insert("description".into(), text.into());
    }
    if let Some(present) = rules.get("anyOf").and_then(or_null) {
        rules.remove("anyOf");
        rules.insert("if".into(), json!({ "not": { "type": "null" } }));
        rules.insert("then".into(), present);
    }
}

/// The greatest number of a Rust type.
fn greatest(format: &str) -> Option<u64> {
    match format {
        "uint32" => Some(u32::MAX.into()),
        "uint64" => Some(u64::MAX),
        _ => None,
    }
}

/// The first paragraph of a doc comment in one line.
fn description(comment: &str) -> String {
    let first = comment.split("\n\n").next().unwrap_or_default();
    first.replace('\n', " ").replace("[`", "`").replace("`]", "`")
}

/// The other one of two alternatives, of which one is `null`. A validator's message about an alternative that does not
/// fit is not helpful.
fn or_null(alternatives: &Value) -> Option<Value> {
    let (null, others): (Vec<&Value>, Vec<&Value>) =
        alternatives.as_array()?.iter().partition(|rules| rules["type"] == "null");
    match (&null[..], &others[..]) {
        ([_], [one]) => Some((*one).clone()),
        _ => None,
    }
}
