//! Slurm and the hosts of a plan behind one interface, to hand over, ask about and end jobs.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::JoinSet;

use super::fetch::fetch;
use crate::cli::Failure;
use crate::cli::output::warn;
use crate::plan::{Answers, Leftovers, QueueId, SUBMISSION_SCHEMA, Submission, Submitted, Ticket};
use crate::queue::{HandOverError, HostAnswer, HostQuestion, Queue, QueueError, Slurm, SshHost, hand_over};
use crate::store::{Had, Store, StoreError, record_digest};

/// All queues that submissions went to.
#[derive(Debug, Default)]
pub(in crate::cli) struct Queues {
    slurm: Option<Slurm>,
    hosts: BTreeMap<QueueId, SshHost>,
    /// Digests of the records of hosts that this store has, or has fetched and rejected.
    had: Had,
}

/// The answers of queues.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) answers: Answers,
    /// Why some did not answer, as sentences.
    pub(super) troubles: Vec<String>,
}

impl Queues {
    /// Those that can be reached from here.
    pub(in crate::cli) fn find() -> Queues {
        Queues { slurm: Slurm::find(), ..Queues::default() }
    }

    /// The most tasks of an array; `None` if Slurm does not report it.
    pub(super) async fn longest_array(&self) -> Option<usize> {
        self.slurm.as_ref()?.longest_array().await.ok()
    }

    /// The host of `submission`, if it is one of a host.
    pub(super) fn host(&mut self, submission: &Submission) -> Option<&mut SshHost> {
        let queue = submission.queue();
        if !self.hosts.contains_key(&queue) {
            self.hosts.insert(queue.clone(), SshHost::of(submission)?);
        }
        self.hosts.get_mut(&queue)
    }

    /// Whether the queue of `submission` can be asked from here.
    pub(super) fn reaches(&mut self, submission: &Submission) -> bool {
        match submission.queue() {
            QueueId::Slurm => self.slurm.is_some(),
            QueueId::Ssh { .. } => self.host(submission).is_some(),
        }
    }

    /// Hands over a frozen submission, as [`hand_over`] does.
    pub(super) async fn hand_over(
        &mut self,
        store: &Store,
        submission: &Submission,
        is_new: bool,
    ) -> Result<Ticket, HandOverError> {
        if let QueueId::Ssh { .. } = submission.queue() {
            return match self.host(submission) {
                Some(host) => hand_over(host, store, submission, is_new).await,
                None => Err(missing("ssh").into()),
            };
        }
        match &mut self.slurm {
            Some(slurm) => hand_over(slurm, store, submission, is_new).await,
            None => Err(missing("sbatch").into()),
        }
    }

    /// Asks all queues of `submitted`, without any change.
    pub(super) async fn ask(&mut self, store: &Store, submitted: &[Submitted]) -> Asked {
        let mut asked = Asked::default();
        let slurms = names(submitted.iter().filter(|it| it.submission.queue() == QueueId::Slurm));
        if !slurms.is_empty() {
            let words: Vec<&str> = slurms.iter().map(String::as_str).collect();
            let answer = match &mut self.slurm {
                Some(slurm) => slurm.poll(&words).await,
                None => Err(missing("squeue")),
            };
            asked.note(QueueId::Slurm, answer);
        }
        for (queue, answer) in self.ask_hosts(store, submitted).await {
            asked.note(queue, answer.map(|answer| answer.tasks()));
        }
        asked
    }

