//! A setting as a worker reports it, and how it is compared with the request.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::clean::{clean_text, cleaned};
use crate::job::{DataSource, ParamValue};

/// A setting as the worker reported it: any JSON. `null` means that it was not reported.
///
/// Two settings are equal if they mean the same: `1` equals `1.0`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Setting(Value);

impl Setting {
    /// Whether the setting is as `requested`.
    ///
    /// Numbers are compared exactly, by value; texts letter by letter; switches as switches. Command lines only have
    /// texts, so if just one side is a text, it is read as JSON: `"32"` equals 32.
    pub fn agrees_with(&self, requested: &ParamValue) -> bool {
        if let ParamValue::Data(source) = requested {
            return self.is_data(source);
        }
        match (&self.0, &Setting::from(requested).0) {
            (Value::String(own), Value::String(asked)) => own == asked,
            (Value::String(text), other) | (other, Value::String(text)) => reads_as(text, other),
            (own, asked) => same(own, asked),
        }
    }

    /// Whether it is `source`, written as in a matrix or as a placeholder is replaced.
    fn is_data(&self, source: &DataSource) -> bool {
        let source = cleaned(source);
        match &self.0 {
            Value::String(text) => *text == source.to_string(),
            _ => self.data() == Some(source),
        }
    }

    /// The source of images, if it is written as in a matrix.
    fn data(&self) -> Option<DataSource> {
        DataSource::deserialize(&self.0).ok()
    }

    /// The setting as a whole number of at least 0, if it is one.
    pub fn whole(&self) -> Option<u64> {
        match &self.0 {
            Value::Number(number) => whole(number)?.try_into().ok(),
            Value::String(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// Whether `text`, read as JSON, means the same as `value`.
fn reads_as(text: &str, value: &Value) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|read| same(&read, value))
}

/// Whether the two are equal, comparing numbers by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| same(value, other)))
        }
        (a, b) => a == b,
    }
}

/// Compares whole numbers without converting them to floats, which cannot represent all of them above 2⁵³.
fn same_number(a: &Number, b: &Number) -> bool {
    match (whole(a), whole(b)) {
        (None, None) => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

/// `number` as a whole number, if it is one. Floats above 10³⁰ do not count.
fn whole(number: &Number) -> Option<i128> {
    let of_float = || {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e30)?;
        Some(float as i128)
    };
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(of_float)
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        same(&self.0, &other.0)
    }
}

impl fmt::Display for Setting {
    /// As in a table. A text has no quotation marks unless it contains control characters. A source of images and a
    /// number are written as in a matrix. Everything else is JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0, self.data()) {
            (_, Some(source)) => source.fmt(f),
            (Value::String(text), None) if text.contains(char::is_control) => write!(f, "{text:?}"),
            (Value::String(text), None) => f.write_str(text),
            (Value::Number(number), None) if number.is_f64() => {
                number.as_f64().expect("it is a float").fmt(f)
            }
            (other, None) => other.fmt(f),
        }
    }
}

impl<T: Into<Value>> From<T> for Setting {
    fn from(value: T) -> Self {
        Setting(value.into())
    }
}

impl From<&ParamValue> for Setting {
    fn from(value: &ParamValue) -> Self {
        match value {
            ParamValue::Bool(value) => (*value).into(),
            ParamValue::Int(value) => (*value).into(),
            ParamValue::Float(value) => value.get().into(),
            // Reported settings are cleaned, so the requested ones must be too.
            ParamValue::Text(value) => clean_text(value).into_owned().into(),
            ParamValue::Data(source) => source.into(),
        }
    }
}

impl From<&DataSource> for Setting {
    fn from(source: &DataSource) -> Self {
        Setting(serde_json::to_value(source).expect("a source of images is a record of a text or a switch"))
    }
}

/// Settings by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, Setting>);

impl Settings {
    /// The setting `name`, if the worker reports it.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.0.get(name).filter(|setting| !setting.0.is_null())
    }

    /// The setting `name` as a whole number, if it is one.
    pub fn whole(&self, name: &str) -> Option<u64> {
        self.get(name)?.whole()
    }

    /// The settings that are not `null`, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.0
            .iter()
            .filter(|(_, setting)| !setting.0.is_null())
            .map(|(name, setting)| (name.as_str(), setting))
    }

    /// Sets the setting `name`.
    pub fn set(&mut self, name: &str, setting: impl Into<Setting>) {
        self.0.insert(name.to_owned(), setting.into());
    }

    /// Keeps only the settings for which `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&str, &Setting) -> bool) {
        self.0.retain(|name, setting| keeps(name, setting));
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl FromIterator<(&'static str, Setting)> for Settings {
    fn from_iter<I: IntoIterator<Item = (&'static str, Setting)>>(settings: I) -> Self {
        Settings(settings.into_iter().map(|(name, setting)| (name.to_owned(), setting)).collect())
    }
}

