//! Waits for processes of a worker that do not hold its lock, such as the ranks of a launcher that was killed.

use std::collections::BTreeSet;
use std::time::Duration;

use super::state::{Halt, Run, RunOrder};
use crate::event::{Event, Waiting, WorkerFate};
use crate::files::{AttemptDir, JobDir};
use crate::job::{Job, JobId, State};
use crate::lock::{JobLock, LockError, orphaned_keepers, sign};
use crate::matrix::Share;
use crate::plan::{Decided, NotDone, Standing};
use crate::run::error::DispatchError;
use crate::run::survivors::Groups;
use crate::store::{Attempt, OpenAttempt, Survivor, Survivors};

/// The interval at which the processes are checked.
const LOOK: Duration = Duration::from_secs(1);

/// Whether the `time` of `attempt` has ended, but not all processes of its worker.
pub(super) fn outlives_time(survivors: &[Survivor], attempt: &Attempt) -> bool {
    !survivors.is_empty() && !survivors.iter().any(|survivor| survivor.is_time_of(attempt))
}

impl Run<'_> {
    /// Waits until all processes of the worker of `attempt` in `dir` have ended. Returns whether any of them outlived
    /// `time`. The job's lock prevents others from doing the same meanwhile.
    pub(super) async fn wait_for_survivors(
        &mut self,
        job: &Job,
        lock: &JobLock,
        dir: &AttemptDir,
        attempt: &Attempt,
    ) -> Result<bool, Halt> {
        let (mut outlived, mut reported) = (false, None);
        // Processes that they start during the wait are found when they have ended.
        while Groups::of_worker(dir, attempt).is_some() {
            let found = Survivors::of_system().of(dir, attempt);
            outlived |= outlives_time(&found, attempt);
            let waiting = waiting_for(job, &found);
            if self.order.no_wait {
                return Err(Halt::Failed(DispatchError::Lock(LockError::Busy(waiting))));
            }
            if reported.as_ref() != Some(&waiting) {
                sign(job, self.order.store.root(), lock, None);
                self.observer.event(&Event::Waiting(&waiting));
                reported = Some(waiting);
            }
            self.wait_for_processes(&found, WorkerFate::GoesOn(job)).await?;
        }
        if reported.is_some() {
            self.observer.event(&Event::Resumed);
        }
        Ok(outlived)
    }

    /// Waits for processes without a lock of jobs that are not part of this run, if they would disturb it. The next run
    /// of such a job adopts it.
    pub(super) async fn wait_for_other_survivors(&mut self) -> Result<(), Halt> {
        for open in self.disturbing_attempts() {
            let mut reported = false;
            loop {
                let found = Survivors::of_system().of(&open.dir, &open.attempt);
                if found.is_empty() {
                    break;
                }
                let processes = process_ids_text(&found);
                let holder = format!("the worker of {}, whose orchestrate died{processes}", open.job.label());
                let waiting = Waiting { what: "this host".to_owned(), holder: Some(holder) };
                if self.order.no_wait {
                    return Err(Halt::Failed(DispatchError::Lock(LockError::Busy(waiting))));
                }
                if !reported {
                    self.observer.event(&Event::Waiting(&waiting));
                    reported = true;
                }
                self.wait_for_processes(&found, WorkerFate::None).await?;
            }
            if reported {
                self.observer.event(&Event::Resumed);
            }
        }
        Ok(())
    }

    /// The attempts of jobs that are not part of this run, whose processes are running, whose owner died and whose lock
    /// is free. A worker that holds its job's lock also holds that of the host.
    fn disturbing_attempts(&self) -> Vec<OpenAttempt> {
        let RunOrder { store, decided, inventory, .. } = &self.order;
        let ours: BTreeSet<JobId> = decided.iter().map(|decided| decided.job.id()).collect();
        let first =
            inventory.jobs.iter().filter(|(_, standing)| **standing == Standing::NotDone(NotDone::Running));
        let again = inventory.reruns.iter().filter(|(_, not_done)| **not_done == NotDone::Running);
        let mut running = first.map(|(id, _)| id).chain(again.map(|(id, _)| id));
        if running.all(|id| ours.contains(id)) {
            return Vec::new();
        }
        let owners = self.owner.owners();
        let is_in_the_way = |open: &OpenAttempt| {
            let is_owned = open.attempt.owner().is_some_and(|owner| owners.is_at_work(owner));
            let keeps_lock = || !orphaned_keepers(&store.job_dir(&open.job).lock()).is_empty();
            !ours.contains(&open.job.id()) && !is_owned && !keeps_lock() && self.disturbs(&open.job)
        };
        let dirs =
            Survivors::of_system().job_names().into_iter().map(|name| JobDir::at(store.root().join(name)));
        dirs.filter_map(|dir| store.open_attempt(&dir)).filter(is_in_the_way).collect()
    }

    /// Whether this run starts a job that must not run beside `other`.
    fn disturbs(&self, other: &Job) -> bool {
        let device = self.physical(other);
        self.order.decided.iter().any(|Decided { job, decision }| {
            let may_run = decision.state() == State::Waiting || decision.state() == State::IfNeeded;
            let shares = self.order.plan.env(job.key()).share == Share::Device;
            may_run && (!shares || self.physical(job) == device)
        })
    }

    /// Waits until all of `found` have ended, but at least [`LOOK`]. `fate`: the fate of the worker if the run is
    /// stopped meanwhile.
    async fn wait_for_processes(&mut self, found: &[Survivor], fate: WorkerFate<'_>) -> Result<(), Halt> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = self.signals.next() => return Err(self.stopped(fate)),
            }
            if !found.iter().any(Survivor::is_alive) {
                return Ok(());
            }
        }
    }
}

fn waiting_for(job: &Job, found: &[Survivor]) -> Waiting {
    let processes = process_ids_text(found);
    let what = format!("the worker of {}, started by an orchestrate that died{processes}", job.label());
    Waiting { what, holder: None }
}

/// The ids of `found` as ` (processes 12, 13)`; empty where the system does not show them.
fn process_ids_text(found: &[Survivor]) -> String {
    let numbers: Vec<String> = found.iter().map(|survivor| survivor.pid.to_string()).collect();
    match numbers.len() {
        0 => String::new(),
        1 => format!(" (process {})", numbers[0]),
        _ => format!(" (processes {})", numbers.join(", ")),
    }
}
