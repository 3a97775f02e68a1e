//! Reads a worker's JSON, and reports what is wrong with it in the terms of the file: the field, the value, and the
//! expected form.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment, Track};

use crate::clean::{clean_text, deserialize_clean};

/// A `measurement.json` is not JSON, or does not have the expected form.
#[derive(Debug, thiserror::Error)]
pub enum BadForm {
    /// It is not JSON: it is cut off, for example.
    #[error("measurement.json is not valid JSON")]
    NotJson(#[source] serde_json::Error),
    /// It contains a number that JSON does not have. Python's `json.dump` writes them.
    #[error("measurement.json: {field} is {number}: JSON has no {number}; write null")]
    NotFinite {
        /// The field with its path, such as `details.last_loss`, in backticks.
        field: String,
        /// `NaN`, `Infinity` or `-Infinity`.
        number: String,
    },
    /// A required field is missing.
    #[error("measurement.json has no `{0}`")]
    Missing(String),
    /// A field has a value of the wrong type.
    #[error("measurement.json: {field} is {found}: expected {expected}")]
    WrongType {
        /// The field with its path, in backticks; or the file.
        field: String,
        /// Its value, as JSON.
        found: String,
        /// The type in words.
        expected: String,
    },
    /// A field has a value of the right type that is not allowed, or it occurs twice.
    #[error("measurement.json: {field}: {message}")]
    WrongValue {
        /// The field with its path, in backticks; or the file.
        field: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Reads `text` as a `T` whose texts are clean.
///
/// # Errors
/// [`BadForm`], with the path of the field.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, BadForm> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut track = Track::new();
    match deserialize_clean(serde_path_to_error::Deserializer::new(&mut deserializer, &mut track)) {
        Ok(read) => {
            deserializer.end().map_err(BadForm::NotJson)?;
            list_for_object(text).map_or(Ok(read), Err)
        }
        Err(error) if error.is_data() => Err(wrong_form(text, &track.path(), &error)),
        Err(error) => Err(not_finite(text).unwrap_or(BadForm::NotJson(error))),
    }
}

/// The error for the first list of `text` that is in the place of an object. serde would read its values as the fields,
/// in order.
fn list_for_object(text: &str) -> Option<BadForm> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let parts = ["failure", "effective", "ops", "details"].map(|name| (name.to_owned(), &whole[name]));
    let ranks = whole["details"]["ranks"].as_array().into_iter().flatten().enumerate();
    let ranks = ranks.map(|(index, rank)| (format!("details.ranks[{index}]"), rank));
    let metrics = whole["metrics"].as_object().into_iter().flatten();
    let metrics = metrics.map(|(name, metric)| (format!("metrics.{}", clean_text(name)), metric));
    let operators = whole["ops"]["operators"].as_array().into_iter().flatten().enumerate();
    let operators = operators.map(|(index, operator)| (format!("ops.operators[{index}]"), operator));
    let (field, list) = [(String::new(), &whole)]
        .into_iter()
        .chain(parts)
        .chain(ranks)
        .chain(metrics)
        .chain(operators)
        .find(|(_, value)| value.is_array())?;
    Some(BadForm::WrongType {
        field: named(&field),
        found: shortened(&list.to_string()),
        expected: in_words("a map").to_owned(),
    })
}

/// The error in terms of the field at `path` of `text`, from serde's `error`.
fn wrong_form(text: &str, path: &Path, error: &serde_json::Error) -> BadForm {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let field = path_text(path);
    if let Some(name) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return BadForm::Missing(if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") });
    }
    let expected = message.rsplit_once(", expected ").map(|(_, expected)| expected);
    let begins = ["invalid type: ", "invalid value: ", "invalid length "];
    let is_of_type = begins.iter().any(|begin| message.starts_with(begin));
    match (expected.filter(|_| is_of_type), value_at(text, path)) {
        (Some(expected), Some(found)) => BadForm::WrongType {
            field: named(&field),
            found: shortened(&found.to_string()),
            expected: in_words(expected).to_owned(),
        },
        _ => BadForm::WrongValue { field: named(&field), message: message.to_owned() },
    }
}

/// serde's name of a type, in words.
fn in_words(expected: &str) -> &str {
    match expected {
        "u64" => "a whole number",
        "u32" => "a whole number up to 4294967295",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
}

/// The field at `path`, such as `effective.batch` or `details.repeated[0]`; empty for the whole file.
fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => {
                write!(text, "[{index}]").expect("writing to a String cannot fail");
            }
            Segment::Map { key: name } | Segment::Enum { variant: name } => push_name(&mut text, name),
            Segment::Unknown => push_name(&mut text, "?"),
        }
    }
    text
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&clean_text(name));
}

