//! What every verb understands.

use std::path::PathBuf;

use clap::Args;

use crate::plan::quote;

/// What every verb understands.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Directory that holds the runs.
    #[arg(long, global = true, value_name = "DIR", default_value = "runs", env = "ORCHESTRATE_STORE")]
    pub store: PathBuf,
    /// Say nothing on standard error but errors.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// `--store DIR` for a command to type, with a blank in front; empty for the usual store.
pub(super) fn store_flag(global: &Global) -> String {
    let store = global.store.display().to_string();
    if store == "runs" { String::new() } else { format!(" --store {}", quote(&store)) }
}
