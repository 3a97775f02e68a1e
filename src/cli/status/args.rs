//! The arguments of `orchestrate status`.

use crate::cli::select::SelectArgs;

/// The arguments of `orchestrate status`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct StatusArgs {
    /// Name or file of a matrix [default: the last one that was run].
    pub(super) plan: Option<String>,
    #[command(flatten)]
    pub(super) select: SelectArgs,
    /// Include runs in the statistics that are left out because of their marks, such as contended ones.
    #[arg(long)]
    pub(super) include_marked: bool,
    /// Follow the run full-screen, until nothing is left to run or until `q`. In a pipe, print the text again after
    /// each change.
    #[arg(long)]
    pub(super) watch: bool,
    /// Show every config and every failed job.
    #[arg(long)]
    pub(super) all: bool,
    /// Print JSON instead of tables; with `--watch`, one document per line.
    #[arg(long)]
    pub(super) json: bool,
}
