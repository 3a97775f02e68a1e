//! What a task of Slurm printed that ended without a result: where that is, and its last line. That is where Slurm
//! tells what became of it, such as a limit of memory.

use std::path::PathBuf;

use crate::files::tail;
use crate::plan::{QueueId, Whereabouts};
use crate::record::last_line;
use crate::store::Store;

/// How much of the end is read, in bytes.
const END: u64 = 8192;

/// What a task printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Printed {
    path: PathBuf,
    last_line: Option<String>,
}

impl Printed {
    /// How it ends, to be added to a sentence; nothing if the task said nothing.
    pub(super) fn last_words(&self) -> String {
        self.last_line.as_ref().map(|line| format!(": {line}")).unwrap_or_default()
    }

    /// Where all of it is, as a clause.
    pub(super) fn place(&self) -> String {
        format!("what it printed is in {}", self.path.display())
    }
}

/// What the task at `place` printed; `None` if it has printed nothing that is here.
pub(super) fn what_was_printed(store: &Store, place: &Whereabouts) -> Option<Printed> {
    let (QueueId::Slurm, Some(task)) = (&place.queue, &place.task) else { return None };
    let path = store.submission_files(&place.submission).printed_by(task);
    let end = tail(&path, END)?;
    Some(Printed { path, last_line: last_line(&end) })
}

/// Whether `words`, a state of Slurm or what its daemon printed, say that a task had too little memory.
pub(super) fn lacked_memory(words: &str) -> bool {
    let words = words.to_lowercase();
    ["memory limit", "out_of_memory", "out-of-memory", "out of memory", "oom_kill", "oom-kill", "oom kill"]
        .iter()
        .any(|told| words.contains(told))
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
    fn every_version_of_slurm_says_in_its_own_words_that_memory_was_short() {
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
    fn the_last_words_of_a_task_are_told_with_their_place() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("runs")).unwrap();
        let at = place(QueueId::Slurm, Some("4711_3"));
        assert_eq!(what_was_printed(&store, &at), None);
        let path = store.submission_files("orch-m-1").printed_by("4711_3");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (printed, words) in [("", ""), ("one\n\u{1b}[31mout of memory\n\n", ": out of memory")] {
            fs::write(&path, printed).unwrap();
            let found = what_was_printed(&store, &at).unwrap();
            assert_eq!(found.last_words(), words);
            assert_eq!(found.place(), format!("what it printed is in {}", path.display()));
        }
        let host = QueueId::Ssh { host: "a".into(), directory: "d".into() };
        assert_eq!(what_was_printed(&store, &place(host, Some("0_0"))), None);
        assert_eq!(what_was_printed(&store, &place(QueueId::Slurm, None)), None);
    }
}
