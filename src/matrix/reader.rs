//! Converts nodes to typed values. Every mismatch becomes a note, and reading continues.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::keys::{KeyDoc, LONGEST_LIST, names};
use super::note::{Notes, Span, Spanned};
use super::tree::{Entry, Node, Value};
use crate::job::{DataSource, Named, ParamValue, Parameter, ParameterType, Rule, parameter};
use crate::text::{did_you_mean, one_of, size_text};

/// Notes that `node` is not what was expected; `expected` completes "expected …".
pub(super) fn mismatch(node: &Node, expected: &str, notes: &mut Notes) {
    notes.add_with_hint(node.span, &node.value.word(), format!("expected {expected}"), limits_hint(node));
}

/// The limits of numbers, if `node` is a number that cannot be kept; `None` for any other value.
fn limits_hint(node: &Node) -> Option<String> {
    matches!(node.value, Value::Unkept(_))
        .then(|| "a number must be finite, and a whole number must fit in a signed 64-bit integer".to_owned())
}

/// The hint for a number whose spelling matters.
pub(super) fn in_quotes(word: &str) -> String {
    format!("if you mean text, put it in quotes: \"{word}\"")
}

/// A text without control characters. For a number, the note has the hint to quote it.
pub(super) fn text(node: &Node, expected: &str, notes: &mut Notes) -> Option<Spanned<String>> {
    match &node.value {
        Value::Text(text) if !text.is_empty() && !text.contains(char::is_control) => {
            Some(Spanned { value: text.clone(), span: node.span })
        }
        Value::Int(_) | Value::Float(_) | Value::Unkept(_) | Value::Bool(_) => {
            let word = node.value.word();
            let hint = Some(in_quotes(&word));
            notes.add_with_hint(node.span, &word, format!("expected {expected}"), hint);
            None
        }
        _ => {
            mismatch(node, expected, notes);
            None
        }
    }
}

/// Checks a name; `what` completes "expected …".
pub(super) fn check_name<R: Rule>(name: &Spanned<String>, what: &str, notes: &mut Notes) -> Option<Named<R>> {
    let checked = name.value.parse().ok();
    if checked.is_none() {
        notes.add(name.span, &name.value, format!("expected {what}: {}", R::TEXT));
    }
    checked
}

/// A name; `what` completes "expected …".
pub(super) fn name<R: Rule>(node: &Node, what: &str, notes: &mut Notes) -> Option<Spanned<Named<R>>> {
    let name = text(node, what, notes)?;
    Some(Spanned { value: check_name(&name, what, notes)?, span: name.span })
}

/// A whole number within `range`.
pub(super) fn whole(node: &Node, range: RangeInclusive<i64>, notes: &mut Notes) -> Option<Spanned<i64>> {
    match node.value {
        Value::Int(value) if range.contains(&value) => Some(Spanned { value, span: node.span }),
        _ => {
            let expected = match (range.start(), range.end()) {
                (min, &i64::MAX) => format!("a whole number of at least {min}"),
                (min, max) => format!("a whole number from {min} to {max}"),
            };
            mismatch(node, &expected, notes);
            None
        }
    }
}

/// A whole number within `range`, which must be within `u32`.
pub(super) fn count(node: &Node, range: RangeInclusive<i64>, notes: &mut Notes) -> Option<Spanned<u32>> {
    let number = whole(node, range, notes)?;
    Some(Spanned { value: u32::try_from(number.value).ok()?, span: number.span })
}

