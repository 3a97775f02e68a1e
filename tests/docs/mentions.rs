//! The manual names exactly the verbs, options, keys, variables, outcomes and messages that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use orchestrate::job::PARAMETERS;
use orchestrate::matrix::schema;
use orchestrate::protocol::{ObjectForm, objects};
use orchestrate::record::Outcome;

use crate::harness::Project;
use crate::readme::pages::{page, root};

/// The words in the first cells of the table rows in `text` that are code: `` | `a`, `b` | … ``.
fn first_cells(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
    let cells = rows.map(|(cell, _)| cell);
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.map(str::to_owned).collect()
}

/// The text of `page` from the heading `## title` to the next heading of that level.
fn section(page: &str, title: &str) -> String {
    let text = self::page(page).text;
    let (_, rest) = text.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no `{title}`"));
    rest.split("\n## ").next().unwrap_or(rest).to_owned()
}

/// The flags in a line of help.
fn flags(help: &str) -> BTreeSet<String> {
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect()
}

/// The verbs of `orchestrate`; those of `peaks` and `dataset` as two words.
fn verbs() -> Vec<Vec<String>> {
    let of = |words: &[&str]| -> Vec<String> {
        let help = Project::new().orchestrate(&[words, &["--help"]].concat()).code(0).stdout;
        let lines = help.lines().take_while(|line| !["Arguments:", "Options:"].contains(line));
        let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(str::to_owned).collect()
    };
    let mut found = Vec::new();
    for verb in of(&[]) {
        let inner = of(&[&verb]);
        found.extend(inner.iter().map(|word| vec![verb.clone(), word.clone()]));
        if inner.is_empty() {
            found.push(vec![verb]);
        }
    }
    assert!(found.len() > 15, "{found:?}");
    found
}

#[test]
fn exactly_the_verbs_are_explained() {
    let rows = first_cells(&section("docs/reference/commands.md", "Verbs"));
    let is_of = |row: &str, verb: &[String]| {
        let words: Vec<&str> = row.split(' ').take(verb.len()).collect();
        words == verb
    };
    let verbs = verbs();
    for verb in &verbs {
        assert!(rows.iter().any(|row| is_of(row, verb)), "{verb:?} is not in commands.md");
    }
    for row in &rows {
        assert!(verbs.iter().any(|verb| is_of(row, verb)), "commands.md explains `{row}`");
    }
}

#[test]
fn exactly_the_options_are_explained() {
    let mut known = BTreeSet::new();
    for verb in verbs() {
        let words: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let help = Project::new().orchestrate(&words).code(0).stdout;
        let (_, options) = help.split_once("Options:\n").expect("every verb has options");
        let lines = options.lines().filter(|line| line.trim_start().starts_with('-'));
        known.extend(lines.flat_map(flags));
    }
    let explained = first_cells(&section("docs/reference/commands.md", "Options"));
    let explained: BTreeSet<String> = explained.iter().flat_map(|words| flags(words)).collect();
    assert_eq!(known, explained);
}

#[test]
fn every_key_of_a_matrix_is_explained() {
    let text = ["matrix", "marks", "reference/marks", "profiling", "protocol", "your-own-worker"]
        .map(|name| page(&format!("docs/{name}.md")).text)
        .concat();
    let schema = schema();
    let defs = schema["$defs"].as_object().unwrap();
    let objects = defs.iter().filter(|(name, _)| !["params", "axes"].contains(&name.as_str()));
    let objects = objects.map(|(_, object)| object).chain([&schema]);
    let keys = objects.filter_map(|object| object["properties"].as_object()).flat_map(|map| map.keys());
    let parameters = parameter_names();
    let keys: BTreeSet<&String> = keys.filter(|key| !parameters.contains(&key.as_str())).collect();
    assert!(keys.len() > 40, "{keys:?}");
    for key in keys {
        let is_said = [format!("`{key}`"), format!("{key}:"), format!(" {key} }}")];
        assert!(is_said.iter().any(|form| text.contains(form)), "`{key}` is not in the manual");
    }
}

