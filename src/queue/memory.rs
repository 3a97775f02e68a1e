//! A queue in memory that misbehaves on request, for tests: failures that were observed with Slurm.

use super::{Queue, QueueError};
use crate::plan::{QueuedTask, Submission, TaskState};
use crate::store::SubmissionFiles;

/// A failure of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misbehaviour {
    /// It accepts the next submission, and its answer is lost.
    LoseAnswer,
    /// It does not answer until it is revived.
    Die,
    /// It accepts the next submission, answers, and dies.
    AcceptAndDie,
    /// It forgets all arrays, and gives the id of the last one to another submission.
    ForgetAndReuse,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct MemoryQueue {
    /// All tasks that it knows.
    pub(super) tasks: Vec<QueuedTask>,
    /// How many submissions it accepted.
    pub(super) accepted: u64,
    next: Option<Misbehaviour>,
    is_dead: bool,
}

impl MemoryQueue {
    pub(super) fn misbehave(&mut self, how: Misbehaviour) {
        match how {
            Misbehaviour::Die => self.is_dead = true,
            Misbehaviour::LoseAnswer | Misbehaviour::AcceptAndDie => self.next = Some(how),
            Misbehaviour::ForgetAndReuse => {
                self.tasks.truncate(1);
                self.tasks.iter_mut().for_each(|task| task.name = "theirs".into());
            }
        }
    }

    pub(super) fn revive(&mut self) {
        self.is_dead = false;
    }

    fn alive(&self, program: &'static str) -> Result<(), QueueError> {
        let said = "Unable to contact slurm controller".to_owned();
        if self.is_dead { Err(QueueError::Refused { program, said }) } else { Ok(()) }
    }
}

impl Queue for MemoryQueue {
    async fn submit(&mut self, submission: &Submission, _: &SubmissionFiles) -> Result<u64, QueueError> {
        self.alive("sbatch")?;
        self.accepted += 1;
        let array = 100 + self.accepted;
        self.tasks.extend((0..submission.tasks()).map(|task| QueuedTask {
            array,
            task: Some(task),
            name: submission.name.clone(),
            state: TaskState::Pending,
            reason: String::new(),
            node: String::new(),
            submitted: format!("2026-11-25T03:00:{:02}", self.accepted),
        }));
        match self.next.take() {
            Some(Misbehaviour::LoseAnswer) => {
                Err(QueueError::Silent { program: "sbatch", why: "it was cut off".into() })
            }
            Some(_) => {
                self.is_dead = true;
                Ok(array)
            }
            None => Ok(array),
        }
    }

    async fn poll(&mut self, names: &[&str]) -> Result<Vec<QueuedTask>, QueueError> {
        self.alive("squeue")?;
        Ok(self.tasks.iter().filter(|task| names.contains(&task.name.as_str())).cloned().collect())
    }

    async fn cancel(&mut self, names: &[&str]) -> Result<(), QueueError> {
        self.alive("scancel")?;
        for task in &mut self.tasks {
            if names.contains(&task.name.as_str()) && task.state.is_live() {
                task.state = TaskState::Cancelled;
            }
        }
        Ok(())
    }

    async fn cancel_task(&mut self, name: &str) -> Result<(), QueueError> {
        self.alive("scancel")?;
        let is_it =
            |task: &QueuedTask| task.task.is_some_and(|number| format!("{}_{number}", task.array) == name);
        self.tasks.iter_mut().filter(|task| is_it(task)).for_each(|task| task.state = TaskState::Cancelled);
        Ok(())
    }
}
