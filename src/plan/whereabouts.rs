//! Locates the jobs that were handed to a queue: joins the submissions of a store with the answers of the queue. Pure:
//! `crate::store` reads the submissions, and `crate::queue` asks the queue.
//!
//! Only the store decides whether a job is done. The queue only decides whether to wait. It can be wrong in every way.
//! A job runs twice at the same time, or finishes although the queue reports that its node failed. A job is accepted
//! and forgotten, and its id is given to another one. So an answer about an array counts only if the array has the name
//! and the time of submission that we know. It never overrides a record.

use std::collections::BTreeMap;

use super::submission::{Leftovers, QueueId, Submission, Ticket, last_attempt};
use super::{NotDone, Standing};
use crate::job::{JobId, State};

/// One task in the queue, as the queue lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedTask {
    /// The id of its array.
    pub array: u64,
    /// Its number in the array; `None` for a job that is not an array.
    pub task: Option<usize>,
    /// The name of its array.
    pub name: String,
    /// Its state.
    pub state: TaskState,
    /// Why it is in that state, in the queue's words; empty if the queue does not report it.
    pub reason: String,
    /// The node that it runs on or ran on; empty if it has none.
    pub node: String,
    /// When its array was accepted, in the queue's words.
    pub submitted: String,
}

/// The state of a task in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    /// It waits for its turn.
    Pending,
    /// It is being started, it runs, or its end is being cleaned up.
    Running,
    /// It ended with 0.
    Completed,
    /// It ended with another code, or by a signal.
    Failed,
    /// The queue ended it at its time limit.
    TimedOut,
    /// It had too little memory.
    OutOfMemory,
    /// A user cancelled it.
    Cancelled,
    /// Its node failed.
    NodeFailed,
    /// A more important job took its place.
    Preempted,
    /// Its node did not start.
    BootFailed,
}

impl TaskState {
    /// Whether its task waits or runs.
    pub fn is_live(self) -> bool {
        matches!(self, TaskState::Pending | TaskState::Running)
    }
}

/// A submission with the queue's answer and its results.
#[derive(Clone, Debug, PartialEq)]
pub struct Submitted {
    /// The submission as it was saved.
    pub submission: Submission,
    /// The queue's answer; `None` if none was received.
    pub ticket: Option<Ticket>,
    /// The jobs that its tasks left without a result, with the reasons.
    pub leftovers: BTreeMap<JobId, String>,
}

impl Submitted {
    /// Whether `task` belongs to this submission. An id alone is not enough: a queue that lost its state gives the id
    /// to another submission. A task that is requeued has the time of the requeue, in the same format, which sorts by
    /// time.
    pub fn owns(&self, task: &QueuedTask) -> bool {
        let Some(ticket) = &self.ticket else { return false };
        let is_its_time = ticket.submitted.as_ref().is_none_or(|submitted| *submitted <= task.submitted);
        task.array == ticket.array && task.name == self.submission.name && is_its_time
    }

    /// Adds the `leftovers` of one of its tasks.
    pub fn add(&mut self, leftovers: Leftovers) {
        self.leftovers.extend(leftovers.jobs);
    }
}

/// The answer of each queue. Queues that were not asked or did not answer are missing.
pub type Answers = BTreeMap<QueueId, Vec<QueuedTask>>;

/// The location of a job that was handed to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The name of its last submission.
    pub submission: String,
    /// The queue.
    pub queue: QueueId,
    /// Its task, by its name in the queue's own programs: `4711_3`. `None` if the queue never answered.
    pub task: Option<String>,
    /// The last attempt before that submission.
    pub attempts_before: u32,
    /// Whether it was done then, and handed over to run again.
    pub is_rerun: bool,
    /// The number of jobs of its task.
    pub jobs: usize,
    /// The queue's answer.
    pub fate: Fate,
    /// Why its task left it without a result.
    pub leftover: Option<String>,
}

