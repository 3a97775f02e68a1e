//! Where a run takes place: what is looked up once, before anything starts, and refused with one clear sentence if it
//! is not there.
#![expect(clippy::disallowed_methods, reason = "this looks up the surroundings of a run")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::host::{TimeFlavour, TimeTool, hash_file, probe_git, probe_time_tool};
use super::lock::lock_dir_path;
use super::store::AttemptDir;
use crate::job::{DataSource, Job, ParamValue, WorkerTemplate};
use crate::plan::{
    Decided, Decision, Invocation, InvocationError, Outputs, PASSED_ON, Plan, Profiler, Surroundings,
    invocation,
};
use crate::record::{GitFacts, WorkerFacts};

/// Names the shipped worker.
pub const WORKER_VARIABLE: &str = "ORCHESTRATE_WORKER";

/// Something a run needs is not there.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The current directory is gone or unreadable.
    #[error("cannot tell the current directory")]
    CurrentDirectory(#[source] io::Error),
    /// The shipped worker is not where it should be.
    #[error("there is no worker at {}", .0.display())]
    NoWorker(PathBuf),
    /// There is no time tool.
    #[error("there is no `time` program that we understand in /usr/bin or on the PATH")]
    NoTime,
    /// The images of a job are not there.
    #[error("the data folder {} of {job} does not exist", path.display())]
    NoData {
        /// The folder.
        path: PathBuf,
        /// The first job that needs it.
        job: String,
    },
    /// A job cannot be called.
    #[error("cannot call the worker of {job}")]
    NoInvocation {
        /// The job.
        job: String,
        /// Why.
        #[source]
        source: InvocationError,
    },
    /// A path that must stand in a file or an environment is not UTF-8.
    #[error("the path {} is not UTF-8", .0.display())]
    NotText(PathBuf),
}

/// Where a run takes place.
#[derive(Debug)]
pub struct Site {
    /// `orchestrate`'s and every worker's current directory.
    pub directory: PathBuf,
    /// The directory of the host's and its devices' locks; need not exist.
    pub lock_dir: PathBuf,
    /// The program at the head of every chain.
    pub time: TimeTool,
    /// The checkout that the matrix stands in.
    pub git: Option<GitFacts>,
    surroundings: Surroundings,
    hashes: BTreeMap<PathBuf, Option<String>>,
}

impl Site {
    /// Looks up everything that the jobs of `decided` that are to be run need.
    ///
    /// # Errors
    /// [`SiteError`] names the first thing that is missing.
    pub fn probe(plan: &Plan, decided: &[Decided]) -> Result<Site, SiteError> {
        let directory = std::env::current_dir().map_err(SiteError::CurrentDirectory)?;
        let surroundings = Surroundings { shipped_worker: text(&shipped_worker())?, ambient: ambient() };
        let time = probe_time_tool().ok_or(SiteError::NoTime)?;
        let to_run = decided.iter().filter(|decided| matches!(decided.decision, Decision::Run(_)));
        for Decided { job, .. } in to_run {
            check_job(job, plan, &surroundings, &directory)?;
        }
        let matrix = directory.join(&plan.matrix.path);
        let git = probe_git(matrix.parent().unwrap_or(&directory));
        let lock_dir = directory.join(lock_dir_path());
        Ok(Site { directory, lock_dir, time, git, surroundings, hashes: BTreeMap::new() })
    }

    /// The call of `job`'s worker in the attempt `dir`, under `profiler` if there is one.
    ///
    /// # Errors
    /// [`SiteError::NoInvocation`], [`SiteError::NotText`].
    pub fn invocation(
        &self,
        job: &Job,
        plan: &Plan,
        dir: &AttemptDir,
        profiler: Option<&Profiler>,
    ) -> Result<Invocation, SiteError> {
        let outputs =
            Outputs { measurement: text(&dir.measurement())?, iterations: text(&dir.iterations())? };
        let bare = invocation(job.key(), plan.env(job.key()), &self.surroundings, &outputs)
            .map_err(|source| SiteError::NoInvocation { job: job.label(), source })?;
        match profiler.zip(dir.profile(job.key().kind)) {
            Some((profiler, table)) => Ok(bare.under(profiler, &text(&table)?)),
            None => Ok(bare),
        }
    }

