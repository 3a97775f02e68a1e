//! The JSON Schema of `measurement.json` and the reader of that file agree.

use std::fs;

use jsonschema::Validator;
use orchestrate::protocol::{Report, schema};
use orchestrate::text::with_causes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::readme::pages::{page, root};

/// The least that a worker writes.
const LEAST: &str = r#"{ "schema": 1, "samples": 1600, "elapsed_s": 12.5, "synchronized": true,
    "effective": { "device": "cpu", "precision": "fp32", "batch": 16 } }"#;

const FAILURE: &str = r#"{ "schema": 1, "failure": { "kind": "out_of_memory", "message": "20 GiB" } }"#;

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema()).expect("a schema")
}

/// What the schema says about `value`, one line per mistake.
fn mistakes(value: &Value) -> Vec<String> {
    let validator = validator();
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The example of the manual with every field.
fn full() -> Value {
    let page = page("docs/reference/measurement.md");
    let block = page.blocks().into_iter().find(|block| block.language == "json").expect("an example");
    serde_json::from_str(&block.text).unwrap()
}

/// A profile of one operator, which also has these `fields`.
fn ops(fields: Value) -> Value {
    let mut operator = json!({ "name": "aten::mm", "calls": 3, "host_s": 0.5 });
    operator.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({ "source": "kineto", "iterations": 3, "elapsed_s": 1, "operators": [operator] })
}

/// `whole` with `value` at `pointer`; without the member at `pointer` if `value` is `None`.
fn changed(whole: &Value, pointer: &str, value: Option<Value>) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer begins with /");
    let mut changed = whole.clone();
    match (changed.pointer_mut(parent).expect("the parent is there"), value) {
        (Value::Object(map), Some(value)) => drop(map.insert(name.to_owned(), value)),
        (Value::Object(map), None) => drop(map.remove(name)),
        (Value::Array(items), Some(value)) => items[name.parse::<usize>().unwrap()] = value,
        (Value::Array(items), None) => drop(items.remove(name.parse().unwrap())),
        (other, _) => panic!("{other} has no {name}"),
    }
    changed
}

#[test]
fn the_schema_is_valid() {
    assert_eq!(jsonschema::meta::validate(&schema()).map_err(|error| error.to_string()), Ok(()));
}

#[test]
fn the_command_prints_the_schema() {
    let printed = super::harness::Project::new().orchestrate(&["schema", "--measurement"]).code(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), schema());
}

