//! Finds the values of secret variables in a matrix file: those in `variables`, and those in unexpected places, for
//! example after a name that is indented wrongly.

use std::collections::{BTreeMap, BTreeSet};

use serde_yaml::granit_parser::{Event, Marker, Parser, Span};

use super::mask::{HIDDEN, LISTS, Mask, PASS, begins_list, is_like_a_variable, is_part_of_a_name};
use super::note::Note;
use super::tree::{self, Node, Value};
use crate::record::{contains_password, looks_secret};
use crate::text::did_you_mean;

/// The parts of a matrix file that can be shown.
pub(super) struct Veil {
    /// `None` if the file is not YAML and contains a word that looks like a secret. The beginning and end of values are
    /// unknown in such a file, so no part of it is shown.
    mask: Option<Mask>,
    /// For each line with a part of a secret's value, the number of characters before it.
    cuts: BTreeMap<usize, usize>,
}

impl Veil {
    /// The veil for `source`, whose lines end in `\n`.
    pub(super) fn over(source: &str) -> Veil {
        match tree::parse(source) {
            Ok((node, _)) => {
                let mask = mask_of(&node);
                Veil { cuts: cuts(source, &mask), mask: Some(mask) }
            }
            Err(_) => {
                let mask = (!names_a_secret(source)).then(Mask::default);
                Veil { mask, cuts: BTreeMap::new() }
            }
        }
    }

    /// The number of leading characters of `line`, line `number` of the file, that can be shown. `None` means all.
    pub(super) fn visible(&self, number: usize, line: &str) -> Option<usize> {
        let Some(mask) = &self.mask else { return Some(0) };
        let from = mask.cut(line).map(|byte| line[..byte].chars().count());
        let Some(end) = self.cuts.get(&number).copied() else { return from };
        // The separator between a name and its value can be shown.
        let is_separator = |letter: char| letter == ':' || letter == ' ';
        let separators = line.chars().skip(end).take_while(|letter| is_separator(*letter)).count();
        Some(from.map_or(end, |from| if from <= end + separators { from } else { end }))
    }
}

/// Hides the values of the secrets in the file with this tree.
pub(super) fn mask_of(tree: &Node) -> Mask {
    let mut names = BTreeSet::new();
    each_entry(tree, &mut |key, node| match &node.value {
        _ if is_list_of_secrets(key) => names.extend(names_in(node)),
        // The file can have some of its letters as escapes.
        Value::Text(_) | Value::List(_) if scalars(node).iter().any(|word| contains_password(key, word)) => {
            names.insert(key.to_owned());
        }
        _ => {}
    });
    let by_name = Mask::new(names.clone(), BTreeSet::new());
    // An address with a password can occur outside of variables.
    let mut values: BTreeSet<String> =
        words(tree).into_iter().filter(|word| contains_password("", word)).collect();
    each_entry(tree, &mut |key, node| match (key, &node.value) {
        // There, every key is the name of a variable.
        ("variables", Value::Map(entries)) => {
            let secret = entries.iter().filter(|(name, _)| looks_secret(&name.value));
            values.extend(secret.flat_map(|(_, node)| words(node)));
        }
        ("variables", Value::List(items)) => values.extend(beside_names(node, items, &by_name)),
        (PASS, Value::List(_)) => {}
        _ if by_name.is_secret(key) => values.extend(words(node)),
        _ => {}
    });
    Mask::new(names, values)
}

/// `note` about `source`, which is not YAML, without its quotes if they can contain a secret.
pub(super) fn without_quotes(note: Note, source: &str) -> Note {
    if !names_a_secret(source) {
        return note;
    }
    let message = ['`', '"', '\''].into_iter().fold(note.message, |text, quote| without_quoted(&text, quote));
    Note { message: format!("{message}; no line is shown, because the file names a secret"), ..note }
}

/// `text` with [`HIDDEN`] from each `quote` at the beginning of a word to the next one. An apostrophe is not at the
/// beginning of a word.
fn without_quoted(text: &str, quote: char) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, quoted)) = rest.split_once(quote) {
        shown += before;
        if before.ends_with(char::is_alphanumeric) {
            shown.push(quote);
            rest = quoted;
            continue;
        }
        shown += HIDDEN;
        rest = quoted.split_once(quote).map_or("", |(_, after)| after);
    }
    shown + rest
}

