//! Finds and ends the processes of a worker whose `orchestrate` died: [`Groups`], [`end_worker`].

use std::time::Duration;

use super::process::{Group, kill_process};
use crate::files::AttemptDir;
use crate::host::probe_process_start;
use crate::processes::ProcessTable;
use crate::store::{Attempt, Survivor, Survivors};

/// The process groups of a worker. Processes that a launcher starts can be in separate groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Groups(Vec<Group>);

impl Groups {
    /// The groups of the worker of `attempt` in `dir`. `None` if the worker has ended, or if the system has no `/proc`
    /// and the group was not noted.
    pub(super) fn of_worker(dir: &AttemptDir, attempt: &Attempt) -> Option<Groups> {
        Groups::of_worker_in(&ProcessTable::of_system(), dir, attempt, probe_process_start)
    }

    /// [`Groups::of_worker`] among the processes of `table`. Without a table, `start` returns when a process started.
    fn of_worker_in(
        table: &ProcessTable,
        dir: &AttemptDir,
        attempt: &Attempt,
        start: impl Fn(u32) -> Option<String>,
    ) -> Option<Groups> {
        if table.is_shown() {
            return Groups::of(&Survivors::in_table(table.clone()).of(dir, attempt));
        }
        let noted = attempt.group().filter(|noted| start(noted.leader).as_ref() == Some(&noted.start))?;
        Some(Groups(vec![Group::numbered(noted.leader)?]))
    }

    /// The groups of `survivors`, without that of this process.
    fn of(survivors: &[Survivor]) -> Option<Groups> {
        let mut numbers: Vec<u32> = survivors.iter().map(|survivor| survivor.group).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let groups = numbers.into_iter().filter_map(Group::numbered).filter(|group| !group.is_ours());
        (!survivors.is_empty()).then(|| Groups(groups.collect()))
    }

    /// Asks all processes of the groups to end.
    pub(super) fn interrupt(&self) {
        self.0.iter().for_each(|group| group.interrupt());
    }

    /// Kills all processes of the groups.
    pub(super) fn kill(&self) {
        self.0.iter().for_each(|group| group.kill());
    }

    /// Waits until all groups are empty, for at most `bound`.
    pub(super) async fn are_gone_within(&self, bound: Duration) {
        let gone = async {
            for group in &self.0 {
                group.is_gone_within(bound).await;
            }
        };
        // Otherwise, the caller kills them.
        let _ = tokio::time::timeout(bound, gone).await;
    }
}

/// Ends the worker of `attempt` in `dir`: SIGINT first, SIGKILL after the grace of its limits. Returns whether it was
/// running.
pub(super) async fn end_worker(dir: &AttemptDir, attempt: &Attempt) -> bool {
    let Some(groups) = Groups::of_worker(dir, attempt) else { return false };
    groups.interrupt();
    groups.are_gone_within(attempt.limits.grace).await;
    groups.kill();
    kill_survivors(dir, attempt);
    true
}

/// Kills the processes of the worker of `attempt` in `dir`, in all groups, since they would keep the device and its
/// lock.
pub(super) fn kill_survivors(dir: &AttemptDir, attempt: &Attempt) {
    // A process can start another one during the search. A few rounds catch all but malicious ones.
    for _ in 0..10 {
        let found = Survivors::of_system().of(dir, attempt);
        if found.is_empty() {
            break;
        }
        found.into_iter().for_each(|survivor| kill_process(survivor.pid));
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::{JobDir, to_sealed_json};
    use crate::processes::testing::FakeProc;
    use crate::protocol::MEASUREMENT_VARIABLE;
    use crate::store::{WorkerGroup, example_attempt as attempt};

    fn groups(numbers: &[u32]) -> Groups {
        Groups(numbers.iter().map(|number| Group::numbered(*number).unwrap()).collect())
    }

    #[test]
    fn a_worker_has_the_groups_of_all_of_its_processes() {
        let proc = FakeProc::new();
        let directory = tempfile::tempdir().unwrap();
        let dir = JobDir::at(directory.path().to_owned()).attempt(1);
        fs::create_dir_all(dir.path()).unwrap();
        fs::create_dir(proc.root().join("self")).unwrap();
        let environment = format!("HOME=/\0{MEASUREMENT_VARIABLE}={}\0", dir.measurement().display());
        proc.process(8, b"shell", 'S', 1, 8)
            .process(9, b"time", 'S', 8, 9)
            .file(9, "environ", environment.as_bytes())
            .process(12, b"rank", 'S', 1, 12)
            .file(12, "environ", environment.as_bytes())
            .process(13, b"loader", 'S', 12, 12)
            .file(13, "environ", environment.as_bytes());
        // The table is complete, so the noted group is not used.
        let noted = attempt().with_worker_in(WorkerGroup { leader: 8, start: "now".into() });
        let find = |dir| Groups::of_worker_in(&proc.table(), dir, &noted, |_| panic!("asked"));
        assert_eq!(find(&dir), Some(groups(&[9, 12])));
        assert_eq!(find(&JobDir::at(directory.path().to_owned()).attempt(2)), None);
        assert_eq!(Group::numbered(9).unwrap().to_note_in(&proc.table(), |_| panic!("asked")), None);
    }

    #[test]
    fn without_a_process_table_a_worker_is_found_by_its_noted_group() {
        let proc = FakeProc::new();
        let table = ProcessTable::in_directory(proc.root().join("nowhere"));
        let directory = tempfile::tempdir().unwrap();
        let dir = JobDir::at(directory.path().to_owned()).attempt(1);
        let start = |pid: u32| (pid == 9).then(|| "Mon Nov 23 01:02:03 2026".to_owned());
        let find = |start: &dyn Fn(u32) -> Option<String>| {
            Groups::of_worker_in(&table, &dir, &Attempt::load(&dir).unwrap(), start)
        };
        let attempt = attempt();
        fs::create_dir_all(dir.path()).unwrap();
        fs::write(dir.attempt(), to_sealed_json(&attempt)).unwrap();
        assert_eq!(find(&start), None, "nothing was noted, as in an attempt of an older version");
        assert_eq!(Group::numbered(8).unwrap().to_note_in(&table, start), None, "an id alone is not noted");
        attempt.note_group(&dir, Group::numbered(9).unwrap().to_note_in(&table, start).unwrap()).unwrap();
        assert_eq!(find(&start), Some(groups(&[9])));
        assert_eq!(find(&|_| Some("Mon Nov 23 01:02:04 2026".into())), None, "another process has its id");
        assert_eq!(find(&|_| None), None, "it has ended");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
