//! The protocol between `orchestrate` and `orchestrate on-host` on another host, as lines of JSON: [`HostQuestion`],
//! [`HostAnswer`]. Both have the same version: the program is copied there, or its version is compared first.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::JobId;
use crate::plan::{QueuedTask, TaskState};
use crate::store::{Had, INTERRUPTED, RunEnd, RunState};

/// The prefix of an answer, which ends at the end of its line. The output of a starting shell can precede it.
pub const ANSWER: &str = "orchestrate: ";

/// The exit code of a script if the directory does not exist.
pub(super) const NO_DIRECTORY: i32 = 96;

/// The exit code of a script if the program does not exist.
pub(super) const NO_PROGRAM: i32 = 97;

/// A query to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostQuestion {
    /// The names of the submissions.
    pub names: Vec<String>,
    /// The records of their jobs that the other side has.
    pub had: Had,
}

/// The answer of a host about the queried submissions. Those that never began there are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAnswer {
    /// The host's own name.
    pub host: String,
    /// The submissions.
    pub runs: Vec<HostRun>,
    /// How many results it has that the other side does not.
    pub results: usize,
}

/// The state of a submission on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRun {
    /// Its name.
    pub name: String,
    /// The process id of its run.
    pub process: u64,
    /// When it began, by the clock of that host.
    pub began: String,
    /// Its state.
    pub state: RunState,
    /// The jobs that it left without a result, with the reasons.
    #[serde(default)]
    pub left: BTreeMap<JobId, String>,
}

impl HostRun {
    /// Its only task, as a queue lists it.
    pub(super) fn task(&self, host: &str) -> QueuedTask {
        QueuedTask {
            array: self.process,
            task: Some(0),
            name: self.name.clone(),
            state: task_state(&self.state),
            reason: String::new(),
            node: host.to_owned(),
            submitted: self.began.clone(),
        }
    }
}

/// A run stopped by a signal was preempted, for example by a shutdown. A user stops it with `orchestrate stop`.
fn task_state(state: &RunState) -> TaskState {
    match state {
        RunState::Running => TaskState::Running,
        RunState::Lost => TaskState::NodeFailed,
        RunState::Ended(RunEnd { code: 0, .. }) => TaskState::Completed,
        RunState::Ended(RunEnd { code: INTERRUPTED, stopped_by: Some(by) }) if by.starts_with("SIG") => {
            TaskState::Preempted
        }
        RunState::Ended(RunEnd { code: INTERRUPTED, .. }) => TaskState::Cancelled,
        RunState::Ended(_) => TaskState::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_determines_the_state_of_its_task() {
        let ended = |code, by: Option<&str>| {
            task_state(&RunState::Ended(RunEnd { code, stopped_by: by.map(str::to_owned) }))
        };
        assert_eq!(ended(0, None), TaskState::Completed);
        assert_eq!(ended(10, None), TaskState::Failed);
        assert_eq!(ended(INTERRUPTED, Some("SIGTERM")), TaskState::Preempted);
        assert_eq!(ended(INTERRUPTED, Some("`orchestrate stop`")), TaskState::Cancelled);
        assert_eq!(ended(INTERRUPTED, None), TaskState::Cancelled);
        assert_eq!(task_state(&RunState::Lost), TaskState::NodeFailed);
    }

    #[test]
    fn answers_round_trip() {
        let run = HostRun {
            name: "orch-m-1".into(),
            process: 77,
            began: "2026-11-25T08:00:00Z".into(),
            state: RunState::Lost,
            left: BTreeMap::new(),
        };
        let answer = HostAnswer { host: "gpu-7".into(), runs: vec![run.clone()], results: 3 };
        let read: HostAnswer = serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap();
        assert_eq!(read, answer);
        let task = run.task("gpu-7");
        assert_eq!((task.array, task.node.as_str(), task.state), (77, "gpu-7", TaskState::NodeFailed));
    }
}
