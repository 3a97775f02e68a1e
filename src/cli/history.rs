//! `orchestrate history`: the throughput of each config in each version, with a verdict on every change.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::cell::load_iterations;
use super::exit::leave;
use super::output::{Layout, print, print_json, print_line, say, table, table_text, write_files};
use super::study::Reading;
use super::{Exit, Failure, Global};
use crate::analysis::cost::FlopsConvention;
use crate::analysis::history::{History, Point, Version, history};
use crate::analysis::{Cell, Span, Study};
use crate::record::Record;
use crate::report::history_files;
use crate::store::Store;
use crate::text::significant;

/// The version of the `--json` format.
///
/// Changelog: 1, the first.
const VIEW_SCHEMA: u32 = 1;

/// The number of characters of a hash that are shown.
const SHOWN: usize = 12;

/// The arguments of `orchestrate history`.
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// Name or file of a matrix that was run [default: the last one].
    #[arg(value_name = "NAME|FILE")]
    matrix: Option<String>,
    /// What identifies a version: a commit of the matrix, the bytes of the worker, or those of the matrix file.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    by: By,
    /// Also write history.csv, and its datapackage.json, into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Include runs that their marks leave out, such as contended ones.
    #[arg(long)]
    include_marked: bool,
}

/// The identity of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// A commit of the git checkout of the matrix.
    #[default]
    Commit,
    /// The bytes of the worker.
    Worker,
    /// The bytes of the matrix file.
    Matrix,
}

impl By {
    fn as_str(self) -> &'static str {
        match self {
            By::Commit => "commit",
            By::Worker => "worker",
            By::Matrix => "matrix",
        }
    }

    /// The version of a record; `None` if it is not recorded. A checkout with changes is not the version of its commit.
    fn of(self, record: &Record) -> Option<String> {
        let provenance = &record.provenance;
        let short = |hash: &str| hash.chars().take(SHOWN).collect::<String>();
        match self {
            By::Commit => provenance
                .git
                .as_ref()
                .map(|git| format!("{}{}", short(&git.revision), if git.dirty { "+changes" } else { "" })),
            By::Worker => provenance.worker.sha256.as_deref().map(short),
            By::Matrix => Some(short(&provenance.matrix.sha256)).filter(|hash| !hash.is_empty()),
        }
    }
}

/// Prints the history, and writes its table.
pub(super) fn run(args: HistoryArgs, global: &Global) -> Result<Exit, Failure> {
    let reading = Reading {
        peaks_dir: std::path::Path::new("peaks"),
        convention: FlopsConvention::default(),
        include_marked: args.include_marked,
    };
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let study = reading.load(&store, args.matrix.as_deref(), global)?;
    let versions = versions(&study, args.by, &store, global)?;
    let found = history(&versions);
    if found.points.is_empty() {
        return Err(no_versions(args.by));
    }
    if args.json {
        print_json(&View::of(&found, args.by))?;
    } else {
        print_text(&found)?;
    }
    if let Some(directory) = &args.out {
        write_files(directory, &history_files(study.matrix.name.as_str(), &found))?;
        say(&format!("history: {}", directory.join("history.csv").display()));
    }
    leave(versions);
    leave(study);
    Ok(Exit::Done)
}

fn no_versions(by: By) -> Failure {
    let (what, hint) = match by {
        By::Commit => ("a commit", "`--by worker` identifies versions by the bytes of the worker"),
        By::Worker => ("the worker's bytes", "`--by commit` identifies versions by the commit of the matrix"),
        By::Matrix => {
            ("the bytes of its matrix", "`--by worker` identifies versions by the bytes of the worker")
        }
    };
    Failure::new(Exit::NothingToAggregate, format!("no run that counts records {what}")).hint(hint)
}

