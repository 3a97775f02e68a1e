//! The direction of the modules, held by reading the sources: what `ARCHITECTURE.md` draws, this test enforces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A module of the library and the modules it may name. Whoever is not listed may be named by nobody but `cli`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("job", &[]),
    ("stats", &[]),
    ("architecture", &[]),
    ("dataset", &[]),
    ("protocol", &["job"]),
    ("record", &["job", "protocol", "stats"]),
    ("matrix", &["job", "record", "architecture", "stats"]),
    ("plan", &["job", "protocol", "record", "matrix", "stats"]),
    ("analysis", &["job", "protocol", "record", "architecture", "stats"]),
    ("report", &["job", "protocol", "record", "analysis", "architecture", "stats"]),
    ("run", &["job", "protocol", "record", "matrix", "plan", "dataset", "stats"]),
];

/// What the programs may name of the library.
const PROGRAMS_MAY_USE: &[(&str, &[&str])] = &[
    ("src/main.rs", &["cli"]),
    ("src/bin/fake_worker.rs", &["protocol", "job"]),
    ("src/bin/worker", &["protocol", "job", "architecture"]),
];

/// Modules without effects, and the words that would betray one. The clippy wall catches calls; this catches types and
/// imports.
const PURE: &[&str] = &[
    "job",
    "stats",
    "architecture",
    "dataset",
    "protocol",
    "record",
    "matrix",
    "plan",
    "analysis",
    "report",
];
const EFFECTS: &[&str] = &[
    "std::fs",
    "std::process",
    "std::env",
    "std::net",
    "std::thread",
    "Instant",
    "SystemTime",
    " tokio::",
    " nix::",
    " duct::",
];

#[test]
fn modules_name_only_what_is_below_them() {
    let mut wrong = Vec::new();
    for (module, allowed) in MAY_USE {
        for (file, text) in sources_of_module(module) {
            for used in modules_named(&text, "crate::") {
                if used != *module && !allowed.contains(&used.as_str()) {
                    wrong.push(format!("{}: `{module}` names `{used}`", file.display()));
                }
            }
        }
    }
    for (program, allowed) in PROGRAMS_MAY_USE {
        for (file, text) in sources(&root().join(program)) {
            for used in modules_named(&text, "orchestrate::") {
                if !allowed.contains(&used.as_str()) {
                    wrong.push(format!("{}: names `{used}`", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_is_on_the_map() {
    let listed: Vec<_> = MAY_USE.iter().map(|(module, _)| *module).chain(["cli"]).collect();
    let text = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let modules: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod ")))
        .map(|rest| rest.trim_end_matches(';'))
        .collect();
    assert!(!modules.is_empty());
    for module in modules {
        assert!(listed.contains(&module), "`{module}` is not in tests/layers.rs");
        assert!(text.contains(&format!("| [`{module}`] |")), "`{module}` is not in the map of src/lib.rs");
    }
}

#[test]
fn pure_modules_do_not_touch_the_world() {
    let mut wrong = Vec::new();
    for module in PURE {
        for (file, text) in sources_of_module(module) {
            let code = without_tests_and_comments(&text);
            for effect in EFFECTS {
                if code.contains(effect) {
                    wrong.push(format!("{}: `{effect}`", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_modules_sees_every_form() {
    let named = |text| modules_named(text, "crate::");
    assert_eq!(named("use crate::job::Job;"), ["job"]);
    assert_eq!(named("use crate::{job, run::Store};"), ["job", "run"]);
    assert_eq!(named("use crate::{\n    job::{Job, Key},\n    stats,\n};"), ["job", "stats"]);
    assert_eq!(named("let x = crate::plan::decide(y);"), ["plan"]);
    assert_eq!(named("//! see [`crate::run`]"), Vec::<String>::new());
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources_of_module(module: &str) -> BTreeMap<PathBuf, String> {
    let mut found = sources(&root().join("src").join(module));
    found.extend(sources(&root().join("src").join(format!("{module}.rs"))));
    assert!(!found.is_empty(), "no sources of `{module}`");
    found
}

/// The Rust files at or below `path`, with their text.
fn sources(path: &Path) -> BTreeMap<PathBuf, String> {
    if path.is_file() {
        return BTreeMap::from([(path.to_owned(), std::fs::read_to_string(path).unwrap())]);
    }
    let Ok(entries) = std::fs::read_dir(path) else { return BTreeMap::new() };
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "rs"))
        .flat_map(|path| sources(&path))
        .collect()
}

/// The modules that `text` names behind `prefix`, comments left out: `crate::a::B` and `crate::{a, b::C}`.
fn modules_named(text: &str, prefix: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(first_words_of_group(group)),
            None => found.extend(first_word(rest)),
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The first word of each item of `a, b::{c, d}, e}…`.
fn first_words_of_group(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut items = vec![String::new()];
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(String::new()),
            _ => {}
        }
        items.last_mut().unwrap().push(letter);
    }
    items.iter().filter_map(|item| first_word(item.trim_start_matches([',', ' ', '\n']))).collect()
}

/// The identifier at the start of `text` if it names a module: macros and types of the crate's root begin otherwise.
fn first_word(text: &str) -> Option<String> {
    let word: String = text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    word.starts_with(|first: char| first.is_lowercase()).then_some(word)
}

fn without_tests_and_comments(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}
