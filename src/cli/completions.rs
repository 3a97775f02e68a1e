//! `orchestrate completions`: the script with which a shell completes verbs and flags.

use clap::Command;

use super::output::print_bytes;
use super::{Exit, Failure};

/// The arguments of `orchestrate completions`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Prints the completion script of `command`.
pub(super) fn run(args: CompletionsArgs, mut command: Command) -> Result<Exit, Failure> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print_bytes(&script)?;
    Ok(Exit::Done)
}