/// The name of the field at `path` in a message.
fn named(path: &str) -> String {
    if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") }
}

/// The value at `path` of `text`.
fn value_at(text: &str, path: &Path) -> Option<Value> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let found = path.iter().try_fold(&whole, |value, segment| match segment {
        Segment::Seq { index } => value.get(index),
        Segment::Map { key } => value.get(key),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    found.cloned()
}

/// The most characters of a value that a message shows.
const LONGEST_VALUE: usize = 60;

fn shortened(value: &str) -> String {
    let value = clean_text(value);
    match value.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{} …", &value[..end]),
        None => value.into_owned(),
    }
}

/// The numbers that JSON does not have, as Python and JavaScript write them. The longer one comes first.
const NOT_FINITE: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Precedes such a number when it is made a text. It is unlikely in the text of a worker.
const MARKER: char = '\u{1}';

/// The error for the first number that JSON does not have, if `text` is valid JSON except for such numbers.
fn not_finite(text: &str) -> Option<BadForm> {
    let whole: Value = serde_json::from_str(&quoted(text)).ok()?;
    let (field, number) = marked(&whole, "")?;
    Some(BadForm::NotFinite { field: named(&field), number })
}

/// `text` with each of [`NOT_FINITE`] that is not within a text made a text itself.
fn quoted(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    let mut rest = text;
    let (mut is_text, mut is_escaped) = (false, false);
    while let Some(char) = rest.chars().next() {
        if let Some(number) = NOT_FINITE.iter().find(|number| !is_text && rest.starts_with(**number)) {
            write!(found, "\"\\u{:04x}{number}\"", u32::from(MARKER))
                .expect("writing to a String cannot fail");
            rest = &rest[number.len()..];
            continue;
        }
        is_text ^= char == '"' && !is_escaped;
        is_escaped = is_text && char == '\\' && !is_escaped;
        found.push(char);
        rest = &rest[char.len_utf8()..];
    }
    found
}

