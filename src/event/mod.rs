//! The events of a run, and the sentences that report them. The rooms `lock` and `run` call an [`Observer`] of the
//! command line with each event. The [`Narrator`] turns events into text. It never prints and never reads a clock, and
//! it is independent of how its text is displayed.

mod narrator;
mod summary;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::job::Job;
use crate::plan::{Decided, Decision};
use crate::protocol::Progress;
use crate::record::Record;

pub use narrator::{Current, NarratedLine, Narrator, Weight};
pub use summary::Summary;

/// Receives the events of a run. It cannot fail, so that a closed terminal does not disturb the run.
pub trait Observer {
    /// Handles an event.
    fn event(&mut self, event: &Event<'_>);
}

/// An event of a run.
///
/// Every job whose decision [runs](Decision::runs) leaves the queue exactly once: by [`Event::Ended`] without `retry`,
/// by [`Event::Left`], or by [`Event::GivenUp`]. After [`Event::Stopping`] the rest stays in the queue.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The run begins. It processes these jobs in order.
    Began {
        /// Every selected job, with its decision.
        jobs: &'a [Decided],
    },
    /// The run waits for another process.
    Waiting(&'a Waiting),
    /// The wait is over.
    Resumed,
    /// The process chain of a job was started.
    Started {
        /// The job.
        job: &'a Job,
        /// The number of the attempt, from 1, over all runs.
        attempt: u32,
    },
    /// The worker reported its progress.
    Progress {
        /// The job.
        job: &'a Job,
        /// The progress.
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
    /// A job that was going to run, or might have been needed, will not run.
    Left {
        /// The job.
        job: &'a Job,
        /// The reason: another process finished it or stopped repeating it ([`Decision::Skip`]), a smaller batch ran
        /// out of memory meanwhile, or the other repeats of its config are sufficient.
        decision: &'a Decision,
    },
    /// A job cannot run, or its result cannot be saved, because of an error of its directory. Or its task ended without
    /// a result.
    GivenUp {
        /// The job.
        job: &'a Job,
        /// The error, as a sentence.
        why: &'a str,
        /// The remedy, as a clause: `repair runs/x, and the next run will try again`.
        remedy: &'a str,
    },
    /// A job waits until the machine is as quiet and as cool as its limits require.
    Gated {
        /// The job.
        job: &'a Job,
        /// The reason of the wait, as a phrase: `other processes keep 1.20 processors busy (quiet: 0.25)`.
        why: &'a str,
        /// Whether this is the first event of this wait. More follow, about one per second.
        first: bool,
    },
    /// The run pauses between two jobs for this long.
    CoolingDown(Duration),
    /// The run was asked to stop. No more jobs will start.
    Stopping {
        /// The signal: `SIGINT`, `SIGTERM` or `SIGHUP`.
        by: &'a str,
        /// The fate of the current worker.
        fate: WorkerFate<'a>,
    },
    /// A note about something expected, as a sentence.
    Note(&'a str),
    /// A warning, as a sentence.
    Warning(&'a str),
    /// The run is over.
    Finished(&'a Summary),
}

/// The fate of the worker when a run is asked to stop.
#[derive(Clone, Copy, Debug)]
pub enum WorkerFate<'a> {
    /// There is no worker.
    None,
    /// It is asked to end.
    Asked,
    /// It is killed immediately.
    Killed,
    /// It keeps running. An `orchestrate` that died had started it for this job, and the run only waited for it.
    GoesOn(&'a Job),
}

/// A wait of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The subject of the wait, to complete "waiting for": `the host`, `the worker of mac_cpu_vgg16_fp32_bs16_run1`.
    pub what: String,
    /// The holder of it, as a phrase, if known.
    pub holder: Option<String>,
}