/// Whether an address in `text` has a password, or a word looks like the name of a secret, or like the list of them.
/// Such a word has a value, or is written as variables are.
fn names_a_secret(text: &str) -> bool {
    if contains_password("", text) {
        return true;
    }
    let mut rest = text;
    while let Some(start) = rest.find(is_part_of_a_name) {
        let word = rest[start..].split(|letter| !is_part_of_a_name(letter)).next().unwrap_or_default();
        rest = &rest[start + word.len()..];
        let has_value = rest.trim_start_matches(['"', '\'', ' ', '\t']).starts_with([':', '=']);
        let is_secret = looks_secret(word) && !begins_list(word, rest);
        if (is_secret || is_list_of_secrets(word)) && (has_value || is_like_a_variable(word)) {
            return true;
        }
    }
    false
}

/// Calls `visit` with each key of each mapping, and its value.
fn each_entry(node: &Node, visit: &mut impl FnMut(&str, &Node)) {
    match &node.value {
        Value::Map(entries) => {
            for (key, node) in entries {
                visit(&key.value, node);
                each_entry(node, visit);
            }
        }
        Value::List(items) => items.iter().for_each(|item| each_entry(item, visit)),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Unkept(_)
        | Value::Text(_) => {}
    }
}

/// Each word, key and number in `node`. Switches and null are not secrets.
fn words(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Text(_) | Value::Int(_) | Value::Float(_) | Value::Unkept(_) => {
            vec![node.value.word(), node.as_written()]
        }
        Value::List(items) => items.iter().flat_map(words).collect(),
        Value::Map(entries) => {
            entries.iter().flat_map(|(key, node)| [vec![key.value.clone()], words(node)].concat()).collect()
        }
        Value::Null | Value::Bool(_) => Vec::new(),
    }
}

/// Whether `key` is `secret`, or was meant to be.
fn is_list_of_secrets(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key == LISTS[0] || (key != LISTS[1] && did_you_mean(&key, [LISTS[0]]).is_some())
}

/// The values in a list of variables, which should be a mapping: `[{ name: A_KEY, value: hush }]`, `[A_KEY, hush]`.
fn beside_names(list: &Node, items: &[Node], by_name: &Mask) -> Vec<String> {
    let names_one = |node: &Node| scalars(node).iter().any(|word| by_name.is_secret(word));
    let is_flat = items.iter().any(|item| matches!(item.value, Value::Text(_)) && names_one(item));
    let groups = if is_flat { std::slice::from_ref(list) } else { items };
    let beside = groups.iter().filter(|group| names_one(group)).flat_map(scalars);
    beside.filter(|word| !by_name.is_secret(word)).collect()
}

/// Each word and number in `node`, without keys.
fn scalars(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Map(entries) => entries.iter().flat_map(|(_, node)| scalars(node)).collect(),
        Value::List(items) => items.iter().flat_map(scalars).collect(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Unkept(_)
        | Value::Text(_) => words(node),
    }
}

/// The names in a list of secrets. By mistake, the list can have values too: `secret: { A: x }` or `secret: A=x`.
fn names_in(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Text(text) => {
            let entries = text.split([',', ' ']).filter(|entry| !entry.is_empty());
            let name =
                |entry: &str| entry.split(|letter| !is_part_of_a_name(letter)).next().map(str::to_owned);
            entries.filter_map(name).filter(|name| !name.is_empty()).collect()
        }
        Value::List(items) => items.iter().flat_map(names_in).collect(),
        Value::Map(entries) => entries.iter().map(|(key, _)| key.value.clone()).collect(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Unkept(_) => Vec::new(),
    }
}

/// A collection that has not ended yet.
enum Open {
    List,
    Map { at_key: bool },
}

/// Follows the events of a parser and keeps the places of secrets' values.
struct Places<'a> {
    mask: &'a Mask,
    lines: Vec<&'a str>,
    open: Vec<Open>,
    /// The end of the last secret's name, and how many collections were open there, until its value has ended.
    name: Option<(Marker, usize)>,
    /// Whether that name is [`PASS`].
    is_pass: bool,
    /// The end of the last word.
    end: Option<Marker>,
    cuts: BTreeMap<usize, usize>,
}

