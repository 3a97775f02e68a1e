//! Follows jobs that were handed to Slurm, until none is under way. What Slurm lost is handed over again.
//!
//! The store says what is done, and Slurm what there is to wait for. It is asked once for all submissions, every five
//! seconds at most, and less often while it does not answer. Nothing here ends a task: whoever stops following leaves
//! the queue alone.

#![expect(clippy::disallowed_methods, reason = "who follows a queue does so in time")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::submit::{hand_over_the_rest, submit};
use super::view::phrases;
use super::{Handing, names, open_submissions};
use crate::cli::needs::needs;
use crate::cli::output::warn;
use crate::cli::{Exit, Failure};
use crate::event::{Event, Observer, Waiting};
use crate::job::{Job, JobId, State};
use crate::lock::OwnerLock;
use crate::matrix::Executor;
use crate::plan::{
    Decided, Decision, Inventory, Present, QueuedTask, Standing, Submitted, Verdict, Whereabouts, decide,
    whereabouts,
};
use crate::queue::{Queue, Slurm};
use crate::record::HostFacts;
use crate::stop::StopSignals;

/// What came of following.
#[derive(Debug)]
pub(in crate::cli) struct Followed {
    /// The signal that ended it, if one did. The queue goes on.
    pub(in crate::cli) stopped_by: Option<String>,
    /// The state of each job, with whether it was done before.
    pub(in crate::cli) states: Vec<(State, bool)>,
}

impl Followed {
    /// What there is to tell of these jobs if nobody follows them.
    pub(in crate::cli) fn not_at_all(decided: &[Decided]) -> Followed {
        let of = |it: &Decided| (it.decision.state(), it.decision == Decision::Skip);
        Followed { stopped_by: None, states: decided.iter().map(of).collect() }
    }
}

/// The time between two questions to Slurm.
const PERIOD: Duration = Duration::from_secs(5);

/// The first ones, since a task can be short.
const FIRST_PERIODS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// The longest time between two questions while Slurm does not answer.
const LONGEST_PERIOD: Duration = Duration::from_secs(60);

/// The share of the time that the store is read at most, as one of so many.
const READING_SHARE: u32 = 20;

/// What Slurm says against a job must hold this long: a record can take a while to be seen on a network file system.
const DOUBT: Duration = Duration::from_secs(10);

