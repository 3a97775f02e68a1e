//! Ends tasks that Slurm still lists although their jobs are done. They would keep a node until their time limit.

#![expect(clippy::disallowed_methods, reason = "a task has some time to end without being cancelled")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::queues::Queues;
use crate::cli::output::warn;

/// How long a task may stay listed after the end of its last job.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tasks that are listed although their jobs are done.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// When each was first seen.
    since: BTreeMap<String, Instant>,
    ended: BTreeSet<String>,
}

impl Idle {
    /// Ends those `listed` tasks whose [`PATIENCE`] has passed. Returns whether there are others, still to be ended.
    pub(super) async fn end(&mut self, queues: &mut Queues, listed: Vec<String>) -> bool {
        self.since.retain(|task, _| listed.contains(task));
        let mut goes_on = false;
        for task in listed.into_iter().filter(|task| !self.ended.contains(task)).collect::<Vec<_>>() {
            if self.since.entry(task.clone()).or_insert_with(Instant::now).elapsed() < PATIENCE {
                goes_on = true;
                continue;
            }
            match queues.cancel_task(&task).await {
                Ok(()) => {
                    warn(&format!("Slurm's task {task} is ended: it is still listed, and its jobs are done"));
                }
                Err(error) => warn(&format!("Slurm's task {task} is still listed: {error}")),
            }
            self.ended.insert(task);
        }
        goes_on
    }
}
