//! Damage to JSON and YAML that leaves a tree of values: other types, other depths, huge numbers, and keys that are
//! lost, renamed, doubled or foreign.

use serde_json::{Map, Number, Value};

use super::Form;
use super::damage::Damage;
use crate::files::to_sealed_json;

/// The maximum that one change adds to a tree, so that trees do not grow without bound from seed to seed.
const MOST_NODES: usize = 1 << 10;
const MOST_LETTERS: usize = 1 << 14;

/// The tree in `bytes` with one to three changes, printed; `None` if there is no tree.
pub(super) fn damage_tree(damage: &mut Damage<'_>, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut tree = parse(bytes)?;
    if damage.form == Form::Sealed {
        tree.as_object_mut()?.remove("seal");
    }
    for _ in 0..=damage.below(3) {
        let nodes = count(&tree);
        let (mut left, mut other) = (damage.below(nodes), damage.below(nodes));
        let donor = nth(&mut tree, &mut other).cloned();
        if let Some(node) = nth(&mut tree, &mut left) {
            change(damage, node, donor);
        }
    }
    Some(match damage.form {
        Form::Sealed if tree.as_object().is_some_and(|members| !members.is_empty()) => to_sealed_json(&tree),
        _ => double_a_key(damage, tree.to_string()).into_bytes(),
    })
}

/// The value in `bytes`, which are JSON or YAML.
fn parse(bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str(text).ok().or_else(|| serde_yaml::from_str(text).ok())
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The node that comes after `left` others.
fn nth<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(values) => values.iter_mut().find_map(|value| nth(value, left)),
        Value::Object(members) => members.values_mut().find_map(|value| nth(value, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn change(damage: &mut Damage<'_>, node: &mut Value, donor: Option<Value>) {
    match node {
        Value::Object(members) if !members.is_empty() && damage.below(3) != 0 => {
            change_members(damage, members)
        }
        Value::Array(values) if !values.is_empty() && damage.below(3) != 0 => {
            let place = damage.below(values.len());
            match damage.below(4) {
                0 => drop(values.remove(place)),
                1 => values.push(values[place].clone()),
                2 => values.truncate(place),
                _ => {
                    let times = (1 << damage.below(10)).min(MOST_NODES / count(&values[place]));
                    values.extend(vec![values[place].clone(); times]);
                }
            }
        }
        Value::Number(number) if damage.below(3) != 0 => *node = near(damage, number),
        Value::String(text) if damage.below(3) != 0 => {
            let at = text.floor_char_boundary(damage.below(text.len() + 1));
            match damage.below(3) {
                0 => text.truncate(at),
                1 => text.insert_str(at, &damage.word()),
                _ => *text = text.repeat((1 << damage.below(12)).min(MOST_LETTERS / text.len().max(1))),
            }
        }
        _ => *node = donor.filter(|_| damage.below(3) == 0).unwrap_or_else(|| value(damage)),
    }
}

fn change_members(damage: &mut Damage<'_>, members: &mut Map<String, Value>) {
    let keys: Vec<String> = members.keys().cloned().collect();
    let key = &keys[damage.below(keys.len())];
    match damage.below(3) {
        0 => drop(members.remove(key)),
        1 => drop(members.remove(key).map(|old| members.insert(damage.word(), old))),
        _ => drop(members.insert(damage.word(), value(damage))),
    }
}

/// A number near `number`, or of another size or sign.
fn near(damage: &mut Damage<'_>, number: &Number) -> Value {
    let number = number.as_f64().unwrap_or_default();
    let factors = [-1.0, 0.0, 0.5, 2.0, 1.0 + f64::EPSILON, 1e3, 1e-3, 1e9, 1e-9, 1e300, 1e-300];
    match damage.below(3) {
        0 => value(damage),
        1 => (number as i64).saturating_add(damage.below(5) as i64 - 2).into(),
        _ => {
            Number::from_f64(number * factors[damage.below(factors.len())]).map_or(Value::Null, Value::Number)
        }
    }
}

/// Any value.
fn value(damage: &mut Damage<'_>) -> Value {
    let numbers = [0.0, -0.0, 0.5, -1.5, 1e308, -1e308, 5e-324, 1e16, 4_294_967_296.5];
    match damage.below(12) {
        0 => Value::Null,
        1 => (damage.below(2) == 0).into(),
        2 => [0, 1, -1, i64::MIN, i64::MAX, 4_294_967_296][damage.below(6)].into(),
        3 => u64::MAX.into(),
        4 => numbers[damage.below(numbers.len())].into(),
        5 => damage.word().into(),
        6 => "x".repeat(1 << damage.below(15)).into(),
        7 => String::new().into(),
        8 => Value::Array(Vec::new()),
        9 => Value::Object(Map::new()),
        10 => Value::Object([(damage.word(), damage.word().into())].into_iter().collect()),
        _ => {
            // Printing a value is recursive, so the deepest ones are made as bytes.
            let depth = damage.below(500);
            (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
        }
    }
}

/// Sometimes `text` with a member that occurs twice.
fn double_a_key(damage: &mut Damage<'_>, text: String) -> String {
    if damage.below(8) != 0 {
        return text;
    }
    let places: Vec<usize> = text.match_indices(",\"").map(|(place, _)| place).collect();
    let Some(from) = places.get(damage.below(places.len())) else { return text };
    let member = text[*from..].split_once(":").map_or("", |(key, _)| key);
    format!("{}{member}:{}{}", &text[..*from], value(damage), &text[*from..])
}