    /// The directories in which the programs of `job` are looked for, as `PATH` has them.
    pub fn path(&self, job: &Job, plan: &Plan) -> String {
        let own = plan.env(job.key()).variables.get("PATH");
        own.or_else(|| self.surroundings.ambient.get("PATH")).cloned().unwrap_or_default()
    }

    /// The argv of the whole chain.
    ///
    /// # Errors
    /// [`SiteError::NotText`].
    pub fn chain(&self, invocation: &Invocation, dir: &AttemptDir) -> Result<Vec<String>, SiteError> {
        let flag = match self.time.flavour {
            TimeFlavour::Gnu => "-v",
            TimeFlavour::Bsd => "-l",
        };
        let mut argv = vec![text(&self.time.path)?, flag.to_owned(), "-o".to_owned(), text(&dir.time())?];
        argv.extend(invocation.words().cloned());
        Ok(argv)
    }

    /// The program of `job` and its hash: of an external worker the first literal argument that names a file, which is
    /// the script where the program is an interpreter, else the program. Hashed once a run.
    pub fn worker(&mut self, job: &Job, invocation: &Invocation) -> WorkerFacts {
        let program = self.program_file(&job.key().worker, invocation);
        let hash = self.hashes.entry(program.clone()).or_insert_with(|| hash_file(&program).ok());
        WorkerFacts { path: program.display().to_string(), sha256: hash.clone() }
    }

    fn program_file(&self, worker: &WorkerTemplate, invocation: &Invocation) -> PathBuf {
        if let WorkerTemplate::Command(words) = worker {
            let script = words.iter().skip(1).filter(|word| !word.contains('{'));
            if let Some(script) = script.map(|word| self.directory.join(word)).find(|path| path.is_file()) {
                return script;
            }
        }
        let program = Path::new(&invocation.argv[0]);
        let path = invocation.environment.get("PATH").map_or("", String::as_str);
        if program.components().count() == 1 {
            let found = std::env::split_paths(path).map(|directory| directory.join(program));
            return found.into_iter().find(|path| path.is_file()).unwrap_or_else(|| program.to_owned());
        }
        self.directory.join(program)
    }
}

/// What must hold of a job before anything is started.
fn check_job(job: &Job, plan: &Plan, surroundings: &Surroundings, directory: &Path) -> Result<(), SiteError> {
    let key = job.key();
    if key.worker.is_shipped() && !Path::new(&surroundings.shipped_worker).is_file() {
        return Err(SiteError::NoWorker(surroundings.shipped_worker.clone().into()));
    }
    if let Some(ParamValue::Data(DataSource::Folder(folder))) = key.param("data") {
        let path = directory.join(folder);
        if !path.is_dir() {
            return Err(SiteError::NoData { path, job: job.label() });
        }
    }
    let outputs = Outputs { measurement: String::new(), iterations: String::new() };
    invocation(key, plan.env(key), surroundings, &outputs)
        .map(|_| ())
        .map_err(|source| SiteError::NoInvocation { job: job.label(), source })
}

/// Where the shipped worker is: where the user says, else beside our own program.
pub(super) fn shipped_worker() -> PathBuf {
    if let Some(path) = std::env::var_os(WORKER_VARIABLE).filter(|path| !path.is_empty()) {
        return std::path::absolute(&path).unwrap_or_else(|_| path.into());
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(Path::new("/")).join("worker")
}

/// What a worker may inherit. A variable that is not UTF-8 is none that we could record.
fn ambient() -> BTreeMap<String, String> {
    PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
}

fn text(path: &Path) -> Result<String, SiteError> {
    path.to_str().map(str::to_owned).ok_or_else(|| SiteError::NotText(path.to_owned()))
}
