//! Checks the dependencies between rooms and between files, by reading the sources. `ARCHITECTURE.md` describes them.

mod graph;
mod size;
mod source;
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use graph::{Crate, Graph};

/// The programs and the library, each with its first file.
const CRATES: &[Crate<'_>] = &[
    ("orchestrate", "src/lib.rs"),
    ("main", "src/main.rs"),
    ("worker", "src/bin/worker/main.rs"),
    ("fake_worker", "src/bin/fake_worker.rs"),
    ("zoo_worker", "src/bin/zoo_worker/main.rs"),
];

/// A room and the rooms it may use. A room is listed after all rooms that it uses.
const MAY_USE: &[(&str, &[&str])] = &[
    ("shared", &[]),
    ("threads", &[]),
    ("job", &[]),
    ("stats", &[]),
    ("random", &[]),
    ("text", &[]),
    ("clean", &[]),
    ("threshold", &["text"]),
    ("metric", &[]),
    ("architecture", &[]),
    ("processor", &[]),
    ("dataset", &["random"]),
    ("protocol", &["job", "shared", "clean"]),
    ("operator", &["protocol"]),
    ("record", &["job", "shared", "protocol", "metric", "stats", "text", "clean"]),
    ("matrix", &["job", "record", "metric", "architecture", "stats", "text", "threshold"]),
    ("plan", &["job", "shared", "protocol", "record", "matrix", "stats", "random", "text", "threshold"]),
    ("event", &["job", "protocol", "record", "plan", "text"]),
    (
        "analysis",
        &[
            "job",
            "shared",
            "threads",
            "protocol",
            "operator",
            "record",
            "architecture",
            "stats",
            "text",
            "clean",
            "threshold",
        ],
    ),
    ("ledger", &["job", "record", "analysis", "architecture", "stats", "text", "clean", "threshold"]),
    (
        "report",
        &["job", "threads", "protocol", "record", "analysis", "architecture", "stats", "text", "clean"],
    ),
    ("files", &["job"]),
    ("processes", &["clean"]),
    ("stop", &[]),
    ("lock", &["job", "clean", "matrix", "event", "files", "processes", "stop"]),
    (
        "store",
        &[
            "job",
            "shared",
            "threads",
            "protocol",
            "record",
            "matrix",
            "plan",
            "text",
            "files",
            "processes",
            "lock",
        ],
    ),
    ("host", &["job", "clean", "processor", "record", "plan", "files", "processes"]),
    ("serve", &["job", "text", "clean", "report", "files", "stop", "store"]),
    ("queue", &["job", "clean", "matrix", "plan", "files", "store", "host"]),
    ("prepare", &["job", "protocol", "record", "plan", "dataset", "event", "files", "lock", "host"]),
    (
        "run",
        &[
            "job",
            "protocol",
            "record",
            "metric",
            "matrix",
            "plan",
            "text",
            "event",
            "files",
            "processes",
            "stop",
            "lock",
            "store",
            "host",
        ],
    ),
];

/// The programs and the rooms they may use.
const PROGRAMS_MAY_USE: &[(&str, &[&str])] = &[
    ("main", &["cli"]),
    ("fake_worker", &["protocol", "job"]),
    ("zoo_worker", &["protocol", "processor", "random"]),
    ("worker", &["protocol", "job", "architecture", "processor", "random", "text"]),
];

/// Rooms without effects.
const PURE: &[&str] = &[
    "shared",
    "threads",
    "job",
    "stats",
    "random",
    "text",
    "clean",
    "threshold",
    "metric",
    "architecture",
    "processor",
    "dataset",
    "protocol",
    "operator",
    "record",
    "matrix",
    "plan",
    "event",
    "analysis",
    "ledger",
    "report",
];