/// For each line of `source` with a part of a secret's value, the number of characters before it.
fn cuts(source: &str, mask: &Mask) -> BTreeMap<usize, usize> {
    let lines = source.split('\n').collect();
    let mut places = Places {
        mask,
        lines,
        open: Vec::new(),
        name: None,
        is_pass: false,
        end: None,
        cuts: BTreeMap::new(),
    };
    for (event, span) in Parser::new_from_str(source).map_while(Result::ok) {
        match event {
            Event::Scalar(text, ..) => places.scalar(&text, span),
            Event::Alias(_) => places.node_ended(Some(span.end)),
            Event::SequenceStart(..) => places.list_began(),
            Event::MappingStart(..) => places.open.push(Open::Map { at_key: true }),
            Event::SequenceEnd | Event::MappingEnd => {
                places.open.pop();
                // In block style, it ends where the next token begins.
                places.node_ended(None);
            }
            _ => {}
        }
    }
    places.cuts
}

impl Places<'_> {
    fn scalar(&mut self, text: &str, span: Span) {
        let is_key = matches!(self.open.last(), Some(Open::Map { at_key: true }));
        if is_key && self.name.is_none() && self.mask.is_secret(text) {
            self.name = Some((span.end, self.open.len()));
            self.is_pass = text == PASS;
        }
        self.node_ended(Some(span.end));
    }

    /// Notes that a list begins. The names of inherited variables are not secret.
    fn list_began(&mut self) {
        let depth = self.open.len();
        self.name.take_if(|(_, at)| self.is_pass && *at == depth);
        self.open.push(Open::List);
    }

    /// Notes that a word has ended at `end`, or a collection. In a mapping, nodes alternate between keys and values.
    fn node_ended(&mut self, end: Option<Marker>) {
        self.end = end.or(self.end);
        if let Some(Open::Map { at_key }) = self.open.last_mut() {
            *at_key = !*at_key;
        }
        let is_value = matches!(self.open.last(), Some(Open::Map { at_key: true }));
        if let Some((name, _)) = self.name.take_if(|(_, depth)| is_value && *depth == self.open.len()) {
            self.cuts.entry(name.line()).or_insert(name.col());
            let end = self.end.unwrap_or(name);
            // A block of text ends where the text of the next line begins.
            let line = self.lines.get(end.line() - 1).copied().unwrap_or_default();
            let is_before_text = line.chars().take(end.col()).all(char::is_whitespace);
            let last = if is_before_text { end.line() - 1 } else { end.line() };
            self.cuts.extend((name.line() + 1..=last).map(|line| (line, 0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `source` as they can be shown.
    fn shown(source: &str) -> Vec<String> {
        let veil = Veil::over(source);
        let visible = |(index, line): (usize, &str)| match veil.visible(index + 1, line) {
            Some(count) => line.chars().take(count).collect::<String>() + HIDDEN,
            None => line.to_owned(),
        };
        source.lines().enumerate().map(visible).collect()
    }

    #[test]
    fn only_the_lines_of_a_value_of_several_lines_are_hidden() {
        for value in [
            "|\n    hush\n\n    b: hush",
            "\"hu\\\n    sh\"",
            "\n    hush",
            "hush\n    b",
            "[hush,\n    hush]",
            "\n    a: hush\n    a: hush",
            "&it !x\n    hush",
        ] {
            let text = format!("a: 1\nenv:\n  é: 2\n  HF_TOKEN: {value}\n  z: 3\n");
            let lines = shown(&text);
            assert!(
                lines[3].starts_with("  HF_TOKEN…") || lines[3].starts_with("  HF_TOKEN: …"),
                "{lines:?}"
            );
            assert!(lines[4..lines.len() - 1].iter().all(|line| line.trim() == HIDDEN), "{text}: {lines:?}");
            assert_eq!(
                (&lines[2], &lines[lines.len() - 1]),
                (&"  é: 2".to_owned(), &"  z: 3".to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn names_that_only_the_parser_can_read_hide_their_values_too() {
        assert_eq!(shown("{ é: 1, \"HF\\x5fTOKEN\": hush }"), ["{ é: 1, \"HF\\x5fTOKEN\": …"]);
        assert_eq!(shown("? HF_TOKEN\n: hush\nb: 1"), ["? HF_TOKEN…", ": …", "b: 1"]);
        assert_eq!(shown("a: &a hush\nHF_TOKEN: *a"), ["a: &a …", "HF_TOKEN: …"]);
        assert_eq!(shown("b: { PLAIN: hush }\nsecret: [PLAIN]"), ["b: { PLAIN: …", "secret: [PLAIN]"]);
        assert_eq!(shown("b: { PLAIN: hush }\nsecrets: [PLAIN]"), ["b: { PLAIN: …", "secrets: [PLAIN]"]);
        assert_eq!(shown("A_KEY: {hush: 1}\nhush: 1"), ["A_KEY: …", HIDDEN]);
        assert_eq!(shown("variables: { secret: hush }"), ["variables: { secret: …"]);
        let two = shown("b: { PLAIN: hush, OTHER: quiet }\nsecret: OTHER PLAIN");
        assert_eq!(two[0], "b: { PLAIN: …");
    }

    #[test]
    fn names_under_pass_are_not_secrets_but_passwords_are() {
        for list in ["pass: [DATA_ROOT, \"WANDB_*\"]", "pass:\n- DATA_ROOT", "a: [\npass: [DATA_ROOT]"] {
            assert_eq!(shown(list).join("\n"), list);
        }
        for password in ["pass: hush", "variables: { pass: [hush] }", "pass: -hush", "pass:\n  hush"] {
            assert!(!shown(password).concat().contains("hush"), "{password}");
        }
        assert_eq!(shown("a: [\npass: hush"), [HIDDEN, HIDDEN]);
    }

    #[test]
    fn values_are_hidden_in_a_list_of_variables_too() {
        for list in [
            "[{ name: HF_TOKEN, value: hush, also: 0123 }, { name: b, value: open }]",
            "[[HF_TOKEN, hush], [b, open]]",
            "[[PLAIN, hush], [b, open]]",
            "[HF_TOKEN, hush]",
        ] {
            let lines = shown(&format!("variables: {list}\nsecret: [PLAIN]\nhush: 1\nopen: 0123\nvalue: 1"));
            assert!(!lines.concat().contains("hush"), "{lines:?}");
            assert!(lines[3].starts_with("open: ") && lines[4] == "value: 1", "{lines:?}");
            assert_eq!(lines[3].ends_with("0123"), !list.contains("0123"), "{lines:?}");
        }
    }

    #[test]
    fn an_address_with_a_password_is_hidden_anywhere() {
        let text =
            "a: &it http://me:hush@h\nb: [\"x=http://me:hu\\x73h@h\", 1]\nc: 'http://me:hush@h' # d\ne: *it";
        let lines = shown(text);
        assert!(!lines.concat().contains("hush") && !lines.concat().contains("\\x73"), "{lines:?}");
        assert_eq!(shown("a: http://host:80/\nb: me@host"), ["a: http://host:80/", "b: me@host"]);
        assert_eq!(shown("a: [\nb: http://me:hush@h"), [HIDDEN, HIDDEN]);
    }

    #[test]
    fn invalid_yaml_that_names_a_secret_is_hidden_entirely() {
        assert_eq!(shown("a: [\nb: 1"), ["a: [", "b: 1"]);
        assert_eq!(shown("HF_TOKEN hush\na: 1"), [HIDDEN, HIDDEN]);
        assert_eq!(shown("a: [\nsecret: [A]"), [HIDDEN, HIDDEN]);
        assert_eq!(shown("a: [\nsecrets: [A]"), [HIDDEN, HIDDEN]);
        assert_eq!(shown("a: [\n\"key\" : hush"), [HIDDEN, HIDDEN]);
        assert_eq!(shown("a: [ # TOKEN hush"), [HIDDEN]);
        let prose = "a: [ # this key needs no password";
        assert_eq!(shown(prose), [prose]);
    }

    #[test]
    fn quotes_in_a_message_are_hidden() {
        let text = "the tag isn't known: `hush`, 'hush' or \"hush";
        let shown =
            ['`', '"', '\''].into_iter().fold(text.to_owned(), |text, quote| without_quoted(&text, quote));
        assert_eq!(shown, "the tag isn't known: …, … or …");
    }
}