/// A word of a closed vocabulary.
pub(super) fn word(node: &Node, words: &[&'static str], notes: &mut Notes) -> Option<&'static str> {
    let given = node.value.word();
    let found = match &node.value {
        Value::Text(text) => words.iter().copied().find(|word| word == text),
        _ => None,
    };
    if found.is_none() {
        let hint = did_you_mean(&given, words.iter().copied());
        notes.add_with_hint(node.span, &given, format!("expected {}", one_of(words.iter().copied())), hint);
    }
    found
}

/// A word that parses, such as a device or a precision; a hint can suggest one of `words`.
pub(super) fn parsed<T: std::str::FromStr>(
    node: &Node,
    words: &[&str],
    expected: &str,
    notes: &mut Notes,
) -> Option<Spanned<T>> {
    let given = node.value.word();
    let parsed = match &node.value {
        Value::Text(text) => text.parse().ok(),
        _ => None,
    };
    if parsed.is_none() {
        let hint = did_you_mean(&given, words.iter().copied());
        notes.add_with_hint(node.span, &given, format!("expected {expected}"), hint);
    }
    Some(Spanned { value: parsed?, span: node.span })
}

/// A duration with its unit, of at least `least` and at most 30 days.
pub(super) fn duration(node: &Node, least: Duration, notes: &mut Notes) -> Option<Duration> {
    const MOST: Duration = Duration::from_secs(30 * 24 * 3600);
    let expected = "a duration with its unit, such as `90s`, `30m` or `1h 30m`";
    let duration = match &node.value {
        Value::Text(text) => humantime::parse_duration(text).ok(),
        Value::Int(0) => Some(Duration::ZERO),
        _ => None,
    };
    match duration {
        Some(duration) if (least..=MOST).contains(&duration) => Some(duration),
        Some(_) => {
            let least = humantime::format_duration(least);
            mismatch(node, &format!("a duration from {least} to 30 days"), notes);
            None
        }
        None => {
            let hint = match node.value {
                Value::Int(seconds @ 1..) => Some(format!("did you mean `{seconds}s`?")),
                _ => None,
            };
            notes.add_with_hint(node.span, &node.value.word(), format!("expected {expected}"), hint);
            None
        }
    }
}

/// A size within `range`, in bytes, from a whole number with its unit.
pub(super) fn size(node: &Node, range: RangeInclusive<u64>, notes: &mut Notes) -> Option<u64> {
    let Value::Text(text) = &node.value else {
        mismatch(node, SIZE, notes);
        return None;
    };
    match bytes(text) {
        Some(size) if range.contains(&size) => return Some(size),
        Some(_) => {
            let [least, most] = [range.start(), range.end()].map(|bytes| size_text(*bytes));
            mismatch(node, &format!("a size from {least} to {most}"), notes);
        }
        None => mismatch(node, SIZE, notes),
    }
    None
}

/// Completes "expected …".
const SIZE: &str = "a size with its unit, such as `500kB`, `64MiB` or `1GiB`";

/// The bytes in a whole number with its unit.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let factor: u64 = match unit.trim() {
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A number within `range`, or a switch; `expected` completes "expected …".
pub(super) fn number_or_switch(
    node: &Node,
    range: RangeInclusive<f64>,
    expected: &str,
    notes: &mut Notes,
) -> Option<NumberOrSwitch> {
    let number = match node.value {
        Value::Bool(on) => return Some(NumberOrSwitch::Switch(on)),
        Value::Float(number) => Some(number.get()),
        // Whole numbers that a float cannot represent are outside every range as well.
        Value::Int(number) => Some(number as f64),
        _ => None,
    };
    let number = number.filter(|number| range.contains(number)).map(NumberOrSwitch::Number);
    if number.is_none() {
        mismatch(node, &format!("{expected}, from {} to {}", range.start(), range.end()), notes);
    }
    number
}

/// See [`number_or_switch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NumberOrSwitch {
    Number(f64),
    Switch(bool),
}

/// A list with at least one item.
pub(super) fn list<'a>(node: &'a Node, expected: &str, notes: &mut Notes) -> Option<&'a [Node]> {
    match &node.value {
        Value::List(items) if items.len() > LONGEST_LIST => {
            notes.add(node.span, "[…]", format!("is too long: expected at most {LONGEST_LIST} values"));
            None
        }
        Value::List(items) if !items.is_empty() => Some(items),
        Value::List(_) => {
            notes.add(node.span, "[]", format!("is empty: expected {expected}"));
            None
        }
        Value::Text(_) | Value::Int(_) | Value::Bool(_) | Value::Float(_) | Value::Unkept(_) => {
            let word = node.value.word();
            let hint = Some(format!("write `[{word}]`"));
            notes.add_with_hint(node.span, &word, format!("expected {expected}"), hint);
            None
        }
        _ => {
            mismatch(node, expected, notes);
            None
        }
    }
}

/// The items of an optional list, which can be empty.
pub(super) fn optional_list<'a>(node: &'a Node, expected: &str, notes: &mut Notes) -> &'a [Node] {
    match &node.value {
        Value::Null => &[],
        Value::List(items) => items,
        _ => {
            mismatch(node, expected, notes);
            &[]
        }
    }
}

