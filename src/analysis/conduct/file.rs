//! Names in `measurement.json` that nobody reads: misspelt ones, and those that stand in the wrong place.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Attempted, Remark, Weight, remark};
use crate::protocol::{ObjectForm, objects};
use crate::text::{nearest, one_of};

/// The remarks about the names in the file.
pub(super) fn remarks(attempted: &Attempted<'_>) -> Vec<Remark> {
    let file = attempted.measurement.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(file) = file.filter(Value::is_object) else { return Vec::new() };
    let told: BTreeSet<String> = attempted.record.key.told().into_iter().map(|(name, _)| name).collect();
    let objects = objects();
    let of = |object: &ObjectForm| -> Vec<Remark> {
        let there = standing_at(&file, object);
        there.into_iter().flat_map(|fields| unread(fields, object, &objects, &told)).collect()
    };
    let mut found: Vec<Remark> = Vec::new();
    for remark in objects.iter().flat_map(of) {
        // Every rank can have the same one.
        if !found.contains(&remark) {
            found.push(remark);
        }
    }
    found
}

/// The objects of `file` that stand where `object` belongs.
fn standing_at<'f>(file: &'f Value, object: &ObjectForm) -> Vec<&'f Map<String, Value>> {
    let mut there = Some(file);
    for name in object.path.split('.').filter(|name| !name.is_empty()) {
        there = there.and_then(|value| value.get(name));
    }
    let each: Vec<&Value> = match there {
        Some(Value::Array(items)) if object.is_each => items.iter().collect(),
        Some(Value::Object(entries)) if object.is_each => entries.values().collect(),
        Some(value) if !object.is_each => vec![value],
        _ => Vec::new(),
    };
    each.into_iter().filter_map(Value::as_object).collect()
}

/// The remarks about those of `fields` whose names `object` does not have. `told` are the worker's parameters.
fn unread(
    fields: &Map<String, Value>,
    object: &ObjectForm,
    objects: &[ObjectForm],
    told: &BTreeSet<String>,
) -> Vec<Remark> {
    let own = if object.path == "effective" { told.clone() } else { BTreeSet::new() };
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

/// The names of `absent` that `name` probably stands for: those that are nearest, or that only add their unit.
fn meant<'a>(name: &str, absent: &[&'a str]) -> Vec<&'a str> {
    let with_unit =
        |known: &&&str| known.strip_prefix(name).is_some_and(|rest| ["_s", "_bytes", "_at"].contains(&rest));
    match absent.iter().find(with_unit) {
        Some(known) => vec![known],
        None => nearest(name, absent.iter().copied()),
    }
}

/// The path of the field `name` of `object`.
fn path(object: &ObjectForm, name: &str) -> String {
    if object.path.is_empty() { name.to_owned() } else { format!("{}.{name}", object.path) }
}

/// A name that looks like another one. Among the settings any name is allowed, so only what misses a required or an
/// asked one is wrong.
fn misspelt(name: &str, object: &ObjectForm, meant: &[&str], told: &BTreeSet<String>) -> Remark {
    let path = path(object, name);
    let is_missed = |name: &&str| object.required.contains(*name) || told.contains(*name);
    let is_wrong = !object.is_open || meant.iter().any(is_missed);
    let weight = if is_wrong { Weight::Wrong } else { Weight::Doubtful };
    let nothing = if object.is_open {
        "is only kept as a setting of its own"
    } else {
        "is not a known field, and is ignored"
    };
    remark(
        weight,
        [
            &path,
            &format!("`{path}` {nothing}"),
            &format!("call it {}, if that is meant", one_of(meant.iter().copied())),
            "nobody uses its value",
        ],
    )
}

/// A name that belongs into another object.
fn misplaced(name: &str, object: &ObjectForm, other: &ObjectForm) -> Remark {
    let path = path(object, name);
    let place = if other.path.is_empty() {
        "at the top of the file".to_owned()
    } else {
        format!("under `{}`", other.path)
    };
    let (weight, what) = match object.is_open {
        true => (Weight::Doubtful, format!("`{path}` is only kept as a setting of its own")),
        false => (Weight::Wrong, format!("`{path}` is not a known field, and is ignored")),
    };
    remark(
        weight,
        [&path, &what, &format!("put it {place}, where `{name}` is read"), "nobody uses its value"],
    )
}

/// A name that nobody knows. A newer `orchestrate` may.
fn ignored(name: &str, object: &ObjectForm) -> Option<Remark> {
    let path = path(object, name);
    (!object.is_open).then(|| {
        remark(
            Weight::Doubtful,
            [
                &path,
                &format!("`{path}` is not a known field, and is ignored"),
                "if it is a setting, put it under `effective`, where every name is kept",
                "it is in no record and in no table",
            ],
        )
    })
}
