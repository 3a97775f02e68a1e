//! The needs of a matrix, and which of them this host does not meet. Reads the matrix, the peaks and the directories
//! that jobs name. [`super::checks`] judges the result.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use crate::analysis::peaks::{Catalogue, Origin};
use crate::cli::clouds::contradiction_text;
use crate::host::survey::Survey;
use crate::host::{Preflight, Programs, Stopped};
use crate::job::{DataSource, Device, Job, Name, ParamValue, WorkerTemplate};
use crate::matrix::Executor;
use crate::plan::{
    Decided, Decision, Inventory, Needs, Outputs, Plan, PlannedEnv, Present, decide, invocation,
};
use crate::store::Store;

/// The needs of the jobs that are to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Demand {
    /// Whether jobs use the shipped worker: those of the matrix that run here, or without a matrix those of any saved
    /// plan.
    pub(super) shipped_worker: bool,
    /// The matrix that the user named.
    pub(super) matrix: Option<MatrixDemand>,
}

/// The needs of a matrix.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct MatrixDemand {
    /// Its file.
    pub(super) file: String,
    /// Its envs by name.
    pub(super) envs: Vec<EnvDemand>,
}

/// The needs of the jobs of an env. Missing things are only known for an env that runs on this host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct EnvDemand {
    pub(super) name: String,
    /// `cpu`, `mps`, `cuda`, `cuda:1`.
    pub(super) device: String,
    /// The number of its jobs.
    pub(super) jobs: usize,
    /// Why its jobs do not run on this host, as a sentence; `None` if they do.
    pub(super) not_here: Option<String>,
    /// Why its worker cannot be started, as a sentence, for each of its commands.
    pub(super) broken_commands: BTreeSet<String>,
    /// Scripts that its commands name and that do not exist.
    pub(super) missing_scripts: BTreeSet<String>,
    /// Data folders that do not exist.
    pub(super) missing_data: BTreeSet<String>,
    /// Why there are no peaks, as a sentence; `None` if there are some.
    pub(super) no_peaks: Option<String>,
    /// A contradiction between its declared place in the cloud and this machine, as a phrase.
    pub(super) other_place: Option<String>,
    /// The queue that starts its jobs, if this host does not: `Slurm`, or the name of a host.
    pub(super) elsewhere: Option<String>,
}

/// The demand of the saved plans in `store`.
pub(super) fn saved_demand(store: &Store) -> Demand {
    let names = store.plan_names().unwrap_or_default();
    let uses_shipped = |name: &String| {
        store.load_plan(name).is_ok_and(|plan| plan.keys().any(|key| key.worker.is_shipped()))
    };
    Demand { shipped_worker: names.iter().any(uses_shipped), matrix: None }
}

/// The demand of `plan` on the host of `survey`. `programs` is `None` if programs cannot be searched for.
///
/// # Errors
/// [`Stopped`].
pub(super) fn matrix_demand(
    plan: &Plan,
    survey: &Survey,
    catalogue: &Catalogue,
    programs: Option<&Programs>,
) -> Result<Demand, Stopped> {
    let mut by_env: BTreeMap<Name, Vec<Decided>> = BTreeMap::new();
    let nothing = Inventory::default();
    let needs = Needs::of(plan, &nothing, &BTreeMap::new());
    let decided = decide(plan, &nothing, &survey.host, &Present::default(), &needs);
    for decided in decided.into_iter().filter(Decided::is_listed) {
        by_env.entry(decided.job.key().env.clone()).or_default().push(decided);
    }
    let runs_shipped = |decided: &Decided| {
        let is_local = plan.env(decided.job.key()).executor.is_local();
        is_local && decided.decision.runs() && decided.job.key().worker.is_shipped()
    };
    let shipped_worker = by_env.values().flatten().any(runs_shipped);
    let look = Look { plan, survey, catalogue, programs };
    let envs = by_env.iter().map(|(name, jobs)| look.env(name, jobs)).collect::<Result<_, _>>()?;
    Ok(Demand { shipped_worker, matrix: Some(MatrixDemand { file: plan.matrix.path.clone(), envs }) })
}

