//! The environment variables of an env: `variables`, `secret`, `not_secret` and `pass`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::keys;
use super::note::{Notes, Spanned};
use super::reader::{entries, get, list, text};
use super::tree::{Entry, Node, Value};
use crate::record::{Influence, contains_password, influence, is_set_by_us, looks_secret};

/// The value of a secret variable. It is not printed, not even for debugging, and cannot be written to a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `value`.
    pub fn new(value: String) -> Secret {
        Secret(value)
    }

    /// The value, only for the worker's environment.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// The variables that an env adds to its workers' environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables {
    /// Variables with their values, which are not secret.
    pub open: BTreeMap<String, String>,
    /// Secret variables. Their values can be missing in the matrix.
    pub secret: BTreeMap<String, Option<Secret>>,
    /// Variables that workers inherit from orchestrate's own environment: names, and prefixes with `*`.
    pub pass: BTreeSet<String>,
}

/// Reads `variables`, `secret`, `not_secret` and `pass` of an env. A variable is secret if it is declared so, or if it
/// looks like a secret and is not declared otherwise.
pub(super) fn read_variables(env: &[Entry], notes: &mut Notes) -> Variables {
    let mut open = get(env, "variables").map_or_else(BTreeMap::new, |node| read_values(node, notes));
    let mut names = |key| get(env, key).map_or_else(Vec::new, |node| read_names(node, notes));
    let (secret, not_secret) = (names("secret"), names("not_secret"));
    let pass = read_pass(env, &open, &secret, notes);
    check_secret(&secret, notes);
    check_not_secret(&not_secret, &secret, &open, notes);
    let set_of =
        |names: &[Spanned<String>]| names.iter().map(|name| name.value.clone()).collect::<BTreeSet<_>>();
    let (declared, not_secret) = (set_of(&secret), set_of(&not_secret));
    let found = open.iter().filter(|(name, value)| is_like_a_secret(name, value)).map(|(name, _)| name);
    let found = found.filter(|name| !not_secret.contains(*name)).cloned();
    let names: BTreeSet<String> = found.chain(declared).collect();
    let secret = names.into_iter().map(|name| (name.clone(), open.remove(&name).map(Secret))).collect();
    Variables { open, secret, pass }
}

/// Whether the name of a variable or its value shows that it is a secret.
fn is_like_a_secret(name: &str, value: &str) -> bool {
    looks_secret(name) || contains_password(name, value)
}

fn read_values(node: &Node, notes: &mut Notes) -> BTreeMap<String, String> {
    let map = entries(node, "environment variables and their values", notes);
    let mut variables = BTreeMap::new();
    for (key, node) in map {
        if !check_variable(key, notes) {
            continue;
        }
        // The value can be a secret, so no message quotes it.
        let mut expected = |message: &str| notes.add(node.span, &key.value, message);
        match &node.value {
            Value::List(_) | Value::Map(_) | Value::Null => {
                expected("expected the variable's value, a word or a number");
            }
            Value::Text(text) if text.contains('\0') => {
                expected("an environment variable cannot contain a NUL character");
            }
            Value::Text(text) if is_reference(text) => {
                expected(
                    "`${NAME}` is not expanded: write the value itself, or list the variable under `pass`",
                );
            }
            // A variable is text, so that `1.10` is not 1.1.
            Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Unkept(_) | Value::Text(_) => {
                variables.insert(key.value.clone(), node.as_written());
            }
        }
    }
    variables
}

/// Whether `text` contains `${NAME}`, which a shell would expand and which is hardly meant literally.
fn is_reference(text: &str) -> bool {
    text.split("${").skip(1).any(|rest| {
        let name = rest.split('}').next().filter(|name| name.len() < rest.len());
        name.is_some_and(is_variable_name)
    })
}

/// Whether `name` can be that of an environment variable.
fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The names in a list of variables.
fn read_names(node: &Node, notes: &mut Notes) -> Vec<Spanned<String>> {
    if matches!(node.value, Value::Null) {
        return Vec::new();
    }
    let items =
        list(node, "a list of environment variables, such as `[HF_TOKEN]`", notes).unwrap_or_default();
    let mut names = Vec::new();
    for item in items {
        let name = text(item, "an environment variable's name", notes);
        names.extend(name.filter(|name| check_variable(name, notes)));
    }
    names
}

/// The names and prefixes under `pass`. `open` and `secret` are the variables that already have a value.
fn read_pass(
    env: &[Entry],
    open: &BTreeMap<String, String>,
    secret: &[Spanned<String>],
    notes: &mut Notes,
) -> BTreeSet<String> {
    let Some(node) = get(env, "pass").filter(|node| !matches!(node.value, Value::Null)) else {
        return BTreeSet::new();
    };
    let expected = "a list of environment variables, such as `[DATA_ROOT, \"WANDB_*\"]`";
    let items = list(node, expected, notes).unwrap_or_default();
    let mut patterns = Vec::new();
    for item in items {
        let Some(pattern) = text(item, "an environment variable's name", notes) else { continue };
        let has_value =
            open.contains_key(&pattern.value) || secret.iter().any(|secret| secret.value == pattern.value);
        if has_value {
            notes.add(pattern.span, &pattern.value, "has a value in `variables`, or is secret: keep one");
        } else if check_pattern(&pattern, notes) {
            patterns.push(pattern);
        }
    }
    check_once(&patterns, notes);
    patterns.into_iter().map(|pattern| pattern.value).collect()
}

