//! Hands a frozen submission to a queue, [`hand_over`], so that a crash at any moment neither loses it nor hands it
//! over twice.
//!
//! The submission is on disk before it is sent to the queue. If there is no ticket, the next `orchestrate` queries the
//! queue for the unique name of the submission, and only hands it over if the queue does not have it. The queue can
//! still accept an earlier request after that query; then claims of attempts prevent running jobs twice.

use super::{Queue, QueueError};
use crate::files::WriteError;
use crate::plan::{SUBMISSION_SCHEMA, Submission, Ticket};
use crate::store::Store;

/// A submission that could not be handed over. It stays on disk, and resuming the plan tries again.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The queue did not accept it, or did not answer.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The ticket cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Hands `submission`, which is frozen in `store`, to `queue`, unless the queue has it already. Saves and returns its
/// ticket. With `is_new`, the queue is not queried first. The caller holds the store's [`crate::store::QueueLock`].
///
/// # Errors
/// [`HandOverError`].
pub async fn hand_over(
    queue: &mut impl Queue,
    store: &Store,
    submission: &Submission,
    is_new: bool,
) -> Result<Ticket, HandOverError> {
    let known = if is_new { None } else { find_ticket(queue, &submission.name).await? };
    let ticket = match known {
        Some(ticket) => ticket,
        None => {
            let array = queue.submit(submission, &store.submission_files(&submission.name)).await?;
            // The time only confirms the id. A busy queue may report it late or never.
            let seen = find_ticket(queue, &submission.name).await.ok().flatten();
            let submitted = seen.filter(|seen| seen.array == array).and_then(|seen| seen.submitted);
            Ticket { schema: SUBMISSION_SCHEMA, name: submission.name.clone(), array, submitted }
        }
    };
    store.save_ticket(&ticket)?;
    Ok(ticket)
}

/// The ticket of the submission called `name`, if the queue lists its tasks.
async fn find_ticket(queue: &mut impl Queue, name: &str) -> Result<Option<Ticket>, QueueError> {
    let tasks = queue.poll(&[name]).await?;
    // If it was accepted twice, both arrays have all tasks, so either is valid.
    let first =
        tasks.into_iter().filter(|task| task.name == name && task.task.is_some()).min_by_key(|it| it.array);
    Ok(first.map(|task| Ticket {
        schema: SUBMISSION_SCHEMA,
        name: name.to_owned(),
        array: task.array,
        submitted: Some(task.submitted),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Answers, Fate, QueueId, TaskState, example_submission, whereabouts};
    use crate::queue::memory::{MemoryQueue, Misbehaviour};

    struct Rig {
        _directory: tempfile::TempDir,
        store: Store,
        submission: Submission,
    }

    impl Rig {
        fn new() -> Rig {
            let directory = tempfile::tempdir().unwrap();
            let store = Store::create(&directory.path().join("runs")).unwrap();
            let submission = example_submission(3, 1);
            store.freeze(&submission, "").unwrap();
            Rig { _directory: directory, store, submission }
        }

        fn hand_over(&self, queue: &mut MemoryQueue, is_new: bool) -> Result<Ticket, HandOverError> {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(hand_over(queue, &self.store, &self.submission, is_new))
        }

        /// The fate of the first job, according to the tasks in `queue`.
        fn fate(&self, queue: &MemoryQueue) -> Fate {
            let open = self.store.load_submissions().unwrap().open;
            let id = self.submission.plan.jobs[0].id();
            let answers = Answers::from([(QueueId::Slurm, queue.tasks.clone())]);
            whereabouts(&open, &answers)[&id].fate.clone()
        }
    }

    #[test]
    fn after_a_lost_answer_a_submission_is_not_handed_over_twice() {
        let (rig, mut queue) = (Rig::new(), MemoryQueue::default());
        queue.misbehave(Misbehaviour::LoseAnswer);
        assert!(rig.hand_over(&mut queue, true).is_err());
        assert_eq!(rig.fate(&queue), Fate::Unsent, "there is no ticket");
        let ticket = rig.hand_over(&mut queue, false).unwrap();
        assert_eq!((queue.accepted, ticket.array), (1, queue.tasks[0].array));
        assert_eq!(rig.fate(&queue), Fate::Waiting(String::new()));
    }

    #[test]
    fn after_a_failed_request_a_submission_is_handed_over() {
        let (rig, mut queue) = (Rig::new(), MemoryQueue::default());
        queue.misbehave(Misbehaviour::Die);
        assert!(rig.hand_over(&mut queue, true).is_err());
        assert!(
            rig.hand_over(&mut queue, false).is_err(),
            "the queue is still dead, so it may or may not have it"
        );
        queue.revive();
        rig.hand_over(&mut queue, false).unwrap();
        assert_eq!(queue.accepted, 1);
    }

    #[test]
    fn recognises_a_reused_array_id() {
        let (rig, mut queue) = (Rig::new(), MemoryQueue::default());
        let ticket = rig.hand_over(&mut queue, true).unwrap();
        assert!(ticket.submitted.is_some());
        queue.misbehave(Misbehaviour::ForgetAndReuse);
        assert_eq!(queue.tasks[0].array, ticket.array, "another submission has the id");
        assert_eq!(rig.fate(&queue), Fate::Forgotten);
    }

    #[test]
    fn a_ticket_without_a_time_is_identified_by_its_name() {
        let (rig, mut queue) = (Rig::new(), MemoryQueue::default());
        queue.misbehave(Misbehaviour::AcceptAndDie);
        let ticket = rig.hand_over(&mut queue, true).unwrap();
        assert_eq!(ticket.submitted, None);
        queue.revive();
        queue.tasks[0].state = TaskState::Running;
        assert!(matches!(rig.fate(&queue), Fate::Running(_)));
        queue.misbehave(Misbehaviour::ForgetAndReuse);
        assert_eq!(rig.fate(&queue), Fate::Forgotten);
    }
}
