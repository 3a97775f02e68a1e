//! Follows jobs that were handed over, until none is under way. Hands over again what Slurm or a host lost.
//!
//! The store determines which jobs are done, the queues which are still waiting or running. Each queue is asked once
//! for all submissions, every five seconds at most, and less often while none answers. A signal only ends the
//! following: the tasks stay in their queues.

#![expect(clippy::disallowed_methods, reason = "following a queue measures and waits for time")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::idle::Idle;
use super::printed::{lacked_memory, printed_output};
use super::queues::Queues;
use super::submit::{hand_over_frozen, submit};
use super::view::{phrases, place_phrase, waiting_text};
use super::{Handing, open_submissions};
use crate::cli::needs::needs;
use crate::cli::output::warn;
use crate::cli::{Exit, Failure};
use crate::event::{Event, Observer, Waiting};
use crate::job::{Job, JobId, State};
use crate::lock::OwnerLock;
use crate::plan::{
    Answers, Decided, Decision, Inventory, NotDone, Present, QueueId, Standing, Submitted, Verdict,
    Whereabouts, decide, idle_tasks, whereabouts,
};
use crate::record::HostFacts;
use crate::stop::StopSignals;

/// The result of following.
#[derive(Debug)]
pub(in crate::cli) struct Followed {
    /// The signal that ended it, if one did. The tasks in the queue continue.
    pub(in crate::cli) stopped_by: Option<String>,
    /// The state of each job, and whether it was done before.
    pub(in crate::cli) states: Vec<(State, bool)>,
}

impl Followed {
    /// The result for jobs that are handed over and not followed.
    pub(in crate::cli) fn not_followed(decided: &[Decided]) -> Followed {
        let of = |it: &Decided| (it.decision.state(), it.decision == Decision::Skip);
        Followed { stopped_by: None, states: decided.iter().filter(|it| it.is_listed()).map(of).collect() }
    }
}

/// The time between two questions to Slurm.
const PERIOD: Duration = Duration::from_secs(5);

/// The same for a host after its first [`SOON`] questions, because answering takes processor time there.
const HOST_PERIOD: Duration = Duration::from_secs(15);

/// The number of questions to a host at the shorter [`PERIOD`].
const SOON: usize = 6;

/// The first periods are shorter, because a task can be short.
const FIRST_PERIODS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// The longest time between two questions while no queue answers.
const LONGEST_PERIOD: Duration = Duration::from_secs(60);

/// The time between two questions once all jobs have ended and a task is still listed.
const CLOSING_PERIOD: Duration = Duration::from_secs(1);

/// At most one part in this many of the time is spent reading the store.
const READING_SHARE: u32 = 20;

/// The remedy for a job whose task ended without a result.
const TRY_AGAIN: &str = "`orchestrate resume` tries again";

/// The advice before [`TRY_AGAIN`] if a task had too little memory.
const ASK_FOR_MEMORY: &str = "ask Slurm for more memory, as by `options: [--mem=8G]` under `slurm`; then ";

/// A loss reported by a queue is believed after this time: on a network file system, a record can appear late.
const DOUBT: Duration = Duration::from_secs(10);

