//! `orchestrate schema`: prints the JSON Schema of a matrix or of a measurement.

use super::output::print_json;
use super::{Exit, Failure, Global};
use crate::{matrix, protocol};

/// The arguments of `orchestrate schema`.
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {
    /// Print the JSON Schema of `measurement.json`, which a worker writes, instead of that of a matrix.
    #[arg(long)]
    measurement: bool,
}

/// Prints the JSON Schema of a matrix file, or of a worker's measurement.
pub(super) fn run(args: SchemaArgs, _global: &Global) -> Result<Exit, Failure> {
    let schema = if args.measurement { protocol::schema() } else { matrix::schema() };
    print_json(&schema)?;
    Ok(Exit::Done)
}
