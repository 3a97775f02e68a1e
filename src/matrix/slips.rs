//! Rules of the JSON Schema for names with one typing error: `chanels_last`, `{btach}`.
//!
//! A custom worker can have parameters of any name, if a placeholder uses it. So a name that looks like a typing error
//! is valid if it occurs both as a parameter and as a placeholder. Each known name has a separate rule, because errors
//! in two different names would otherwise cancel each other out.

use serde_json::{Map, Value, json};

use super::keys;
use crate::job::PARAMETERS;

/// Shorter names are too similar to decide which one was meant.
const SHORTEST: usize = 4;

/// A letter of a name, including a dash typed instead of an underscore.
const LETTER: &str = r"[\w-]";

/// The definitions that the rules refer to, by name.
pub(super) fn definitions() -> Map<String, Value> {
    let mut definitions = Map::new();
    for name in names() {
        definitions.insert(not_key(name), not_a_key(name));
        definitions.insert(not_word(name), not_in_a_word(name));
        definitions.insert(undeclared(name), in_no_declaration(&reference(&not_key(name))));
        definitions.insert(unused(name), in_no_command(&reference(&not_word(name))));
    }
    definitions
}

/// For each known name: a misspelling of it must occur both as a parameter and as a placeholder, or not at all. An
/// entry of `exclude` can use it if a placeholder does, but does not declare it.
pub(super) fn rules() -> Vec<Value> {
    let both = |name: &str| {
        let [undeclared, unused] = [undeclared(name), unused(name)].map(|name| reference(&name));
        let selectors = json!({ "exclude": { "items": reference(&not_key(name)) } });
        [
            json!({ "if": unused, "then": { "$ref": undeclared["$ref"], "properties": selectors } }),
            json!({ "if": undeclared, "then": unused }),
        ]
    };
    names().iter().copied().flat_map(both).collect()
}

/// The names that are long enough, each once.
fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = known().into_iter().filter(|name| name.len() >= SHORTEST).collect();
    names.sort_unstable();
    names
}

