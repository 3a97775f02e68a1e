//! A YAML text as a tree of values with their positions.
//!
//! `serde` stops at the first value of a wrong type. A tree has no wrong types, so its readers can report all mistakes
//! of a file together. `serde-saphyr` handles the YAML itself: syntax, aliases, merge keys, and budgets against
//! malicious texts.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::granit_parser::{Event, Parser};
use serde_yaml::{
    DefaultMessageFormatter, DuplicateKeyPolicy, Location, MessageFormatter as _, NonFiniteFloatPolicy,
    Options, from_str_with_options,
};

use super::note::{Note, Span, Spanned, printable};
use crate::job::Finite;

/// The longest matrix file, in bytes.
const LONGEST: usize = 1 << 20;

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The value.
    pub(super) value: Value,
    /// The position.
    pub(super) span: Span,
    /// A number or a switch as spelled in the file, if that differs from [`Value::word`]: `007`, `1.10`, `True`.
    written: Option<Box<str>>,
}

impl Node {
    /// The word or number as spelled in the file, for callers that need its spelling and not its value.
    pub(super) fn as_written(&self) -> String {
        self.written.as_ref().map_or_else(|| self.value.word(), |text| text.to_string())
    }
}

/// A key and its value.
pub(super) type Entry = (Spanned<String>, Node);

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A missing value, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other finite number.
    Float(Finite),
    /// The text of a number that cannot be kept: NaN, infinite, or an integer beyond 64 bits.
    Unkept(String),
    /// A word or a text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in the order of the file. Keys are unique.
    Map(Vec<Entry>),
}

impl Value {
    /// The value's word in a message.
    pub(super) fn word(&self) -> String {
        match self {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Unkept(text) | Value::Text(text) => text.clone(),
            Value::List(_) => "[…]".to_owned(),
            Value::Map(_) => "{…}".to_owned(),
        }
    }
}

/// Parses `source`. Returns the tree and a note for each duplicate key, of which the first counts.
///
/// # Errors
/// A note if the text is not YAML, is empty, or is too long.
pub(super) fn parse(source: &str) -> Result<(Node, Vec<Note>), Note> {
    if source.len() > LONGEST {
        return Err(file_note("the file", "is longer than 1 MiB, so it cannot be a matrix"));
    }
    let tree: Located = from_str_with_options(source, options()).map_err(|error| syntax_note(&error))?;
    let node = tree.into_node(source);
    if node.value == Value::Null {
        return Err(file_note(
            "the file",
            "is empty: expected a matrix, at least `name`, `models`, `batches` and `envs`",
        ));
    }
    Ok((node, duplicate_keys(source)))
}

fn options() -> Options {
    serde_yaml::options! {
        // `duplicate_keys` finds all duplicates.
        duplicate_keys: DuplicateKeyPolicy::FirstWins,
        // `yes` and `on` are words.
        strict_booleans: true,
        // Which numbers are valid depends on the key, so the mistake is reported there, with all others.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        // Far more than any matrix needs, but few enough to reject a bomb of aliases within milliseconds.
        budget: serde_yaml::budget! { max_events: 200_000, max_nodes: 100_000, max_depth: 32, max_documents: 1 },
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: 100_000 },
    }
}

/// A note about the file as a whole.
fn file_note(word: &str, message: &str) -> Note {
    Note {
        span: Span { line: 1, column: 1, length: 0 },
        word: word.to_owned(),
        message: message.to_owned(),
        hint: None,
    }
}

fn syntax_note(error: &serde_yaml::Error) -> Note {
    let error = error.without_snippet();
    let message = DefaultMessageFormatter.format_message(error);
    Note {
        span: error.location().map_or(Span { line: 1, column: 1, length: 0 }, |location| Span {
            line: to_usize(location.line()).max(1),
            column: to_usize(location.column()).max(1),
            length: 1,
        }),
        word: "YAML".to_owned(),
        message: printable(&message, 300),
        // The mistake is often on the line before the one where the parser fails.
        hint: ["flow", "indicator", "quoted"]
            .iter()
            .any(|word| message.contains(word) && !message.contains("surrogate"))
            .then(|| "is a bracket or quote before this position not closed?".to_owned()),
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A deserialised tree, before lengths in the text are known.
struct Located(serde_yaml::Spanned<LocatedValue>);

enum LocatedValue {
    Scalar(Value),
    /// Any number that is not a 64-bit integer.
    Float(f64),
    List(Vec<Located>),
    Map(Vec<(serde_yaml::Spanned<String>, Located)>),
}

impl Located {
    fn into_node(self, source: &str) -> Node {
        let span = span_of(&self.0.referenced, source);
        let text = text_at(&self.0.defined, source);
        let value = match self.0.value {
            LocatedValue::Scalar(value) => value,
            LocatedValue::Float(value) => float(value, text),
            LocatedValue::List(items) => {
                Value::List(items.into_iter().map(|item| item.into_node(source)).collect())
            }
            LocatedValue::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let span = span_of(&key.referenced, source);
                        (Spanned { value: key.value, span }, value.into_node(source))
                    })
                    .collect(),
            ),
        };
        let written = is_rewritten(&value, text).then(|| text.into());
        Node { value, span, written }
    }
}