/// The results of `study` by version, including those that re-runs replaced: the last result of each job and version.
///
/// # Errors
/// The attempts of a job cannot be listed. Unreadable records are ignored.
fn versions(study: &Study, by: By, store: &Store, global: &Global) -> Result<Vec<Version>, Failure> {
    let mut found: Vec<(String, Vec<Cell>)> = Vec::new();
    for cell in study.cells.iter().filter(|cell| cell.is_timing()) {
        let Some((current, _)) = cell.success() else { continue };
        let mut known: Vec<String> = Vec::new();
        let earlier = if current.attempt > 1 { earlier(cell, current.attempt, store)? } else { Vec::new() };
        let all = std::iter::once(cell.clone()).chain(earlier);
        for cell in all {
            let Some(version) = cell.record().and_then(|record| by.of(record)) else { continue };
            if known.contains(&version) {
                continue;
            }
            match found.iter_mut().find(|(name, _)| *name == version) {
                Some((_, cells)) => cells.push(cell),
                None => found.push((version.clone(), vec![cell])),
            }
            known.push(version);
        }
    }
    let version = |(name, mut cells): (String, Vec<Cell>)| {
        load_iterations(&mut cells, store, global);
        let mut spans = study.spans.clone();
        spans.extend(cells.iter().filter_map(Cell::record).map(Span::of));
        Version { name, study: Study { cells, spans, replaced: Vec::new(), ..study.clone() } }
    };
    Ok(found.into_iter().map(version).collect())
}

/// The successful attempts of a job before the attempt `current`, the last one first.
fn earlier(cell: &Cell, current: u32, store: &Store) -> Result<Vec<Cell>, Failure> {
    let attempts = store.job_dir(&cell.job).attempts()?.into_iter().rev();
    let attempts = attempts.filter(|attempt| attempt.number() < current);
    let records = attempts.filter_map(|attempt| attempt.load_record().ok().flatten());
    let successes = records.filter(|record| record.outcome.is_success());
    Ok(successes
        .map(|record| Cell { record: Ok(Arc::new(record)), iterations: None, ..cell.clone() })
        .collect())
}

fn print_text(found: &History) -> Result<(), Failure> {
    let unit = format!("{}/s", found.unit);
    let header = ["config", "host", "version", "since", "n", &unit, "ratio", "95 % interval", "verdict"];
    let mut shown = table(header.map(str::to_owned).into(), Layout::of_stdout());
    shown.add_rows(found.points.iter().map(cells));
    print(&table_text(&shown))?;
    print_line("A ratio is the throughput of a version ÷ that of the last one before it on the same machine.")
}

fn cells(point: &Point) -> Vec<String> {
    let mut cells = vec![point.config.clone(), point.host.clone(), point.version.clone()];
    cells.push(point.since.format("%Y-%m-%d %H:%M").to_string());
    cells.extend([point.runs.n.to_string(), significant(point.runs.per_s, 4)]);
    match &point.result {
        Ok(comparison) => {
            let [ratio, low, high] = comparison.texts();
            cells.extend([ratio, format!("{low} – {high}"), comparison.verdict.as_str().to_owned()]);
        }
        Err(_) if point.before.is_none() => cells.extend(["-", "-", "first"].map(str::to_owned)),
        Err(why) => cells.extend(["-", "-", why].map(str::to_owned)),
    }
    cells
}

/// The output as JSON.
#[derive(Debug, Serialize)]
struct View<'v> {
    schema: u32,
    by: &'static str,
    /// The unit of the samples.
    unit: String,
    points: Vec<PointView<'v>>,
}

#[derive(Debug, Serialize)]
struct PointView<'v> {
    config: &'v str,
    host: &'v str,
    version: &'v str,
    since: String,
    n: usize,
    samples_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'v str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'v str>,
}

impl<'v> View<'v> {
    fn of(found: &'v History, by: By) -> Self {
        let points = found.points.iter().map(PointView::of).collect();
        View { schema: VIEW_SCHEMA, by: by.as_str(), unit: found.unit.to_string(), points }
    }
}

impl<'v> PointView<'v> {
    fn of(point: &'v Point) -> Self {
        let comparison = point.result.as_ref().ok();
        PointView {
            config: &point.config,
            host: &point.host,
            version: &point.version,
            since: point.since.to_rfc3339(),
            n: point.runs.n,
            samples_per_s: point.runs.per_s,
            before: point.before.as_deref(),
            ratio: comparison.map(|comparison| comparison.ratio),
            low: comparison.map(|comparison| comparison.interval.low),
            high: comparison.map(|comparison| comparison.interval.high),
            verdict: comparison.map(|comparison| comparison.verdict.as_str()),
            reason: point.result.as_ref().err().map(String::as_str),
        }
    }
}