    /// Asks all queues of `submitted`, and fetches the results of hosts into `store`. A host whose results cannot be
    /// fetched counts as one that did not answer.
    pub(super) async fn ask_and_fetch(
        &mut self,
        store: &Store,
        submitted: &mut [Submitted],
    ) -> Result<Asked, Failure> {
        let of_hosts = |it: &Submitted| it.submission.queue() != QueueId::Slurm;
        let (hosts, slurm): (Vec<&Submitted>, Vec<&Submitted>) =
            submitted.iter().partition(|it| of_hosts(it));
        let slurm: Vec<Submitted> = slurm.into_iter().cloned().collect();
        let hosts: Vec<Submitted> = hosts.into_iter().cloned().collect();
        let mut asked = self.ask(store, &slurm).await;
        for (queue, answer) in self.ask_hosts(store, &hosts).await {
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    asked.troubles.push(error.to_string());
                    continue;
                }
            };
            if answer.results > 0 {
                let question = self.question(store, hosts.iter().filter(|it| it.submission.queue() == queue));
                let of_host = hosts.iter().filter(|it| it.submission.queue() == queue);
                let reruns = of_host.flat_map(|it| it.submission.rerun_directories()).collect();
                let Some(host) = self.hosts.get(&queue) else { continue };
                match fetch(host, store, question, &reruns).await {
                    Ok(had) => had
                        .into_iter()
                        .for_each(|(name, seen)| self.had.entry(name).or_default().extend(seen)),
                    Err(why) => {
                        asked.troubles.push(why);
                        continue;
                    }
                }
            }
            note_leftovers(store, submitted, &answer)?;
            asked.answers.insert(queue, answer.tasks());
        }
        Ok(asked)
    }

    /// The answer of each host of `submitted`. They are asked concurrently.
    async fn ask_hosts(
        &mut self,
        store: &Store,
        submitted: &[Submitted],
    ) -> Vec<(QueueId, Result<HostAnswer, QueueError>)> {
        let queues: BTreeSet<QueueId> = submitted.iter().map(|it| it.submission.queue()).collect();
        let mut questions = JoinSet::new();
        for queue in queues.into_iter().filter(|queue| *queue != QueueId::Slurm) {
            let of_it = || submitted.iter().filter(|it| it.submission.queue() == queue);
            let host = of_it().next().and_then(|first| self.host(&first.submission).cloned());
            let question = self.question(store, of_it());
            questions.spawn(async move {
                let answer = match host {
                    Some(host) => host.look(&question).await,
                    None => Err(missing("ssh")),
                };
                (queue, answer)
            });
        }
        questions.join_all().await
    }

    /// The question to the host of these submissions.
    fn question<'a>(
        &mut self,
        store: &Store,
        submitted: impl Iterator<Item = &'a Submitted> + Clone,
    ) -> HostQuestion {
        let mut had = Had::new();
        for job in submitted.clone().flat_map(|it| &it.submission.plan.jobs) {
            let name = job.dir_name();
            if !self.had.contains_key(&name) {
                let Some(digest) = record_digest(&store.job_dir(job)) else { continue };
                self.had.entry(name.clone()).or_default().insert(digest);
            }
            had.insert(name.clone(), self.had.get(&name).cloned().unwrap_or_default());
        }
        HostQuestion { names: names(submitted), had }
    }

    /// Ends all tasks of these submissions, running or not, and waits until hosts have ended theirs. Returns the
    /// failures, as sentences; all other tasks were ended.
    pub(super) async fn cancel(&mut self, submitted: &[Submitted]) -> Vec<String> {
        let mut troubles = Vec::new();
        let slurms = names(submitted.iter().filter(|it| it.submission.queue() == QueueId::Slurm));
        if let (Some(slurm), false) = (&mut self.slurm, slurms.is_empty()) {
            let done = slurm.cancel(&slurms.iter().map(String::as_str).collect::<Vec<_>>()).await;
            troubles.extend(done.err().map(|error| error.to_string()));
        }
        let mut ended = BTreeSet::new();
        for it in submitted.iter().filter(|it| it.submission.queue() != QueueId::Slurm) {
            let matrix = it.submission.plan.matrix.name.to_string();
            if !ended.insert((it.submission.queue(), matrix.clone())) {
                continue;
            }
            let stopped = match self.host(&it.submission) {
                Some(host) => host.stop(&matrix).await,
                None => Err(missing("ssh")),
            };
            match stopped {
                // Most likely nothing was ever handed to it.
                Err(error) if it.ticket.is_none() => {
                    warn(&format!("{error}; if jobs were handed to it after all, they continue to run"));
                }
                Err(error) => troubles.push(error.to_string()),
                Ok(_) => {}
            }
        }
        troubles
    }

    /// Ends one task of Slurm.
    pub(super) async fn cancel_task(&mut self, task: &str) -> Result<(), QueueError> {
        match &mut self.slurm {
            Some(slurm) => slurm.cancel_task(task).await,
            None => Err(missing("scancel")),
        }
    }
}

impl Asked {
    fn note(&mut self, queue: QueueId, answer: Result<Vec<crate::plan::QueuedTask>, QueueError>) {
        match answer {
            Ok(tasks) => drop(self.answers.insert(queue, tasks)),
            Err(error) => self.troubles.push(error.to_string()),
        }
    }
}

fn missing(program: &'static str) -> QueueError {
    QueueError::Silent { program, why: "it is not here".to_owned() }
}

/// The names of `submitted`.
fn names<'a>(submitted: impl Iterator<Item = &'a Submitted>) -> Vec<String> {
    submitted.map(|it| it.submission.name.clone()).collect()
}

/// Saves which jobs the runs of a host left without a result.
fn note_leftovers(store: &Store, submitted: &mut [Submitted], answer: &HostAnswer) -> Result<(), Failure> {
    for run in answer.runs.iter().filter(|run| !run.left.is_empty()) {
        let Some(it) = submitted.iter_mut().find(|it| it.submission.name == run.name) else { continue };
        let leftovers = Leftovers { schema: SUBMISSION_SCHEMA, jobs: run.left.clone() };
        if it.leftovers != leftovers.jobs {
            let files = store.submission_files(&run.name);
            files.save_leftovers(0, &leftovers).map_err(|error| Failure::store(StoreError::Write(error)))?;
            it.leftovers.clear();
            it.add(leftovers);
        }
    }
    Ok(())
}