/// Whether `text` is a spelling of the number or switch `value` that differs from its [`Value::word`].
fn is_rewritten(value: &Value, text: &str) -> bool {
    // After a tag, a number can be in quotes.
    let is_plain = || text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._:".contains(&byte));
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Unkept(_) => {
            is_plain() && value.word() != text
        }
        Value::Null | Value::Text(_) | Value::List(_) | Value::Map(_) => false,
    }
}

/// The number `value`, written as `text`. An integer beyond `i64` would lose digits as a float.
fn float(value: f64, text: &str) -> Value {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    // Integers with leading zeros are read as floats; short ones lose nothing.
    let is_beyond = is_whole && value.abs() >= 2f64.powi(63);
    match Finite::new(value).filter(|_| !is_beyond) {
        Some(finite) => Value::Float(finite),
        None => Value::Unkept(text.to_owned()),
    }
}

/// The text of a scalar, as written.
fn text_at<'a>(location: &Location, source: &'a str) -> &'a str {
    let span = location.span();
    let start = span.byte_offset().map(to_usize);
    let end = start.zip(span.byte_len()).map(|(start, length)| start + to_usize(length));
    start.zip(end).and_then(|(start, end)| source.get(start..end)).unwrap_or("a number").trim()
}

/// The position of a scalar, or of the start of a collection, cut at the end of its line.
fn span_of(location: &Location, source: &str) -> Span {
    let span = location.span();
    let rest = span.byte_offset().map(to_usize).and_then(|offset| source.get(offset..)).unwrap_or("");
    // The whole file can be one line, so the end of the line is not searched for.
    let on_line = rest.char_indices().take(to_usize(span.len())).take_while(|(_, letter)| *letter != '\n');
    let end = on_line.last().map_or(0, |(start, letter)| start + letter.len_utf8());
    Span {
        line: to_usize(location.line()),
        column: to_usize(location.column()),
        length: rest[..end].trim_end().chars().count(),
    }
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Deserialize::deserialize(deserializer).map(Located)
    }
}

