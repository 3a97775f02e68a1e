//! Parses the output of Slurm's programs. Pure.
//!
//! Tasks are requested as text, whose form has not changed in years, not as JSON, whose form changes with each release:
//! `12|0|RUNNING|None|n1|2026-11-25T03:00:00|orch-m-0123456789ab`.

use super::QueueError;
use crate::clean::cleaned;
use crate::plan::{QueuedTask, TaskState};

/// The fields of `squeue`: the array's id, the task's number, the state, the reason, the nodes, the time of the
/// submission, and the array's name. The name is last, since it is the only one that can contain a `|`.
pub(super) const FORMAT: &str = "%F|%K|%T|%r|%N|%V|%j";

const SQUEUE: &str = "squeue";

/// The tasks in `out`, the output of `squeue --noheader --array` with [`FORMAT`].
///
/// # Errors
/// [`QueueError::Strange`]: a line has fewer fields, or no number where there should be one.
pub(super) fn tasks(out: &str) -> Result<Vec<QueuedTask>, QueueError> {
    out.lines().filter(|line| !line.trim().is_empty()).map(task).collect()
}

fn task(line: &str) -> Result<QueuedTask, QueueError> {
    let strange = || QueueError::Strange { program: SQUEUE, line: harmless(line) };
    let fields: Vec<&str> = line.splitn(7, '|').map(str::trim).collect();
    let [array, task, state, reason, node, submitted, name] = fields[..] else { return Err(strange()) };
    let task = match task {
        "N/A" | "" => None,
        number => Some(number.parse().map_err(|_| strange())?),
    };
    Ok(QueuedTask {
        array: array.parse().map_err(|_| strange())?,
        task,
        name: name.to_owned(),
        state: state_of(state),
        reason: known(reason),
        node: known(node),
        submitted: submitted.to_owned(),
    })
}

/// Output of another program, made safe to save and to print.
pub(super) fn harmless(words: &str) -> String {
    cleaned(&words.to_owned())
}

/// A field; empty if it has no value.
fn known(field: &str) -> String {
    if matches!(field, "None" | "(null)" | "N/A") { String::new() } else { harmless(field) }
}

/// The state with Slurm's name `word`. An unknown state counts as running: a newer Slurm can have more states.
fn state_of(word: &str) -> TaskState {
    match word {
        "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
            TaskState::Pending
        }
        "COMPLETED" => TaskState::Completed,
        "FAILED" => TaskState::Failed,
        "TIMEOUT" | "DEADLINE" => TaskState::TimedOut,
        "OUT_OF_MEMORY" => TaskState::OutOfMemory,
        "CANCELLED" => TaskState::Cancelled,
        "NODE_FAIL" | "REVOKED" => TaskState::NodeFailed,
        "PREEMPTED" => TaskState::Preempted,
        "BOOT_FAIL" => TaskState::BootFailed,
        _ => TaskState::Running,
    }
}

/// The id in `out`, the output of `sbatch --parsable`: `4711`, or `4711;cluster`. Sites can configure text before it.
///
/// # Errors
/// [`QueueError::Strange`].
pub(super) fn array_id(out: &str) -> Result<u64, QueueError> {
    let last = out.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let id = last.split(';').next().unwrap_or_default();
    id.parse().map_err(|_| QueueError::Strange { program: "sbatch", line: harmless(last) })
}

/// The longest array, from the output of `scontrol show config`: task numbers must be below `MaxArraySize`. `None` if
/// that is missing.
pub(super) fn longest_array(config: &str) -> Option<usize> {
    let value = config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "MaxArraySize").then_some(value.trim())
    })?;
    value.parse().ok().filter(|most| *most > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Slurm 22.05 prints it.
    const LISTED: &str = "\
        12|0|COMPLETED|None|n1|2026-11-25T03:00:00|orch-m-0123456789ab\n\
        12|1|RUNNING|None|n[1-2]|2026-11-25T03:00:00|orch-m-0123456789ab\n\
        12|2|PENDING|Resources||2026-11-25T03:00:00|orch-m-0123456789ab\n\
        13|N/A|COMPLETING|NonZeroExitCode|n2|2026-11-25T03:00:01|a | b\n";

    #[test]
    fn tasks_are_read_line_by_line() {
        let found = tasks(LISTED).unwrap();
        let states: Vec<TaskState> = found.iter().map(|task| task.state).collect();
        use TaskState::{Completed, Pending, Running};
        assert_eq!(states, [Completed, Running, Pending, Running]);
        assert_eq!((found[0].array, found[0].task, found[0].reason.as_str()), (12, Some(0), ""));
        assert_eq!((found[1].node.as_str(), found[2].reason.as_str()), ("n[1-2]", "Resources"));
        assert_eq!((found[3].task, found[3].name.as_str()), (None, "a | b"));
        assert!(tasks("\n").unwrap().is_empty());
    }

    #[test]
    fn invalid_lists_of_tasks_are_errors() {
        for line in
            ["slurm_load_jobs error: Unable to contact slurm controller", "x|0|RUNNING||||n", "1|two|A||||n"]
        {
            let error = tasks(line).unwrap_err();
            assert!(matches!(error, QueueError::Strange { .. }), "{line}: {error}");
        }
    }

    #[test]
    fn unknown_states_are_live() {
        assert!(state_of("STAGE_OUT").is_live() && state_of("SOMETHING_NEW").is_live());
        let ends = ["COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "NODE_FAIL", "PREEMPTED"];
        assert!(ends.iter().all(|end| !state_of(end).is_live()));
    }

    #[test]
    fn an_id_is_read_with_its_cluster_and_after_a_greeting() {
        assert_eq!(array_id("4711\n").unwrap(), 4711);
        assert_eq!(array_id("welcome to the cluster\n4711;alpha\n\n").unwrap(), 4711);
        assert!(array_id("").is_err() && array_id("Submitted batch job 4711").is_err());
    }

    #[test]
    fn the_longest_array_is_that_of_the_cluster() {
        let config = "MaxArraySize            = 1001\nMaxJobCount = 10000\n";
        assert_eq!(longest_array(config), Some(1001));
        assert_eq!((longest_array(""), longest_array("MaxArraySize = 0")), (None, None));
    }
}
