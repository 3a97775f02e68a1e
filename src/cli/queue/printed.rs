//! The output of a Slurm task that ended without a result: its path and its last line. Slurm writes there why it
//! ended the task, for example because of its memory limit.

use std::path::PathBuf;

use crate::files::tail;
use crate::plan::{QueueId, Whereabouts};
use crate::record::last_line;
use crate::store::Store;

/// The most bytes that are read, from the end.
const END: u64 = 8192;

/// The output of a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Printed {
    path: PathBuf,
    last_line: Option<String>,
}

impl Printed {
    /// The last line, to append to a sentence: `: out of memory`. Empty if the task printed nothing.
    pub(super) fn last_words(&self) -> String {
        self.last_line.as_ref().map(|line| format!(": {line}")).unwrap_or_default()
    }

    /// The path of the whole output, as a clause.
    pub(super) fn place(&self) -> String {
        format!("its output is in {}", self.path.display())
    }
}

/// The output of the task at `place`; `None` if there is none on this machine.
pub(super) fn printed_output(store: &Store, place: &Whereabouts) -> Option<Printed> {
    let (QueueId::Slurm, Some(task)) = (&place.queue, &place.task) else { return None };
    let path = store.submission_files(&place.submission).printed_by(task);
    let end = tail(&path, END)?;
    Some(Printed { path, last_line: last_line(&end) })
}

/// Whether `words`, a state of Slurm or the output of its daemon, mean that a task had too little memory.
pub(super) fn lacked_memory(words: &str) -> bool {
    let words = words.to_lowercase();
    ["memory limit", "out_of_memory", "out-of-memory", "out of memory", "oom_kill", "oom-kill", "oom kill"]
        .iter()
        .any(|phrase| words.contains(phrase))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use std::fs;

    use super::*;
    use crate::plan::{Fate, TaskState};

    fn place(queue: QueueId, task: Option<&str>) -> Whereabouts {
        Whereabouts {
            submission: "orch-m-1".into(),
            queue,
            task: task.map(str::to_owned),
            attempts_before: 0,
            jobs: 1,
            is_rerun: false,
            fate: Fate::Over(TaskState::Failed),
            leftover: None,
        }
    }

    #[test]
    fn recognises_out_of_memory_messages_of_all_slurm_versions() {
        for words in [
            "Slurm's task 1_0 ended OUT_OF_MEMORY and left no result",
            "slurmstepd-n1: error: Exceeded job memory limit",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.",
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 7.batch cgroup.",
            "Some of your processes may have been killed by the cgroup out-of-memory handler.",
        ] {
            assert!(lacked_memory(words), "{words}");
        }
        for words in
            ["", "Slurm's task 1_0 failed and left no result: no room to boot", "exceeded time limit"]
        {
            assert!(!lacked_memory(words), "{words}");
        }
    }

    #[test]
    fn printed_output_has_its_last_line_and_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("runs")).unwrap();
        let at = place(QueueId::Slurm, Some("4711_3"));
        assert_eq!(printed_output(&store, &at), None);
        let path = store.submission_files("orch-m-1").printed_by("4711_3");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (printed, words) in [("", ""), ("one\n\u{1b}[31mout of memory\n\n", ": out of memory")] {
            fs::write(&path, printed).unwrap();
            let found = printed_output(&store, &at).unwrap();
            assert_eq!(found.last_words(), words);
            assert_eq!(found.place(), format!("its output is in {}", path.display()));
        }
        let host = QueueId::Ssh { host: "a".into(), directory: "d".into() };
        assert_eq!(printed_output(&store, &place(host, Some("0_0"))), None);
        assert_eq!(printed_output(&store, &place(QueueId::Slurm, None)), None);
    }
}
