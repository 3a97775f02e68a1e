//! `orchestrate man`: the man pages, from the definition of the command line.

#![expect(clippy::disallowed_methods, reason = "the pages' directory is made here")]

use std::path::PathBuf;

use clap::Command;

use super::{Exit, Failure};

/// What `orchestrate man` takes.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Directory to write the pages to: one for `orchestrate`, one for each verb. Made if it is not there.
    directory: PathBuf,
}

/// Writes the pages of `command`.
pub(super) fn run(args: ManArgs, command: Command) -> Result<Exit, Failure> {
    std::fs::create_dir_all(&args.directory)?;
    clap_mangen::generate_to(command, &args.directory)?;
    Ok(Exit::Done)
}
