//! Merges other stores into a store, one after another.

use super::copy::CopyError;
use super::inspect::{Found, Incoming, compare, inspect, is_at_work, is_busy};
use super::merged::{JobFate, MergeError, Merged, MergedJob, MergedPlan, PlanFate, Side};
use super::staging::{Staged, Staging};
use crate::files::{JobDir, WriteError, sync_directory};
use crate::lock::JobLock;
use crate::plan::{Existing, MergeDecision, decide_merge, drift};
use crate::store::directory::Entries;
use crate::store::verify::breaches;
use crate::store::{Store, StoreError};
use crate::text::with_causes;

/// Number of directories that are copied and then synced together. Syncing each separately would dominate the time.
const AT_A_TIME: usize = 32;

/// A merge into a store.
#[derive(Debug)]
pub struct Merge<'a> {
    store: &'a Store,
    /// Whether successes of the other store replace those of this one.
    replace: bool,
    /// `None` in a dry run.
    staging: Option<Staging<'a>>,
}

/// A directory of another store before its copy is renamed into place.
enum Prepared {
    /// Nothing is left to do for it.
    Over(Box<MergedJob>),
    /// It was copied.
    Staged(Box<Staged>),
}

impl<'a> Merge<'a> {
    /// Begins a merge into `store`, which must exist. With `replace`, successes of others replace those of `store`.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn begin(store: &'a Store, replace: bool) -> Result<Merge<'a>, MergeError> {
        Ok(Merge { store, replace, staging: Some(Staging::take(store)?) })
    }

    /// A dry run: as [`Merge::begin`], but nothing is changed. The store need not exist.
    pub fn rehearse(store: &'a Store, replace: bool) -> Merge<'a> {
        Merge { store, replace, staging: None }
    }

    /// Merges `other`. For a large store, calls `progress(done, all)` before each batch, with numbers of directories.
    ///
    /// # Errors
    /// One of the stores cannot be read, or this one cannot be written. Jobs that were merged before stay.
    pub fn merge(&self, other: &Store, progress: &mut dyn FnMut(usize, usize)) -> Result<Merged, StoreError> {
        let Entries { directories, others } = other.entries()?;
        let mut jobs = Vec::with_capacity(directories.len());
        for (number, dirs) in directories.chunks(AT_A_TIME).enumerate() {
            if directories.len() > AT_A_TIME {
                progress(number * AT_A_TIME, directories.len());
            }
            self.merge_batch(dirs, &mut jobs)?;
        }
        let why = "it is not a job's directory despite its name";
        jobs.extend(others.iter().map(|dir| no_result(dir, JobFate::Damaged(why.to_owned()))));
        jobs.sort_by(|left, right| left.directory.cmp(&right.directory));
        Ok(Merged { jobs, plans: self.merge_plans(other)? })
    }

    /// Merges the jobs in `dirs`, and appends the result for each to `jobs`.
    fn merge_batch(&self, dirs: &[JobDir], jobs: &mut Vec<MergedJob>) -> Result<(), StoreError> {
        let mut staged = Vec::new();
        for dir in dirs {
            match self.prepare(dir)? {
                Some(Prepared::Over(job)) => jobs.push(*job),
                Some(Prepared::Staged(copy)) => staged.push(copy),
                None => {}
            }
        }
        let Some(staging) = self.staging.as_ref().filter(|_| !staged.is_empty()) else { return Ok(()) };
        staging.sync()?;
        for copy in staged {
            jobs.push(self.place(staging, *copy)?);
        }
        let root = self.store.root();
        sync_directory(root).map_err(|source| WriteError { path: root.to_owned(), source }.into())
    }

    /// Inspects `dir` of the other store, and copies it if its result is to be taken. `None` if it is not a job.
    fn prepare(&self, dir: &JobDir) -> Result<Option<Prepared>, StoreError> {
        let incoming = match inspect(dir) {
            Found::NoJob => return Ok(None),
            Found::Unfinished(why) => return Ok(Some(over(no_result(dir, JobFate::Unfinished(why))))),
            Found::Damaged(why) => return Ok(Some(over(no_result(dir, JobFate::Damaged(why))))),
            Found::Sound(incoming) => incoming,
        };
        let ours = self.store.job_dir(&incoming.job);
        let (held, side) = compare(&ours, &incoming);
        let what = match (self.decide(held, &incoming), &self.staging) {
            (JobFate::Taken | JobFate::Replaced(_), Some(staging)) => {
                return stage(staging, *incoming).map(Some);
            }
            (JobFate::Replaced(_), None) if is_busy(&ours) => JobFate::Busy("it is running here".to_owned()),
            (what, _) => what,
        };
        Ok(Some(over(result(&incoming, what, side))))
    }

    /// Decides what to do with `incoming`; this store has `held` of the same job.
    fn decide(&self, held: Existing, incoming: &Incoming) -> JobFate {
        match decide_merge(held, incoming.record.outcome.is_success(), self.replace) {
            MergeDecision::Take => JobFate::Taken,
            MergeDecision::Replace => JobFate::Replaced(None),
            MergeDecision::AlreadyHere => JobFate::AlreadyHere,
            MergeDecision::Keep => JobFate::Kept(held),
            MergeDecision::Conflict => JobFate::Conflict,
        }
    }

    /// Makes a copy the directory of its job. If this store has the job, it is read again under the job's lock,
    /// because it may have run here meanwhile.
    fn place(&self, staging: &Staging<'_>, staged: Staged) -> Result<MergedJob, StoreError> {
        let Staged { incoming, copy, left_out } = staged;
        let ours = self.store.job_dir(&incoming.job);
        let (what, side) = if staging.put(&copy, &ours)? {
            (JobFate::Taken, None)
        } else {
            self.place_instead(staging, &incoming, &copy, &ours)?
        };
        Ok(MergedJob { left_out, ..result(&incoming, what, side) })
    }

    /// Replaces the existing directory of the job by `copy`, if the decision is still the same.
    fn place_instead(
        &self,
        staging: &Staging<'_>,
        incoming: &Incoming,
        copy: &JobDir,
        ours: &JobDir,
    ) -> Result<(JobFate, Option<Side>), StoreError> {
        let lock = match JobLock::try_lock(&incoming.job, ours.clone()) {
            Ok(lock) => lock,
            Err(error) => return Ok((JobFate::Busy(with_causes(&error)), None)),
        };
        let (held, side) = compare(ours, incoming);
        let mut what = self.decide(held, incoming);
        if matches!(what, JobFate::Taken | JobFate::Replaced(_)) {
            what = if is_at_work(ours) {
                JobFate::Busy("another orchestrate runs it where locks cannot show it".to_owned())
            } else {
                match staging.put_instead(copy, ours)? {
                    None => JobFate::Taken,
                    kept => JobFate::Replaced(kept),
                }
            };
        }
        drop(lock);
        Ok((what, side))
    }

    fn merge_plans(&self, other: &Store) -> Result<Vec<MergedPlan>, StoreError> {
        let mut names = other.plan_names()?;
        names.sort();
        names.into_iter().map(|name| Ok(MergedPlan { fate: self.merge_plan(other, &name)?, name })).collect()
    }

    fn merge_plan(&self, other: &Store, name: &str) -> Result<PlanFate, StoreError> {
        let plan = match other.load_plan(name) {
            Ok(plan) => plan,
            Err(error) => return Ok(PlanFate::Damaged(with_causes(&error))),
        };
        Ok(match self.store.load_plan(name) {
            Err(StoreError::NoPlan { .. }) => {
                if self.staging.is_some() {
                    self.store.adopt_plan(other, &plan)?;
                }
                PlanFate::Taken
            }
            Err(error) => PlanFate::Damaged(with_causes(&error)),
            Ok(ours) => drift(&ours, &plan).map_or(PlanFate::AlreadyHere, PlanFate::Kept),
        })
    }
}

