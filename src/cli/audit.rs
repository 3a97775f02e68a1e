//! `orchestrate audit`: finds errors in ledgers (tables of results) that other programs wrote.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use serde::Serialize;

use super::catalogue::load_catalogue;
use super::failure::disk_remedy;
use super::find::no_store;
use super::output::{hint, print, print_json};
use super::{Exit, Failure, Global};
use crate::files::{FILE_LIMIT, read_regular};
use crate::job::Kind;
use crate::ledger::{
    Audited, Entry, Field, Form, Ledger, LedgerError, Mapping, Number, Objection, Place, Severity, Unread,
    audit, decode, read,
};
use crate::record::Record;
use crate::store::{Import, Store};
use crate::text::{count_text, first_few};

/// The version of the `--json` format.
///
/// Changelog: 1, the first.
const AUDIT_SCHEMA: u32 = 1;

/// The arguments of `orchestrate audit`.
#[derive(Debug, clap::Args)]
pub(super) struct AuditArgs {
    /// The ledgers: CSV files with one line per config, per run or per iteration [default: the timings of the store and
    /// the ledgers that were imported into it].
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Read the column COLUMN as NAME; without a name, ignore it. Can be repeated.
    #[arg(long = "map", value_name = "COLUMN=NAME")]
    mappings: Vec<Mapping>,
    /// Directory of the peaks.
    #[arg(long, value_name = "DIR", default_value = "peaks")]
    peaks_dir: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Audits the ledgers together, and prints their errors.
pub(super) fn run(args: &AuditArgs, global: &Global) -> Result<Exit, Failure> {
    let ledgers = match args.files.is_empty() {
        true => load_store(global, &args.mappings)?,
        false => load_ledgers(&args.files, &args.mappings)?,
    };
    let catalogue = load_catalogue(&args.peaks_dir, global)?;
    let entries: Vec<_> = ledgers.iter().flat_map(|ledger| &ledger.entries).cloned().collect();
    let audited = audit(&entries, &catalogue);
    let unread: Vec<&Unread> = ledgers.iter().flat_map(|ledger| &ledger.unread).collect();
    if args.json {
        print_json(&View::of(&ledgers, &audited, &unread))?;
    } else {
        print(&text(&audited, &unread))?;
    }
    if unread.iter().any(|it| matches!(it, Unread::Columns { .. })) {
        hint(
            global.quiet,
            "`--map COLUMN=NAME` declares the meaning of a column; the manual lists the names",
        );
    }
    Ok(if audited.number(Severity::Error) > 0 { Exit::FalseLedger } else { Exit::Done })
}

/// A ledger that cannot be used.
#[derive(Debug, thiserror::Error)]
enum LoadLedgerError {
    /// The file cannot be read.
    #[error("cannot read the ledger {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// It contains nothing that can be audited.
    #[error(transparent)]
    NoLedger(#[from] LedgerError),
}

/// All ledgers that cannot be used.
#[derive(Debug)]
struct LoadErrors(Vec<LoadLedgerError>);

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(|error| crate::text::with_causes(error)).collect();
        f.write_str(&texts.join("\n       "))
    }
}

impl std::error::Error for LoadErrors {}

/// Reads all `files`.
///
/// # Errors
/// Some cannot be used (all of these are named), or a mapping names a column that none of them has.
fn load_ledgers(files: &[PathBuf], mappings: &[Mapping]) -> Result<Vec<Ledger>, Failure> {
    let ledgers = all_usable(files.iter().map(|path| load_ledger(path, mappings)))?;
    let is_nowhere = |column: &&String| ledgers.iter().all(|ledger| ledger.without.contains(column));
    let nowhere: Vec<String> =
        mappings.iter().map(|mapping| &mapping.column).filter(is_nowhere).cloned().collect();
    if !nowhere.is_empty() {
        let error = format!("no ledger has the column {} of `--map`", first_few(&nowhere));
        return Err(Failure::new(Exit::Usage, error).hint("use the name in the first line of the file"));
    }
    all_usable(ledgers.into_iter().map(|ledger| Ok(ledger.with_rows()?)))
}