/// The inputs of a demand.
struct Look<'a> {
    plan: &'a Plan,
    survey: &'a Survey,
    catalogue: &'a Catalogue,
    programs: Option<&'a Programs>,
}

impl Look<'_> {
    /// The demand of the env `name`, whose jobs are all of `decided`.
    fn env(&self, name: &Name, decided: &[Decided]) -> Result<EnvDemand, Stopped> {
        let device = decided[0].job.key().device;
        let mut demand = EnvDemand {
            name: name.to_string(),
            device: device.to_string(),
            jobs: decided.len(),
            not_here: self.not_here(name, decided),
            broken_commands: BTreeSet::new(),
            missing_scripts: BTreeSet::new(),
            missing_data: BTreeSet::new(),
            no_peaks: None,
            other_place: None,
            elsewhere: match &self.plan.envs[name].executor {
                Executor::Local => None,
                Executor::Slurm(_) => Some("Slurm".to_owned()),
                Executor::Ssh(request) => Some(request.host.clone()),
            },
        };
        if demand.not_here.is_some() || demand.elsewhere.is_some() {
            return Ok(demand);
        }
        let mut preflight = Preflight::default();
        for Decided { job, .. } in decided {
            demand.missing_data.extend(missing_data(job));
            let Some(programs) = self.programs.filter(|_| !job.key().worker.is_shipped()) else { continue };
            demand.broken_commands.extend(self.broken_command(job, programs, &mut preflight)?);
            demand.missing_scripts.extend(missing_scripts(&job.key().worker));
        }
        let env = &self.plan.envs[name];
        demand.no_peaks = self.no_peaks(env, device);
        demand.other_place = contradiction_text(env.cloud.as_ref(), self.survey.cloud.as_ref());
        Ok(demand)
    }

    /// Why the jobs of the env `name` do not run on this host, as a sentence; `None` if they do.
    fn not_here(&self, name: &Name, decided: &[Decided]) -> Option<String> {
        match &self.plan.envs[name].executor {
            Executor::Local => decided.iter().find_map(|decided| match &decided.decision {
                Decision::NotHere { why } => Some(why.clone()),
                _ => None,
            }),
            Executor::Slurm(_) | Executor::Ssh(_) => None,
        }
    }

    fn broken_command(
        &self,
        job: &Job,
        programs: &Programs,
        preflight: &mut Preflight,
    ) -> Result<Option<String>, Stopped> {
        let outputs = Outputs { measurement: String::new(), iterations: String::new() };
        let call = invocation(job.key(), self.plan.env(job.key()), programs.surroundings(), &outputs);
        match call {
            Ok(call) => preflight.problem(programs, &job.key().env, &call),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// Why `device` has no peaks. Its name is only known once a worker has reported it, so it is not compared.
    fn no_peaks(&self, env: &PlannedEnv, device: Device) -> Option<String> {
        let backend = device.backend();
        let mut all = self.catalogue.all().iter().filter(|peaks| peaks.backend == backend);
        let hostname = &self.survey.host.hostname;
        let here = |origin: &Origin| matches!(origin, Origin::Measured { host, .. } if host == hostname);
        match &env.peaks {
            Some(named) => (!all.any(|peaks| peaks.name == *named))
                .then(|| format!("there are no peaks `{named}` of a {backend} device")),
            None => (!all.any(|peaks| here(&peaks.origin)))
                .then(|| format!("the peaks of `{device}` were not measured on this host")),
        }
    }
}

fn missing_data(job: &Job) -> Option<String> {
    match job.key().param("data") {
        Some(ParamValue::Data(DataSource::Folder(folder))) => {
            (!Path::new(&folder).is_dir()).then_some(folder)
        }
        _ => None,
    }
}

/// The words of the command that look like a script and name no existing file.
fn missing_scripts(worker: &WorkerTemplate) -> Vec<String> {
    let WorkerTemplate::Command(words) = worker else { return Vec::new() };
    let is_script = |word: &&String| {
        let ending = Path::new(word.as_str()).extension().unwrap_or_default();
        !word.starts_with('-') && !word.contains(['{', ' ', ':']) && (ending == "py" || ending == "sh")
    };
    let scripts = words.iter().skip(1).filter(is_script);
    scripts.filter(|word| !Path::new(word).exists()).cloned().collect()
}
