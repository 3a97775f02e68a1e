//! The programs and directories that a run uses, [`Site`]. They are looked up once, before a job starts; the first
//! missing one is reported as [`SiteError`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::files::AttemptDir;
use crate::host::find::DEFAULT_PATH;
use crate::host::{
    Named, Preflight, Programs, ProgramsError, Stopped, TimeTool, probe_git, probe_lock_reach,
    probe_time_tool,
};
use crate::job::{DataSource, Job, Key, Name, ParamValue};
use crate::lock::lock_dir_path;
use crate::plan::{Decided, Invocation, InvocationError, Outputs, Plan, Profiler, Surroundings, invocation};
use crate::record::{GitFacts, LockReach, SlurmFacts, TimeFlavour, WorkerFacts, dropped};

/// A program or file that a run needs is missing.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Programs cannot be searched.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    /// The shipped worker is missing.
    #[error("there is no worker at {}", .0.display())]
    NoWorker(PathBuf),
    /// No `time` program was found.
    #[error("there is no GNU or BSD time program in /usr/bin or on the PATH")]
    NoTime,
    /// The images of a job are missing.
    #[error("the data folder {} of {job} does not exist", path.display())]
    NoData {
        /// The folder.
        path: PathBuf,
        /// The first job that needs it.
        job: String,
    },
    /// The worker of a job cannot be called.
    #[error("cannot call the worker of {job}")]
    NoInvocation {
        /// The job.
        job: String,
        /// The reason.
        #[source]
        source: InvocationError,
    },
    /// The worker of an env cannot work: a program, a script or a module is missing.
    #[error("the worker of env `{env}` cannot work: {why}")]
    Broken {
        /// The env.
        env: Name,
        /// Why, as a sentence.
        why: String,
    },
    /// A signal arrived while the command was tried.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A path that is written to a file or an environment is not UTF-8.
    #[error("the path {} is not UTF-8", .0.display())]
    NotText(PathBuf),
}

/// The programs and directories that a run uses.
#[derive(Debug)]
pub struct Site {
    /// `orchestrate`'s and every worker's current directory.
    pub directory: PathBuf,
    /// The directory with the locks of the host and its devices; need not exist.
    pub lock_dir: PathBuf,
    /// Which processes these locks exclude.
    pub lock_reach: LockReach,
    /// The program at the head of every chain.
    pub time: TimeTool,
    /// The git checkout that contains the matrix.
    pub git: Option<GitFacts>,
    programs: Programs,
}

impl Site {
    /// Looks up everything that the jobs of `decided` need if they run. Hashes their workers: for libtorch this takes a
    /// second, for which signals should not be delayed later.
    ///
    /// # Errors
    /// [`SiteError`] for the first thing that is missing.
    pub fn probe(plan: &Plan, decided: &[Decided], mut programs: Programs) -> Result<Site, SiteError> {
        let directory = programs.directory.clone();
        let time = probe_time_tool().ok_or(SiteError::NoTime)?;
        let mut preflight = Preflight::default();
        for Decided { job, .. } in decided.iter().filter(|decided| decided.decision.runs()) {
            let call = check_job(job, plan, &programs.surroundings, &directory)?;
            let Key { env, worker, .. } = job.key();
            if !worker.is_shipped()
                && let Some(why) = preflight.problem(&programs, env, &call)?
            {
                return Err(SiteError::Broken { env: env.clone(), why });
            }
            programs.worker(job, &call);
        }
        let matrix = directory.join(&plan.matrix.path);
        let git = probe_git(matrix.parent().unwrap_or(&directory));
        let lock_dir = directory.join(lock_dir_path());
        let lock_reach = probe_lock_reach(&lock_dir);
        Ok(Site { directory, lock_dir, lock_reach, time, git, programs })
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
        let bare = invocation(job.key(), plan.env(job.key()), &self.programs.surroundings, &outputs)
            .map_err(|source| SiteError::NoInvocation { job: job.label(), source })?;
        match profiler.zip(dir.profile(job.key().kind)) {
            Some((profiler, table)) => Ok(bare.under(profiler, &text(&table)?)),
            None => Ok(bare),
        }
    }

    /// Checks that the images of `job` are still there.
    ///
    /// # Errors
    /// [`SiteError::NoData`].
    pub fn check_data(&self, job: &Job) -> Result<(), SiteError> {
        check_data(job, &self.directory)
    }

    /// The directories that are searched for the programs of `job`, as in `PATH`.
    pub fn path(&self, job: &Job, plan: &Plan) -> String {
        let own = plan.env(job.key()).variables.get("PATH");
        let path = own.or_else(|| self.programs.surroundings.ambient.get("PATH"));
        path.cloned().unwrap_or_else(|| DEFAULT_PATH.to_owned())
    }

    /// The names of variables of this process that are not in a worker's `environment` and that a training could need.
    pub fn dropped(&self, environment: &BTreeMap<String, String>) -> Vec<&str> {
        dropped(&self.programs.surroundings.ambient, environment)
    }

    /// The task of Slurm that this run belongs to.
    pub fn slurm(&self) -> Option<SlurmFacts> {
        SlurmFacts::of(&self.programs.surroundings.ambient)
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

    /// The names of the programs of the worker of `job`.
    pub fn named(&self, job: &Job, invocation: &Invocation) -> Named {
        self.programs.named(job, invocation)
    }

    /// The facts about the worker of `job`, including the hash of its files.
    pub fn worker(&mut self, job: &Job, invocation: &Invocation) -> WorkerFacts {
        self.programs.worker(job, invocation)
    }
}

/// Checks the needs of a job before the run starts. Returns the call of its worker, without the output paths.
fn check_job(
    job: &Job,
    plan: &Plan,
    surroundings: &Surroundings,
    directory: &Path,
) -> Result<Invocation, SiteError> {
    let key = job.key();
    if key.worker.is_shipped() && !Path::new(&surroundings.shipped_worker).is_file() {
        return Err(SiteError::NoWorker(surroundings.shipped_worker.clone().into()));
    }
    check_data(job, directory)?;
    let outputs = Outputs { measurement: String::new(), iterations: String::new() };
    invocation(key, plan.env(key), surroundings, &outputs)
        .map_err(|source| SiteError::NoInvocation { job: job.label(), source })
}

fn check_data(job: &Job, directory: &Path) -> Result<(), SiteError> {
    if let Some(ParamValue::Data(DataSource::Folder(folder))) = job.key().param("data") {
        let path = directory.join(folder);
        if !path.is_dir() {
            return Err(SiteError::NoData { path, job: job.label() });
        }
    }
    Ok(())
}

fn text(path: &Path) -> Result<String, SiteError> {
    path.to_str().map(str::to_owned).ok_or_else(|| SiteError::NotText(path.to_owned()))
}