/// The path below `path`, and the number, of the first text in `value` that [`quoted`] made.
fn marked(value: &Value, path: &str) -> Option<(String, String)> {
    match value {
        Value::String(text) => Some((path.to_owned(), text.strip_prefix(MARKER)?.to_owned())),
        Value::Array(values) => {
            values.iter().enumerate().find_map(|(index, value)| marked(value, &format!("{path}[{index}]")))
        }
        Value::Object(values) => values.iter().find_map(|(name, value)| {
            let mut path = path.to_owned();
            push_name(&mut path, name);
            marked(value, &path)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Report;
    use super::*;
    use crate::text::with_causes;

    const WHOLE: &str = r#"{ "schema": 1, "samples": 1600, "elapsed_s": 12.5, "synchronized": true,
        "effective": { "device": "cpu", "precision": "fp32", "batch": 16, "lr": 0.5 },
        "details": { "last_loss": 6.5, "repeated": ["strict"], "device_name": "NaN \" Infinity" } }"#;

    /// The message for a valid file in which `from` is replaced by `to`.
    fn said(from: &str, to: &str) -> String {
        let text = WHOLE.replacen(from, to, 1);
        assert_ne!(text, WHOLE, "{from} is there");
        with_causes(&Report::parse(&text).expect_err(&text))
    }

    #[test]
    fn a_wrong_value_is_named_with_its_field_and_the_expected_form() {
        for (from, to, message) in [
            ("1600", "\"320\"", "`samples` is \"320\": expected a whole number"),
            ("1600", "1600.5", "`samples` is 1600.5: expected a whole number"),
            ("1600", "-16", "`samples` is -16: expected a whole number"),
            ("12.5", "\"12.5\"", "`elapsed_s` is \"12.5\": expected a number"),
            ("true", "1", "`synchronized` is 1: expected true or false"),
            ("\"fp32\"", "32", "`effective.precision`"),
            ("\"cpu\"", "\"gpu\"", "`effective.device`"),
            ("16,", "\"16\",", "`effective.batch` is \"16\": expected a whole number up to 4294967295"),
            ("6.5", "[6.5]", "`details.last_loss` is [6.5]: expected a number"),
            ("\"strict\"", "1", "`details.repeated[0]` is 1: expected a text"),
            ("[\"strict\"]", "\"strict\"", "`details.repeated` is \"strict\": expected a list"),
        ] {
            let said = said(from, to);
            assert!(said.starts_with(&format!("measurement.json: {message}")), "{from} -> {to}: {said}");
        }
    }

    #[test]
    fn a_missing_field_is_named_with_its_path() {
        for (from, field) in [
            ("\"schema\": 1, ", "schema"),
            ("\"samples\": 1600, ", "samples"),
            (", \"batch\": 16", "effective.batch"),
            ("\"device\": \"cpu\", ", "effective.device"),
        ] {
            assert_eq!(said(from, ""), format!("measurement.json has no `{field}`"));
        }
    }

    #[test]
    fn a_number_that_json_does_not_have_is_named_with_its_field() {
        for (from, number, field) in [
            ("6.5", "NaN", "details.last_loss"),
            ("12.5", "Infinity", "elapsed_s"),
            ("0.5", "-Infinity", "effective.lr"),
            ("\"strict\"", "NaN", "details.repeated[0]"),
        ] {
            let expected =
                format!("measurement.json: `{field}` is {number}: JSON has no {number}; write null");
            assert_eq!(said(from, number), expected);
        }
    }

    #[test]
    fn a_text_with_such_a_number_in_it_is_a_text() {
        assert!(Report::parse(WHOLE).is_ok());
        assert_eq!(quoted(WHOLE), WHOLE);
        let escaped = r#"["\\", NaN, "\\\" NaN"]"#;
        assert_eq!(quoted(escaped), r#"["\\", "\u0001NaN", "\\\" NaN"]"#);
    }

    #[test]
    fn files_that_are_not_json_are_reported_as_such() {
        for end in 0..WHOLE.len() {
            let said = with_causes(&Report::parse(&WHOLE[..end]).expect_err("it is cut off"));
            assert!(said.starts_with("measurement.json is not valid JSON: EOF"), "cut at {end}: {said}");
        }
        assert!(said("16,", "16 NaN").starts_with("measurement.json is not valid JSON: "));
        let twice = format!("{WHOLE}{WHOLE}");
        let said = with_causes(&Report::parse(&twice).expect_err("there are two"));
        assert!(said.starts_with("measurement.json is not valid JSON: trailing characters"), "{said}");
    }

    #[test]
    fn a_file_that_is_not_an_object_is_refused_as_a_whole() {
        let error = Report::parse("3").expect_err("a number is no measurement");
        assert_eq!(error.to_string(), "measurement.json: the file is 3: expected an object");
    }

    #[test]
    fn a_list_is_not_an_object() {
        let with = |details: &str| {
            let text = WHOLE.replace("\"details\": {", &format!("\"details\": {details}, \"other\": {{"));
            Report::parse(&text).expect_err(&text).to_string()
        };
        for (list, message) in [
            ("[]", "`details` is []"),
            ("[0.5, 0.5]", "`details` is [0.5,0.5]"),
            ("{ \"ranks\": [{ \"rank\": 0 }, [1]] }", "`details.ranks[1]` is [1]"),
        ] {
            assert_eq!(with(list), format!("measurement.json: {message}: expected an object"));
        }
        for (ops, message) in [
            ("[\"kineto\", 3, 0.5, null, []]", "`ops` is [\"kineto\",3,0.5,null,[]]"),
            (
                r#"{ "source": "x", "iterations": 1, "elapsed_s": 1, "operators": [["aten::mm", null, null, [], [], [], 1, 0.5]] }"#,
                "`ops.operators[0]` is [\"aten::mm\",null,null,[],[],[],1,0.5]",
            ),
        ] {
            let text = WHOLE.replace("\"details\": {", &format!("\"ops\": {ops}, \"details\": {{"));
            let error = Report::parse(&text).expect_err(&text).to_string();
            assert_eq!(error, format!("measurement.json: {message}: expected an object"));
        }
        let message = Report::parse("[1, null, 4, 1.0, true, null, null, {}, null, {}]")
            .expect_err("it is a list")
            .to_string();
        assert!(message.ends_with("expected an object"), "{message}");
        assert!(Report::parse("[]").expect_err("it is a list").to_string().ends_with("expected an object"));
    }

    #[test]
    fn a_long_value_is_shortened() {
        let long = format!("\"{}\"", "ä".repeat(200));
        let said = said("6.5", &long);
        assert!(said.contains("ä …: expected a number") && said.chars().count() < 150, "{said}");
    }
}
