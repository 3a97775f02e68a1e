//! `orchestrate doctor`: describes this host and the problems that would spoil a measurement on it.
//!
//! [`crate::host::survey`] describes the host, and [`demand`] the jobs to run on it. [`checks`] judges both, and
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
    /// A matrix file: also check its needs, such as devices, its worker, its data and its peaks.
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

/// This host, the needs of the jobs to run on it, and what is wrong with either. It is the document of `--json`.
#[derive(Debug, Serialize)]
struct Diagnosis {
    #[serde(flatten)]
    survey: Survey,
    demand: Demand,
    findings: Vec<Finding>,
}

impl Diagnosis {
    fn new(survey: Survey, demand: Demand) -> Diagnosis {
        let findings = check(&survey, &demand);
        Diagnosis { survey, demand, findings }
    }

    /// The diagnosis of the needs of `plan`, with the peaks of `catalogue`.
    ///
    /// # Errors
    /// The user stops a check of the worker.
    fn of_plan(plan: &Plan, survey: Survey, catalogue: &Catalogue) -> Result<Diagnosis, Failure> {
        let programs = Programs::probe(&survey.host).ok();
        let demand = matrix_demand(plan, &survey, catalogue, programs.as_ref());
        Ok(Diagnosis::new(survey, demand.map_err(|stopped| Failure::new(Exit::Interrupted, stopped))?))
    }

    fn text(&self) -> String {
        let mut sections = facts::sections(&self.survey);
        sections.extend(facts::matrix_section(&self.demand));
        render::text(&sections, &self.findings)
    }

    /// Whether a finding prevents `orchestrate run` from working.
    fn is_prevented(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Prevents)
    }
}

/// Describes this host and the unmet needs of `plan`, as text. Also returns whether its jobs can run.
pub(super) fn needs_of(plan: &Plan, global: &Global) -> Result<(String, bool), Failure> {
    let survey = Survey::probe(&global.store, &lock_dir_path(), Duration::from_secs(1));
    let Diagnosis { survey, mut demand, .. } = Diagnosis::of_plan(plan, survey, &Catalogue::default())?;
    // The report is made on another machine, which has the peaks.
    for env in demand.matrix.iter_mut().flat_map(|matrix| &mut matrix.envs) {
        env.no_peaks = None;
    }
    let diagnosis = Diagnosis::new(survey, demand);
    Ok((diagnosis.text(), !diagnosis.is_prevented()))
}

/// Activity on the host of `survey` that would spoil measurements now, and remedies, as sentences: busy processors,
/// by `thresholds`, and processes that compute on a GPU.
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
    let diagnosis = match plan {
        None => Diagnosis::new(survey, saved_demand(&Store::at(&global.store).map_err(Failure::store)?)),
        Some(plan) => Diagnosis::of_plan(&plan, survey, &load_catalogue(&args.peaks_dir, global)?)?,
    };
    if args.json {
        print_json(&diagnosis)?;
    } else {
        print(&diagnosis.text())?;
    }
    Ok(if diagnosis.is_prevented() { Exit::Unexpected } else { Exit::Done })
}
