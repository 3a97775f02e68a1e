//! Ends tasks that Slurm still lists although their jobs are done. They would keep a node until their time limit.

#![expect(clippy::disallowed_methods, reason = "a task that ends by itself gets some time for that")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::queues::Queues;
use crate::cli::output::warn;

/// How long a task may take to end by itself, after its last job.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was seen of such tasks.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Since when each is.
    since: BTreeMap<String, Instant>,
    ended: BTreeSet<String>,
}

impl Idle {
    /// Ends those of the `listed` tasks that have had their time. Returns whether some still have it.
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