/// The ledgers, if all of them can be used.
///
/// # Errors
/// Some cannot be used; all of these are named.
fn all_usable(
    ledgers: impl Iterator<Item = Result<Ledger, LoadLedgerError>>,
) -> Result<Vec<Ledger>, Failure> {
    let (mut usable, mut wrong) = (Vec::new(), Vec::new());
    for ledger in ledgers {
        match ledger {
            Ok(ledger) => usable.push(ledger),
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() {
        return Ok(usable);
    }
    let remedy = remedy(&wrong);
    Err(Failure::new(Exit::Usage, LoadErrors(wrong)).hint(remedy))
}

/// The timings of the store as a ledger, and the tables that were imported into it.
fn load_store(global: &Global, mappings: &[Mapping]) -> Result<Vec<Ledger>, Failure> {
    if !mappings.is_empty() {
        return Err(Failure::new(Exit::Usage, "`--map` needs a file, and none is named")
            .hint("`orchestrate import` accepts it, and stores the mapping with the table"));
    }
    let store = Store::at(&global.store).map_err(Failure::store)?;
    if let Some(failure) = no_store(&store) {
        return Err(failure.hint("name a ledger: `orchestrate audit FILE.csv`"));
    }
    let inventory = store.load_inventory().map_err(Failure::store)?;
    let file = global.store.display().to_string();
    let entries = inventory.records().filter_map(|record| own_entry(&file, record)).collect();
    let mut ledgers =
        vec![Ledger { file, entries, known: Vec::new(), unread: Vec::new(), without: Vec::new() }];
    for name in store.import_names().map_err(Failure::store)? {
        let import = store.load_import(&name).map_err(|error| Failure::new(Exit::StoreUnusable, error))?;
        ledgers.extend(
            import.filter(|import| import.form == Form::Table.name()).map(imported_ledger).transpose()?,
        );
    }
    Ok(ledgers)
}

/// An imported table, parsed from its stored text.
fn imported_ledger(import: Import) -> Result<Ledger, Failure> {
    let mappings = import.mappings.iter().map(|text| text.parse()).collect::<Result<Vec<Mapping>, _>>()?;
    let file = format!("{} (imported)", import.name);
    Ok(read(&file, &decode(&import.source.bytes()), &mappings)?)
}

/// A timing of this store as a line of a ledger. Its time is left out, because the mark `contended` already covers
/// runs that overlapped.
fn own_entry(file: &str, record: &Record) -> Option<Entry> {
    let measurement = record.measurement.as_ref().filter(|it| it.synchronized && it.elapsed_s > 0.0)?;
    if record.key.kind != Kind::Timing || !record.outcome.is_success() {
        return None;
    }
    let key = &record.key;
    let rate = measurement.samples as f64 / measurement.elapsed_s;
    let device = measurement.details.device_name.clone();
    let entry = Entry::new(file, None)
        .with_text(Field::Env, key.env.to_string())
        .with_text(Field::Host, record.provenance.host.hostname.clone())
        .with_text(Field::Backend, key.device.to_string())
        .with_text(Field::Model, key.model.to_string())
        .with_text(Field::Precision, key.precision.to_string())
        .with_text(Field::Label, record.label.clone())
        .with_number(Field::Batch, Number::exactly(f64::from(key.batch)))
        .with_number(Field::Samples, Number::exactly(measurement.samples as f64))
        .with_number(Field::Elapsed, Number::exactly(measurement.elapsed_s))
        .with_number(Field::Throughput, Number::exactly(rate));
    let entry = device.into_iter().fold(entry, |entry, device| entry.with_text(Field::Device, device));
    let params = key.params.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Some(params.fold(entry, |entry, (name, value)| entry.with_setting(&name, value)))
}

fn load_ledger(path: &Path, mappings: &[Mapping]) -> Result<Ledger, LoadLedgerError> {
    let bytes = read_regular(path, FILE_LIMIT)
        .map_err(|source| LoadLedgerError::Read { path: path.to_owned(), source })?;
    Ok(read(&path.display().to_string(), &decode(&bytes), mappings)?)
}

/// The remedy for the first of `wrong`.
fn remedy(wrong: &[LoadLedgerError]) -> &'static str {
    match &wrong[0] {
        LoadLedgerError::Read { source, .. } => {
            disk_remedy(source).unwrap_or("name a CSV file that can be read")
        }
        LoadLedgerError::NoLedger(LedgerError::NoThroughputs { .. }) => {
            "summary.csv and metrics.csv of the same report can be audited; without a file, the store is audited"
        }
        LoadLedgerError::NoLedger(LedgerError::NoColumns { .. } | LedgerError::NoRows { .. }) => {
            "`--map COLUMN=NAME` declares the meaning of a column, for example `--map speed=images_per_s`"
        }
        LoadLedgerError::NoLedger(_) => {
            "name a CSV file with a header and a line per config, run or iteration"
        }
    }
}

/// The result, as `--json` prints it.
#[derive(Debug, Serialize)]
struct View<'a> {
    schema: u32,
    files: Vec<String>,
    lines: usize,
    rows: usize,
    errors: Vec<&'a Objection>,
    doubts: Vec<&'a Objection>,
    /// Things that could not be read, as sentences.
    unread: Vec<String>,
    /// Assumptions, and things that could not be checked.
    notes: &'a [String],
}

impl<'a> View<'a> {
    fn of(ledgers: &[Ledger], audited: &'a Audited, unread: &[&Unread]) -> View<'a> {
        let of = |severity| audited.objections.iter().filter(|it| it.severity == severity).collect();
        View {
            schema: AUDIT_SCHEMA,
            files: ledgers.iter().map(|ledger| ledger.file.clone()).collect(),
            lines: audited.lines,
            rows: audited.rows,
            errors: of(Severity::Error),
            doubts: of(Severity::Doubt),
            unread: unread.iter().map(ToString::to_string).collect(),
            notes: &audited.notes,
        }
    }
}

/// The result as text: each objection with its lines, its arithmetic and its likely cause.
fn text(audited: &Audited, unread: &[&Unread]) -> String {
    let mut text: String = audited.objections.iter().map(objection_text).collect();
    for unread in unread {
        text += &format!("{unread}\n");
    }
    for note in &audited.notes {
        text += &format!("note: {note}\n");
    }
    let [errors, doubts] = [Severity::Error, Severity::Doubt]
        .map(|severity| count_text(audited.number(severity), &severity.to_string()));
    let (lines, rows) = (count_text(audited.lines, "line"), count_text(audited.rows, "row"));
    text + &format!("audited {lines}, which make {rows}: {errors}, {doubts}\n")
}

fn objection_text(objection: &Objection) -> String {
    let Objection { severity, rule, lines, sentence, cause } = objection;
    let others: Vec<String> = lines.iter().skip(1).map(Place::to_string).collect();
    let mut text =
        format!("{}: {severity}: {}\n  {sentence}\n  likely cause: {cause}\n", lines[0], rule.name());
    if !others.is_empty() {
        text += &format!("  with: {}\n", first_few(&others));
    }
    text + "\n"
}
