//! `orchestrate import`: copies ledgers of other programs into the store, as records without jobs.
#![expect(clippy::disallowed_methods, reason = "the time of an import is that of the command line")]

use std::path::{Path, PathBuf};

use chrono::Utc;
use clap::ValueHint;
use serde::Serialize;

use super::failure::disk_remedy;
use super::output::{hint, print, print_json};
use super::{Exit, Failure, Global};
use crate::files::{FILE_LIMIT, read_regular};
use crate::job::Name;
use crate::ledger::{Foreign, Mapping, decode, foreign};
use crate::store::{Import, ImportFate, SaveImportError, Store};
use crate::text::count_text;

/// The version of the `--json` format.
///
/// Changelog: 1, the first.
const IMPORTED_SCHEMA: u32 = 1;

/// The arguments of `orchestrate import`.
#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// The files: CSV tables, logs of `/usr/bin/time`, tables of `ncu --csv`.
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Its name in the store [default: the file's name without its ending].
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// Read the column COLUMN as NAME; without a name, ignore it. Can be repeated.
    #[arg(long = "map", value_name = "COLUMN=NAME")]
    mappings: Vec<String>,
    /// If the store has another ledger of this name, replace it by this one, and move the other one away.
    #[arg(long)]
    replace: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Imports each file, and prints the results.
pub(super) fn run(args: &ImportArgs, global: &Global) -> Result<Exit, Failure> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Failure::new(Exit::Usage, "`--name` names one file, and there are several")
            .hint("import one file at a time"));
    }
    let mappings = args.mappings.iter().map(|text| text.parse::<Mapping>()).collect::<Result<Vec<_>, _>>();
    let mappings = mappings.map_err(|error| Failure::new(Exit::Usage, error))?;
    // Nothing is imported if one of them cannot be read.
    let imports = args.files.iter().map(|path| args.prepare(path, &mappings));
    let imports = imports.collect::<Result<Vec<Import>, Failure>>()?;
    let store = Store::create(&global.store).map_err(Failure::store)?;
    let mut views = Vec::new();
    for import in imports {
        let fate = store.save_import(&import, args.replace).map_err(not_saved)?;
        views.push(View::of(&import, &fate));
    }
    let is_conflict = views.iter().any(|view| view.what == ImportFate::Conflict.name());
    if args.json {
        print_json(&Views { schema: IMPORTED_SCHEMA, files: views })?;
    } else {
        print(&views.iter().map(View::text).collect::<String>())?;
    }
    if is_conflict {
        hint(
            global.quiet,
            "`--name NAME` keeps both; `--replace` imports this one, and moves the other one away",
        );
        return Ok(Exit::LeftOut);
    }
    Ok(Exit::Done)
}

impl ImportArgs {
    /// Parses the file at `path` for the import.
    fn prepare(&self, path: &Path, mappings: &[Mapping]) -> Result<Import, Failure> {
        let file = path.display().to_string();
        let bytes = read_regular(path, FILE_LIMIT).map_err(|source| {
            let remedy = disk_remedy(&source).unwrap_or("name a file that can be read");
            Failure::new(Exit::Usage, format!("cannot read {file}: {source}")).hint(remedy)
        })?;
        let name = match &self.name {
            Some(name) => name.clone(),
            None => usual_name(path)?,
        };
        let Foreign { form, records, beside } =
            foreign(&file, &decode(&bytes), mappings).map_err(|error| {
                Failure::new(Exit::Usage, error).hint("`--map COLUMN=NAME` declares the meaning of a column")
            })?;
        let mappings = self.mappings.clone();
        let import = Import::new(name, &file, &bytes, Utc::now());
        Ok(Import { form: form.name().to_owned(), mappings, records, beside, ..import })
    }
}

/// The file name of `path` without its ending, restricted to valid letters.
fn usual_name(path: &Path) -> Result<Name, Failure> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name: String = stem.chars().map(|letter| if fits(letter) { letter } else { '_' }).take(64).collect();
    name.parse()
        .map_err(|error| Failure::new(Exit::Usage, error).hint("choose another name with `--name NAME`"))
}

fn not_saved(error: SaveImportError) -> Failure {
    match error {
        SaveImportError::Store(error) => Failure::store(error),
        SaveImportError::Here(error) => Failure::new(Exit::StoreUnusable, error)
            .hint("restore that file from a copy, or move it away and import again"),
    }
}

/// The results for all files.
#[derive(Debug, Serialize)]
struct Views {
    schema: u32,
    files: Vec<View>,
}

/// The result for a file.
#[derive(Debug, Serialize)]
struct View {
    file: String,
    name: String,
    form: String,
    /// `imported`, `already here`, `continued`, `conflict` or `replaced`.
    what: &'static str,
    records: usize,
    /// Things that could not be mapped or read, as sentences.
    beside: Vec<String>,
    /// The new path of the replaced ledger.
    kept_in: Option<String>,
}

impl View {
    fn of(import: &Import, fate: &ImportFate) -> View {
        let kept_in = match fate {
            ImportFate::Replaced(path) => Some(path.display().to_string()),
            _ => None,
        };
        View {
            file: import.file.clone(),
            name: import.name.to_string(),
            form: import.form.clone(),
            what: fate.name(),
            records: import.records.len(),
            beside: import.beside.clone(),
            kept_in,
        }
    }

    fn text(&self) -> String {
        let View { file, name, form, what, records, beside, kept_in } = self;
        let mut text: String = beside.iter().map(|beside| format!("{beside}\n")).collect();
        text += &format!("{what}: {file} as {name}: {} ({form})\n", count_text(*records, "record"));
        if let Some(kept_in) = kept_in {
            text += &format!("the replaced ledger is now {kept_in}\n");
        }
        text
    }
}