/// Follows the jobs of `decided` that run until none is with Slurm any more, or until a signal.
///
/// # Errors
/// The store cannot be read or written.
pub(in crate::cli) async fn follow(
    slurm: &mut Slurm,
    handing: &Handing<'_>,
    decided: &[Decided],
    host: &HostFacts,
    observer: &mut dyn Observer,
) -> Result<Followed, Failure> {
    let mut signals = StopSignals::listen()?;
    let matrix = handing.plan.matrix.name.as_str();
    let owner = OwnerLock::take(&handing.store.running(), matrix);
    let mut owner = owner.map_err(|error| Failure::new(Exit::StoreUnusable, error))?;
    owner.keep_alive(signals.also_by_request())?;
    observer.event(&Event::Began { jobs: decided });
    let running = decided.iter().filter(|decided| decided.decision.runs());
    let waiting: BTreeMap<JobId, Job> = running.map(|it| (it.job.id(), it.job.clone())).collect();
    let mut watch = Watch {
        handing,
        selected: decided.iter().map(|decided| decided.job.id()).collect(),
        tried: waiting.keys().copied().collect(),
        waiting,
        host,
        doubts: BTreeMap::new(),
        losses: BTreeMap::new(),
        failed: BTreeSet::new(),
        shown: None,
        silent: 0,
        looks: 0,
    };
    loop {
        let pause = tokio::select! {
            biased;
            _ = signals.next() => break,
            looked = watch.look(slurm, observer) => looked?,
        };
        let Some(pause) = pause else { break };
        tokio::select! {
            biased;
            _ = signals.next() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    let stopped_by = signals.stopping().map(str::to_owned);
    Ok(Followed { stopped_by, states: watch.states(decided)? })
}

/// Jobs that are with Slurm.
struct Watch<'a> {
    handing: &'a Handing<'a>,
    host: &'a HostFacts,
    /// All that the user selected.
    selected: BTreeSet<JobId>,
    /// All that were handed over in this run.
    tried: BTreeSet<JobId>,
    /// Those of which nobody knows yet what becomes of them.
    waiting: BTreeMap<JobId, Job>,
    /// Since when Slurm says something against a job that nothing else confirms.
    doubts: BTreeMap<JobId, Instant>,
    /// How often Slurm lost a job in this run.
    losses: BTreeMap<JobId, u32>,
    /// Those that have no result, and get none in this run.
    failed: BTreeSet<JobId>,
    /// The last wait that was reported.
    shown: Option<Waiting>,
    /// How often in a row Slurm did not answer.
    silent: u32,
    looks: usize,
}

/// What one look has shown.
struct Seen {
    submitted: Vec<Submitted>,
    /// What Slurm answered, if it did.
    tasks: Option<Vec<QueuedTask>>,
    inventory: Inventory,
    places: BTreeMap<JobId, Whereabouts>,
}

impl Watch<'_> {
    /// Looks once where the jobs are, and does what follows from it. Returns how long to wait before the next look;
    /// `None` if there is nothing left to wait for.
    async fn look(
        &mut self,
        slurm: &mut Slurm,
        observer: &mut dyn Observer,
    ) -> Result<Option<Duration>, Failure> {
        let began = Instant::now();
        let trouble = hand_over_the_rest(slurm, self.handing).await?;
        let seen = self.see(slurm, trouble).await?;
        let took = began.elapsed();
        let lost = self.judge(&seen, observer);
        self.hand_over_again(slurm, &lost, &seen).await?;
        self.close_what_is_over(&seen);
        if self.waiting.is_empty() && !self.next_round(slurm, &seen.inventory, observer).await? {
            return Ok(None);
        }
        self.report(&seen, observer);
        let usual = FIRST_PERIODS.get(self.looks).copied().unwrap_or(PERIOD);
        self.looks += 1;
        let pause = usual.max(took * READING_SHARE) * 2_u32.saturating_pow(self.silent.min(4));
        Ok(Some(pause.min(LONGEST_PERIOD)))
    }

    async fn see(&mut self, slurm: &mut Slurm, trouble: Option<String>) -> Result<Seen, Failure> {
        let submitted = open_submissions(self.handing).map_err(Failure::store)?;
        let (tasks, trouble) = match (slurm.poll(&names(&submitted)).await, trouble) {
            (Ok(tasks), trouble) => (Some(tasks), trouble),
            (Err(error), _) => (None, Some(error.to_string())),
        };
        match trouble {
            Some(why) => {
                if self.silent == 0 {
                    warn(&format!("{why}; nothing is lost, and Slurm is asked again"));
                }
                self.silent += 1;
            }
            None => self.silent = 0,
        }
        let inventory = self.handing.store.load_inventory().map_err(Failure::store)?;
        let places = whereabouts(&submitted, tasks.as_deref());
        Ok(Seen { submitted, tasks, inventory, places })
    }

    /// Lets go of the jobs of which it is clear what became of them. Returns those that Slurm lost.
    fn judge(&mut self, seen: &Seen, observer: &mut dyn Observer) -> Vec<Job> {
        let mut lost = Vec::new();
        for (id, job) in self.waiting.clone() {
            let standing = seen.inventory.jobs.get(&id);
            let verdict = match seen.places.get(&id) {
                Some(place) => place.verdict(standing),
                None => Verdict::Lost("its submission is gone from the store".to_owned()),
            };
            let since = match verdict {
                Verdict::Pending | Verdict::Settled => None,
                Verdict::Lost(_) | Verdict::Ended(_) => {
                    Some(*self.doubts.entry(id).or_insert_with(Instant::now))
                }
            };
            let is_sure = since.is_some_and(|since| since.elapsed() >= DOUBT);
            match verdict {
                Verdict::Pending => {
                    self.doubts.remove(&id);
                }
                Verdict::Settled => self.settle(&job, standing, observer),
                Verdict::Lost(_) | Verdict::Ended(_) if !is_sure => {}
                Verdict::Lost(why) if self.may_try_again(&job) => {
                    warn(&format!("{}: {why}; it is handed over again", job.label()));
                    lost.push(job);
                }
                Verdict::Lost(why) | Verdict::Ended(why) => self.give_up(&job, &why, observer),
            }
        }
        lost
    }

    fn settle(&mut self, job: &Job, standing: Option<&Standing>, observer: &mut dyn Observer) {
        self.waiting.remove(&job.id());
        self.doubts.remove(&job.id());
        if let Some(record) = standing.and_then(Standing::record) {
            observer.event(&Event::Ended { job, record, retry: false });
        }
    }

    fn give_up(&mut self, job: &Job, why: &str, observer: &mut dyn Observer) {
        self.waiting.remove(&job.id());
        self.doubts.remove(&job.id());
        self.failed.insert(job.id());
        let directory = self.handing.store.job_dir(job);
        observer.event(&Event::GivenUp { job, why, directory: directory.path() });
    }

    /// Counts another loss of `job`. Returns whether it is handed over again.
    fn may_try_again(&mut self, job: &Job) -> bool {
        let Executor::Slurm(request) = &self.handing.plan.env(job.key()).executor else { return false };
        let losses = self.losses.entry(job.id()).or_default();
        *losses += 1;
        *losses <= request.retries
    }

    async fn hand_over_again(&mut self, slurm: &mut Slurm, lost: &[Job], seen: &Seen) -> Result<(), Failure> {
        if lost.is_empty() {
            return Ok(());
        }
        for job in lost {
            self.doubts.remove(&job.id());
        }
        let standings = seen.inventory.standings();
        let decide = |job: &Job| {
            let decision = match standings.of(job) {
                Standing::NotDone(not_done) => Decision::Run(not_done),
                Standing::Done(_) => Decision::Rerun { why: "Slurm lost its re-run".to_owned() },
            };
            Decided { job: job.clone(), decision }
        };
        let again: Vec<Decided> = lost.iter().map(decide).collect();
        submit(slurm, self.handing, &again, &seen.inventory).await
    }

    /// Hands over what turned out to be needed: further repeats, and runs that their marks leave out. Returns whether
    /// there was something.
    async fn next_round(
        &mut self,
        slurm: &mut Slurm,
        inventory: &Inventory,
        observer: &mut dyn Observer,
    ) -> Result<bool, Failure> {
        let plan = self.handing.plan;
        if plan.rules.is_empty() {
            return Ok(false);
        }
        let present = Present { slurm: true, ..Present::default() };
        let mut next = decide(plan, inventory, self.host, &present, &needs(plan, inventory));
        next.retain(|decided| {
            let (id, env) = (decided.job.id(), plan.env(decided.job.key()));
            let is_ours = self.selected.contains(&id) && !env.executor.is_local() && decided.decision.runs();
            is_ours && !self.tried.contains(&id)
        });
        if next.is_empty() {
            return Ok(false);
        }
        for Decided { job, .. } in &next {
            observer.event(&Event::Needed { job });
            self.tried.insert(job.id());
            self.waiting.insert(job.id(), job.clone());
        }
        submit(slurm, self.handing, &next, inventory).await?;
        Ok(true)
    }

    /// Notes the submissions of which nothing can come any more: Slurm has none of their tasks, and nobody waits for
    /// one of their jobs.
    fn close_what_is_over(&self, seen: &Seen) {
        let Some(tasks) = &seen.tasks else { return };
        for it in seen.submitted.iter().filter(|it| it.ticket.is_some()) {
            let is_live = tasks.iter().any(|task| it.owns(task) && task.state.is_live());
            let is_awaited = it.submission.plan.jobs().any(|job| self.waiting.contains_key(&job.id()));
            let runs = |job: &Job| seen.inventory.is_running(job);
            if !is_live && !is_awaited && !it.submission.plan.jobs().any(|job| runs(&job)) {
                self.handing.store.close_submission(&it.submission.name);
            }
        }
    }

    /// Says what there is to wait for, if that has changed.
    fn report(&mut self, seen: &Seen, observer: &mut dyn Observer) {
        let places = self.waiting.keys().filter_map(|id| seen.places.get(id));
        let found = phrases(places.map(|place| &place.fate));
        let words: Vec<String> = found.iter().map(|(phrase, jobs)| format!("{jobs} {phrase}")).collect();
        let waiting = Waiting { what: format!("Slurm: {}", words.join(", ")), holder: None };
        if !words.is_empty() && self.shown.as_ref() != Some(&waiting) {
            observer.event(&Event::Waiting(&waiting));
            self.shown = Some(waiting);
        }
    }

    /// The states of the jobs of `decided` at the end.
    fn states(&self, decided: &[Decided]) -> Result<Vec<(State, bool)>, Failure> {
        let inventory = self.handing.store.load_inventory().map_err(Failure::store)?;
        let of = |decided: &Decided| {
            let id = decided.job.id();
            if !self.tried.contains(&id) {
                return (decided.decision.state(), decided.decision == Decision::Skip);
            }
            if self.failed.contains(&id) {
                return (State::Failed, false);
            }
            if self.waiting.contains_key(&id) {
                return (State::Waiting, false);
            }
            let record = inventory.jobs.get(&id).and_then(Standing::record);
            (record.map_or(State::Waiting, |record| record.outcome.policy().leaves), false)
        };
        Ok(decided.iter().map(of).collect())
    }
}
