//! The tables of the manual that are generated from code, between `<!-- begin: name -->` and `<!-- end: name -->`.
//! `just docs` rewrites them.

mod mentions;

use std::collections::BTreeMap;
use std::fs;

use orchestrate::analysis::facts::circumstances_table;
use orchestrate::analysis::marks::{effects_table, evidence_table, marks_table, thresholds_table};
use orchestrate::analysis::table::{
    About, CSV_FILES, CsvFile, Section, Source, comparison_sections, history_sections,
};
use orchestrate::architecture;
use orchestrate::cli::Exit;
use orchestrate::job::{Declaration, PARAMETERS, ParamValue, ParameterType};
use orchestrate::ledger::{fields_table, rules_table};
use orchestrate::protocol::WorkerExit;
use orchestrate::record::{Outcome, inherited_list, sensors_table};
use orchestrate::report::{DATA_PACKAGE, FIGURES, Figure};

use strum::IntoEnumIterator;

use super::harness::{Matrix, Project};
use super::readme::pages::{Page, manual, page, root};

/// The variable that causes differing tables to be rewritten.
const UPDATE: &str = "UPDATE_DOCS";

/// A table of the manual.
struct Table {
    /// Its page.
    page: &'static str,
    /// Its name in the markers.
    name: &'static str,
    /// Generates the text between the markers from the current one: descriptions written by hand are kept.
    text: fn(&Table, &str) -> String,
}

/// Every generated table, one per line.
const TABLES: &[Table] = &[
    Table { page: "docs/marks.md", name: "marks", text: |_, _| marks_table() },
    Table { page: "docs/reference/marks.md", name: "effects", text: |_, _| effects_table() },
    Table { page: "docs/reference/marks.md", name: "thresholds", text: |_, _| thresholds_table() },
    Table { page: "docs/reference/marks.md", name: "evidence", text: |_, _| evidence_table() },
    Table { page: "docs/reference/exit-codes.md", name: "exit-codes", text: |_, _| Exit::markdown() },
    Table { page: "docs/troubleshooting.md", name: "outcomes", text: |_, _| Outcome::markdown() },
    Table { page: "docs/protocol.md", name: "worker-exit-codes", text: |_, _| WorkerExit::markdown() },
    Table { page: "docs/reference/parameters.md", name: "parameters", text: |_, _| parameters() },
    Table { page: "docs/reference/parameters.md", name: "networks", text: |_, _| architecture::markdown() },
    Table { page: "docs/reference/environment.md", name: "passed-on", text: |_, _| inherited_list() },
    Table { page: "docs/reference/circumstances.md", name: "facts", text: |_, _| circumstances_table() },
    Table { page: "docs/reading-the-report.md", name: "figures", text: |_, _| figures() },
    Table { page: "docs/reading-the-report.md", name: "csv-files", text: |_, _| csv_files() },
    Table { page: "docs/auditing.md", name: "rules", text: |_, _| rules_table() },
    Table { page: "docs/auditing.md", name: "fields", text: |_, _| fields_table() },
    Table { page: "docs/comparing.md", name: "comparison", text: |_, _| comparison() },
    Table { page: "docs/comparing.md", name: "history", text: |_, _| history() },
    Table { page: "docs/reference/columns.md", name: "sources", text: |_, _| sources() },
    Table { page: "docs/reference/columns.md", name: "files", text: |_, _| columns() },
    Table { page: "docs/reference/columns.md", name: "sensors", text: |_, _| sensors_table() },
];

/// The parts of `page` before, between and after the markers `name`.
fn split<'p>(page: &'p Page, name: &str) -> [&'p str; 3] {
    let [begin, end] = ["begin", "end"].map(|word| format!("<!-- {word}: {name} -->\n"));
    let parts =
        page.text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
    let (before, (between, after)) = parts.unwrap_or_else(|| panic!("{} has no block `{name}`", page.path));
    [before, between, after]
}

#[test]
fn every_generated_table_is_current() {
    let mut wrong = Vec::new();
    for table in TABLES {
        let page = page(table.page);
        let [before, found, after] = split(&page, table.name);
        let expected = (table.text)(table, found);
        if found == expected {
            continue;
        }
        if std::env::var_os(UPDATE).is_some() {
            let [begin, end] = ["begin", "end"].map(|word| format!("<!-- {word}: {} -->\n", table.name));
            fs::write(root().join(table.page), [before, &begin, &expected, &end, after].concat()).unwrap();
        } else {
            wrong.push(format!("{}, `{}`:\n{}", table.page, table.name, differing(found, &expected)));
        }
    }
    assert!(wrong.is_empty(), "`just docs` rewrites these tables:\n{}", wrong.join("\n"));
}

