//! `orchestrate check-worker`: runs a worker once, on a small job, and lists its mistakes and omissions.
//!
//! [`task`] turns the arguments into a plan of one job. [`trial`] runs it as `run` does, in a separate store.
//! [`conduct`](crate::analysis::conduct) judges the attempt, and [`page`] formats the remarks. [`remains`] removes the
//! files of checks that were killed.

mod page;
mod remains;
mod scratch;
mod task;
mod trial;

use std::path::PathBuf;

use serde::Serialize;

use self::scratch::Scratch;
use self::task::TaskArgs;
use self::trial::{Tried, try_once};
use super::output::{print, print_json};
use super::{Exit, Failure, Global};
use crate::analysis::conduct::{Remark, Weight, refused, remarks};
use crate::protocol::Measurement;
use crate::record::Outcome;

/// The arguments of `orchestrate check-worker`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "orchestrate check-worker [OPTIONS] -- CMD…\n       \
                            orchestrate check-worker [OPTIONS] --matrix FILE")]
#[command(mut_arg("models", |arg| arg.help("The value of `{model}`; or select jobs of this model with `--matrix`")))]
pub(super) struct CheckWorkerArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Keep the files of the worker and of orchestrate in this new directory, which is a store.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print the remarks as JSON.
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    /// The words of the command, placeholders filled in.
    command: &'a [String],
    /// How the worker ended; absent if it was not started.
    outcome: Option<&'a Outcome>,
    /// Its measurement; absent if there is no valid one.
    measurement: Option<&'a Measurement>,
    /// The remarks, the most serious first.
    remarks: &'a [Remark],
    /// The store that was kept.
    kept: Option<&'a PathBuf>,
}

/// Runs the worker once and prints the remarks.
pub(super) fn run(args: CheckWorkerArgs, global: &Global) -> Result<Exit, Failure> {
    let task = args.task.task()?;
    let assumed = args.task.assumed();
    remains::remove(global)?;
    let scratch = Scratch::create(args.keep.as_deref())?;
    let tried = try_once(task, scratch.path(), global)?;
    let (found, trial) = match &tried {
        Tried::Stopped => return Ok(Exit::Interrupted),
        Tried::Refused { why, .. } => (vec![refused(why)], None),
        Tried::Ended(trial) => (remarks(&trial.attempted(&assumed)), Some(trial)),
    };
    let record = trial.map(|trial| &trial.record);
    if args.json {
        print_json(&Checked {
            command: tried.command(),
            outcome: record.map(|record| &record.outcome),
            measurement: record.and_then(|record| record.measurement.as_ref()),
            remarks: &found,
            kept: args.keep.as_ref(),
        })?;
    } else {
        let stderr = trial.map(|trial| trial.stderr.as_str()).unwrap_or_default();
        print(&page::page(record, stderr, &found, args.keep.as_deref()))?;
    }
    let is_wrong = found.iter().any(|remark| remark.weight == Weight::Wrong);
    Ok(if is_wrong { Exit::SomeFailed } else { Exit::Done })
}
