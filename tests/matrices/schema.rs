//! The JSON Schema accepts everything that the checker accepts, and rejects as much of the rest as it can.

use std::sync::LazyLock;

use jsonschema::Validator;
use orchestrate::matrix::schema;
use serde_json::Value;
use serde_yaml::NonFiniteFloatPolicy;

use super::{files, name};

fn accepts(text: &str) -> Result<(), Vec<String>> {
    // JSON has no numbers such as `.inf`, so an editor's validator sees them as strings.
    let options = serde_yaml::options! { non_finite_float_policy: NonFiniteFloatPolicy::AsString };
    let value: Value = serde_yaml::from_str_with_options(text, options).unwrap();
    // It takes longer to build than to ask.
    static VALIDATOR: LazyLock<Validator> =
        LazyLock::new(|| jsonschema::draft202012::new(&schema()).expect("a schema"));
    let found: Vec<String> =
        VALIDATOR.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Editors ignore unknown keywords, so a keyword with a typing error would check nothing.
#[test]
fn the_schema_is_valid() {
    assert_eq!(jsonschema::meta::validate(&schema()).map_err(|error| error.to_string()), Ok(()));
    let known = [
        "$schema $defs $ref title description examples type const enum anyOf oneOf allOf if then minimum maximum",
        "minItems maxItems minLength maxLength minProperties pattern items required properties propertyNames",
        "additionalProperties patternErrorMessage",
    ];
    let known: Vec<&str> = known.iter().flat_map(|line| line.split(' ')).collect();
    fn walk(rules: &Value, known: &[&str]) {
        let Value::Object(rules) = rules else { return };
        for (keyword, rule) in rules {
            assert!(known.contains(&keyword.as_str()), "`{keyword}` is not a keyword");
            match (keyword.as_str(), rule) {
                ("properties" | "$defs", Value::Object(named)) => {
                    named.values().for_each(|rules| walk(rules, known));
                }
                ("anyOf" | "oneOf" | "allOf", Value::Array(items)) => {
                    items.iter().for_each(|rules| walk(rules, known));
                }
                ("items" | "additionalProperties" | "propertyNames" | "if" | "then", rules) => {
                    walk(rules, known)
                }
                _ => {}
            }
        }
    }
    walk(&schema(), &known);
}

/// A parameter is one of the shipped worker, or a custom one that a placeholder uses.
#[test]
fn a_misspelt_parameter_or_placeholder_is_found() {
    let matrix = |more: &str, command: &str| {
        let worker =
            if command.is_empty() { String::new() } else { format!("worker: {{ command: [{command}] }}\n") };
        format!("name: a\nmodels: [vgg16]\nbatches: [1]\nenvs: {{ e: {{ device: cpu }} }}\n{worker}{more}\n")
    };
    for (more, command, fits) in [
        ("params: { channels_last: true }", "", true),
        ("params: { chanels_last: true }", "", false),
        ("axes: { itters: [1, 2] }", "", false),
        ("exclude: [{ btach: 1 }]", "", false),
        ("include: [{ model: m, batch: 1, itters: 2 }]", "", false),
        ("params: { itters: 1 }", "sh, \"{batch}\"", false),
        ("params: { iters: 1 }", "sh, \"{batch} {iters} {out}\"", true),
        ("params: { iters: 1 }", "sh, \"{btach}\"", false),
        ("params: { iters: 1 }", "sh, \"{ x }, {X}, {1}, {\\\"a\\\": {iters}}\"", true),
        // It is a custom parameter, or the same mistake twice.
        ("params: { compile: true }", "sh, \"{compile}\"", true),
        ("axes: { compile: [true] }\nexclude: [{ compile: true }]", "sh, \"{compile}\"", true),
        // A custom name that is similar to a known one.
        ("params: { optimiser: adam, mode: fast }", "sh, \"{optimiser}\", \"{mode}\"", true),
        ("axes: { thread: [1, 2] }\nexclude: [{ thread: 1 }]", "sh, \"{thread}\"", true),
        // Two mistakes do not hide each other, and a custom name does not hide them.
        ("params: { chanels_last: true }", "sh, \"{btach}\"", false),
        ("params: { chanels_last: true, compile: true }", "sh, \"{compile}\"", false),
        ("params: { compile: true }", "sh, \"{compile}\", \"{btach}\"", false),
        ("params: { compile: true }\nexclude: [{ btach: 1 }]", "sh, \"{compile}\"", false),
        ("exclude: [{ btach: 1 }]", "sh, \"{bacth}\"", false),
        (
            "params: { compile: true }\ninclude: [{ model: m, batch: 1, itters: 1 }]",
            "sh, \"{compile}\"",
            false,
        ),
    ] {
        assert_eq!(accepts(&matrix(more, command)).is_ok(), fits, "{more} {command}");
    }
    for (env, fits) in [
        ("params: { chanels_last: true }", false),
        ("worker: { command: [sh, \"{btach}\"] }", false),
        ("worker: { command: [sh, \"{own}\"] }, params: { own: 1 }", true),
        ("worker: { command: [sh, \"{own}\", \"{btach}\"] }, params: { own: 1, chanels_last: true }", false),
    ] {
        let yaml = matrix("", "").replace("device: cpu", &format!("device: cpu, {env}"));
        assert_eq!(accepts(&yaml).is_ok(), fits, "{env}");
    }
}

#[test]
fn the_schema_accepts_every_valid_matrix() {
    for (path, text) in files("matrices").into_iter().chain(files("tests/matrices/valid")) {
        assert_eq!(accepts(&text), Ok(()), "{}", path.display());
    }
}

#[test]
fn the_schema_rejects_invalid_matrices() {
    // The others are invalid YAML, or mistakes that need the whole matrix.
    let beyond = [
        "syntax.yaml",
        "surrogate.yaml",
        "empty.yaml",
        "duplicates.yaml",
        "huge.yaml",
        "nothing_left.yaml",
        "sizes.yaml",
    ];
    for (path, text) in files("tests/matrices/invalid") {
        if !beyond.contains(&name(&path)) {
            assert!(accepts(&text).is_err(), "{}", path.display());
        }
    }
    let valid = "name: a\nmodels: [vgg16]\nbatches: [1]\nenvs: {e: {device: cpu}}\n";
    assert_eq!(accepts(valid), Ok(()));
    for addition in [
        "modles: [a]",
        "repeats: 0",
        "params: {iters: many}",
        "axes: {iters: []}",
        "worker: {}",
        "exclude: [{}]",
        "order: 1",
    ] {
        assert!(accepts(&format!("{valid}{addition}\n")).is_err(), "{addition}");
    }
}

/// Every object of the schema describes each of its keys, because editors show that.
#[test]
fn every_key_is_described() {
    fn walk(value: &Value, seen: &mut usize) {
        if let Some(properties) = value.get("properties").and_then(Value::as_object) {
            for (key, rules) in properties {
                if value.get("description").is_none() && !["synthetic", "folder"].contains(&key.as_str()) {
                    assert!(
                        rules["description"].as_str().is_some_and(|help| help.ends_with('.')),
                        "{key}: {rules}"
                    );
                    *seen += 1;
                }
            }
        }
        match value {
            Value::Object(map) => map.values().for_each(|value| walk(value, seen)),
            Value::Array(items) => items.iter().for_each(|value| walk(value, seen)),
            _ => {}
        }
    }
    let mut schema = schema();
    // These only list names.
    schema.as_object_mut().unwrap().remove("allOf");
    schema["$defs"]
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !["known_", "not_"].iter().any(|rule| name.starts_with(rule)));
    let mut seen = 0;
    walk(&schema, &mut seen);
    assert!(seen > 50, "{seen}");
}