/// The queue's answer about a job's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The submission is saved, and it is unknown whether the queue has it.
    Unsent,
    /// It waits for its turn, for this reason.
    Waiting(String),
    /// It waits, and will not start automatically, for this reason.
    Held(String),
    /// It runs on this node.
    Running(String),
    /// It ended in this state.
    Over(TaskState),
    /// The queue knows its array, but not the task: it was cancelled before it started.
    Withdrawn,
    /// The queue does not know its array: it was forgotten, or ended long ago.
    Forgotten,
    /// The queue did not answer.
    Unknown,
}

/// What to do about a job that was handed to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its task waits or runs: wait for it.
    Pending,
    /// The store has its result.
    Settled,
    /// The queue lost its task: hand it over again. The reason, as a sentence.
    Lost(String),
    /// Its task ended without a result, and would do so again. The reason, as a sentence.
    Ended(String),
}

/// Reasons for which a task never starts automatically, in Slurm's words.
const HOLDS: [&str; 6] = [
    "DependencyNeverSatisfied",
    "JobHeldUser",
    "JobHeldAdmin",
    "JobArrayTaskLimitZero",
    "BadConstraints",
    "launch failed requeued held",
];

/// The whereabouts of each job of `submitted`, according to the queues. For a job that was handed over several times,
/// its last submission counts, unless an earlier one is still live.
pub fn whereabouts(submitted: &[Submitted], answers: &Answers) -> BTreeMap<JobId, Whereabouts> {
    let mut in_order: Vec<&Submitted> = submitted.iter().collect();
    in_order.sort_by_key(|it| (it.submission.made_at, it.submission.name.clone()));
    let mut found: BTreeMap<JobId, Whereabouts> = BTreeMap::new();
    for it in in_order {
        let queue = it.submission.queue();
        let array = Array::of(it, answers.get(&queue).map(Vec::as_slice));
        for (job, task, attempts_before) in it.submission.placed() {
            let fate = array.fate(task);
            let earlier_is_live = found.get(&job.id()).is_some_and(|earlier| earlier.fate.is_live());
            if earlier_is_live && !fate.is_live() {
                continue;
            }
            let place = Whereabouts {
                submission: it.submission.name.clone(),
                queue: queue.clone(),
                task: it.ticket.as_ref().map(|ticket| format!("{}_{task}", ticket.array)),
                attempts_before,
                is_rerun: it.submission.reruns.contains(&job.id()),
                jobs: it.submission.task(task).len(),
                fate,
                leftover: it.leftovers.get(&job.id()).cloned(),
            };
            found.insert(job.id(), place);
        }
    }
    found
}

/// The queue's answer about one array.
enum Array<'a> {
    Unsent,
    Unknown,
    Known(BTreeMap<usize, &'a QueuedTask>),
}