/// The names of parameters, of a config's keys, and of placeholders.
fn known() -> Vec<&'static str> {
    let parameters = PARAMETERS.iter().map(|parameter| parameter.name());
    let mut names: Vec<&str> =
        parameters.chain(keys::PLACEHOLDERS.iter().copied()).chain(keys::names(keys::INCLUDE)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn not_key(name: &str) -> String {
    format!("not_key_{name}")
}

fn not_word(name: &str) -> String {
    format!("not_word_{name}")
}

fn undeclared(name: &str) -> String {
    format!("not_declared_{name}")
}

fn unused(name: &str) -> String {
    format!("not_used_{name}")
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// An object without a key that is a slip of `name`.
fn not_a_key(name: &str) -> Value {
    // Standard validators ignore the message; editors show it instead of the pattern.
    let message = format!("Did you mean `{name}`? No placeholder of a `worker.command` has this name.");
    json!({ "propertyNames": { "pattern": key_pattern(name), "patternErrorMessage": message } })
}

/// A word without a placeholder that is a slip of `name`.
fn not_in_a_word(name: &str) -> Value {
    let message = format!("Did you mean `{{{name}}}`? Nothing defines the placeholder in this word.");
    json!({ "pattern": placeholder_pattern(name), "patternErrorMessage": message })
}

/// A matrix in which each object that declares parameters satisfies `rule`.
fn in_no_declaration(rule: &Value) -> Value {
    let of_env = json!({ "params": rule, "axes": rule });
    json!({ "properties": {
        "params": rule,
        "axes": rule,
        "include": { "items": rule },
        "envs": { "additionalProperties": { "properties": of_env } },
    } })
}

/// A matrix in which each word of a command satisfies `rule`.
fn in_no_command(rule: &Value) -> Value {
    let worker = json!({ "properties": { "command": { "items": rule } } });
    json!({ "properties": {
        "worker": worker,
        "envs": { "additionalProperties": { "properties": { "worker": worker } } },
    } })
}

/// Matches every key but the slips of `name`.
fn key_pattern(name: &str) -> String {
    format!("^(?!{}{}$)", unless_known(name, "$"), slips(name))
}

/// Matches every word without a placeholder that is a slip of `name`.
fn placeholder_pattern(name: &str) -> String {
    let is_placeholder = r"(?=[a-z_][a-z0-9_]*\})";
    format!(r"^(?![\s\S]*\{{{is_placeholder}{}{}\}})", unless_known(name, r"\}"), slips(name))
}

/// Refuses `name` and the known names that are similar to it, if `end` follows.
fn unless_known(name: &str, end: &str) -> String {
    let near = |other: &&str| strsim::osa_distance(name, other) <= 1;
    let names: Vec<&str> = known().into_iter().filter(near).collect();
    format!("(?!(?:{}){end})", names.join("|"))
}

/// Matches `name` itself, and `name` with one letter missing, added, wrong or swapped with its neighbour.
fn slips(name: &str) -> String {
    let Some(first) = name.chars().next() else { return LETTER.to_owned() };
    let rest = &name[first.len_utf8()..];
    let swapped = rest.chars().next().filter(|second| *second != first).map_or_else(String::new, |second| {
        let rest = &rest[second.len_utf8()..];
        format!("|{second}{first}{rest}")
    });
    format!("(?:{first}{}|(?:{LETTER}{first}?)?{rest}{swapped})", slips(rest))
}

#[cfg(test)]
mod tests {
    use jsonschema::Validator;

    use super::*;

    /// The slips of a name that an editor recognises. Building a validator takes longer than using it, so it is kept.
    struct Slips {
        keys: Validator,
        words: Validator,
    }

    impl Slips {
        fn of(name: &str) -> Slips {
            let validator = |rule: Value| jsonschema::draft202012::new(&rule).expect("a schema");
            Slips { keys: validator(not_a_key(name)), words: validator(not_in_a_word(name)) }
        }

        fn has(&self, key: &str) -> bool {
            let of_key = !self.keys.is_valid(&json!({ key: 1 }));
            let word = format!("--{{out}}\n={{{key}}}}}");
            let of_placeholder = !self.words.is_valid(&json!(word));
            if !key.contains('-') {
                assert_eq!(of_key, of_placeholder, "{key}");
            }
            of_key
        }
    }

    #[test]
    fn a_slip_has_one_letter_missing_added_swapped_or_wrong() {
        for name in names() {
            let found = Slips::of(name);
            let letters: Vec<char> = name.chars().collect();
            let mut slips = vec![format!("{name}x"), format!("x{name}")];
            for at in 0..letters.len() {
                let with = |letters: &[char]| [&letters[..at], &['x'], &letters[at..]].concat();
                let missing = [&letters[..at], &letters[at + 1..]].concat();
                let doubled = [&letters[..=at], &letters[at..]].concat();
                let mut swapped = letters.clone();
                swapped.swap(at, (at + 1).min(letters.len() - 1));
                slips.extend(
                    [&with(&missing), &missing, &doubled, &with(&letters), &swapped].map(String::from_iter),
                );
            }
            for slip in slips.iter().filter(|slip| !known().contains(&slip.as_str())) {
                assert!(found.has(slip), "{slip} {name}");
            }
        }
    }

    #[test]
    fn names_with_two_errors_are_not_slips() {
        for (key, name) in [
            ("batch", "batch"),
            ("bat", "batch"),
            ("batchxx", "batch"),
            ("abtcah", "batch"),
            ("batch_per_gpu", "batch"),
            ("learning_rate", "repeat"),
        ] {
            assert!(!Slips::of(name).has(key), "{key} {name}");
        }
        assert!(Slips::of("channels_last").has("channels-last"), "a dash is a slip");
    }

    /// They are similar, but not typing errors.
    #[test]
    fn no_known_name_is_a_slip_of_another() {
        let (repeat, repeats) = ("repeat", "repeats");
        assert!(known().contains(&repeat) && known().contains(&repeats), "two similar names");
        for name in names() {
            let found = Slips::of(name);
            for other in known() {
                assert!(!found.has(other), "{other} {name}");
            }
        }
    }
}