#[test]
fn every_generated_schema_is_current() {
    for (name, schema) in
        [("matrix", orchestrate::matrix::schema()), ("measurement", orchestrate::protocol::schema())]
    {
        let path = root().join(format!("docs/reference/{name}.schema.json"));
        let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&path, &expected).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "`just docs` rewrites {}", path.display());
    }
}

#[test]
fn every_matrix_of_this_repository_names_the_schema_in_its_first_line() {
    for (directory, up) in [("matrices", ".."), ("examples/pytorch", "../..")] {
        for entry in fs::read_dir(root().join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "yaml") {
                let line =
                    format!("# yaml-language-server: $schema={up}/docs/reference/matrix.schema.json\n");
                assert!(fs::read_to_string(&path).unwrap().starts_with(&line), "{}: {line}", path.display());
            }
        }
    }
}

/// The lines that only one of both texts has: `-` before those that are found, `+` before those that are expected.
fn differing(found: &str, expected: &str) -> String {
    let only = |sign, one: &str, other: &str| -> String {
        let lines = one.lines().filter(|line| !other.lines().any(|known| known == *line));
        lines.map(|line| format!("{sign} {line}\n")).collect()
    };
    let lines = only('-', found, expected) + &only('+', expected, found);
    if lines.is_empty() { "the same lines, in another order or number\n".to_owned() } else { lines }
}

#[test]
fn a_wrong_table_is_reported_by_its_lines() {
    assert_eq!(differing("a\nb\n", "a\nc\n"), "- b\n+ c\n");
    assert!(differing("a\nb\n", "b\na\n").contains("another order"));
}

#[test]
fn every_block_of_the_manual_is_in_the_registry() {
    for page in manual() {
        for rest in page.text.split("<!-- begin: ").skip(1) {
            let (name, _) = rest.split_once(" -->").expect("a marker ends");
            let is_known = TABLES.iter().any(|table| table.page == page.path && table.name == name);
            assert!(is_known, "{}: the block `{name}` is not in the registry", page.path);
        }
    }
}

/// `` `a`, `b` `` with lines of at most 120 characters.
fn list(words: &[&str]) -> String {
    let mut lines = vec![String::new()];
    for (index, word) in words.iter().enumerate() {
        let word = format!("`{word}`{}", if index + 1 < words.len() { "," } else { "" });
        let line = lines.last_mut().expect("there is one from the beginning");
        if line.is_empty() {
            line.push_str(&word);
        } else if line.len() + 1 + word.len() <= 120 {
            *line += &format!(" {word}");
        } else {
            lines.push(word);
        }
    }
    format!("{}\n", lines.join("\n"))
}

fn parameters() -> String {
    let mut text = "| parameter | values | default | what it does | needs | flag | reported |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for parameter in PARAMETERS {
        let Declaration { kind, flag, needs, reported, help, .. } = parameter.declaration();
        let values = match kind {
            ParameterType::Bool => "`true`, `false`".to_owned(),
            ParameterType::Int { min, max: i64::MAX } => format!("from {min}"),
            ParameterType::Int { min, max } => format!("{min} to {}", grouped(max)),
            ParameterType::Number { min, max } => format!("{min} to {max}, with or without a fraction"),
            ParameterType::Word(words) => list(words).trim_end().to_owned(),
            ParameterType::Data => "`{ synthetic: true }`, `{ folder: path }`".to_owned(),
        };
        let default = match parameter.default_value() {
            Some(ParamValue::Data(_)) => "`{ synthetic: true }`".to_owned(),
            Some(value) => format!("`{value}`"),
            None => "the worker chooses".to_owned(),
        };
        let needs: Vec<&str> = needs.iter().map(|need| need.text()).collect();
        text += &format!(
            "| `{}` | {values} | {default} | {help} | {} | `--{flag}` | {} |\n",
            parameter.name(),
            needs.join(", "),
            reported.text()
        );
    }
    text
}

/// `1,000,000`
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let comma = |index: usize| if index > 0 && (digits.len() - index).is_multiple_of(3) { "," } else { "" };
    digits.chars().enumerate().map(|(index, digit)| format!("{}{digit}", comma(index))).collect()
}

fn figures() -> String {
    let row = |figure: &Figure| {
        let Figure { name, heading, one_per, needs, .. } = figure;
        let needs = needs.replace('\n', " ");
        let needs = needs.trim_start_matches("It needs ").split(". ").next().unwrap_or_default();
        format!("| {heading} | `{name}_…` | {one_per} | {} |\n", needs.trim_end_matches('.'))
    };
    let rows: String = FIGURES.iter().map(row).collect();
    format!("| figure | file | one per | needs |\n|---|---|---|---|\n{rows}")
}