impl<'de> Deserialize<'de> for LocatedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = LocatedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Scalar(Value::Int(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<LocatedValue, E> {
        let unkept = || Value::Unkept(value.to_string());
        Ok(LocatedValue::Scalar(i64::try_from(value).map_or_else(|_| unkept(), Value::Int)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Scalar(Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<LocatedValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(LocatedValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LocatedValue, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(LocatedValue::Map(entries))
    }
}

/// A collection that has not ended yet.
enum Open {
    List,
    Map { keys: HashSet<String>, at_key: bool },
}

/// A note for each key that its mapping already has. `source` was already parsed within its budget.
fn duplicate_keys(source: &str) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for (event, span) in Parser::new_from_str(source).map_while(Result::ok) {
        match event {
            Event::Scalar(text, ..) => {
                if let Some(Open::Map { keys, at_key: true }) = open.last_mut()
                    && !keys.insert(text.clone().into_owned())
                {
                    let length = text.chars().count();
                    notes.push(Note {
                        span: Span { line: span.start.line(), column: span.start.col() + 1, length },
                        word: format!("`{}`", printable(&text, 60)),
                        message: "this key occurs twice: keep one".to_owned(),
                        hint: None,
                    });
                }
                node_ended(&mut open);
            }
            Event::Alias(_) => node_ended(&mut open),
            Event::SequenceStart(..) => open.push(Open::List),
            Event::MappingStart(..) => open.push(Open::Map { keys: HashSet::new(), at_key: true }),
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                node_ended(&mut open);
            }
            _ => {}
        }
    }
    notes
}

/// In a mapping, nodes alternate between keys and values.
fn node_ended(open: &mut [Open]) {
    if let Some(Open::Map { at_key, .. }) = open.last_mut() {
        *at_key = !*at_key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'a>(node: &'a Node, key: &str) -> (&'a Spanned<String>, &'a Node) {
        let Value::Map(entries) = &node.value else { panic!("{node:?}") };
        let (key, value) = entries.iter().find(|(name, _)| name.value == key).unwrap();
        (key, value)
    }

    fn span(line: usize, column: usize, length: usize) -> Span {
        Span { line, column, length }
    }

    #[test]
    fn values_and_places() {
        let source =
            "# é\na: [1, -2, 2.5, yes, true, '3']\nb:\n  é: {c: \"x y\"}\n  d:\nbig: 18446744073709551615\n";
        let (node, notes) = parse(source).unwrap();
        assert_eq!(notes, []);
        let (key, list) = get(&node, "a");
        assert_eq!((key.span, list.span.line, list.span.column), (span(2, 1, 1), 2, 4));
        let Value::List(items) = &list.value else { panic!() };
        let values: Vec<&Value> = items.iter().map(|item| &item.value).collect();
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(
            values,
            [
                &Value::Int(1),
                &Value::Int(-2),
                &Value::Float(Finite::new(2.5).unwrap()),
                &text("yes"),
                &Value::Bool(true),
                &text("3")
            ]
        );
        assert_eq!(items[1].span, span(2, 8, 2));
        assert_eq!(items[5].span, span(2, 28, 3));
        let (_, b) = get(&node, "b");
        let (accented, inner) = get(b, "é");
        assert_eq!(accented.span, span(4, 3, 1));
        assert_eq!(get(inner, "c").1.span, span(4, 10, 5));
        assert_eq!(get(b, "d").0.span, span(5, 3, 1));
        assert_eq!(get(b, "d").1.value, Value::Null);
        assert_eq!(get(&node, "big").1.value, Value::Unkept("18446744073709551615".to_owned()));
    }

    #[test]
    fn every_duplicate_key_is_found_and_the_first_counts() {
        let (node, notes) = parse("a: 1\nb: {c: 1, c: 2}\na: 2\nd: [{a: 1}, {a: 2}]\na: 3\n").unwrap();
        assert_eq!(get(&node, "a").1.value, Value::Int(1));
        let places: Vec<Span> = notes.iter().map(|note| note.span).collect();
        assert_eq!(places, [span(2, 11, 1), span(3, 1, 1), span(5, 1, 1)]);
    }

    #[test]
    fn aliases_and_merge_keys_work() {
        let (node, notes) = parse("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: *x\n").unwrap();
        assert_eq!(notes, []);
        let (_, y) = get(&node, "y");
        assert_eq!((&get(y, "a").1.value, &get(y, "b").1.value), (&Value::Int(1), &Value::Int(3)));
        assert_eq!(get(&node, "z").1.span.line, 3, "the place where it is used");
    }

    #[test]
    fn the_spelling_of_numbers_and_switches_is_kept() {
        for text in [
            "007",
            "0123",
            "1.10",
            "1e3",
            "0x10",
            "0o17",
            ".5",
            "+5",
            "True",
            "1_000",
            ".inf",
            "0xFFFFFFFFFFFFFFFF",
        ] {
            for source in [
                format!("a: {text}\n"),
                format!("a: {text}  # one\r\n"),
                format!("{{a: {text}}}"),
                format!("b: &b {text}\na: *b\n"),
            ] {
                let (node, _) = parse(&source).unwrap();
                assert_eq!(get(&node, "a").1.as_written(), text, "{source:?}");
            }
        }
        for (text, word) in
            [("'007'", "007"), ("!!int '7'", "7"), ("!!str 1.10", "1.10"), ("7", "7"), ("x", "x")]
        {
            let (node, _) = parse(&format!("a: {text}\n")).unwrap();
            assert_eq!(get(&node, "a").1.as_written(), word, "{text}");
        }
    }

    #[test]
    fn syntax_errors_have_a_position() {
        for (source, line) in [("a: [1, 2\nb: 3\n", 2), ("a: b: c\n", 1), ("a: \"x\n", 2), ("a: *b\n", 1)] {
            let note = parse(source).unwrap_err();
            assert!(note.span.line >= 1 && note.span.line <= line + 1, "{source:?}: {note:?}");
            assert_eq!(note.word, "YAML");
        }
        for source in ["", "\n\n", "# only a comment\n", "---\n"] {
            assert!(parse(source).unwrap_err().message.contains("empty"), "{source:?}");
        }
        assert!(parse(&" ".repeat(LONGEST + 1)).unwrap_err().message.contains("1 MiB"));
    }

    #[test]
    fn a_bomb_of_aliases_is_rejected() {
        let mut source = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
        for level in 1..20 {
            let alias = format!("*a{}", level - 1);
            source += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 10].join(", "));
        }
        assert_eq!(parse(&source).unwrap_err().word, "YAML");
        assert_eq!(parse(&format!("a: {}", "[".repeat(100_000))).unwrap_err().word, "YAML");
    }
}
