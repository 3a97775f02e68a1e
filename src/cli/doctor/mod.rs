//! `orchestrate doctor`: describes this host and what would spoil a measurement on it.
//!
//! [`crate::host::survey`] looks, [`checks`] judges, [`facts`] and [`render`] make the text. The last three are pure.

mod checks;
pub(super) mod facts;
mod finding;
mod render;

use std::time::Duration;

use serde::Serialize;

use super::output::{print, print_json};
use super::{Exit, Failure, Global};
use crate::host::survey::Survey;
use crate::lock::lock_dir_path;

use checks::check;
use finding::{Finding, Severity};

/// The arguments of `orchestrate doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// How long to watch for processes that keep the processors busy; 0s skips this.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    look: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    survey: &'a Survey,
    findings: &'a [Finding],
}

/// Prints the facts of this host and the findings. Runs no job and writes nothing.
///
/// Exits with 0 unless a finding prevents `orchestrate run` from working, so scripts can continue with `&&`.
pub(super) fn run(args: DoctorArgs, global: &Global) -> Result<Exit, Failure> {
    let survey = Survey::probe(&global.store, &lock_dir_path(), args.look);
    let findings = check(&survey);
    if args.json {
        print_json(&Document { survey: &survey, findings: &findings })?;
    } else {
        print(&render::text(&facts::sections(&survey), &findings))?;
    }
    let prevented = findings.iter().any(|finding| finding.severity == Severity::Prevents);
    Ok(if prevented { Exit::Unexpected } else { Exit::Done })
}