impl<'a> FromIterator<(&'a str, &'a Setting)> for Settings {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a Setting)>>(settings: I) -> Self {
        Settings(settings.into_iter().map(|(name, setting)| (name.to_owned(), setting.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Finite;

    fn setting(json: &str) -> Setting {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn equal_settings_mean_the_same() {
        for (a, b, are_equal) in [
            ("1", "1.0", true),
            ("1", "1.5", false),
            ("-0.0", "0", true),
            ("1e3", "1000", true),
            ("9007199254740993", "9007199254740992.0", false),
            ("18446744073709551615", "-1", false),
            ("1e300", "1e300", true),
            ("0.1", "0.1", true),
            ("0.1", "0.10000000149011612", false),
            ("1", "\"1\"", false),
            ("[1, { \"a\": 2 }]", "[1.0, { \"a\": 2.0 }]", true),
            ("[1, 2]", "[1]", false),
            ("{ \"a\": 1 }", "{ \"b\": 1 }", false),
            ("true", "false", false),
        ] {
            assert_eq!(setting(a) == setting(b), are_equal, "{a} {b}");
            assert_eq!(setting(b) == setting(a), are_equal, "{b} {a}");
        }
    }

    #[test]
    fn every_form_of_a_source_of_images_is_recognised() {
        let (synthetic, folder) = (DataSource::Synthetic, DataSource::Folder("a/b".into()));
        for (json, source, shown) in [
            ("{ \"synthetic\": true }", &synthetic, "synthetic"),
            ("\"synthetic\"", &synthetic, "synthetic"),
            ("{ \"folder\": \"a/b\" }", &folder, "a/b"),
            ("\"a/b\"", &folder, "a/b"),
        ] {
            let other = if source == &folder { &synthetic } else { &folder };
            assert!(setting(json).agrees_with(&ParamValue::Data(source.clone())), "{json}");
            assert!(!setting(json).agrees_with(&ParamValue::Data(other.clone())), "{json}");
            assert_eq!(setting(json).to_string(), shown);
        }
        assert!(!setting("true").agrees_with(&ParamValue::Data(synthetic.clone())));
        assert_eq!(Setting::from(&folder), setting("{ \"folder\": \"a/b\" }"));
    }

    /// A fraction can be written on the command line, by serde or by a worker in another language.
    #[test]
    fn a_fraction_is_the_same_in_all_its_spellings() {
        for (number, spellings) in [
            (1e-4, ["0.0001", "1e-4", "1.0E-04", "\"1e-4\""]),
            (0.0, ["0", "0.0", "-0.0", "\"0\""]),
            (1e-7, ["1e-7", "0.0000001", "1.0e-07", "\"0.0000001\""]),
            (
                0.1 + 0.2,
                [
                    "0.30000000000000004",
                    "3.0000000000000004e-1",
                    "0.30000000000000004e0",
                    "0.30000000000000004",
                ],
            ),
        ] {
            let requested = ParamValue::Float(Finite::new(number).unwrap());
            for spelling in spellings {
                assert!(setting(spelling).agrees_with(&requested), "{spelling}");
            }
            let reported = serde_json::to_string(&Setting::from(&requested)).unwrap();
            assert!(setting(&reported).agrees_with(&requested), "{reported}");
            assert_eq!(setting(&reported).to_string(), requested.to_string(), "a column has one spelling");
            assert!(!setting("0.30000001").agrees_with(&requested), "{number}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(setting(r#""a\u001b[2Jb""#).to_string(), r#""a\u{1b}[2Jb""#);
        assert_eq!(setting(r#"["a b", 1.0, null]"#).to_string(), r#"["a b",1.0,null]"#);
    }

    #[test]
    fn a_null_setting_is_not_reported() {
        let settings: Settings =
            serde_json::from_str(r#"{ "a": null, "b": 2.0, "c": "3", "d": -1 }"#).unwrap();
        assert_eq!((settings.get("a"), settings.iter().count()), (None, 3));
        assert_eq!(["b", "c", "d"].map(|name| settings.whole(name)), [Some(2), Some(3), None]);
        let without: Settings = serde_json::from_str(r#"{ "b": 2, "c": "3", "d": -1 }"#).unwrap();
        assert_eq!(settings, without);
        assert!(
            serde_json::to_string(&settings).unwrap().contains(r#""a":null"#),
            "null is kept in the file"
        );
    }
}