/// A file that is not in the table is never drawn, which no other test would detect.
#[test]
fn every_source_file_of_a_figure_is_in_the_table() {
    let entries = fs::read_dir(root().join("src/report/figures")).unwrap();
    let names = entries.map(|entry| entry.unwrap().path().file_stem().unwrap().display().to_string());
    let mut found: Vec<String> = names.filter(|name| name != "mod").collect();
    let mut declared: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    found.sort_unstable();
    declared.sort_unstable();
    assert_eq!(found, declared, "left: files of src/report/figures; right: `FIGURES` in its mod.rs");
}

fn csv_files() -> String {
    let row = |file: &CsvFile| format!("| `{}` | {} |\n", file.name, file.line);
    let rows: String = CSV_FILES.iter().map(row).collect();
    format!("| file | one line per |\n|---|---|\n{rows}")
}

/// The columns of the CSV files, under a heading for each file. Of a figure's file, only those that no file before has.
fn columns() -> String {
    let mut known = Meanings::new();
    let mut text = String::new();
    for file in CSV_FILES {
        text += &format!("## {}\n\nOne line per {}.\n\n", file.name, file.line);
        text.extend((file.sections)().iter().map(|it| section(it, &mut known)));
    }
    for figure in FIGURES {
        let columns = (figure.columns)().into_iter().flat_map(|section| section.columns);
        let table = new_columns(&columns.collect::<Vec<_>>(), &mut known);
        if !table.is_empty() {
            text += &format!("## figures/{}_….csv\n\n{table}\n", figure.name);
        }
    }
    format!("{}\n", text.trim_end())
}

/// Every column of `comparison.csv`.
fn comparison() -> String {
    table(&comparison_sections())
}

/// Every column of `history.csv`.
fn history() -> String {
    table(&history_sections())
}

fn table(sections: &[Section]) -> String {
    let mut known = Meanings::new();
    let text: String = sections.iter().map(|it| section(it, &mut known)).collect();
    format!("{}\n", text.trim_end())
}

/// The columns described so far: the meaning by the name.
type Meanings = BTreeMap<String, String>;

/// The columns of a config, which most files have.
const CONFIG: [&str; 7] = ["env", "device", "model", "precision", "batch", "params", "param_NAME"];

/// The columns of a section: the names of those that are described already, and a table of the others.
fn section(Section { title, note, columns }: &Section, known: &mut Meanings) -> String {
    let title = if title.is_empty() { String::new() } else { format!("### {title}\n\n") };
    let note = if note.is_empty() { String::new() } else { format!("{note}\n\n") };
    let names = columns.iter().filter(|it| is_known(it, known)).map(|it| it.name.as_ref());
    let (of_config, others): (Vec<&str>, Vec<&str>) = names.partition(|name| CONFIG.contains(name));
    let config = if of_config.is_empty() { "" } else { " the *config*," };
    let above =
        if others.is_empty() { String::new() } else { format!("As above:{config}\n{}\n", list(&others)) };
    format!("{title}{note}{above}{}\n", new_columns(columns, known))
}

fn is_known(about: &About, known: &Meanings) -> bool {
    known.get(about.name.as_ref()).is_some_and(|meaning| *meaning == about.meaning)
}

/// A table of those `columns` that are not described yet, which they are from now on. Empty if there are none.
fn new_columns(columns: &[About], known: &mut Meanings) -> String {
    let new: Vec<&About> = columns.iter().filter(|it| !is_known(it, known)).collect();
    let rows: String =
        new.iter().map(|about| format!("| `{}` | {} |\n", about.name, about.meaning)).collect();
    known.extend(new.iter().map(|about| (about.name.to_string(), about.meaning.to_string())));
    if rows.is_empty() { rows } else { format!("| column | meaning |\n|---|---|\n{rows}") }
}

/// Where the values of columns come from.
fn sources() -> String {
    let row = |source: Source| format!("| {} | {} |\n", source.as_str(), source.meaning());
    format!("| source | what it is |\n|---|---|\n{}", Source::iter().map(row).collect::<String>())
}

#[test]
fn every_file_that_aggregate_writes_is_declared() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    project.orchestrate(&["aggregate"]).code(0);
    let entries = fs::read_dir(project.path("report/t")).expect("aggregate writes tables");
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let mut declared: Vec<&str> = CSV_FILES.iter().map(|file| file.name).chain([DATA_PACKAGE]).collect();
    found.sort_unstable();
    declared.sort_unstable();
    assert_eq!(found, declared);
}
