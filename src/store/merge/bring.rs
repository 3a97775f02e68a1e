//! Merges other stores into a store, one after another.

use super::copy::CopyError;
use super::look::{Brought, Found, hold, is_at_work, is_busy, look};
use super::merged::{MergeError, Merged, MergedJob, MergedPlan, PlanFate, Side, What};
use super::staging::{Staged, Staging};
use crate::files::{JobDir, WriteError, sync_directory};
use crate::lock::JobLock;
use crate::plan::{Held, MergeDecision, decide_merge, drift};
use crate::store::directory::Entries;
use crate::store::verify::breaches;
use crate::store::{Store, StoreError};
use crate::text::with_causes;

/// This many directories are copied and synced at a time. To sync each by itself would take most of the time.
const AT_A_TIME: usize = 32;

/// A merge into a store.
#[derive(Debug)]
pub struct Merge<'a> {
    store: &'a Store,
    /// Whether the user prefers the successes of the other store.
    replace: bool,
    /// `None` in a rehearsal.
    staging: Option<Staging<'a>>,
}

/// A directory of another store before its copy is renamed into place.
enum Prepared {
    /// Nothing is left to do.
    Over(Box<MergedJob>),
    /// It was copied.
    Staged(Box<Staged>),
}

impl<'a> Merge<'a> {
    /// Begins a merge into `store`, which must exist. With `replace`, the successes of others replace those of `store`.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn begin(store: &'a Store, replace: bool) -> Result<Merge<'a>, MergeError> {
        Ok(Merge { store, replace, staging: Some(Staging::take(store)?) })
    }

    /// As [`Merge::begin`], but nothing is changed. The store does not need to exist.
    pub fn rehearse(store: &'a Store, replace: bool) -> Merge<'a> {
        Merge { store, replace, staging: None }
    }

    /// Merges `other`. If that takes a while, calls `tell` now and then: how many of its directories are done,
    /// and how many there are.
    ///
    /// # Errors
    /// One of the stores cannot be read, or this one cannot be written. What was taken until then stays.
    pub fn bring(&self, other: &Store, tell: &mut dyn FnMut(usize, usize)) -> Result<Merged, StoreError> {
        let Entries { directories, others } = other.entries()?;
        let mut jobs = Vec::with_capacity(directories.len());
        for (number, dirs) in directories.chunks(AT_A_TIME).enumerate() {
            if directories.len() > AT_A_TIME {
                tell(number * AT_A_TIME, directories.len());
            }
            self.bring_some(dirs, &mut jobs)?;
        }
        let why = "it is not a job's directory despite its name";
        jobs.extend(others.iter().map(|dir| no_result(dir, What::Damaged(why.to_owned()))));
        jobs.sort_by(|left, right| left.directory.cmp(&right.directory));
        Ok(Merged { jobs, plans: self.bring_plans(other)? })
    }

    /// Merges the jobs in `dirs`, and adds what it did to `jobs`.
    fn bring_some(&self, dirs: &[JobDir], jobs: &mut Vec<MergedJob>) -> Result<(), StoreError> {
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

    /// Looks at `dir`, and copies it if its result is to be taken. `None` if it is not of ours.
    fn prepare(&self, dir: &JobDir) -> Result<Option<Prepared>, StoreError> {
        let brought = match look(dir) {
            Found::NoJob => return Ok(None),
            Found::Unfinished(why) => return Ok(Some(over(no_result(dir, What::Unfinished(why))))),
            Found::Damaged(why) => return Ok(Some(over(no_result(dir, What::Damaged(why))))),
            Found::Sound(brought) => brought,
        };
        let ours = self.store.job_dir(&brought.job);
        let (held, side) = hold(&ours, &brought);
        let what = match (self.decide(held, &brought), &self.staging) {
            (What::Taken | What::Replaced(_), Some(staging)) => return stage(staging, *brought).map(Some),
            (What::Replaced(_), None) if is_busy(&ours) => What::Busy("it is running here".to_owned()),
            (what, _) => what,
        };
        Ok(Some(over(result(&brought, what, side))))
    }

    /// What to do with `brought`, of whose job this store has `held`.
    fn decide(&self, held: Held, brought: &Brought) -> What {
        match decide_merge(held, brought.record.outcome.is_success(), self.replace) {
            MergeDecision::Take => What::Taken,
            MergeDecision::Replace => What::Replaced(None),
            MergeDecision::AlreadyHere => What::AlreadyHere,
            MergeDecision::Keep => What::Kept(held),
            MergeDecision::Conflict => What::Conflict,
        }
    }

    /// Makes a copy the directory of its job. What this store holds of the job is read again under the job's lock,
    /// because it can have run here meanwhile.
    fn place(&self, staging: &Staging<'_>, staged: Staged) -> Result<MergedJob, StoreError> {
        let Staged { brought, copy, left_out } = staged;
        let ours = self.store.job_dir(&brought.job);
        let (what, side) = if staging.put(&copy, &ours)? {
            (What::Taken, None)
        } else {
            self.place_instead(staging, &brought, &copy, &ours)?
        };
        Ok(MergedJob { left_out, ..result(&brought, what, side) })
    }

    /// Makes `copy` the directory of its job instead of what is there, if that is still to be done.
    fn place_instead(
        &self,
        staging: &Staging<'_>,
        brought: &Brought,
        copy: &JobDir,
        ours: &JobDir,
    ) -> Result<(What, Option<Side>), StoreError> {
        let lock = match JobLock::try_lock(&brought.job, ours.clone()) {
            Ok(lock) => lock,
            Err(error) => return Ok((What::Busy(with_causes(&error)), None)),
        };
        let (held, side) = hold(ours, brought);
        let mut what = self.decide(held, brought);
        if matches!(what, What::Taken | What::Replaced(_)) {
            what = if is_at_work(ours) {
                What::Busy("another orchestrate runs it, where no lock tells".to_owned())
            } else {
                match staging.put_instead(copy, ours)? {
                    None => What::Taken,
                    kept => What::Replaced(kept),
                }
            };
        }
        drop(lock);
        Ok((what, side))
    }

    fn bring_plans(&self, other: &Store) -> Result<Vec<MergedPlan>, StoreError> {
        let mut names = other.plan_names()?;
        names.sort();
        names.into_iter().map(|name| Ok(MergedPlan { fate: self.bring_plan(other, &name)?, name })).collect()
    }

    fn bring_plan(&self, other: &Store, name: &str) -> Result<PlanFate, StoreError> {
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

/// Copies `brought`, and checks the copy.
fn stage(staging: &Staging<'_>, brought: Brought) -> Result<Prepared, StoreError> {
    let why = match staging.copy(&brought) {
        Err(CopyError::Write(error)) => return Err(error.into()),
        Err(error @ CopyError::Read { .. }) => with_causes(&error),
        Ok((copy, left_out)) => {
            let breaches = breaches(&copy);
            if breaches.is_empty() {
                return Ok(Prepared::Staged(Box::new(Staged { brought, copy, left_out })));
            }
            staging.discard(&copy);
            format!("its copy is not as it was written: {}", breaches.join("; "))
        }
    };
    Ok(over(no_result(&brought.dir, What::Damaged(why))))
}

fn over(job: MergedJob) -> Prepared {
    Prepared::Over(Box::new(job))
}

/// What became of a directory without a result that can be taken.
fn no_result(dir: &JobDir, what: What) -> MergedJob {
    MergedJob { directory: dir.name(), what, job: None, ours: None, theirs: None, left_out: Vec::new() }
}

/// What became of `brought`.
fn result(brought: &Brought, what: What, ours: Option<Side>) -> MergedJob {
    let Brought { dir, job, record, bytes: _ } = brought;
    let theirs = Some(Side::of(record, dir));
    MergedJob { job: Some(job.clone()), ours, theirs, ..no_result(dir, what) }
}