impl<'a> Array<'a> {
    fn of(it: &Submitted, answer: Option<&'a [QueuedTask]>) -> Array<'a> {
        match (&it.ticket, answer) {
            (None, _) => Array::Unsent,
            (Some(_), None) => Array::Unknown,
            (Some(_), Some(tasks)) => {
                let own = tasks.iter().filter(|task| it.owns(task));
                Array::Known(own.filter_map(|task| Some((task.task?, task))).collect())
            }
        }
    }

    fn fate(&self, task: usize) -> Fate {
        let tasks = match self {
            Array::Unsent => return Fate::Unsent,
            Array::Unknown => return Fate::Unknown,
            Array::Known(tasks) => tasks,
        };
        match tasks.get(&task) {
            None if tasks.is_empty() => Fate::Forgotten,
            None => Fate::Withdrawn,
            Some(QueuedTask { state: TaskState::Pending, reason, .. }) => {
                let is_held = HOLDS.iter().any(|hold| reason.eq_ignore_ascii_case(hold));
                if is_held { Fate::Held(reason.clone()) } else { Fate::Waiting(reason.clone()) }
            }
            Some(QueuedTask { state: TaskState::Running, node, .. }) => Fate::Running(node.clone()),
            Some(QueuedTask { state, .. }) => Fate::Over(*state),
        }
    }
}

impl Fate {
    /// Whether the task can still produce a result.
    pub fn is_live(&self) -> bool {
        matches!(self, Fate::Unsent | Fate::Waiting(_) | Fate::Held(_) | Fate::Running(_) | Fate::Unknown)
    }
}

impl Fate {
    /// A phrase about a job that was handed to `queue`.
    pub fn phrase(&self, queue: &QueueId) -> String {
        let name = queue.name();
        let because = |reason: &str| if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        match self {
            Fate::Unsent => format!("about to be handed to {name}"),
            Fate::Waiting(reason) => format!("queued{}", because(reason)),
            Fate::Held(reason) => format!("held, and does not start automatically{}", because(reason)),
            // A host runs all jobs of its task in sequence.
            Fate::Running(_) if matches!(queue, QueueId::Ssh { .. }) => "under way".to_owned(),
            Fate::Running(node) if node.is_empty() => "running".to_owned(),
            Fate::Running(node) => format!("running on {node}"),
            Fate::Over(state) => ended_text(*state, queue).to_owned(),
            Fate::Withdrawn => "cancelled before it began".to_owned(),
            Fate::Forgotten => format!("no longer known to {name}"),
            Fate::Unknown => format!("unknown, because {name} does not answer"),
        }
    }
}

/// How a task ended, as a phrase about it.
fn ended_text(state: TaskState, queue: &QueueId) -> &'static str {
    let is_host = matches!(queue, QueueId::Ssh { .. });
    match state {
        TaskState::Completed if is_host => "finished there, and `orchestrate resume` fetches its results",
        TaskState::NodeFailed if is_host => "lost, because its host was restarted or it was killed",
        TaskState::Preempted if is_host => "lost, because a signal ended it",
        TaskState::Pending | TaskState::Running => "under way",
        TaskState::Completed => "over",
        TaskState::Failed => "failed",
        TaskState::TimedOut => "ended by Slurm at its time limit",
        TaskState::OutOfMemory => "ended by Slurm because it had too little memory",
        TaskState::Cancelled => "cancelled",
        TaskState::NodeFailed => "lost, because its node failed",
        TaskState::Preempted => "lost, because a more important job took its place",
        TaskState::BootFailed => "lost, because its node did not start",
    }
}

impl Whereabouts {
    /// The same after its submission was closed, because no further result can come from it.
    pub fn closed(&self) -> Whereabouts {
        Whereabouts { fate: Fate::Over(TaskState::Completed), ..self.clone() }
    }

    /// What to do about the job, given its present standing in the store.
    pub fn verdict(&self, standing: Option<&Standing>) -> Verdict {
        // Regardless of its number: attempts on other hosts are numbered separately.
        let is_first_success = matches!(standing, Some(Standing::Done(_))) && !self.is_rerun;
        let is_new =
            is_first_success || last_attempt(standing) > self.attempts_before || self.has_ended_task();
        match standing {
            // A process still runs it: a node that Slurm considers failed can still finish.
            Some(Standing::NotDone(NotDone::Running)) => return Verdict::Pending,
            Some(Standing::Done(_)) if is_new => return Verdict::Settled,
            Some(Standing::NotDone(NotDone::Failed(record)))
                if is_new
                    && record.outcome.policy().leaves != State::Waiting
                    && !matches!(self.fate, Fate::Running(_)) =>
            {
                return Verdict::Settled;
            }
            _ => {}
        }
        if let (Some(why), false) = (&self.leftover, matches!(self.fate, Fate::Running(_))) {
            return Verdict::Ended(why.clone());
        }
        match &self.fate {
            Fate::Unsent | Fate::Waiting(_) | Fate::Held(_) | Fate::Running(_) | Fate::Unknown => {
                Verdict::Pending
            }
            Fate::Over(TaskState::NodeFailed | TaskState::Preempted | TaskState::BootFailed) => {
                Verdict::Lost(self.end_text("was"))
            }
            Fate::Forgotten => Verdict::Lost(self.end_text("is")),
            Fate::Over(TaskState::Completed) => Verdict::Ended(match &self.queue {
                QueueId::Slurm => format!("{} and left no result", self.end_text("is")),
                QueueId::Ssh { host, .. } => format!("its run on {host} ended and left no result"),
            }),
            Fate::Over(TaskState::Failed) => {
                Verdict::Ended(format!("{} and left no result", self.end_text("")))
            }
            Fate::Over(_) | Fate::Withdrawn => Verdict::Ended(self.end_text("was")),
        }
    }