#[test]
fn every_measurement_that_was_ever_accepted_is_valid() {
    let mut seen = 0;
    for directory in ["tests/records/schema_1", "tests/records/schema_2"] {
        for entry in fs::read_dir(root().join(directory)).unwrap() {
            let path = entry.unwrap().path();
            let record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            if let Some(measurement) = record.get("measurement").filter(|found| !found.is_null()) {
                assert_eq!(mistakes(measurement), [""; 0], "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 3, "{seen}");
    for text in [LEAST, FAILURE] {
        assert_eq!(mistakes(&serde_json::from_str(text).unwrap()), [""; 0], "{text}");
    }
    assert_eq!(mistakes(&full()), [""; 0]);
}

/// A validation by the schema names the wrong field.
#[test]
fn mistakes_are_reported_with_their_field() {
    let least: Value = serde_json::from_str(LEAST).unwrap();
    for (pointer, value, message) in [
        ("/samples", None, ": \"samples\" is a required property"),
        ("/samples", Some(json!("1600")), "/samples: \"1600\" is not of type \"integer\""),
        ("/effective/precision", Some(json!("fp16")), "/effective/precision: \"fp16\" is not one of"),
        ("/effective/batch", None, "/effective: \"batch\" is a required property"),
        ("/schema", Some(json!(2)), "/schema: 1 was expected"),
        ("/details", Some(json!({ "versions": ["2.0"] })), "/details/versions: [\"2.0\"] is not of type"),
    ] {
        let found = mistakes(&changed(&least, pointer, value));
        assert!(found.iter().any(|line| line.starts_with(message)), "{message}: {found:?}");
    }
}

#[test]
fn the_reader_and_the_schema_accept_and_refuse_the_same() {
    let (least, failure): (Value, Value) =
        (serde_json::from_str(LEAST).unwrap(), serde_json::from_str(FAILURE).unwrap());
    let details = |value: Value| ("/details", Some(value));
    for (is_valid, whole, (pointer, value)) in [
        (true, &least, ("/anything", Some(json!(["newer"])))),
        (true, &least, ("/failure", Some(Value::Null))),
        (true, &least, ("/effective/anything", Some(json!({ "a": null })))),
        (true, &least, ("/effective/device", Some(json!("cuda:3")))),
        (true, &least, details(json!({ "startup_s": 0.5, "anything": 1 }))),
        (true, &least, details(json!({ "last_loss": null, "peak_host_memory_bytes": u64::MAX }))),
        (true, &failure, ("/failure/kind", Some(json!("no_licence")))),
        (true, &failure, ("/samples", Some(Value::Null))),
        (true, &failure, ("/effective", Some(Value::Null))),
        (true, &failure, ("/elapsed_s", Some(json!(-1)))),
        (false, &least, ("/schema", None)),
        (false, &least, ("/synchronized", None)),
        (false, &least, ("/synchronized", Some(Value::Null))),
        (false, &least, ("/effective", Some(Value::Null))),
        (false, &least, ("/elapsed_s", Some(json!(0)))),
        (false, &least, ("/elapsed_s", Some(json!(2e9)))),
        (false, &least, ("/samples", Some(json!(0)))),
        (false, &least, ("/effective/batch", Some(json!(0)))),
        (false, &least, ("/effective/batch", Some(json!(1_u64 << 32)))),
        (false, &least, ("/effective/device", Some(json!("gpu")))),
        (false, &least, ("/effective/tf32", Some(json!("no")))),
        (false, &least, details(Value::Null)),
        (false, &least, details(json!({ "startup_s": 0.5, "first_step_s": 0.5 }))),
        (false, &least, details(json!({ "startup_s": "0.5" }))),
        (false, &least, details(json!({ "iteration_clock": "sundial" }))),
        (false, &least, details(json!({ "ranks": [{ "samples": 1 }] }))),
        (false, &least, details(json!({ "repeated": "seed" }))),
        (true, &least, ("/ops", Some(ops(json!({}))))),
        (true, &least, ("/ops", Some(Value::Null))),
        (
            true,
            &least,
            ("/ops", Some(ops(json!({ "phase": "backward", "class": "product", "device_s": null })))),
        ),
        (false, &least, ("/ops", Some(json!([])))),
        (false, &least, ("/ops", Some(changed(&ops(json!({})), "/operators", Some(json!([])))))),
        (false, &least, ("/ops", Some(changed(&ops(json!({})), "/iterations", Some(json!(0)))))),
        (false, &least, ("/ops", Some(changed(&ops(json!({})), "/elapsed_s", Some(json!(0)))))),
        (false, &least, ("/ops", Some(changed(&ops(json!({})), "/device_busy_s", Some(json!(-1)))))),
        (false, &least, ("/ops", Some(ops(json!({ "host_s": -1 }))))),
        (false, &least, ("/ops", Some(ops(json!({ "flops": -1 }))))),
        (false, &least, ("/ops", Some(ops(json!({ "calls": 0 }))))),
        (false, &least, ("/ops", Some(ops(json!({ "name": "" }))))),
        (false, &least, ("/ops", Some(ops(json!({ "phase": "sideways" }))))),
        (false, &least, ("/ops", Some(ops(json!({ "class": "magic" }))))),
        (false, &least, ("/ops", Some(ops(json!({ "shapes": [[-1]] }))))),
        (false, &failure, ("/failure/message", None)),
        (false, &failure, ("/failure", Some(json!("out of memory")))),
        (false, &failure, ("/samples", Some(json!("many")))),
    ] {
        let value = changed(whole, pointer, value);
        let read = Report::parse(&value.to_string()).map_err(|error| with_causes(&error));
        assert_eq!(read.is_ok(), is_valid, "the reader: {value}: {read:?}");
        assert_eq!(mistakes(&value).is_empty(), is_valid, "the schema: {value}: {:?}", mistakes(&value));
    }
}

/// The pointers to all values below `value`.
fn pointers(value: &Value, at: &str) -> Vec<String> {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(name, value)| (format!("{at}/{name}"), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (format!("{at}/{index}"), value)).collect()
        }
        _ => Vec::new(),
    };
    below.into_iter().flat_map(|(at, value)| [vec![at.clone()], pointers(value, &at)].concat()).collect()
}

/// Whether the reader refuses `value` by a rule that no schema can express: see `src/protocol/schema.rs`.
fn is_beyond_a_schema(value: &Value, message: &str) -> bool {
    let is_counted_wrongly =
        message.contains("a positive multiple of the batch") || message.contains(" iterations of ");
    let pointers = pointers(value, "");
    let values = pointers.iter().filter_map(|pointer| value.pointer(pointer));
    let mut fractions = values.filter(|value| value.is_f64() && value.as_f64().unwrap().fract() == 0.0);
    let is_busy_too_long = message.contains("ops.device_busy_s");
    is_counted_wrongly
        || is_busy_too_long
        || (message.contains("expected a whole number") && fractions.next().is_some())
}

proptest! {
    #[test]
    fn the_schema_and_the_reader_agree_on_damaged_files(
        at in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        value in prop::option::of(prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2_i64..3).prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e3..1e12_f64).prop_map(Value::from),
            Just(json!(0.5)),
            Just(json!(2.0)),
            "[a-z0-9]{0,4}".prop_map(Value::from),
            Just(json!([])),
            Just(json!([1])),
            Just(json!({})),
            Just(json!({ "a": 1 })),
        ]),
    ) {
        let mut whole = full();
        for at in [at, other] {
            let pointers = pointers(&whole, "");
            whole = changed(&whole, at.get::<String>(&pointers), value.clone());
        }
        let read = Report::parse(&whole.to_string()).map(drop).map_err(|error| with_causes(&error));
        match (read, mistakes(&whole).is_empty()) {
            (Err(message), true) => prop_assert!(is_beyond_a_schema(&whole, &message), "{message}: {whole}"),
            (read, is_valid) => prop_assert_eq!(read.is_ok(), is_valid, "{}: {:?}", whole, mistakes(&whole)),
        }
    }
}