/// The entries of a mapping. A missing value is an empty mapping, such as a section with all entries commented out.
pub(super) fn entries<'a>(node: &'a Node, expected: &str, notes: &mut Notes) -> &'a [Entry] {
    match &node.value {
        Value::Null => &[],
        Value::Map(entries) => entries,
        _ => {
            mismatch(node, expected, notes);
            &[]
        }
    }
}

/// Notes every key that is not in one of `tables`; `whose` completes "not a key of …".
pub(super) fn check_keys(entries: &[Entry], tables: &[&'static [KeyDoc]], whose: &str, notes: &mut Notes) {
    let known = || tables.iter().flat_map(|table| names(table));
    for (key, _) in entries {
        if known().any(|name| name == key.value) {
            continue;
        }
        unknown_key(key.span, &key.value, &format!("a key of {whose}"), known(), notes);
    }
}

/// Notes that `word` is not a `what`, with the nearest known names. Without any, lists all known names if they are few.
pub(super) fn unknown_key<'a>(
    span: Span,
    word: &str,
    what: &str,
    known: impl Iterator<Item = &'a str> + Clone,
    notes: &mut Notes,
) {
    const FEW: usize = 8;
    let message = format!("is not {what}");
    match did_you_mean(word, known.clone()) {
        Some(hint) => notes.add_with_hint(span, word, message, Some(hint)),
        None if known.clone().count() <= FEW => {
            notes.add(span, word, format!("{message}: expected {}", one_of(known)));
        }
        None => {
            let hint = "`orchestrate schema` describes them all".to_owned();
            notes.add_with_hint(span, word, message, Some(hint));
        }
    }
}

/// The value of a parameter: of its declared type if `name` is known, otherwise any scalar.
pub(super) fn param(name: &str, node: &Node, notes: &mut Notes) -> Option<Spanned<ParamValue>> {
    let known = parameter(name);
    let value = param_value(node).and_then(|value| match known {
        Some(parameter) => parameter.accept(value).ok(),
        None => Some(value).filter(|value| !matches!(value, ParamValue::Data(_))),
    });
    if value.is_none() {
        let any = match &node.value {
            Value::Text(text) if text.contains(char::is_control) => "a word without control characters",
            _ => "a word, a number, `true` or `false`",
        };
        let expected = known.map_or_else(|| any.to_owned(), Parameter::expected);
        let word = node.value.word();
        let hint = match known {
            Some(parameter) => nearest_word(parameter, &word).or_else(|| limits_hint(node)),
            None => limits_hint(node).map(|limits| format!("{limits}; {}", in_quotes(&word))),
        };
        notes.add_with_hint(node.span, &word, format!("`{name}` expects {expected}"), hint);
    }
    Some(Spanned { value: value?, span: node.span })
}

/// The word of `parameter` nearest to `word`; `None` for a parameter without words.
pub(super) fn nearest_word(parameter: Parameter, word: &str) -> Option<String> {
    match parameter.kind() {
        ParameterType::Word(words) => did_you_mean(word, words.iter().copied()),
        ParameterType::Bool
        | ParameterType::Int { .. }
        | ParameterType::Number { .. }
        | ParameterType::Data => None,
    }
}

fn param_value(node: &Node) -> Option<ParamValue> {
    match &node.value {
        Value::Bool(value) => Some(ParamValue::Bool(*value)),
        Value::Int(value) => Some(ParamValue::Int(*value)),
        Value::Float(value) => Some(ParamValue::Float(*value)),
        Value::Text(text) if !text.is_empty() && !text.contains(char::is_control) => {
            Some(ParamValue::Text(text.clone()))
        }
        Value::Map(entries) => data_source(entries).map(ParamValue::Data),
        Value::Text(_) | Value::Unkept(_) | Value::Null | Value::List(_) => None,
    }
}

fn data_source(entries: &[Entry]) -> Option<DataSource> {
    let [(key, node)] = entries else { return None };
    match (key.value.as_str(), &node.value) {
        ("synthetic", Value::Bool(true)) => Some(DataSource::Synthetic),
        ("folder", Value::Text(folder)) if !folder.is_empty() && !folder.contains(char::is_control) => {
            Some(DataSource::Folder(folder.clone()))
        }
        _ => None,
    }
}

/// The value of `key`.
pub(super) fn get<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Node> {
    entries.iter().find(|(name, _)| name.value == key).map(|(_, node)| node)
}
