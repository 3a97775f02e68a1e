//! The values of parameters in matrices and keys.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use super::Finite;

/// The value of one worker parameter. In JSON it is a scalar, or the object of a [`DataSource`]. The form decides the
/// variant, so `1`, `1.0` and `"1"` are different values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with or without a fraction.
    Float(Finite),
    /// A word.
    Text(String),
    /// The source of the images.
    Data(DataSource),
}

impl<'de> Deserialize<'de> for ParamValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParamVisitor)
    }
}

/// Accepts only numbers that it can keep exactly: no integer becomes a float.
struct ParamVisitor;

impl<'de> Visitor<'de> for ParamVisitor {
    type Value = ParamValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a word, a finite number, a whole number of 64 bits, `true`, `false`, or a source of data",
        )
    }

    fn visit_bool<E>(self, value: bool) -> Result<ParamValue, E> {
        Ok(ParamValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ParamValue, E> {
        Ok(ParamValue::Int(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<ParamValue, E> {
        let value = i64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))?;
        Ok(ParamValue::Int(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<ParamValue, E> {
        let finite = Finite::new(value).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))?;
        Ok(ParamValue::Float(finite))
    }

    fn visit_str<E>(self, value: &str) -> Result<ParamValue, E> {
        Ok(ParamValue::Text(value.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ParamValue, A::Error> {
        DataSource::deserialize(MapAccessDeserializer::new(map)).map(ParamValue::Data)
    }
}

/// The source of a worker's images. In YAML and JSON: `{ synthetic: true }` or `{ folder: path/to/imagefolder }`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "DataSourceFile", into = "DataSourceFile")]
pub enum DataSource {
    /// Random tensors made once: no decoding, no disk.
    Synthetic,
    /// An ImageFolder: `<folder>/train/<class>/*.jpg`, or `<folder>/<class>/*.jpg`.
    Folder(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataSourceFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    synthetic: Option<bool>,
}

impl TryFrom<DataSourceFile> for DataSource {
    type Error = &'static str;

    fn try_from(file: DataSourceFile) -> Result<Self, Self::Error> {
        match file {
            DataSourceFile { folder: Some(folder), synthetic: None } => Ok(DataSource::Folder(folder)),
            DataSourceFile { folder: None, synthetic: Some(true) } => Ok(DataSource::Synthetic),
            _ => Err("expected `{ synthetic: true }` or `{ folder: <path> }`"),
        }
    }
}

impl From<DataSource> for DataSourceFile {
    fn from(source: DataSource) -> Self {
        match source {
            DataSource::Synthetic => DataSourceFile { folder: None, synthetic: Some(true) },
            DataSource::Folder(folder) => DataSourceFile { folder: Some(folder), synthetic: None },
        }
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataSource::Synthetic => f.write_str("synthetic"),
            DataSource::Folder(folder) => f.write_str(folder),
        }
    }
}

impl fmt::Display for ParamValue {
    /// The text for placeholders and tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Bool(value) => value.fmt(f),
            ParamValue::Int(value) => value.fmt(f),
            ParamValue::Float(value) => value.fmt(f),
            ParamValue::Text(value) => value.fmt(f),
            ParamValue::Data(value) => value.fmt(f),
        }
    }
}

impl ParamValue {
    /// Its number, if it is one. Beyond 2⁵³, a float cannot represent every integer.
    pub fn number(&self) -> Option<f64> {
        match self {
            ParamValue::Int(value) => Some(*value as f64),
            ParamValue::Float(value) => Some(value.get()),
            ParamValue::Bool(_) | ParamValue::Text(_) | ParamValue::Data(_) => None,
        }
    }
}
