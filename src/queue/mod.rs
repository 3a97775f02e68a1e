//! Queues start jobs on other machines, as tasks of an array: Slurm, or a host reached by `ssh`.
//! The verbs call it, with submissions of `plan` in the `store`. It never decides what runs and never marks a job as
//! done. The answers of a queue only decide how long to wait.
//!
//! A [`Queue`] accepts a submission, lists the tasks of submissions, and cancels them. [`Slurm`] calls Slurm's
//! programs, and [`SshHost`] calls `orchestrate` on the other host. [`hand_over`] hands a frozen submission over so
//! that a crash at any moment neither loses it nor hands it over twice.

mod handover;
#[cfg(test)]
mod memory;
mod parse;
mod script;
mod slurm;
mod ssh;

use std::future::Future;

use crate::plan::{QueuedTask, Submission};
use crate::store::SubmissionFiles;

pub use handover::{HandOverError, hand_over};
pub use script::{ScriptError, script};
pub use slurm::Slurm;
pub use ssh::{ANSWER, HostAnswer, HostCheck, HostQuestion, HostRun, PushError, SshHost};

/// A program that starts tasks on other machines.
pub trait Queue {
    /// Hands a submission to the queue. Returns the id of its array.
    ///
    /// After an error, the queue may or may not have it: the answer could have been lost.
    fn submit(
        &mut self,
        submission: &Submission,
        files: &SubmissionFiles,
    ) -> impl Future<Output = Result<u64, QueueError>>;

    /// All tasks of submissions with these names that the queue lists, including ended ones. The queue forgets a task
    /// some minutes after its end.
    fn poll(&mut self, names: &[&str]) -> impl Future<Output = Result<Vec<QueuedTask>, QueueError>>;

    /// Cancels every task of submissions with these names, waiting and running ones.
    fn cancel(&mut self, names: &[&str]) -> impl Future<Output = Result<(), QueueError>>;

    /// Cancels one task by its name in the queue, such as `4711_3`.
    fn cancel_task(&mut self, task: &str) -> impl Future<Output = Result<(), QueueError>>;
}

/// A failed request to a queue.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Its program could not be called, or did not answer.
    #[error("cannot ask `{program}`: {why}")]
    Silent {
        /// The program.
        program: &'static str,
        /// Why, as a sentence about the program.
        why: String,
    },
    /// Its program failed.
    #[error("`{program}` failed: {said}")]
    Refused {
        /// The program.
        program: &'static str,
        /// Its message.
        said: String,
    },
    /// The output of its program is not in the expected form.
    #[error("`{program}` printed {line:?}, which is not what was expected")]
    Strange {
        /// The program.
        program: &'static str,
        /// The line.
        line: String,
    },
}
