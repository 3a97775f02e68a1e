//! `orchestrate aggregate`: the CSV tables of a plan.

use super::exit::leave;
use super::output::print_line;
use super::study::{StudyArgs, results_text};
use super::{Exit, Failure, Global};
use crate::analysis::analyse;

/// The arguments of `orchestrate aggregate`.
#[derive(Debug, clap::Args)]
pub(super) struct AggregateArgs {
    #[command(flatten)]
    study: StudyArgs,
}

/// Writes the tables, and prints the results and the directory.
pub(super) fn run(args: AggregateArgs, global: &Global) -> Result<Exit, Failure> {
    let study = args.study.load(global)?;
    let analysis = analyse(&study);
    let directory = args.study.write_tables(&analysis, &study.matrix.name)?;
    print_line(&results_text(&study, &analysis))?;
    print_line(&format!("tables: {}", directory.display()))?;
    leave(analysis);
    leave(study);
    Ok(Exit::Done)
}