/// The parameters of the shipped worker.
fn parameter_names() -> Vec<&'static str> {
    PARAMETERS.iter().map(|parameter| parameter.name()).collect()
}

/// The page and the schema, which follows from the code, have the same fields: of the file itself those that are
/// required under `Required`, others under `Optional` unless they have a section, and each object's in its section.
#[test]
fn every_field_of_a_measurement_is_explained() {
    const PAGE: &str = "docs/reference/measurement.md";
    let objects = objects();
    assert!(objects.len() >= 5 && objects.iter().all(|object| !object.fields.is_empty()), "{objects:?}");
    for ObjectForm { path, fields, required, .. } in &objects {
        if !path.is_empty() {
            assert_eq!(first_cells(&section(PAGE, &format!("`{path}`"))), *fields, "{path}");
            continue;
        }
        assert_eq!(first_cells(&section(PAGE, "Required")), *required);
        let has_section = |name: &String| objects.iter().any(|object| object.path == *name);
        let optional: BTreeSet<String> =
            fields.difference(required).filter(|name| !has_section(name)).cloned().collect();
        if !optional.is_empty() {
            assert_eq!(first_cells(&section(PAGE, "Optional")), optional);
        }
    }
}

/// Adds the text of all Rust files below `path`.
fn add_rust(path: &Path, text: &mut String) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_rust(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *text += &fs::read_to_string(path).unwrap();
        }
    }
}

/// All Rust sources and the scripts that read variables, concatenated.
fn sources() -> String {
    let mut text = fs::read_to_string(root().join("bootstrap.sh")).unwrap();
    add_rust(&root().join("src"), &mut text);
    text
}

#[test]
fn every_environment_variable_is_explained() {
    let sources = sources();
    let explained = first_cells(&page("docs/reference/environment.md").text);
    let mut found = BTreeSet::new();
    for (at, _) in sources.match_indices("ORCHESTRATE_") {
        let name: String =
            sources[at..].chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
        // A prefix alone does not count.
        found.extend(Some(name).filter(|name| !name.ends_with('_')));
    }
    assert!(found.len() > 5, "{found:?}");
    for name in &found {
        assert!(explained.contains(name), "{name} is not in environment.md");
    }
    for name in explained.iter().filter(|name| name.starts_with("ORCHESTRATE_")) {
        assert!(found.contains(name), "environment.md explains {name}, which no source reads");
    }
}

#[test]
fn exactly_the_outcomes_are_explained() {
    let explained = first_cells(&section("docs/troubleshooting.md", "Outcomes"));
    let known: BTreeSet<String> = Outcome::POLICIES.iter().map(|policy| policy.name.to_owned()).collect();
    assert_eq!(explained, known);
}

/// Messages that no longer exist must not be explained.
#[test]
fn every_explained_message_exists() {
    let sources = sources();
    let loaders = ["libtorch_cpu.so: cannot open shared object file"];
    for message in first_cells(&section("docs/troubleshooting.md", "Messages")) {
        if loaders.contains(&message.as_str()) {
            continue;
        }
        for part in message.split('…').map(str::trim).filter(|part| !part.is_empty()) {
            assert!(sources.contains(part), "no message says `{part}`");
        }
    }
}

/// Readers can look up the tests that the manual names.
#[test]
fn every_named_test_exists() {
    let manual = page("docs/first-run-on-a-gpu.md").text;
    let mut sources = sources();
    add_rust(&root().join("tests"), &mut sources);
    for file in ["test_frameworks.py", "test_graph.py"] {
        sources += &page(&format!("python/tests/{file}")).text;
    }
    let is_word = |code: &&str| {
        code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let names = manual.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let names: BTreeSet<&str> = names.filter(is_word).filter(|name| name.matches('_').count() > 2).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let is_there =
            [format!("fn {name}()"), format!("def {name}(self)")].iter().any(|head| sources.contains(head));
        assert!(is_there, "there is no test called `{name}`");
    }
}
