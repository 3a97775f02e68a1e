//! What a run tells whoever watches it, and the sentences in which that is told.
//! The rooms `lock` and `run` speak, an [`Observer`] of the command line listens; the [`Narrator`] puts events into words.
//! It never writes anything anywhere and never looks at a clock: whether words end in a bar, a line or nowhere, it does not know.

mod narrator;
mod summary;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use crate::job::Job;
use crate::plan::{Decided, Decision};
use crate::protocol::Progress;
use crate::record::Record;

pub use narrator::{Current, Narrator, Saying, Weight};
pub use summary::Summary;

/// Listens to a run. Nothing it does can disturb the run: it cannot fail, and a terminal that has gone away is its own
/// affair.
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
    /// The run begins; it will go through these in their order.
    Began {
        /// Every selected job and what is to be done with it.
        jobs: &'a [Decided],
    },
    /// Nothing goes on until somebody else is done.
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
    /// The worker said how far it is.
    Progress {
        /// The job.
        job: &'a Job,
        /// How far it is.
        progress: Progress,
    },
    /// An attempt ended, or that of an `orchestrate` that is gone was found to have ended
    /// (`record.observed.adopted`). Its record is on disk.
    Ended {
        /// The job.
        job: &'a Job,
        /// The record.
        record: &'a Record,
        /// The job will be tried again in this run.
        retry: bool,
    },
    /// A job that was to be run will not be, for this reason.
    Left {
        /// The job.
        job: &'a Job,
        /// Why: somebody else finished it or stopped repeating it ([`Decision::Skip`]), or a smaller batch ran out of
        /// memory meanwhile.
        decision: &'a Decision,
    },
    /// A job that was to be run cannot be, or what came of it cannot be kept: something is wrong with its directory.
    GivenUp {
        /// The job.
        job: &'a Job,
        /// What is wrong, as a sentence.
        why: &'a str,
        /// The job's directory.
        directory: &'a Path,
    },
    /// A job is not started before the machine is as its limits ask.
    Gated {
        /// The job.
        job: &'a Job,
        /// What the machine is instead, as a phrase: `other processes keep 1.20 processors busy (quiet: 0.25)`.
        why: &'a str,
        /// The first time for this start. From then on it is told about once a second.
        first: bool,
    },
    /// Idle between two jobs, for this long.
    CoolingDown(Duration),
    /// The run was told to stop; nothing more is started.
    Stopping {
        /// By what: `SIGINT`, `SIGTERM`, `SIGHUP`.
        by: &'a str,
        /// What that means for the worker there is.
        fate: WorkerFate<'a>,
    },
    /// Something that is as it should be and that the user may wonder about, as a sentence.
    Note(&'a str),
    /// Something the user should know, as a sentence.
    Warning(&'a str),
    /// The run is over.
    Finished(&'a Summary),
}

/// What becomes of the worker when a run is told to stop.
#[derive(Clone, Copy, Debug)]
pub enum WorkerFate<'a> {
    /// There is none.
    None,
    /// It is asked to end.
    Asked,
    /// It is killed at once, not asked first.
    Killed,
    /// It is the worker of this job and of an `orchestrate` that is gone; it was only waited for and goes on.
    GoesOn(&'a Job),
}

/// What a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// As a phrase that follows "waiting for": `the host`, `the worker of mac_cpu_vgg16_fp32_bs16_run1`.
    pub what: String,
    /// Who holds it, as a phrase, as far as that is known.
    pub holder: Option<String>,
}
