//! Queues: what starts jobs on other machines, each as tasks of an array. That is Slurm, or a host that `ssh` reaches.
//! The verbs call it, with submissions of `plan` in the `store`. It never decides what runs, never says that a job is
//! done, and believes a queue about nothing but what there is to wait for.
//!
//! A [`Queue`] is asked three things: to accept a submission, what became of submissions, and to cancel. [`Slurm`]
//! asks Slurm's own programs, and [`SshHost`] asks `orchestrate` on the other host. [`hand_over`] hands a frozen
//! submission over so that a crash at any moment neither loses it nor does so twice.

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
    /// Has the queue accept a submission. Returns the id of its array.
    ///
    /// After an error, nobody knows whether the queue has it: the answer could have been lost on its way.
    fn submit(
        &mut self,
        submission: &Submission,
        files: &SubmissionFiles,
    ) -> impl Future<Output = Result<u64, QueueError>>;

    /// All tasks of submissions with these names that the queue knows, ended ones included. The queue forgets a task
    /// some minutes after its end.
    fn poll(&mut self, names: &[&str]) -> impl Future<Output = Result<Vec<QueuedTask>, QueueError>>;

    /// Has the queue cancel every task of submissions with these names: those that wait, and those that run.
    fn cancel(&mut self, names: &[&str]) -> impl Future<Output = Result<(), QueueError>>;

    /// Has the queue cancel one task, as its own programs name it: `4711_3`.
    fn cancel_task(&mut self, task: &str) -> impl Future<Output = Result<(), QueueError>>;
}

/// A queue that did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Its program could not be asked.
    #[error("cannot ask `{program}`: {why}")]
    Silent {
        /// The program.
        program: &'static str,
        /// Why, as a sentence about the program.
        why: String,
    },
    /// Its program refused.
    #[error("`{program}` failed: {said}")]
    Refused {
        /// The program.
        program: &'static str,
        /// What it said.
        said: String,
    },
    /// Its program said something that nobody understands.
    #[error("`{program}` printed {line:?}, which is not what was expected")]
    Strange {
        /// The program.
        program: &'static str,
        /// The line.
        line: String,
    },
}
