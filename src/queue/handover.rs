//! Hands a frozen submission to a queue, so that a crash at any moment neither loses it nor hands it over twice.
//!
//! The submission is on disk before the queue hears of it. If there is no ticket, whoever comes next asks the queue
//! whether it has a submission of that name, which nobody else has, and only hands it over if not. The queue can still
//! accept one whose answer was lost after it was asked; then its tasks meet at the claims of their attempts.

use super::{Queue, QueueError};
use crate::files::WriteError;
use crate::plan::{SUBMISSION_SCHEMA, Submission, Ticket};
use crate::store::Store;

/// A submission that could not be handed over. It stays on disk, and whoever resumes the plan tries again.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The queue did not accept it, or did not answer.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The ticket cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Hands `submission`, which is frozen in `store`, to `queue`, unless the queue has it already. Returns its ticket,
/// which is on disk then. The caller holds the store's [`crate::store::QueueLock`].
///
/// # Errors
/// [`HandOverError`].
pub async fn hand_over(
    queue: &mut impl Queue,
    store: &Store,
    submission: &Submission,
    is_new: bool,
) -> Result<Ticket, HandOverError> {
    let known = if is_new { None } else { look_for(queue, &submission.name).await? };
    let ticket = match known {
        Some(ticket) => ticket,
        None => {
            let array = queue.submit(submission, &store.submission_files(&submission.name)).await?;
            // The time only confirms the id. A queue that is busy tells it later, or never.
            let seen = look_for(queue, &submission.name).await.ok().flatten();
            let submitted = seen.filter(|seen| seen.array == array).and_then(|seen| seen.submitted);
            Ticket { schema: SUBMISSION_SCHEMA, name: submission.name.clone(), array, submitted }
        }
    };
    store.save_ticket(&ticket)?;
    Ok(ticket)
}

/// The ticket of the submission called `name`, by what the queue lists; `None` if it lists none.
async fn look_for(queue: &mut impl Queue, name: &str) -> Result<Option<Ticket>, QueueError> {
    let tasks = queue.poll(&[name]).await?;
    // If it was accepted twice, either will do: both have all tasks.
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
    use crate::queue::memory::{Betrayal, MemoryQueue};

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

        /// Where the first job is, by what `queue` lists.
        fn fate(&self, queue: &MemoryQueue) -> Fate {
            let open = self.store.load_submissions().unwrap().open;
            let id = self.submission.plan.jobs[0].id();
            let answers = Answers::from([(QueueId::Slurm, queue.tasks.clone())]);
            whereabouts(&open, &answers)[&id].fate.clone()
        }
    }

    #[test]
    fn whoever_was_cut_off_before_the_answer_hands_nothing_over_twice() {
        let (rig, mut queue) = (Rig::new(), MemoryQueue::default());
        queue.betray(Betrayal::LoseAnswer);
        assert!(rig.hand_over(&mut queue, true).is_err());
        assert_eq!(rig.fate(&queue), Fate::Unsent, "nobody knows that the queue has it");
        let ticket = rig.hand_over(&mut queue, false).unwrap();
        assert_eq!((queue.accepted, ticket.array), (1, queue.tasks[0].array));
        assert_eq!(rig.fate(&queue), Fate::Waiting(String::new()));
    }

    #[test]
    fn whoever_was_cut_off_before_the_question_hands_it_over() {
        let (rig, mut queue) = (Rig::new(), MemoryQueue::default());
        queue.betray(Betrayal::Die);
        assert!(rig.hand_over(&mut queue, true).is_err());
        assert!(
            rig.hand_over(&mut queue, false).is_err(),
            "it is still dead, so nobody knows whether it has it"
        );
        queue.revive();
        rig.hand_over(&mut queue, false).unwrap();
        assert_eq!(queue.accepted, 1);
    }

    #[test]
    fn a_queue_that_forgot_an_array_and_gave_its_id_away_is_seen_through() {
        let (rig, mut queue) = (Rig::new(), MemoryQueue::default());
        let ticket = rig.hand_over(&mut queue, true).unwrap();
        assert!(ticket.submitted.is_some());
        queue.betray(Betrayal::ForgetAndReuse);
        assert_eq!(queue.tasks[0].array, ticket.array, "a stranger has the id");
        assert_eq!(rig.fate(&queue), Fate::Forgotten);
    }

    #[test]
    fn a_ticket_without_a_time_is_told_by_its_name() {
        let (rig, mut queue) = (Rig::new(), MemoryQueue::default());
        queue.betray(Betrayal::AcceptAndDie);
        let ticket = rig.hand_over(&mut queue, true).unwrap();
        assert_eq!(ticket.submitted, None);
        queue.revive();
        queue.tasks[0].state = TaskState::Running;
        assert!(matches!(rig.fate(&queue), Fate::Running(_)));
        queue.betray(Betrayal::ForgetAndReuse);
        assert_eq!(rig.fate(&queue), Fate::Forgotten);
    }
}
