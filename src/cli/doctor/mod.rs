//! `orchestrate doctor`: describes this host and what would spoil a measurement on it.
//!
//! [`crate::host::survey`] looks at the host and [`demand`] at what is to be run on it. [`checks`] judges both, and
//! [`facts`] and [`render`] make the text. The last three are pure.

mod checks;
mod demand;
pub(super) mod facts;
mod finding;
mod render;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::catalogue::load_catalogue;
use super::load::load_matrix_plan;
use super::output::{print, print_json};
use super::{Exit, Failure, Global};
use crate::analysis::marks::Thresholds;
use crate::analysis::peaks::Catalogue;
use crate::host::Programs;
use crate::host::survey::Survey;
use crate::lock::lock_dir_path;
use crate::plan::Plan;
use crate::store::Store;

use checks::check;
use demand::{Demand, matrix_demand, saved_demand};
use finding::{Finding, Severity};

/// The arguments of `orchestrate doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// A matrix file: also look at what it needs, such as devices, its worker, its data and its peaks.
    matrix: Option<PathBuf>,
    /// How long to watch for processes that keep the processors busy; 0s skips this.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    look: Duration,
    /// Directory of the peaks.
    #[arg(long, value_name = "DIR", default_value = "peaks")]
    peaks_dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    survey: &'a Survey,
    demand: &'a Demand,
    findings: &'a [Finding],
}

/// Describes this host, and what of the needs of `plan` is not here, as text. Returns also whether its jobs can run.
pub(super) fn needs_of(plan: &Plan, global: &Global) -> Result<(String, bool), Failure> {
    let survey = Survey::probe(&global.store, &lock_dir_path(), Duration::from_secs(1));
    let programs = Programs::probe(&survey.host).ok();
    let demand = matrix_demand(plan, &survey, &Catalogue::default(), programs.as_ref());
    let mut demand = demand.map_err(|stopped| Failure::new(Exit::Interrupted, stopped))?;
    // The report is made elsewhere, and so are its peaks.
    for env in demand.matrix.iter_mut().flat_map(|matrix| &mut matrix.envs) {
        env.no_peaks = None;
    }
    let findings = check(&survey, &demand);
    let mut sections = facts::sections(&survey);
    sections.extend(facts::matrix_section(&demand));
    let prevented = findings.iter().any(|finding| finding.severity == Severity::Prevents);
    Ok((render::text(&sections, &findings), !prevented))
}

/// What on the host of `survey` would spoil measurements now, with what to do, as sentences: busy processors, by
/// `thresholds`, and processes that compute on a GPU.
pub(super) fn disturbances(survey: &Survey, thresholds: &Thresholds) -> Vec<String> {
    let found = checks::disturbances(survey, thresholds);
    let text = |Finding { what, why, remedy, .. }: Finding| format!("{what}; {why}: {remedy}");
    found.into_iter().map(text).collect()
}

/// Prints the facts of this host and the findings. Runs no job and leaves nothing behind.
///
/// Exits with 0 unless a finding prevents `orchestrate run` from working, so scripts can continue with `&&`.
pub(super) fn run(args: DoctorArgs, global: &Global) -> Result<Exit, Failure> {
    let plan = args.matrix.as_deref().map(load_matrix_plan).transpose()?;
    let survey = Survey::probe(&global.store, &lock_dir_path(), args.look);
    let demand = match plan {
        None => saved_demand(&Store::at(&global.store).map_err(Failure::store)?),
        Some(plan) => {
            let catalogue = load_catalogue(&args.peaks_dir, global)?;
            let programs = Programs::probe(&survey.host).ok();
            matrix_demand(&plan, &survey, &catalogue, programs.as_ref())
                .map_err(|stopped| Failure::new(Exit::Interrupted, stopped))?
        }
    };
    let findings = check(&survey, &demand);
    if args.json {
        print_json(&Document { survey: &survey, demand: &demand, findings: &findings })?;
    } else {
        let mut sections = facts::sections(&survey);
        sections.extend(facts::matrix_section(&demand));
        print(&render::text(&sections, &findings))?;
    }
    let prevented = findings.iter().any(|finding| finding.severity == Severity::Prevents);
    Ok(if prevented { Exit::Unexpected } else { Exit::Done })
}
