//! The arguments of `orchestrate status`.

use crate::cli::select::SelectArgs;

/// The arguments of `orchestrate status`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct StatusArgs {
    /// Name or file of a matrix [default: the last one that was run].
    pub(super) plan: Option<String>,
    #[command(flatten)]
    pub(super) select: SelectArgs,
    /// Include runs in the statistics that their marks leave out, such as contended ones.
    #[arg(long)]
    pub(super) include_marked: bool,
    /// Follow the run on a screen of its own, until nothing is left to run or until `q`. A pipe gets the text again
    /// after each change.
    #[arg(long)]
    pub(super) watch: bool,
    /// Show every config and every failed job, however many there are.
    #[arg(long)]
    pub(super) all: bool,
    /// Print JSON instead of tables; with `--watch`, one document per line.
    #[arg(long)]
    pub(super) json: bool,
}
