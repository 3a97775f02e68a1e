//! `orchestrate man`: the man pages, generated from the definition of the command line.

#![expect(clippy::disallowed_methods, reason = "the pages' directory is made here")]

use std::path::PathBuf;

use clap::Command;

use super::{Exit, Failure};

/// The arguments of `orchestrate man`.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Directory for the pages, one for `orchestrate` and one per verb; created if it does not exist.
    directory: PathBuf,
}

/// Writes the pages of `command`.
pub(super) fn run(args: ManArgs, command: Command) -> Result<Exit, Failure> {
    std::fs::create_dir_all(&args.directory)?;
    clap_mangen::generate_to(command, &args.directory)?;
    Ok(Exit::Done)
}