    /// Whether its host has ended its whole task, so that the job's standing in the store is final. Attempts of another
    /// store are numbered separately, so attempt numbers cannot decide this.
    fn has_ended_task(&self) -> bool {
        let is_over = matches!(self.fate, Fate::Over(TaskState::Completed | TaskState::Failed));
        is_over && matches!(self.queue, QueueId::Ssh { .. })
    }

    /// How its task ended, as a sentence with this verb.
    fn end_text(&self, verb: &str) -> String {
        let task = match (&self.queue, &self.task) {
            (QueueId::Slurm, Some(task)) => format!("Slurm's task {task}"),
            (QueueId::Slurm, None) => "its task".to_owned(),
            (QueueId::Ssh { host, .. }, _) => format!("its run on {host}"),
        };
        let verb = if verb.is_empty() { String::new() } else { format!(" {verb}") };
        format!("{task}{verb} {}", self.fate.phrase(&self.queue))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::example_submission;
    use crate::record::{Outcome, testing::record};

    fn submitted(repeats: u32, pack: u32) -> Submitted {
        let submission = example_submission(repeats, pack);
        let ticket = Ticket {
            schema: 1,
            name: submission.name.clone(),
            array: 7,
            submitted: Some("2026-11-25T03:00:00".into()),
        };
        Submitted { submission, ticket: Some(ticket), leftovers: BTreeMap::new() }
    }

    fn task(of: &Submitted, task: usize, state: TaskState) -> QueuedTask {
        QueuedTask {
            array: 7,
            task: Some(task),
            name: of.submission.name.clone(),
            state,
            reason: String::new(),
            node: "n1".into(),
            submitted: "2026-11-25T03:00:00".into(),
        }
    }

    /// Slurm's answer, if there is one.
    fn answers(answer: Option<&[QueuedTask]>) -> Answers {
        answer.into_iter().map(|tasks| (QueueId::Slurm, tasks.to_vec())).collect()
    }

    fn fates(of: &Submitted, answer: Option<&[QueuedTask]>) -> Vec<Fate> {
        let found = whereabouts(std::slice::from_ref(of), &answers(answer));
        of.submission.plan.jobs().map(|job| found[&job.id()].fate.clone()).collect()
    }

    #[test]
    fn a_job_is_where_its_task_is() {
        let it = submitted(5, 2);
        let mut waiting = task(&it, 1, TaskState::Pending);
        waiting.reason = "Resources".into();
        let answer = [task(&it, 0, TaskState::Running), waiting];
        let (here, waits) = (Fate::Running("n1".into()), Fate::Waiting("Resources".into()));
        let expected = [here.clone(), here, waits.clone(), waits, Fate::Withdrawn];
        assert_eq!(fates(&it, Some(&answer)), expected);
        assert_eq!(fates(&it, None), vec![Fate::Unknown; 5]);
        assert_eq!(fates(&it, Some(&[])), vec![Fate::Forgotten; 5]);
        let unsent = Submitted { ticket: None, ..it };
        assert_eq!(fates(&unsent, Some(&answer)), vec![Fate::Unsent; 5]);
    }

    /// A controller that was killed forgets an accepted array and gives its id to the next one.
    #[test]
    fn an_id_that_was_reused_is_not_ours() {
        let it = submitted(1, 1);
        let ours = task(&it, 0, TaskState::Running);
        let strangers = [
            QueuedTask { name: "theirs".into(), ..ours.clone() },
            QueuedTask { submitted: "2026-11-25T02:00:00".into(), ..ours.clone() },
            QueuedTask { array: 8, ..ours.clone() },
            QueuedTask { task: None, ..ours.clone() },
        ];
        for stranger in strangers {
            assert_eq!(fates(&it, Some(std::slice::from_ref(&stranger))), [Fate::Forgotten], "{stranger:?}");
        }
        assert_eq!(fates(&it, Some(&[ours])), [Fate::Running("n1".into())]);
    }

    /// Slurm sets the time of submission to the moment of a requeue.
    #[test]
    fn a_task_that_was_requeued_stays_ours() {
        let it = submitted(2, 1);
        let later = "2026-11-25T03:00:02".to_owned();
        let requeued = QueuedTask { submitted: later, ..task(&it, 0, TaskState::Running) };
        let answer = [requeued, task(&it, 1, TaskState::Completed)];
        let expected = [Fate::Running("n1".into()), Fate::Over(TaskState::Completed)];
        assert_eq!(fates(&it, Some(&answer)), expected);
    }

    #[test]
    fn tasks_that_never_start_automatically_are_held() {
        let it = submitted(1, 1);
        let held = QueuedTask { reason: "JobHeldUser".into(), ..task(&it, 0, TaskState::Pending) };
        assert_eq!(fates(&it, Some(&[held])), [Fate::Held("JobHeldUser".into())]);
    }

    #[test]
    fn the_last_submission_counts_unless_an_earlier_one_is_live() {
        let early = submitted(1, 1);
        let mut late = early.clone();
        late.submission.name = "orch-m-later".into();
        late.submission.made_at += chrono::Duration::seconds(5);
        late.submission.attempts_before = vec![3];
        late.ticket = Some(Ticket { array: 8, ..early.ticket.clone().unwrap() });
        let of_late = |state| QueuedTask { array: 8, name: "orch-m-later".into(), ..task(&early, 0, state) };
        let id = early.submission.plan.jobs[0].id();
        let both = [late.clone(), early.clone()];
        let place = |answer: &[QueuedTask]| whereabouts(&both, &answers(Some(answer)))[&id].clone();
        let first = place(&[task(&early, 0, TaskState::NodeFailed), of_late(TaskState::Pending)]);
        assert_eq!((first.submission.as_str(), first.attempts_before), ("orch-m-later", 3));
        assert_eq!(first.task.as_deref(), Some("8_0"));
        let revived = place(&[task(&early, 0, TaskState::Running), of_late(TaskState::Failed)]);
        assert_eq!(revived.submission, early.submission.name);
    }

    fn place(fate: Fate) -> Whereabouts {
        Whereabouts {
            submission: "s".into(),
            queue: QueueId::Slurm,
            task: Some("7_0".into()),
            attempts_before: 1,
            is_rerun: false,
            jobs: 1,
            fate,
            leftover: None,
        }
    }

    fn all_fates() -> Vec<Fate> {
        let states = [
            TaskState::Completed,
            TaskState::Failed,
            TaskState::TimedOut,
            TaskState::OutOfMemory,
            TaskState::Cancelled,
            TaskState::NodeFailed,
            TaskState::Preempted,
            TaskState::BootFailed,
        ];
        let mut fates: Vec<Fate> = states.map(Fate::Over).into();
        fates.extend([
            Fate::Unsent,
            Fate::Waiting(String::new()),
            Fate::Held("JobHeldUser".into()),
            Fate::Running("n1".into()),
            Fate::Withdrawn,
            Fate::Forgotten,
            Fate::Unknown,
        ]);
        fates
    }

    #[test]
    fn the_queue_never_overrides_a_record_or_a_running_attempt() {
        let new = Standing::Done(Arc::new(record(2, Outcome::Succeeded)));
        let running = Standing::NotDone(NotDone::Running);
        for fate in all_fates() {
            assert_eq!(place(fate.clone()).verdict(Some(&new)), Verdict::Settled, "{fate:?}");
            assert_eq!(place(fate.clone()).verdict(Some(&running)), Verdict::Pending, "{fate:?}");
        }
    }

    #[test]
    fn lost_jobs_are_handed_over_again_and_ended_ones_are_not() {
        let of = |fate: &Fate| place(fate.clone()).verdict(None);
        let lost: Vec<Fate> =
            all_fates().into_iter().filter(|fate| matches!(of(fate), Verdict::Lost(_))).collect();
        let states = [TaskState::NodeFailed, TaskState::Preempted, TaskState::BootFailed].map(Fate::Over);
        assert_eq!(lost, states.into_iter().chain([Fate::Forgotten]).collect::<Vec<_>>());
        for fate in all_fates() {
            assert_eq!(of(&fate) == Verdict::Pending, fate.is_live(), "{fate:?}");
        }
    }

    #[test]
    fn a_failure_counts_once_its_task_makes_no_more_attempts() {
        let failed =
            Standing::NotDone(NotDone::Failed(Arc::new(record(2, Outcome::Signalled { signal: 11 }))));
        let verdict = |fate| place(fate).verdict(Some(&failed));
        assert_eq!(verdict(Fate::Running("n1".into())), Verdict::Pending);
        assert_eq!(verdict(Fate::Over(TaskState::Failed)), Verdict::Settled);
        assert_eq!(verdict(Fate::Forgotten), Verdict::Settled);
        // A failure from before the submission does not count.
        let old = Standing::NotDone(NotDone::Failed(Arc::new(record(1, Outcome::Signalled { signal: 11 }))));
        assert!(matches!(place(Fate::Forgotten).verdict(Some(&old)), Verdict::Lost(_)));
        let interrupted = Outcome::Interrupted { message: "SIGTERM".into() };
        let cut = Standing::NotDone(NotDone::Failed(Arc::new(record(2, interrupted))));
        assert!(matches!(place(Fate::Over(TaskState::Preempted)).verdict(Some(&cut)), Verdict::Lost(_)));
        assert!(matches!(place(Fate::Over(TaskState::TimedOut)).verdict(Some(&cut)), Verdict::Ended(_)));
    }

    /// Attempts on another host are numbered separately.
    #[test]
    fn records_of_a_host_whose_run_has_ended_are_final() {
        let on_host = |fate| {
            let queue = QueueId::Ssh { host: "a".into(), directory: "d".into() };
            Whereabouts { queue, ..place(fate) }
        };
        let done = Standing::Done(Arc::new(record(1, Outcome::Succeeded)));
        let verdict = |fate, standing| on_host(fate).verdict(standing);
        let running = Fate::Running("a".into());
        let again = Whereabouts { is_rerun: true, ..on_host(running) };
        assert_eq!(again.verdict(Some(&done)), Verdict::Pending);
        assert_eq!(verdict(Fate::Over(TaskState::Completed), Some(&done)), Verdict::Settled);
        let lost = Fate::Over(TaskState::NodeFailed);
        let why = "its run on a was lost, because its host was restarted or it was killed".to_owned();
        assert_eq!(verdict(lost, None), Verdict::Lost(why));
        let why = "its run on a failed and left no result".to_owned();
        assert_eq!(verdict(Fate::Over(TaskState::Failed), None), Verdict::Ended(why));
    }

    /// Its earlier attempts were made on another host, which numbered them separately.
    #[test]
    fn a_success_is_never_lost_unless_it_was_handed_over_to_run_again() {
        let done = Standing::Done(Arc::new(record(1, Outcome::Succeeded)));
        for fate in all_fates() {
            let before = Whereabouts { attempts_before: 3, ..place(fate) };
            assert_eq!(before.verdict(Some(&done)), Verdict::Settled, "{before:?}");
            let again = Whereabouts { is_rerun: true, ..before };
            assert_ne!(again.verdict(Some(&done)), Verdict::Settled, "{again:?}");
        }
    }

    #[test]
    fn jobs_of_a_closed_submission_are_settled_or_ended_but_never_lost() {
        for fate in all_fates() {
            let closed = place(fate).closed();
            let new = Standing::Done(Arc::new(record(2, Outcome::Succeeded)));
            assert_eq!(closed.verdict(Some(&new)), Verdict::Settled);
            assert!(matches!(closed.verdict(None), Verdict::Ended(_)));
        }
    }

    #[test]
    fn the_reason_of_a_task_is_reported() {
        let left = Whereabouts { leftover: Some("a smaller batch".into()), ..place(Fate::Forgotten) };
        assert_eq!(left.verdict(None), Verdict::Ended("a smaller batch".into()));
        let again = Whereabouts { fate: Fate::Running("n1".into()), ..left };
        assert_eq!(again.verdict(None), Verdict::Pending);
    }
}
