//! Unknown names in `measurement.json`: misspelt ones such as `sampels`, and known ones in the wrong object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Attempted, Remark, Texts, Weight, remark};
use crate::protocol::{ObjectForm, objects};
use crate::text::{nearest, one_of};

/// The remarks about unknown names in the file, without repetitions.
pub(super) fn remarks(attempted: &Attempted<'_>) -> Vec<Remark> {
    let file = attempted.measurement.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(file) = file.filter(Value::is_object) else { return Vec::new() };
    let params: BTreeSet<String> = attempted.record.key.passed().into_iter().map(|(name, _)| name).collect();
    let objects = objects();
    let of = |object: &ObjectForm| -> Vec<Remark> {
        let found = objects_at(&file, object);
        found.into_iter().flat_map(|fields| unknown_names(fields, object, &objects, &params)).collect()
    };
    let mut found: Vec<Remark> = Vec::new();
    for remark in objects.iter().flat_map(of) {
        // Every rank can have the same mistake.
        if !found.contains(&remark) {
            found.push(remark);
        }
    }
    found
}

/// The objects of `file` at the path of `object`.
fn objects_at<'f>(file: &'f Value, object: &ObjectForm) -> Vec<&'f Map<String, Value>> {
    let mut at_path = Some(file);
    for name in object.path.split('.').filter(|name| !name.is_empty()) {
        at_path = at_path.and_then(|value| value.get(name));
    }
    let each: Vec<&Value> = match at_path {
        Some(Value::Array(items)) if object.is_each => items.iter().collect(),
        Some(Value::Object(entries)) if object.is_each => entries.values().collect(),
        Some(value) if !object.is_each => vec![value],
        _ => Vec::new(),
    };
    each.into_iter().filter_map(Value::as_object).collect()
}

/// The remarks about `fields` that are unknown to `object`. Under `effective`, the names in `params` are known too: the
/// parameters that the worker receives.
fn unknown_names(
    fields: &Map<String, Value>,
    object: &ObjectForm,
    objects: &[ObjectForm],
    params: &BTreeSet<String>,
) -> Vec<Remark> {
    let own = if object.path == "effective" { params.clone() } else { BTreeSet::new() };
    let is_known = |name: &&String| {
        [&object.fields, &object.former, &own].into_iter().any(|names| names.contains(name.as_str()))
    };
    let absent: Vec<&str> =
        object.fields.union(&own).map(String::as_str).filter(|name| !fields.contains_key(*name)).collect();
    let unknown = fields.keys().filter(|name| !is_known(name));
    unknown
        .filter_map(|name| {
            let meant = meant(name, &absent);
            let elsewhere = objects.iter().find(|other| !other.is_each && other.fields.contains(name));
            match (meant.is_empty(), elsewhere) {
                (false, _) => Some(misspelt(name, object, &meant, &own)),
                (true, Some(other)) => Some(misplaced(name, object, other)),
                (true, None) => ignored(name, object),
            }
        })
        .collect()
}

/// The names of `absent` that were probably meant by `name`: those that only add a unit, or else the nearest ones.
fn meant<'a>(name: &str, absent: &[&'a str]) -> Vec<&'a str> {
    let with_unit =
        |known: &&&str| known.strip_prefix(name).is_some_and(|rest| ["_s", "_bytes", "_at"].contains(&rest));
    match absent.iter().find(with_unit) {
        Some(known) => vec![known],
        None => nearest(name, absent.iter().copied()),
    }
}

/// The path of the field `name` of `object`, such as `details.versions`.
fn path(object: &ObjectForm, name: &str) -> String {
    if object.path.is_empty() { name.to_owned() } else { format!("{}.{name}", object.path) }
}

/// A name that looks like one of `meant`. In an open object any name is allowed: the remark is [`Weight::Wrong`] there
/// only if `meant` has a required name or a parameter of the worker.
fn misspelt(name: &str, object: &ObjectForm, meant: &[&str], params: &BTreeSet<String>) -> Remark {
    let path = path(object, name);
    let is_missed = |name: &&str| object.required.contains(*name) || params.contains(*name);
    let is_wrong = !object.is_open || meant.iter().any(is_missed);
    let weight = if is_wrong { Weight::Wrong } else { Weight::Doubtful };
    let effect = if object.is_open {
        "is only recorded as an additional setting"
    } else {
        "is not a known field, and is ignored"
    };
    remark(
        weight,
        Texts {
            about: &path,
            what: &format!("`{path}` {effect}"),
            change: &format!("call it {} if that is the intended name", one_of(meant.iter().copied())),
            loss: "its value is not used",
        },
    )
}

/// A name that belongs in another object.
fn misplaced(name: &str, object: &ObjectForm, other: &ObjectForm) -> Remark {
    let path = path(object, name);
    let place = if other.path.is_empty() {
        "at the top of the file".to_owned()
    } else {
        format!("under `{}`", other.path)
    };
    let (weight, what) = match object.is_open {
        true => (Weight::Doubtful, format!("`{path}` is only recorded as an additional setting")),
        false => (Weight::Wrong, format!("`{path}` is not a known field, and is ignored")),
    };
    remark(
        weight,
        Texts {
            about: &path,
            what: &what,
            change: &format!("put it {place}, where `{name}` is read"),
            loss: "its value is not used",
        },
    )
}

/// A name that is unknown everywhere. A newer `orchestrate` might know it, so the remark is only doubtful.
fn ignored(name: &str, object: &ObjectForm) -> Option<Remark> {
    let path = path(object, name);
    (!object.is_open).then(|| {
        remark(
            Weight::Doubtful,
            Texts {
                about: &path,
                what: &format!("`{path}` is not a known field, and is ignored"),
                change: "if it is a setting, put it under `effective`, where every name is kept",
                loss: "it is in no record and in no table",
            },
        )
    })
}
