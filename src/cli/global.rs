//! The options of every verb.

use std::path::PathBuf;

use clap::Args;

use crate::plan::quote;

/// The options of every verb.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Directory of the results.
    #[arg(long, global = true, value_name = "DIR", default_value = "runs", env = "ORCHESTRATE_STORE")]
    pub store: PathBuf,
    /// Print only errors on standard error.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// ` --store DIR`, for a command to type; empty for the default store.
pub(super) fn store_flag(global: &Global) -> String {
    let store = global.store.display().to_string();
    if store == "runs" { String::new() } else { format!(" --store {}", quote(&store)) }
}
