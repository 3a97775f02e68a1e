//! `orchestrate schema`.

use super::output::print_json;
use super::{Exit, Failure, Global};
use crate::matrix;

/// The arguments of `orchestrate schema`.
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {}

/// Prints the JSON Schema of a matrix file.
pub(super) fn run(_args: SchemaArgs, _global: &Global) -> Result<Exit, Failure> {
    print_json(&matrix::schema())?;
    Ok(Exit::Done)
}
