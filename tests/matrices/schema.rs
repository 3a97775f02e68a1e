//! The JSON Schema accepts everything that the checker accepts, and rejects as much of the rest as it can. The
//! validator here only knows the keywords that the schema uses, and panics at any other.

use orchestrate::matrix::schema;
use serde_json::Value;
use serde_yaml::NonFiniteFloatPolicy;

use super::{files, name};

/// Why `value` does not match `rules`; empty if it does.
fn misfits(root: &Value, rules: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |fits: bool, keyword: &str| {
        if !fits {
            found.push(format!("{keyword}: {value}"));
        }
    };
    let fits = |rules: &Value, value: &Value| misfits(root, rules, value).is_empty();
    for (keyword, rule) in rules.as_object().unwrap() {
        let rule_list = || rule.as_array().unwrap().iter();
        match (keyword.as_str(), value) {
            ("$schema" | "$defs" | "title" | "description" | "examples", _) => {}
            ("$ref", _) => {
                let target =
                    root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).expect("a known $ref");
                expect(fits(target, value), keyword);
            }
            ("anyOf", _) => expect(rule_list().any(|rules| fits(rules, value)), keyword),
            ("oneOf", _) => expect(rule_list().filter(|rules| fits(rules, value)).count() == 1, keyword),
            ("allOf", _) => expect(rule_list().all(|rules| fits(rules, value)), keyword),
            ("const", _) => expect(value == rule, keyword),
            ("enum", _) => expect(rule_list().any(|word| word == value), keyword),
            ("type", _) => match rule {
                Value::Array(names) => expect(names.iter().any(|name| is_a(value, name)), keyword),
                name => expect(is_a(value, name), keyword),
            },
            ("minimum", Value::Number(number)) => expect(number.as_f64() >= rule.as_f64(), keyword),
            ("maximum", Value::Number(number)) => expect(number.as_f64() <= rule.as_f64(), keyword),
            ("minItems", Value::Array(items)) => {
                expect(items.len() as u64 >= rule.as_u64().unwrap(), keyword)
            }
            ("maxItems", Value::Array(items)) => {
                expect(items.len() as u64 <= rule.as_u64().unwrap(), keyword)
            }
            ("minLength", Value::String(text)) => {
                expect(text.len() as u64 >= rule.as_u64().unwrap(), keyword)
            }
            ("maxLength", Value::String(text)) => {
                expect(text.len() as u64 <= rule.as_u64().unwrap(), keyword)
            }
            ("items", Value::Array(items)) => {
                items.iter().for_each(|item| expect(fits(rule, item), keyword));
            }
            ("minProperties", Value::Object(map)) => {
                expect(map.len() as u64 >= rule.as_u64().unwrap(), keyword)
            }
            ("required", Value::Object(map)) => {
                rule_list().for_each(|key| expect(map.contains_key(key.as_str().unwrap()), keyword));
            }
            ("properties", Value::Object(map)) => {
                for (key, value) in map {
                    expect(rule.get(key).is_none_or(|rules| fits(rules, value)), key);
                }
            }
            ("additionalProperties", Value::Object(map)) => {
                let known =
                    |key: &String| rules.get("properties").is_some_and(|known| known.get(key).is_some());
                for (key, value) in map.iter().filter(|(key, _)| !known(key)) {
                    expect(if rule.is_boolean() { rule == true } else { fits(rule, value) }, key);
                }
            }
            // Patterns are not checked here: the checker has the same rules with its own tests.
            ("pattern" | "propertyNames", _) => {}
            ("minimum" | "maximum" | "minItems" | "maxItems" | "minLength" | "maxLength", _) => {}
            ("items" | "minProperties" | "required" | "properties" | "additionalProperties", _) => {}
            (other, _) => panic!("the schema uses `{other}`, which this validator does not know"),
        }
    }
    found
}

fn is_a(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("no such type: {other}"),
    }
}

fn accepts(text: &str) -> Result<(), Vec<String>> {
    // JSON has no such numbers as `.inf`, so an editor's validator sees them as words.
    let options = serde_yaml::options! { non_finite_float_policy: NonFiniteFloatPolicy::AsString };
    let value: Value = serde_yaml::from_str_with_options(text, options).unwrap();
    let schema = schema();
    let found = misfits(&schema, &schema, &value);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

#[test]
fn the_schema_accepts_every_valid_matrix() {
    for (path, text) in files("matrices").into_iter().chain(files("tests/matrices/valid")) {
        assert_eq!(accepts(&text), Ok(()), "{}", path.display());
    }
}

#[test]
fn the_schema_rejects_what_it_can() {
    // The others are invalid YAML, or mistakes that only show in the matrix as a whole.
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
    let mut seen = 0;
    walk(&schema(), &mut seen);
    assert!(seen > 50, "{seen}");
}
