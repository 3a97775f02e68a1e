//! The JSON Schema (draft 2020-12) of a matrix file, for editors. It is built from the tables that the reader uses.
//! Most rules that depend on other parts of the file are left to `orchestrate check`.

use serde_json::{Map, Value, json};

use super::keys::{self, KeyDoc};
use super::slips;
use crate::architecture::NETWORKS;
use crate::job::{OfFile, OfModel, PARAMETERS, ParameterType, Precision, Rule};
use crate::text::{capitalised, one_of};
use crate::threshold::Threshold;

/// The schema of a matrix file.
pub fn schema() -> Value {
    let mut root = object(&[keys::MATRIX, keys::OVERRIDES], &["name", "envs"]);
    root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    root.insert("title".into(), "A matrix of orchestrate".into());
    root.insert("$defs".into(), definitions());
    root.insert("allOf".into(), rules().into());
    Value::Object(root)
}

/// The schemas that others refer to, by name.
fn definitions() -> Value {
    let mut definitions = json!({
        "env": object(&[keys::ENV, keys::OVERRIDES], &["device"]),
        "limits": object(&[keys::LIMITS], &[]),
        "profile": object(&[keys::PROFILE], &[]),
        "thresholds": thresholds(),
        "ncu": object(&[keys::NCU], &[]),
        "perf": object(&[keys::PERF], &[]),
        "ops": object(&[keys::OPS], &[]),
        "cloud": object(&[keys::CLOUD], &[]),
        "where": not_empty(object(&[keys::WHERE], &[])),
        "slurm": object(&[keys::SLURM], &[]),
        "ssh": object(&[keys::SSH], &["host"]),
        "command": object(&[keys::WORKER], &["command"]),
        "exclude": with_params(object(&[keys::EXCLUDE], &[]), &|parameter| condition(&value_of(parameter))),
        "include": with_params(object(&[keys::INCLUDE], &["model", "batch"]), &value_of),
        "params": with_params(object(&[], &[]), &value_of),
        "axes": with_params(object(&[], &[]), &|parameter| list(&value_of(parameter))),
        "name": { "type": "string", "pattern": OfFile::PATTERN, "maxLength": OfFile::LONGEST },
        "model": { "type": "string", "pattern": OfModel::PATTERN, "maxLength": OfModel::LONGEST, "examples": NETWORKS },
        "precision": { "enum": Precision::ALL.map(Precision::as_str) },
        "batch": whole(&keys::BATCH),
        "repeats": { "anyOf": [whole(&keys::REPEATS), reference("repeat_rule")] },
        "repeat_rule": repeat_rule(),
        "data": data(),
        "duration": { "anyOf": [{ "type": "string", "examples": ["90s", "30m", "1h 30m"] }, { "const": 0 }] },
        "scalar": { "type": ["string", "number", "boolean"] },
        "known_names": known_names(),
        "known_placeholders": known_placeholders(),
    });
    for (name, rule) in slips::definitions() {
        definitions[name] = rule;
    }
    definitions
}

/// A parameter of a custom worker can have any name, if a placeholder uses it. So a valid file has unknown names either
/// both among parameters and among placeholders, or nowhere.
fn rules() -> Vec<Value> {
    let implies = |one: &str, other: &str| json!({ "if": reference(one), "then": reference(other) });
    let mut rules = slips::rules();
    rules.push(implies("known_placeholders", "known_names"));
    rules.push(implies("known_names", "known_placeholders"));
    rules
}

/// A matrix whose parameters are all the shipped worker's.
fn known_names() -> Value {
    let only = |keys: &'static [KeyDoc]| {
        let names = keys::names(keys).chain(PARAMETERS.iter().map(|parameter| parameter.name()));
        let properties: Map<String, Value> = names.map(|name| (name.to_owned(), true.into())).collect();
        json!({ "properties": properties, "additionalProperties": false })
    };
    let items = |keys: &'static [KeyDoc]| json!({ "items": only(keys) });
    let of_env = json!({ "params": only(&[]), "axes": only(&[]) });
    let mut properties = of_env.clone();
    properties["envs"] = json!({ "additionalProperties": { "properties": of_env } });
    properties["exclude"] = items(keys::EXCLUDE);
    properties["include"] = items(keys::INCLUDE);
    json!({ "properties": properties })
}

