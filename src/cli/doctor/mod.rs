//! `orchestrate doctor`: what this host is, and what would spoil a measurement on it.
//!
//! [`crate::host::survey`] looks, [`checks`] judges, [`facts`] and [`render`] say how it reads; the last three are pure.

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

/// What `orchestrate doctor` takes.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// How long to look at who keeps the processors busy; 0s does not look.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    look: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Everything as `--json` prints it.
#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    survey: &'a Survey,
    findings: &'a [Finding],
}

/// Prints what this host is and what is to be done about it. Nothing is run, and nothing is written.
///
/// Exit 0 with any finding but one that keeps `orchestrate run` from working: so a script may go on with `&&`.
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