/// Follows the jobs of `decided` that run until none is under way any more, or until a signal.
///
/// # Errors
/// The store cannot be read or written.
pub(in crate::cli) async fn follow(
    queues: &mut Queues,
    handing: &Handing<'_>,
    decided: &[Decided],
    host: &HostFacts,
    observer: &mut dyn Observer,
) -> Result<Followed, Failure> {
    let mut signals = StopSignals::listen()?;
    let matrix = handing.plan.matrix.name.as_str();
    let owner = OwnerLock::take(&handing.store.running(), matrix);
    let mut owner = owner.map_err(|error| Failure::new(Exit::StoreUnusable, error))?;
    owner.keep_alive(signals.accept_requests())?;
    observer.event(&Event::Began { jobs: decided });
    let running = decided.iter().filter(|decided| decided.decision.runs());
    let waiting: BTreeMap<JobId, Job> = running.map(|it| (it.job.id(), it.job.clone())).collect();
    let mut watch = Watch {
        handing,
        selected: decided.iter().map(|decided| decided.job.id()).collect(),
        tried: waiting.keys().copied().collect(),
        waiting,
        last: BTreeMap::new(),
        host,
        doubts: BTreeMap::new(),
        losses: BTreeMap::new(),
        failed: BTreeSet::new(),
        shown: None,
        silent: 0,
        warned: BTreeSet::new(),
        looks: 0,
        idle: Idle::default(),
    };
    loop {
        let pause = tokio::select! {
            biased;
            _ = signals.next() => break,
            looked = watch.look(queues, observer) => looked?,
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

/// Jobs that were handed over.
struct Watch<'a> {
    handing: &'a Handing<'a>,
    host: &'a HostFacts,
    /// All that the user selected.
    selected: BTreeSet<JobId>,
    /// All that were handed over in this run.
    tried: BTreeSet<JobId>,
    /// Those whose outcome is not known yet.
    waiting: BTreeMap<JobId, Job>,
    /// Where they were when they were last seen.
    last: BTreeMap<JobId, Whereabouts>,
    /// Since when a queue has reported a job as lost or ended without a result, without confirmation.
    doubts: BTreeMap<JobId, Instant>,
    /// How often a job was lost in this run.
    losses: BTreeMap<JobId, u32>,
    /// Those that have no result and will have none in this run.
    failed: BTreeSet<JobId>,
    /// The last wait that was reported.
    shown: Option<Waiting>,
    /// How many times in a row no queue answered.
    silent: u32,
    /// The problems that were warned of since the last look without problems.
    warned: BTreeSet<String>,
    looks: usize,
    /// Tasks whose jobs are done.
    idle: Idle,
}

/// The state of the queues and the store at one look.
struct Seen {
    submitted: Vec<Submitted>,
    answers: Answers,
    inventory: Inventory,
    /// How long it took to read the store.
    reading: Duration,
    places: BTreeMap<JobId, Whereabouts>,
}

/// The verdict on a job whose submission another `orchestrate` closed before this one saw it.
fn verdict_without_place(standing: Option<&Standing>) -> Verdict {
    match standing {
        Some(Standing::Done(_)) => Verdict::Settled,
        Some(Standing::NotDone(NotDone::Failed(record)))
            if record.outcome.policy().leaves != State::Waiting =>
        {
            Verdict::Settled
        }
        _ => Verdict::Lost("its submission is gone from the store".to_owned()),
    }
}

impl Watch<'_> {
    /// Looks once where the jobs are, and acts on it. Returns the time until the next look, or `None` if there is
    /// nothing left to wait for.
    async fn look(
        &mut self,
        queues: &mut Queues,
        observer: &mut dyn Observer,
    ) -> Result<Option<Duration>, Failure> {
        let troubles = hand_over_frozen(queues, self.handing).await?;
        let seen = self.see(queues, troubles).await?;
        let lost = self.judge(&seen, observer);
        self.last.extend(seen.places.iter().map(|(id, place)| (*id, place.clone())));
        self.hand_over_again(queues, &lost, &seen).await?;
        self.close_finished_submissions(&seen);
        let idle = idle_tasks(&seen.submitted, &seen.answers, &seen.inventory);
        let is_ending = self.idle.end(queues, idle).await;
        if self.waiting.is_empty() && !self.next_round(queues, &seen.inventory, observer).await? {
            return Ok(is_ending.then_some(CLOSING_PERIOD));
        }
        self.report(&seen, observer);
        let asks_hosts = seen.submitted.iter().any(|it| it.submission.queue() != QueueId::Slurm);
        let later = if asks_hosts && self.looks >= SOON { HOST_PERIOD } else { PERIOD };
        let usual = FIRST_PERIODS.get(self.looks).copied().unwrap_or(later);
        self.looks += 1;
        let pause = usual.max(seen.reading * READING_SHARE) * 2_u32.saturating_pow(self.silent.min(4));
        Ok(Some(pause.min(LONGEST_PERIOD)))
    }

    async fn see(&mut self, queues: &mut Queues, mut troubles: Vec<String>) -> Result<Seen, Failure> {
        let mut submitted = open_submissions(self.handing).map_err(Failure::store)?;
        let asked = queues.ask_and_fetch(self.handing.store, &mut submitted).await?;
        self.silent =
            if asked.answers.is_empty() && !asked.troubles.is_empty() { self.silent + 1 } else { 0 };
        troubles.extend(asked.troubles);
        for why in &troubles {
            if self.warned.insert(why.clone()) {
                warn(&format!("{why}; nothing is lost, and orchestrate tries again"));
            }
        }
        if troubles.is_empty() {
            self.warned.clear();
        }
        let began = Instant::now();
        let inventory = self.handing.store.load_inventory().map_err(Failure::store)?;
        let reading = began.elapsed();
        let places = whereabouts(&submitted, &asked.answers);
        Ok(Seen { submitted, answers: asked.answers, inventory, reading, places })
    }

    /// Stops waiting for the jobs whose outcome is known. Returns those that were lost.
    fn judge(&mut self, seen: &Seen, observer: &mut dyn Observer) -> Vec<Job> {
        let mut lost = Vec::new();
        for (id, job) in self.waiting.clone() {
            let standing = seen.inventory.jobs.get(&id);
            let verdict = match (seen.places.get(&id), self.last.get(&id)) {
                (Some(place), _) => place.verdict(standing),
                // Another `orchestrate` has closed its submission.
                (None, Some(last)) => last.closed().verdict(standing),
                (None, None) => verdict_without_place(standing),
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
                Verdict::Lost(why) | Verdict::Ended(why) => {
                    self.give_up(&job, &why, seen.places.get(&id), observer);
                }
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

    fn give_up(&mut self, job: &Job, why: &str, place: Option<&Whereabouts>, observer: &mut dyn Observer) {
        self.waiting.remove(&job.id());
        self.doubts.remove(&job.id());
        self.failed.insert(job.id());
        let printed = place.and_then(|place| printed_output(self.handing.store, place));
        let (why, place) = printed.map_or_else(
            || (why.to_owned(), String::new()),
            |printed| (format!("{why}{}", printed.last_words()), format!("{}; ", printed.place())),
        );
        let first = if lacked_memory(&why) { ASK_FOR_MEMORY } else { "" };
        let remedy = format!("{place}{first}{TRY_AGAIN}");
        observer.event(&Event::GivenUp { job, why: &why, remedy: &remedy });
    }

    /// Counts another loss of `job`. Returns whether it is handed over again.
    fn may_try_again(&mut self, job: &Job) -> bool {
        let losses = self.losses.entry(job.id()).or_default();
        *losses += 1;
        *losses <= self.handing.plan.env(job.key()).executor.retries()
    }

    async fn hand_over_again(
        &mut self,
        queues: &mut Queues,
        lost: &[Job],
        seen: &Seen,
    ) -> Result<(), Failure> {
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
                Standing::Done(_) => Decision::Rerun { why: "its re-run was lost".to_owned() },
            };
            Decided { job: job.clone(), decision }
        };
        let again: Vec<Decided> = lost.iter().map(decide).collect();
        submit(queues, self.handing, &again, &seen.inventory).await
    }

    /// Hands over jobs that turned out to be needed: further repeats, re-runs of jobs whose marks leave them out, and
    /// profiles by workers that report that they support them. Returns whether there were any.
    async fn next_round(
        &mut self,
        queues: &mut Queues,
        inventory: &Inventory,
        observer: &mut dyn Observer,
    ) -> Result<bool, Failure> {
        let plan = self.handing.plan;
        if !plan.depends_on_results() {
            return Ok(false);
        }
        let present = Present { slurm: true, ssh: true, ..Present::default() };
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
        submit(queues, self.handing, &next, inventory).await?;
        Ok(true)
    }

    /// Closes the submissions that are over: none of their tasks is live, and none of their jobs is waited for.
    fn close_finished_submissions(&self, seen: &Seen) {
        for it in seen.submitted.iter().filter(|it| it.ticket.is_some()) {
            let Some(tasks) = seen.answers.get(&it.submission.queue()) else { continue };
            let is_live = tasks.iter().any(|task| it.owns(task) && task.state.is_live());
            let is_awaited = it.submission.plan.jobs().any(|job| self.waiting.contains_key(&job.id()));
            let runs = |job: &Job| seen.inventory.is_running(job);
            if !is_live && !is_awaited && !it.submission.plan.jobs().any(|job| runs(&job)) {
                self.handing.store.close_submission(&it.submission.name);
            }
        }
    }

    /// Reports where the waiting jobs are, if that has changed.
    fn report(&mut self, seen: &Seen, observer: &mut dyn Observer) {
        let places = self.waiting.keys().filter_map(|id| seen.places.get(id));
        let found = phrases(places.map(place_phrase));
        let waiting = Waiting { what: waiting_text(&found), holder: None };
        if !found.is_empty() && self.shown.as_ref() != Some(&waiting) {
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
        let is_known = |decided: &&Decided| decided.is_listed() || self.tried.contains(&decided.job.id());
        Ok(decided.iter().filter(is_known).map(of).collect())
    }
}