/// A matrix whose commands have only our placeholders and those of the shipped worker's parameters.
fn known_placeholders() -> Value {
    let names: Vec<&str> = keys::PLACEHOLDERS
        .iter()
        .copied()
        .chain(PARAMETERS.iter().map(|parameter| parameter.name()))
        .collect();
    let word = format!("^(?:[^{{]|\\{{(?:{})\\}}|\\{{(?![a-z_][a-z0-9_]*\\}}))*$", names.join("|"));
    // Standard validators ignore the message; editors show it instead of the pattern.
    let message = format!(
        "Nothing defines a placeholder in this word: expected {}, or the name of a parameter.",
        one_of(keys::PLACEHOLDERS.iter().copied())
    );
    let words = json!({ "pattern": word, "patternErrorMessage": message });
    let worker = json!({ "properties": { "command": { "items": words } } });
    json!({ "properties": {
        "worker": worker,
        "envs": { "additionalProperties": { "properties": { "worker": worker } } },
    } })
}

/// An object that has the keys of `tables` and no others.
fn object(tables: &[&'static [KeyDoc]], required: &[&str]) -> Map<String, Value> {
    let mut properties = Map::new();
    for key in tables.iter().copied().flatten() {
        let mut shape = shape(key.name, tables);
        shape["description"] = key.help.into();
        properties.insert(key.name.into(), shape);
    }
    let mut object = Map::new();
    object.insert("type".into(), "object".into());
    object.insert("properties".into(), properties.into());
    object.insert("additionalProperties".into(), false.into());
    if !required.is_empty() {
        object.insert("required".into(), required.into());
    }
    object
}

/// The rule of `repeats`.
fn repeat_rule() -> Value {
    let mut rule = object(&[keys::REPEAT_RULE], &[]);
    rule.insert("minProperties".into(), 1.into());
    Value::Object(rule)
}

/// Every threshold with its range.
fn thresholds() -> Value {
    let shape = |threshold: Threshold| {
        let facts = threshold.facts();
        let mut shape = number(&facts.unit.range());
        shape["description"] =
            format!("{}; {} if absent.", capitalised(facts.compared), threshold.text(facts.value)).into();
        (threshold.name().to_owned(), shape)
    };
    let properties: Map<String, Value> = Threshold::all().map(shape).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The schema of the value of `key`. Some keys have different meanings in different tables.
fn shape(key: &str, tables: &[&'static [KeyDoc]]) -> Value {
    let is_in = |table: &'static [KeyDoc]| tables.iter().any(|other| std::ptr::eq(*other, table));
    let section = |name: &str| json!({ "anyOf": [reference(name), { "type": "null" }] });
    match key {
        "env" | "model" | "batch" | "precision" if is_in(keys::EXCLUDE) => {
            condition(&if key == "env" { reference("name") } else { reference(key) })
        }
        "name" | "peaks" | "env" => reference("name"),
        "model" | "batch" | "precision" | "repeats" => reference(key),
        "models" => list(&reference("model")),
        "batches" => list(&reference("batch")),
        "precisions" => list(&reference("precision")),
        "params" | "axes" | "limits" | "cloud" | "profile" | "thresholds" | "slurm" => section(key),
        "ncu" | "perf" | "ops" => {
            json!({ "anyOf": [reference(key), { "const": false }, { "type": "null" }] })
        }
        "iters" => whole(&keys::PROFILE_ITERS),
        "metrics" | "events" => list(&json!({ "type": "string", "minLength": 1 })),
        "worker" => json!({ "anyOf": [reference("command"), { "const": "shipped" }] }),
        "command" => list(&reference("scalar")),
        "result" => json!({ "const": "json" }),
        "envs" => json!({
            "type": "object",
            "minProperties": 1,
            "propertyNames": reference("name"),
            "additionalProperties": reference("env"),
        }),
        "exclude" | "include" => {
            json!({ "type": ["array", "null"], "items": { "allOf": [reference(key), { "minProperties": 1 }] } })
        }
        "zip" => json!({
            "type": ["array", "null"],
            "items": { "type": "array", "items": { "type": "string" }, "minItems": 2 },
        }),
        "order" => json!({ "enum": keys::ORDERS }),
        "os" => json!({ "enum": keys::SYSTEMS }),
        "share" => json!({ "enum": keys::SHARES }),
        "where" => json!({ "anyOf": [reference(key), { "enum": ["local", "slurm"] }] }),
        "ssh" => reference(key),
        "files" => optional_list("^[^/\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"),
        "partition" | "account" | "qos" | "gres" | "constraint" => {
            json!({ "type": "string", "pattern": "^[^-\\x00-\\x20\\x7f-\\xa0][^\\x00-\\x20\\x7f-\\xa0]*$" })
        }
        "exclusive" => json!({ "type": "boolean" }),
        "pack" => whole(&keys::PACK),
        "throttle" => whole(&keys::THROTTLE),
        "setup" => optional_list("^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        "options" => optional_list("^--?[A-Za-z][^\\x00-\\x1f\\x7f-\\x9f]*$"),
        "order_seed" => whole(&keys::ORDER_SEED),
        "max_jobs" => whole(&keys::MAX_JOBS),
        "retries" => whole(&keys::RETRIES),
        "device" => json!({ "type": "string", "pattern": "^(cpu|mps|cuda(:[0-9]+)?)$" }),
        "usd_per_hour" => json!({ "type": "number", "minimum": 0 }),
        "variables" => json!({
            "type": ["object", "null"],
            "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
            "additionalProperties": reference("scalar"),
        }),
        "secret" | "not_secret" => json!({
            "type": ["array", "null"],
            "items": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
        }),
        "pass" => json!({
            "type": ["array", "null"],
            "items": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*\\*?$" },
        }),
        "min" => whole(&keys::REPEATS),
        "max" => whole(&keys::MAX_REPEATS),
        "until" => {
            json!({ "type": "string", "pattern": "^\\s*[0-9]+(\\.[0-9]+)?\\s*%$", "examples": ["2%"] })
        }
        "replace_marked" => whole(&keys::REPLACEMENTS),
        "timeout" | "grace" | "cool_down" | "gate_timeout" | "time" => reference("duration"),
        "output" => json!({ "type": "string", "examples": ["64MiB", "1GiB"] }),
        "quiet" => json!({ "anyOf": [number(&keys::QUIET), { "type": "boolean" }] }),
        "max_temperature" => json!({ "anyOf": [number(&keys::TEMPERATURE), { "const": false }] }),
        "description" => json!({ "type": ["string", "null"] }),
        _ => json!({ "type": "string", "minLength": 1 }),
    }
}

/// `object` with every known parameter as a further key. Parameters of external workers can have any name.
fn with_params(mut object: Map<String, Value>, shape: &dyn Fn(Option<ParameterType>) -> Value) -> Value {
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        for parameter in PARAMETERS {
            let mut value = shape(Some(parameter.kind()));
            value["description"] = parameter.help().into();
            properties.insert(parameter.name().into(), value);
        }
    }
    object.insert("additionalProperties".into(), shape(None));
    Value::Object(object)
}

/// The schema of a parameter; any scalar for one that only an external worker knows.
fn value_of(kind: Option<ParameterType>) -> Value {
    match kind {
        None => reference("scalar"),
        Some(ParameterType::Bool) => json!({ "type": "boolean" }),
        Some(ParameterType::Int { min, max }) => whole(&(min..=max)),
        Some(ParameterType::Number { min, max }) => number(&(min..=max)),
        Some(ParameterType::Word(words)) => json!({ "enum": words }),
        Some(ParameterType::Data) => reference("data"),
    }
}

/// A value, a list of them, or a comparison.
fn condition(value: &Value) -> Value {
    let comparison = json!({ "type": "string", "pattern": "^\\s*(==|!=|<=|>=|=|<|>)" });
    json!({ "anyOf": [value, list(value), comparison] })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items, "minItems": 1, "maxItems": keys::LONGEST_LIST })
}

/// `object` with at least one of its keys.
fn not_empty(mut object: Map<String, Value>) -> Value {
    object.insert("minProperties".into(), 1.into());
    Value::Object(object)
}

/// A list of texts that match `pattern`, or null.
fn optional_list(pattern: &str) -> Value {
    json!({ "anyOf": [list(&json!({ "type": "string", "pattern": pattern })), { "type": "null" }] })
}

fn number(range: &std::ops::RangeInclusive<f64>) -> Value {
    json!({ "type": "number", "minimum": range.start(), "maximum": range.end() })
}

fn whole(range: &std::ops::RangeInclusive<i64>) -> Value {
    json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
}

fn data() -> Value {
    let one = |key: &str, value: Value| {
        json!({
            "type": "object",
            "properties": { (key): value },
            "required": [key],
            "additionalProperties": false,
        })
    };
    json!({
        "oneOf": [
            one("synthetic", json!({ "const": true })),
            one("folder", json!({ "type": "string", "minLength": 1 })),
        ]
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither JSON nor a matrix distinguishes `0` and `0.0`.
    #[test]
    fn a_fraction_is_any_number_in_its_range() {
        let share = value_of(Some(ParameterType::Number { min: 0.0, max: 1.0 }));
        assert_eq!(share, json!({ "type": "number", "minimum": 0.0, "maximum": 1.0 }));
    }
}