/// The beginnings of paths that reveal an effect in a pure room. Clippy catches calls; this catches types and imports.
const EFFECTS: &[&[&str]] = &[
    &["std", "fs"],
    &["std", "process"],
    &["std", "env"],
    &["std", "net"],
    &["std", "thread", "sleep"],
    &["std", "thread", "spawn"],
    &["std", "thread", "available_parallelism"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
    &["tokio"],
    &["nix"],
    &["duct"],
    &["indicatif"],
];

#[test]
fn rooms_use_only_rooms_below_them() {
    let graph = house();
    let mut wrong = Vec::new();
    for (from, arrows) in &graph.arrows {
        let room = room_of(from);
        let allowed = MAY_USE.iter().chain(PROGRAMS_MAY_USE).find(|(name, _)| *name == room);
        let Some((_, allowed)) = allowed else { continue };
        for (to, names) in arrows {
            let used = room_of(to);
            if used != room && !allowed.contains(&used) {
                wrong.push(format!("{from}: `{room}` uses {names:?} of `{used}` ({to})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_depends_on_itself() {
    let graph = house();
    let circles: Vec<String> = graph.circles().iter().map(|circle| graph.circle_text(circle)).collect();
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// `just graph` prints this.
#[test]
fn print_the_graph_of_files() {
    let graph = house();
    for (from, arrows) in &graph.arrows {
        println!("{from}");
        for (to, names) in arrows {
            println!("    -> {to}: {}", Vec::from_iter(names.iter().map(String::as_str)).join(", "));
        }
    }
    let circles = graph.circles();
    for circle in &circles {
        println!("\n{}", graph.circle_text(circle));
    }
    let arrows: usize = graph.arrows.values().map(BTreeMap::len).sum();
    let end = if circles.is_empty() { "no circle".to_owned() } else { format!("{} circles", circles.len()) };
    println!("\n{} files, {arrows} arrows, {end}", graph.files.len());
}

#[test]
fn every_room_is_on_the_map() {
    let listed: BTreeSet<&str> = MAY_USE.iter().map(|(room, _)| *room).chain(["cli"]).collect();
    let text = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    // A module that is compiled only for tests is not a room.
    let rooms = text.replace("#[cfg(test)]\nmod ", "");
    let modules: BTreeSet<&str> = rooms
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod ")))
        .map(|rest| rest.trim_end_matches(';'))
        .collect();
    assert_eq!(modules, listed, "the rooms of src/lib.rs and those of this test");
    for module in modules {
        assert!(text.contains(&format!("| [`{module}`] |")), "`{module}` is not in the map of src/lib.rs");
    }
}

#[test]
fn every_room_documents_its_content_callers_and_limits() {
    for (room, _) in MAY_USE.iter().chain(&[("cli", &[][..])]) {
        let text = load(&format!("src/{room}/mod.rs")).or_else(|| load(&format!("src/{room}.rs"))).unwrap();
        let lines = text.lines().map_while(|line| line.strip_prefix("//! "));
        let first = Vec::from_iter(lines).join(" ");
        assert!(first.contains("call") || first.contains("listen"), "who may call `{room}`? {first}");
        assert!(first.contains("never"), "`{room}` does not say what it never does: {first}");
    }
}

#[test]
fn every_source_is_read_and_every_path_resolved() {
    let graph = house();
    assert!(graph.unresolved.is_empty(), "{}", graph.unresolved.join("\n"));
    let unread: Vec<String> = sources()
        .into_iter()
        .filter(|file| !graph.files.contains(file))
        .filter(|file| !graph.test_files.iter().any(|test| is_part_of(file, test)))
        .collect();
    assert!(unread.is_empty(), "no module declares {unread:?}");
}

/// Whether `file` is `test`, or is in the folder of which `test` is the `mod.rs`.
fn is_part_of(file: &str, test: &str) -> bool {
    file == test || test.strip_suffix("mod.rs").is_some_and(|folder| file.starts_with(folder))
}

#[test]
fn pure_rooms_have_no_effects() {
    let graph = house();
    let mut wrong = Vec::new();
    for file in graph.files.iter().filter(|file| PURE.contains(&room_of(file))) {
        let module = source::read(&load(file).unwrap()).unwrap();
        for path in source::all_paths(&module) {
            if EFFECTS.iter().any(|effect| effect.iter().eq(path.iter().take(effect.len()))) {
                wrong.push(format!("{file}: `{}`", path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Split functions and files that are too long by their purpose. Only tables are exempt.
#[test]
fn functions_and_files_are_short() {
    let mut wrong = Vec::new();
    for file in &house().files {
        let size = size::measure(&load(file).unwrap()).unwrap();
        if size.lines > size::FILE {
            wrong.push(format!("{file}: {} lines of code; at most {} are allowed", size.lines, size::FILE));
        }
        for (name, lines) in size.too_long {
            wrong.push(format!(
                "{file}: `{name}` has {lines} lines of code; at most {} are allowed",
                size::FUNCTION
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The room of `file`: the folder or file below `src`, or the program below `src/bin`.
fn room_of(file: &str) -> &str {
    let below = file.strip_prefix("src/").unwrap_or(file);
    let below = below.strip_prefix("bin/").unwrap_or(below);
    below.split('/').next().unwrap_or(below).trim_end_matches(".rs")
}

fn house() -> Graph {
    Graph::read(CRATES, &load)
}

fn load(file: &str) -> Option<String> {
    std::fs::read_to_string(root().join(file)).ok()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below `src`.
fn sources() -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root().join("src")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(relative(&path));
            }
        }
    }
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()
}