/// Copies `incoming` and verifies the copy.
fn stage(staging: &Staging<'_>, incoming: Incoming) -> Result<Prepared, StoreError> {
    let why = match staging.copy(&incoming) {
        Err(CopyError::Write(error)) => return Err(error.into()),
        Err(error @ CopyError::Read { .. }) => with_causes(&error),
        Ok((copy, left_out)) => {
            let breaches = breaches(&copy);
            if breaches.is_empty() {
                return Ok(Prepared::Staged(Box::new(Staged { incoming, copy, left_out })));
            }
            staging.discard(&copy);
            format!("its copy is not as it was written: {}", breaches.join("; "))
        }
    };
    Ok(over(no_result(&incoming.dir, JobFate::Damaged(why))))
}

fn over(job: MergedJob) -> Prepared {
    Prepared::Over(Box::new(job))
}

/// The entry for a directory without a result that can be taken.
fn no_result(dir: &JobDir, what: JobFate) -> MergedJob {
    MergedJob { directory: dir.name(), what, job: None, ours: None, theirs: None, left_out: Vec::new() }
}

/// The entry for `incoming`.
fn result(incoming: &Incoming, what: JobFate, ours: Option<Side>) -> MergedJob {
    let Incoming { dir, job, record, bytes: _ } = incoming;
    let theirs = Some(Side::of(record, dir));
    MergedJob { job: Some(job.clone()), ours, theirs, ..no_result(dir, what) }
}
