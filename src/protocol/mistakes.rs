//! Lists all mistakes in a `measurement.json`. [`Report::parse`] stops at the first one.

use serde_json::{Map, Value, json};

use super::form::{self, BadForm};
use super::objects::objects;
use super::{BadMeasurement, Report, WireMeasurement};

/// The mistakes in `text`: every field of `measurement.json` that is missing or has the wrong form. If all fields are
/// valid, the error of [`Report::parse`] about the file as a whole. Empty if the file can be used.
pub fn mistakes(text: &str) -> Vec<BadMeasurement> {
    let Err(whole) = Report::parse(text) else { return Vec::new() };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Ok(Value::Object(file)) = serde_json::from_str(text) else { return vec![whole] };
    let mut found = missing(&file);
    for wrong in malformed(&file) {
        // A field that is missing in an object can be in the list already.
        if !found.iter().any(|known| known.to_string() == wrong.to_string()) {
            found.push(wrong);
        }
    }
    if found.is_empty() { vec![whole] } else { found.into_iter().map(BadMeasurement::from).collect() }
}

/// The required fields that are not there.
fn missing(file: &Map<String, Value>) -> Vec<BadForm> {
    let has_failed = file.get("failure").is_some_and(Value::is_object);
    let mut found = Vec::new();
    for object in objects().into_iter().filter(|object| !object.is_each) {
        let of_failure = ["failure", "schema"];
        let there = match object.path.as_str() {
            "" => Some(file),
            path => file.get(path).and_then(Value::as_object),
        };
        let is_absent = |name: &&String| there.is_some_and(|it| it.get(*name).is_none_or(Value::is_null));
        let is_asked =
            |name: &&String| !has_failed || object.path == "failure" || of_failure.contains(&name.as_str());
        found.extend(object.required.iter().filter(is_absent).filter(is_asked).map(|name| {
            BadForm::Missing(if object.path.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", object.path)
            })
        }));
    }
    found
}

/// The fields with values of the wrong form: each is tested alone, in an otherwise valid file.
fn malformed(file: &Map<String, Value>) -> Vec<BadForm> {
    let sound = json!({
        "schema": 1, "effective": { "device": "cpu", "precision": "fp32", "batch": 1 }, "details": {},
        "ops": {
            "source": "x", "iterations": 1, "elapsed_s": 1,
            "operators": [{ "name": "x", "calls": 1, "host_s": 1 }],
        },
    });
    let mut found = Vec::new();
    let mut try_alone = |place: &str, name: &str, value: &Value| {
        let mut tried = sound.clone();
        tried.pointer_mut(place).expect("it is an object of the valid file")[name] = value.clone();
        found.extend(form::read::<WireMeasurement>(&tried.to_string()).err());
    };
    for (name, value) in file.iter().filter(|(_, value)| !value.is_null()) {
        match (name.as_str(), value) {
            ("effective" | "details" | "ops", Value::Object(fields)) => {
                let fields = fields.iter().filter(|(_, value)| !value.is_null());
                fields.for_each(|(field, value)| try_alone(&format!("/{name}"), field, value));
            }
            _ => try_alone("", name, value),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::with_causes;

    fn lines(text: &str) -> Vec<String> {
        let errors = mistakes(text).into_iter().map(|error| with_causes(&error));
        let rest = |line: &str| {
            line.trim_start_matches("measurement.json").trim_start_matches([':', ' ']).to_owned()
        };
        errors.map(|line| rest(&line)).collect()
    }

    #[test]
    fn every_mistake_of_a_file_is_named() {
        let text = r#"{ "schema": 1, "samples": "320", "elapsed_s": null, "synchronized": 1,
            "effective": { "device": "gpu", "precision": "fp32", "lr": [1] },
            "details": { "parameters": -1, "versions": ["2.0"], "last_loss": null } }"#;
        let found = lines(text);
        for (index, begin) in [
            "has no `elapsed_s`",
            "has no `effective.batch`",
            "`details.parameters` is -1: expected a whole number",
            "`details.versions` is [\"2.0\"]: expected an object",
            "`effective.device`: `gpu` is not a device",
            "`samples` is \"320\": expected a whole number",
            "`synchronized` is 1: expected true or false",
        ]
        .iter()
        .enumerate()
        {
            assert!(found.get(index).is_some_and(|line| line.starts_with(begin)), "{begin}: {found:#?}");
        }
        assert_eq!(found.len(), 7, "{found:#?}");
    }

    #[test]
    fn mistakes_across_fields_are_named_once_each_field_is_valid() {
        let text = |samples: &str| {
            format!(
                r#"{{ "schema": 1, "samples": {samples}, "elapsed_s": 1, "synchronized": true,
                     "effective": {{ "device": "cpu", "precision": "fp32", "batch": 4 }} }}"#
            )
        };
        assert_eq!(lines(&text("8")), [""; 0]);
        assert_eq!(lines(&text("9")), ["samples is 9: expected a positive multiple of the batch, 4"]);
        assert_eq!(lines(&text("1e400")).len(), 1);
        assert_eq!(lines(&text("8").replace("\"schema\": 1", "\"schema\": 3")), ["has schema 3: expected 1"]);
        assert!(lines(&text("NaN"))[0].contains("`samples` is NaN"), "{:?}", lines(&text("NaN")));
        assert_eq!(lines("[]"), ["the file is []: expected an object"]);
    }

    #[test]
    fn the_mistakes_of_a_profile_are_named_as_those_of_other_objects() {
        let text = |ops: &str| {
            format!(
                r#"{{ "schema": 1, "samples": 8, "elapsed_s": 1, "synchronized": true, "ops": {ops},
                     "effective": {{ "device": "cpu", "precision": "fp32", "batch": 4 }} }}"#
            )
        };
        let operator = r#"{ "name": "aten::mm", "calls": 3, "host_s": 0.5 }"#;
        let sound =
            format!(r#"{{ "source": "x", "iterations": 3, "elapsed_s": 1, "operators": [{operator}] }}"#);
        assert_eq!(lines(&text(&sound)), [""; 0]);
        let found =
            lines(&text(r#"{ "iterations": "3", "elapsed_s": [1], "operators": [{ "name": "mm" }] }"#));
        assert_eq!(
            found,
            [
                "has no `ops.source`",
                "`ops.elapsed_s` is [1]: expected a number",
                "`ops.iterations` is \"3\": expected a whole number up to 4294967295",
                "has no `ops.operators[0].calls`",
            ]
        );
        let impossible = lines(&text(&sound.replace("0.5", "-0.5")));
        assert_eq!(impossible, ["ops.operators[0].host_s is -0.5: expected a number from 0"]);
    }

    #[test]
    fn a_failure_needs_only_the_fields_of_a_failure() {
        assert_eq!(lines(r#"{ "schema": 1, "failure": { "kind": "other", "message": "why" } }"#), [""; 0]);
        let found = lines(r#"{ "failure": { "kind": "other" } }"#);
        assert_eq!(found, ["has no `schema`", "has no `failure.message`"]);
    }
}