/// Whether an env can pass on the variables that match `pattern`.
fn check_pattern(pattern: &Spanned<String>, notes: &mut Notes) -> bool {
    let (beginning, is_name) = match pattern.value.strip_suffix('*') {
        Some(beginning) => (beginning, false),
        None => (pattern.value.as_str(), true),
    };
    let mut refuse = |message: &str| {
        notes.add(pattern.span, &pattern.value, message);
        false
    };
    if !is_variable_name(beginning) {
        return refuse("expected an environment variable's name, or a prefix and `*`, such as `WANDB_*`");
    }
    if keys::DEVICE_VARIABLES.contains(&beginning)
        || keys::OUTPUT_VARIABLES.contains(&beginning)
        || beginning == keys::OPERATORS_VARIABLE
    {
        return check_variable(pattern, notes);
    }
    if is_set_by_us(beginning) {
        return refuse("orchestrate sets it for every worker; to change it, declare it under `variables`");
    }
    if is_name && looks_secret(beginning) {
        return refuse(
            "looks like a secret: list it under `secret`, which passes it on without saving its value",
        );
    }
    true
}

/// Whether an env can declare the variable `name`.
fn check_variable(name: &Spanned<String>, notes: &mut Notes) -> bool {
    if !is_variable_name(&name.value) {
        notes.add(
            name.span,
            &name.value,
            "expected an environment variable's name: ASCII letters, digits and `_`",
        );
        return false;
    }
    if keys::DEVICE_VARIABLES.contains(&name.value.as_str()) {
        let hint = Some("write `device: cuda:1` for the second GPU".to_owned());
        notes.add_with_hint(name.span, &name.value, "is set by the env's device", hint);
        return false;
    }
    if keys::OUTPUT_VARIABLES.contains(&name.value.as_str()) {
        notes.add(
            name.span,
            &name.value,
            "is an output path of the worker: orchestrate sets it for each job",
        );
        return false;
    }
    if name.value == keys::OPERATORS_VARIABLE {
        let hint = Some("write `profile: { ops: { iters: 3 } }`".to_owned());
        notes.add_with_hint(
            name.span,
            &name.value,
            "asks the worker to profile: orchestrate sets it for each job of the kind `ops`",
            hint,
        );
        return false;
    }
    true
}

fn check_secret(secret: &[Spanned<String>], notes: &mut Notes) {
    check_once(secret, notes);
    for name in secret {
        let why = match name.value.as_str() {
            word if keys::SETTING_VARIABLES.contains(&word) => {
                "orchestrate sets it, and results depend on its value"
            }
            word => match influence(word) {
                Some(Influence::Nothing | Influence::Search) => {
                    "every worker gets it, and programs are found by it"
                }
                Some(Influence::Setting) => "every worker gets it, and results depend on its value",
                None => continue,
            },
        };
        notes.add(name.span, &name.value, format!("cannot be secret: {why}"));
    }
}

fn check_not_secret(
    not_secret: &[Spanned<String>],
    secret: &[Spanned<String>],
    declared: &BTreeMap<String, String>,
    notes: &mut Notes,
) {
    check_once(not_secret, notes);
    for name in not_secret {
        if secret.iter().any(|secret| secret.value == name.value) {
            notes.add(name.span, &name.value, "is in `secret` as well: keep one");
            continue;
        }
        match declared.get(&name.value) {
            None => {
                notes.add(name.span, &name.value, "is not in `variables`, so it does not reach the worker")
            }
            Some(value) if !is_like_a_secret(&name.value, value) => {
                let message = "does not look like a secret, so it needs no exception: remove it";
                notes.add(name.span, &name.value, message);
            }
            Some(_) => {}
        }
    }
}

fn check_once(names: &[Spanned<String>], notes: &mut Notes) {
    for (index, name) in names.iter().enumerate() {
        if names[..index].iter().any(|earlier| earlier.value == name.value) {
            notes.add(name.span, &name.value, "is listed twice: keep one");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::matrix::check;

    #[test]
    fn a_password_in_a_value_makes_a_variable_secret() {
        let read = |env: &str| {
            let env = format!("envs: {{ e: {{ device: cpu, {env} }} }}");
            check(&format!("name: m\nmodels: [vgg16]\nbatches: [1]\n{env}\n"))
        };
        let variables = "variables: { A: http://me:hush@h, HTTP_PROXY: 'me:hush@h', B: http://h:80/ }";
        let matrix = read(variables).unwrap();
        let env = &matrix.envs[0].variables;
        assert_eq!(env.secret.keys().collect::<Vec<_>>(), ["A", "HTTP_PROXY"]);
        assert_eq!(env.open.keys().collect::<Vec<_>>(), ["B"]);
        let open = read(&format!("{variables}, not_secret: [A]")).unwrap();
        assert_eq!(open.envs[0].variables.open.keys().collect::<Vec<_>>(), ["A", "B"]);
        let notes = read(&format!("{variables}, not_secret: [B]")).unwrap_err();
        assert!(notes[0].message.contains("does not look like a secret"), "{notes:?}");
    }

    #[test]
    fn a_matrix_that_is_printed_for_debugging_keeps_its_secrets() {
        let matrix = check(
            "name: m\nmodels: [vgg16]\nbatches: [1]\n\
             envs: { e: { device: cpu, variables: { A_KEY: hush, B_KEY: open, C: hush }, secret: [C, D], \
             not_secret: [B_KEY] } }\n",
        )
        .unwrap();
        let variables = &matrix.envs[0].variables;
        assert_eq!(variables.open, [("B_KEY".to_owned(), "open".to_owned())].into());
        let value = |name: &str| variables.secret[name].as_ref().map(super::Secret::reveal);
        assert_eq!(["A_KEY", "C", "D"].map(value), [Some("hush"), Some("hush"), None]);
        assert!(!format!("{matrix:?}").contains("hush"), "{matrix:?}");
    }
}
