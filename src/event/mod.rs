//! The events of a run, and the sentences that report them. The rooms `lock` and `run` send events, and an [`Observer`]
//! of the command line listens. The [`Narrator`] turns events into text. It never writes anything, never looks at a
//! clock, and does not know whether its text ends up in a progress bar, on a line or nowhere.

mod narrator;
mod summary;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::job::Job;
use crate::plan::{Decided, Decision};
use crate::protocol::Progress;
use crate::record::Record;

pub use narrator::{Current, Narrator, Saying, Weight};
pub use summary::Summary;

/// Listens to a run. It cannot fail and so cannot disturb the run: a terminal that has gone away is its own problem.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>);
}

/// Something that happened in a run.
///
/// Every job whose decision [runs](Decision::runs) leaves the queue exactly once: by [`Event::Ended`] without `retry`,
/// by [`Event::Left`], or by [`Event::GivenUp`]. After [`Event::Stopping`] the rest stays in the queue.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The run begins. It goes through these jobs in order.
    Began {
        /// Every selected job, with its decision.
        jobs: &'a [Decided],
    },
    /// The run waits until somebody else is done.
    Waiting(&'a Waiting),
    /// The wait is over.
    Resumed,
    /// The process chain of a job was started.
    Started {
        /// The job.
        job: &'a Job,
        /// Which attempt this is, from 1, over all runs.
        attempt: u32,
    },
    /// The worker reported its progress.
    Progress {
        /// The job.
        job: &'a Job,
        /// How far it is.
        progress: Progress,
    },
    /// An attempt ended, and its record is on disk. If `record.observed.adopted`, it was left behind by an
    /// `orchestrate` that died.
    Ended {
        /// The job.
        job: &'a Job,
        /// The record.
        record: &'a Record,
        /// The job will be tried again in this run.
        retry: bool,
    },
    /// A job that was not in the queue will run after all: its config needs more repeats, or marks leave it out.
    Needed {
        /// The job.
        job: &'a Job,
    },
    /// A job that was going to run will not run, for this reason; or one that might have is not needed.
    Left {
        /// The job.
        job: &'a Job,
        /// Why: somebody else finished it or stopped repeating it ([`Decision::Skip`]), a smaller batch ran out of
        /// memory meanwhile, or the other repeats of its config are enough.
        decision: &'a Decision,
    },
    /// A job cannot run, or its result cannot be saved, because something is wrong with its directory. Or its task
    /// ended without a result.
    GivenUp {
        /// The job.
        job: &'a Job,
        /// What is wrong, as a sentence.
        why: &'a str,
        /// What to do about it, as a clause: `repair runs/x, and the next run will try again`.
        remedy: &'a str,
    },
    /// A job waits until the machine is as quiet and as cool as its limits ask.
    Gated {
        /// The job.
        job: &'a Job,
        /// What it waits for, as a phrase: `other processes keep 1.20 processors busy (quiet: 0.25)`.
        why: &'a str,
        /// The first event of this wait. More follow, about one per second.
        first: bool,
    },
    /// The run idles between two jobs, for this long.
    CoolingDown(Duration),
    /// The run was told to stop. No more jobs will start.
    Stopping {
        /// The signal: `SIGINT`, `SIGTERM` or `SIGHUP`.
        by: &'a str,
        /// What becomes of the current worker.
        fate: WorkerFate<'a>,
    },
    /// Something expected that the user might still wonder about, as a sentence.
    Note(&'a str),
    /// Something the user should know, as a sentence.
    Warning(&'a str),
    /// The run is over.
    Finished(&'a Summary),
}

/// What becomes of the worker when a run is told to stop.
#[derive(Clone, Copy, Debug)]
pub enum WorkerFate<'a> {
    /// There is no worker.
    None,
    /// It is asked to end.
    Asked,
    /// It is killed at once.
    Killed,
    /// It was started for this job by an `orchestrate` that died. The run only waited for it, and it keeps running.
    GoesOn(&'a Job),
}

/// What a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// As a phrase that follows "waiting for": `the host`, `the worker of mac_cpu_vgg16_fp32_bs16_run1`.
    pub what: String,
    /// Who holds it, as a phrase, if that is known.
    pub holder: Option<String>,
}
