//! `orchestrate completions`: prints the script by which a shell completes verbs, flags and the words of a project.

use super::complete::script;
use super::output::print_bytes;
use super::{Exit, Failure};

/// The arguments of `orchestrate completions`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Prints the completion script of a shell.
pub(super) fn run(args: CompletionsArgs) -> Result<Exit, Failure> {
    let none = || Failure::new(Exit::Unexpected, format!("there are no completions for {}", args.shell));
    print_bytes(&script(args.shell).ok_or_else(none)?)?;
    Ok(Exit::Done)
}
