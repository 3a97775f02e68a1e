//! The canonical JSON of a key, the preimage of its id.
//!
//! Every verb needs the id of every job, so the text is written field by field, without a tree of values in between.

use std::fmt::Write;

use super::key::hashed;
use super::{DataSource, JobId, Key, ParamValue, Params, Profile, WorkerTemplate};

impl Key {
    /// The hash's preimage: JSON without white space, object keys sorted by bytes at every depth.
    pub fn canonical_json(&self) -> String {
        self.text(self.batch, self.repeat)
    }

    /// SHA-256 of [`Key::canonical_json`].
    pub fn id(&self) -> JobId {
        JobId::of(&self.canonical_json())
    }

    /// The id of [`Key::config`].
    pub fn config_id(&self) -> JobId {
        JobId::of(&self.text(self.batch, 1))
    }

    /// An id that configs share if they differ only in the batch: that of [`Key::config`] with batch 0.
    pub fn id_of_any_batch(&self) -> JobId {
        JobId::of(&self.text(0, 1))
    }

    /// The canonical JSON of this key with another `batch` and `repeat`.
    fn text(&self, batch: u32, repeat: u32) -> String {
        let mut out = String::with_capacity(512);
        self.write_before_repeat(batch, &mut out);
        write_number(repeat, &mut out);
        self.write_after_repeat(&mut out);
        out
    }

    /// Writes the canonical JSON of this key with another `batch`, up to the repeat.
    pub(super) fn write_before_repeat(&self, batch: u32, out: &mut String) {
        // Exhaustive, so that a new field of a key is written here or below.
        let Key {
            kind,
            env,
            device,
            model,
            precision,
            params,
            profile,
            batch: _,
            repeat: _,
            schema: _,
            worker: _,
        } = self;
        let mut object = Object::begin(out);
        write_number(batch, object.member("batch"));
        write_text(&device.to_string(), object.member("device"));
        write_text(env, object.member("env"));
        write_text(kind.as_str(), object.member("kind"));
        write_text(model, object.member("model"));
        write_params(params, object.member("params"));
        write_text(precision.as_str(), object.member("precision"));
        if !profile.is_default() {
            write_profile(profile, object.member("profile"));
        }
        object.member("repeat");
    }

    /// Writes the part after the repeat.
    pub(super) fn write_after_repeat(&self, out: &mut String) {
        let Key { schema, worker, .. } = self;
        let mut object = Object::begun(out);
        write_number(*schema, object.member("schema"));
        if let WorkerTemplate::Command(words) = worker {
            write_command(words, object.member("worker"));
        }
        object.end();
    }
}

/// A JSON object in the making. Its members must come in the order of their names' bytes.
struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> Object<'a> {
    fn begin(out: &'a mut String) -> Self {
        out.push('{');
        Object { out, is_empty: true }
    }

    /// Continues the object at the end of `out`, which has a member.
    fn begun(out: &'a mut String) -> Self {
        Object { out, is_empty: false }
    }

    /// Begins the member `name`. The caller appends its value.
    fn member(&mut self, name: &str) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        write_text(name, self.out);
        self.out.push(':');
        self.out
    }

    fn end(self) {
        self.out.push('}');
    }
}

/// The parameters that are not at their defaults. The map is sorted by the bytes of the names.
fn write_params(params: &Params, out: &mut String) {
    let mut object = Object::begin(out);
    for (name, value) in hashed(params) {
        write_value(value, object.member(name));
    }
    object.end();
}

fn write_value(value: &ParamValue, out: &mut String) {
    match value {
        ParamValue::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        ParamValue::Int(value) => write_number(*value, out),
        ParamValue::Float(value) => out.push_str(&value.canonical()),
        ParamValue::Text(text) => write_text(text, out),
        ParamValue::Data(source) => write_source(source, out),
    }
}

fn write_source(source: &DataSource, out: &mut String) {
    let mut object = Object::begin(out);
    match source {
        DataSource::Folder(folder) => write_text(folder, object.member("folder")),
        DataSource::Synthetic => object.member("synthetic").push_str("true"),
    }
    object.end();
}

fn write_profile(Profile { iters, counters }: &Profile, out: &mut String) {
    let mut object = Object::begin(out);
    if !counters.is_empty() {
        write_texts(counters, object.member("counters"));
    }
    if let Some(iters) = iters {
        write_number(*iters, object.member("iters"));
    }
    object.end();
}

fn write_command(words: &[String], out: &mut String) {
    let mut object = Object::begin(out);
    write_texts(words, object.member("command"));
    object.end();
}

fn write_texts(texts: &[String], out: &mut String) {
    out.push('[');
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(text, out);
    }
    out.push(']');
}

/// Writes a whole number.
pub(super) fn write_number(number: impl Into<i64>, out: &mut String) {
    // A `String` takes everything.
    let _ = write!(out, "{}", number.into());
}

/// Writes `text` in quotation marks, escaped as `serde_json` escapes it: `"`, `\` and control characters below a space.
fn write_text(text: &str, out: &mut String) {
    // Without a branch, many bytes are checked at the same time (SIMD).
    let needs_escape = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, |found, byte| found | needs_escape(byte)) {
        out.push_str(&serde_json::Value::from(text).to_string());
        return;
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::job::{Finite, arbitrary};

    /// The definition: the key's own JSON, sorted, with floats in [`Finite::canonical`] form.
    fn defined(key: &Key) -> String {
        let normal = Key { params: Key::without_defaults(key.params.clone()), ..key.clone() };
        let mut text = String::new();
        write_sorted(&serde_json::to_value(&normal).unwrap(), &mut text);
        text
    }

    fn write_sorted(value: &Value, out: &mut String) {
        match value {
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by_key(|(name, _)| name.as_bytes());
                out.push('{');
                for (index, (name, value)) in entries.into_iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::from(name.as_str()).to_string());
                    out.push(':');
                    write_sorted(value, out);
                }
                out.push('}');
            }
            Value::Array(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_sorted(value, out);
                }
                out.push(']');
            }
            Value::Number(number) if number.is_f64() => {
                out.push_str(&number.as_f64().and_then(Finite::new).unwrap().canonical());
            }
            scalar => out.push_str(&scalar.to_string()),
        }
    }

    proptest! {
        #[test]
        fn the_text_is_the_sorted_json_of_the_key(key in arbitrary::key(), schema in any::<u32>()) {
            let key = Key { schema, ..key };
            prop_assert_eq!(key.canonical_json(), defined(&key));
            prop_assert_eq!(key.config_id(), key.config().id());
            prop_assert_eq!(key.id_of_any_batch(), Key { batch: 0, ..key.config() }.id());
        }
    }
}
