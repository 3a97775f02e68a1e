//! `orchestrate show`: a summary of one job, or all details.
//!
//! This file reads the store; [`brief`] and [`page`] are the output.
#![expect(clippy::disallowed_methods, reason = "this verb reads a job's directory")]

mod brief;
mod number;
mod page;

use std::fs;
use std::io;
use std::path::Path;

use super::altered::altered;
use super::find::load_inventory;
use super::global::store_flag;
use super::marked::{Doubts, doubts_of, plan_of};
use super::output::{hint, print, print_json};
use super::pick::{Found, PickArgs, identify};
use super::{Exit, Failure, Global};
use crate::files::{JobDir, read_regular_text};
use crate::job::Job;
use crate::plan::{NotDone, Standing};
use crate::record::Record;
use crate::store::Store;

use brief::brief_text;
use page::AttemptPage;
pub(super) use page::Page;

/// The arguments of `orchestrate show`.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    job: PickArgs,
    /// Print all declared, measured and observed values, and the command.
    #[arg(long)]
    all: bool,
    /// Print the record that counts for the job as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the job's state, config, throughput and doubts on a screen; with `--all`, also its whole measurement,
/// process, provenance, files and command.
pub(super) fn run(args: ShowArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let found = args.job.find(&store)?;
    let job = identify(&found)?;
    let standing = store.load_standing(&job);
    if args.json {
        print_json(record_of(&standing).ok_or_else(|| no_record(&found, &standing))?)?;
        return Ok(Exit::Done);
    }
    let plan = plan_of(&store, &job);
    let usd_per_hour = plan.as_ref().and_then(|plan| plan.env(job.key()).usd_per_hour);
    let doubts = match &standing {
        Standing::Done(record) => doubts_of(record, plan.as_ref(), &load_inventory(&store)?, &store, global),
        Standing::NotDone(_) => Doubts::default(),
    };
    let page = load_page(&found.dir, job, standing)
        .map(|page| Page { usd_per_hour, doubts, ..page })
        .map_err(|source| ReadError { path: found.dir.path().to_owned(), source })?;
    print(&if args.all { page.text() } else { brief_text(&page) })?;
    if !page.attempts.is_empty() {
        let (name, store) = (found.dir.name(), store_flag(global));
        let all = match args.all {
            true => String::new(),
            false => format!("`orchestrate show {name}{store} --all` prints everything, "),
        };
        hint(global.quiet, &format!("{all}`orchestrate logs {name}{store}` prints the worker's output"));
    }
    Ok(Exit::Done)
}

/// A job's directory that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
struct ReadError {
    path: std::path::PathBuf,
    #[source]
    source: io::Error,
}

fn record_of(standing: &Standing) -> Option<&Record> {
    match standing {
        Standing::Done(record) | Standing::NotDone(NotDone::Failed(record)) => Some(record),
        Standing::NotDone(_) => None,
    }
}

fn no_record(found: &Found, standing: &Standing) -> Failure {
    let why = match standing {
        Standing::NotDone(not_done) => not_done.to_string(),
        Standing::Done(_) => "it is done".to_owned(),
    };
    Failure::new(Exit::NothingSelected, format!("the job {} has no record: {why}", found.dir.name()))
        .hint(format!("`orchestrate show {}` without `--json` shows its directory", found.dir.name()))
}

/// The page of `job` from its directory `dir`, without prices and doubts.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn load_page(dir: &JobDir, job: Job, standing: Standing) -> io::Result<Page> {
    let last = dir.load_record().ok().flatten();
    let mut attempts = Vec::new();
    for attempt in dir.attempts()? {
        let own = attempt.load_record().ok().flatten();
        let record = own.or_else(|| last.clone().filter(|record| record.attempt == attempt.number()));
        attempts.push(AttemptPage { number: attempt.number(), record });
    }
    let mut files = Vec::new();
    collect_files(dir.path(), "", &mut files)?;
    files.sort();
    let command = read_regular_text(&dir.command()).ok();
    Ok(Page {
        job,
        directory: dir.path().display().to_string(),
        standing,
        attempts,
        files,
        command,
        usd_per_hour: None,
        doubts: Doubts::default(),
        altered: altered(dir),
    })
}

/// Every file below `directory` with its size in bytes, by its path from the job's directory.
fn collect_files(directory: &Path, prefix: &str, files: &mut Vec<(String, u64)>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect_files(&entry.path(), &format!("{name}/"), files)?;
        } else if let Ok(data) = entry.metadata() {
            // Files of a running job can vanish in the meantime.
            files.push((name, data.len()));
        }
    }
    Ok(())
}
