//! Finds the processes of a worker that outlived its `orchestrate` and do not hold its lock: [`Survivors`].
//!
//! A launcher such as `torchrun` starts the real workers. Python closes inherited files, so these workers do not
//! inherit the lock, and each has its own session. If `orchestrate`, `time` and the launcher are killed, only the
//! environment of a worker identifies its attempt. Where the system does not show environments, none are found.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::attempt::Attempt;
use crate::files::{AttemptDir, Fault};
use crate::processes::{FileNumber, ProcessTable};
use crate::protocol::MEASUREMENT_VARIABLE;

/// How much earlier than its attempt a process can appear to have started: the kernel counts in ticks.
const SLACK: Duration = Duration::from_secs(1);

/// The longest name of a process that the kernel keeps, in bytes.
const LONGEST_NAME: usize = 15;

/// The processes of all workers of this system. They are listed once, on first use.
#[derive(Debug)]
pub struct Survivors {
    table: ProcessTable,
    candidates: OnceCell<Vec<Candidate>>,
}

/// A process whose environment sets the path of a measurement.
#[derive(Debug)]
struct Candidate {
    pid: u32,
    /// The directory of its attempt, from its environment.
    directory: PathBuf,
}

/// A process of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// The id of its process group.
    pub group: u32,
    /// Its name in the kernel, at most [`LONGEST_NAME`] bytes.
    name: String,
    /// When it was started, in ticks since the boot. Together with its id, this identifies it.
    start: Option<u64>,
}

impl Survivor {
    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        let stat = ProcessTable::of_system().stat(self.pid);
        stat.is_some_and(|stat| stat.start == self.start && stat.state != 'Z')
    }

    /// Whether it is the `time` of `attempt`, which reports how the worker ended.
    pub fn is_time_of(&self, attempt: &Attempt) -> bool {
        let time = attempt.provenance.command.first().and_then(|path| Path::new(path).file_name()?.to_str());
        let is_called = |name: &str| name.bytes().take(LONGEST_NAME).eq(self.name.bytes());
        // It is the leader of the attempt's process group.
        self.pid == self.group && time.is_some_and(is_called)
    }
}

impl Survivors {
    /// The survivors of this system.
    pub fn of_system() -> Survivors {
        Survivors::in_table(ProcessTable::of_system())
    }

    /// The survivors among the processes of `table`.
    pub fn in_table(table: ProcessTable) -> Survivors {
        Survivors { table, candidates: OnceCell::new() }
    }

    /// The processes of the worker of `attempt` in `dir`, including `time`.
    ///
    /// Each was started on this boot, not before the attempt, with the path of this directory in its environment. Other
    /// processes are not mistaken for them, even if another store has been moved to the path.
    pub fn of(&self, dir: &AttemptDir, attempt: &Attempt) -> Vec<Survivor> {
        // Without this, the test campaign could not detect the fault.
        if Fault::NoLockInheritance.is_on() || attempt.provenance.host.boot_id != self.table.boot_id() {
            return Vec::new();
        }
        let Some(directory) = FileNumber::of(dir.path()) else { return Vec::new() };
        let mut candidates = self.candidates().iter();
        let mut found = Vec::new();
        while let Some(process) = candidates.find(|process| self.belongs_to(process, directory, dir)) {
            let Some(stat) = self.table.stat(process.pid) else { continue };
            let begun = attempt.began_since_boot();
            let is_older =
                stat.started_since_boot().zip(begun).is_some_and(|(start, begun)| start + SLACK < begun);
            if !is_older {
                found.push(Survivor {
                    pid: process.pid,
                    group: stat.group,
                    name: stat.name,
                    start: stat.start,
                });
            }
        }
        found
    }

    /// The names of the job directories, of any store, to which running processes belong.
    pub fn job_names(&self) -> BTreeSet<String> {
        let name = |process: &Candidate| -> Option<String> {
            Some(process.directory.ancestors().nth(2)?.file_name()?.to_str()?.to_owned())
        };
        self.candidates().iter().filter_map(name).collect()
    }

    /// Whether the process belongs to the attempt in `dir`, whose inode is `directory`.
    fn belongs_to(&self, process: &Candidate, directory: FileNumber, dir: &AttemptDir) -> bool {
        self.table.resolve_as(process.pid, &process.directory) == Some(directory)
            || self.was_moved_with(process, dir)
    }

    /// Whether the process belongs to the attempt in `dir`, whose store was moved after its start: the process still
    /// writes to the output files of that attempt.
    fn was_moved_with(&self, process: &Candidate, dir: &AttemptDir) -> bool {
        let tail = |path: &Path| path.iter().rev().take(3).map(ToOwned::to_owned).collect::<Vec<_>>();
        let outputs = [(1, dir.stdout()), (2, dir.stderr())];
        let writes = |(handle, path): &(u32, PathBuf)| {
            let file = FileNumber::of(path);
            file.is_some() && self.table.open_file(process.pid, *handle) == file
        };
        tail(&process.directory) == tail(dir.path()) && outputs.iter().any(writes)
    }

    /// All processes whose environment sets the path of a measurement, except this process, its ancestors, and any
    /// other `orchestrate`.
    fn candidates(&self) -> &[Candidate] {
        self.candidates.get_or_init(|| {
            let pids = self.table.pids().into_iter();
            let found: Vec<Candidate> = pids.filter_map(|pid| self.candidate(pid)).collect();
            if found.is_empty() {
                return found;
            }
            let us = std::process::id();
            let (ancestors, program) = (self.table.ancestors(us), self.table.program(us));
            let is_foreign = |process: &Candidate| {
                let is_program = program.is_some() && self.table.program(process.pid) == program;
                !ancestors.contains(&process.pid) && !is_program
            };
            found.into_iter().filter(is_foreign).collect()
        })
    }

    fn candidate(&self, pid: u32) -> Option<Candidate> {
        let path = self.table.path_in(pid, MEASUREMENT_VARIABLE)?;
        let directory = path.parent().filter(|directory| directory.is_absolute())?;
        Some(Candidate { pid, directory: directory.to_owned() })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::files::JobDir;
    use crate::processes::testing::FakeProc;
    use crate::store::tests::attempt;

    struct World {
        proc: FakeProc,
        directory: tempfile::TempDir,
    }

    impl World {
        /// The boot has no id, as in [`attempt`].
        fn new() -> World {
            World { proc: FakeProc::new(), directory: tempfile::tempdir().unwrap() }
        }

        /// An attempt in `store`.
        fn attempt_in(&self, store: &str, number: u32) -> AttemptDir {
            let dir = JobDir::at(self.directory.path().join(store).join("job-0123")).attempt(number);
            fs::create_dir_all(dir.path()).unwrap();
            fs::write(dir.stdout(), "").unwrap();
            dir
        }

        /// Adds a process that writes a measurement into `directory`.
        fn rank(&self, pid: u32, directory: &Path) -> &FakeProc {
            let text = format!("A=b\0{MEASUREMENT_VARIABLE}={}/measurement.json\0", directory.display());
            self.proc.process(pid, b"python", 'S', 1, pid).file(pid, "environ", text.as_bytes())
        }

        fn of(&self, dir: &AttemptDir, attempt: &Attempt) -> Vec<u32> {
            let found = Survivors::in_table(self.proc.table()).of(dir, attempt);
            found.into_iter().map(|survivor| survivor.pid).collect()
        }
    }

    #[test]
    fn a_process_belongs_to_the_attempt_that_its_environment_names_by_any_path() {
        let world = World::new();
        let [first, second, other] =
            [("runs", 1), ("runs", 2), ("other", 1)].map(|(s, n)| world.attempt_in(s, n));
        symlink(world.directory.path().join("runs"), world.directory.path().join("link")).unwrap();
        world.rank(11, first.path());
        world.rank(12, &world.directory.path().join("link/job-0123/attempts/01"));
        world.rank(21, second.path());
        world.rank(31, other.path());
        world.rank(41, Path::new("attempts/01"));
        world.proc.process(51, b"sh", 'S', 1, 51).file(51, "environ", b"HOME=/\0");
        let of = |dir| world.of(dir, &attempt());
        assert_eq!([of(&first), of(&second), of(&other)], [vec![11, 12], vec![21], vec![31]]);
        let names = Survivors::in_table(world.proc.table()).job_names();
        assert_eq!(Vec::from_iter(names), ["job-0123"]);
    }

    #[test]
    fn this_process_its_ancestors_and_other_orchestrates_are_not_survivors() {
        let world = World::new();
        let dir = world.attempt_in("runs", 1);
        let us = std::process::id();
        world.rank(us, dir.path()).process(us, b"orchestrate", 'S', 3, us);
        world.rank(3, dir.path()).process(3, b"sh", 'S', 1, 3);
        for pid in [us, 7] {
            world.rank(pid, dir.path());
            symlink("/proc/self/exe", world.proc.root().join(format!("{pid}/exe"))).unwrap();
        }
        world.proc.process(us, b"orchestrate", 'S', 3, us);
        world.rank(9, dir.path());
        assert_eq!(world.of(&dir, &attempt()), [9]);
    }

    #[test]
    fn attempts_of_another_boot_and_later_attempts_have_no_survivors() {
        let world = World::new();
        let dir = world.attempt_in("runs", 1);
        world.rank(9, dir.path());
        // It started 99 ticks after the boot.
        let begun = |s| attempt().started_since_boot(Some(Duration::from_secs(s)));
        assert_eq!([world.of(&dir, &begun(0)), world.of(&dir, &begun(5))], [vec![9], vec![]]);
        world.proc.system("sys/kernel/random/boot_id", b"another\n");
        assert!(world.of(&dir, &begun(0)).is_empty());
    }

    #[test]
    fn a_process_belongs_to_the_moved_store_whose_outputs_it_writes_and_not_to_a_copy() {
        let world = World::new();
        let [moved, copy] = ["moved", "copy"].map(|store| world.attempt_in(store, 1));
        let gone = world.directory.path().join("runs/job-0123/attempts/01");
        world.rank(9, &gone).handle(9, 1, &moved.stdout(), "flags:\t02\n");
        world.rank(10, &gone);
        world.rank(11, &gone.with_file_name("02")).handle(11, 1, &moved.stdout(), "flags:\t02\n");
        assert_eq!(world.of(&moved, &attempt()), [9]);
        assert!(world.of(&copy, &attempt()).is_empty());
    }

    #[test]
    fn paths_are_resolved_in_the_file_system_of_the_process() {
        let world = World::new();
        let dir = world.attempt_in("runs", 1);
        world.rank(9, dir.path());
        // In its container, another store is at that path.
        let inside = world.directory.path().join("container");
        fs::create_dir_all(inside.join(dir.path().strip_prefix("/").unwrap())).unwrap();
        symlink(&inside, world.proc.root().join("9/root")).unwrap();
        assert!(world.of(&dir, &attempt()).is_empty());
        // There, this store is at another path.
        world.rank(10, Path::new("/runs/job-0123/attempts/01"));
        symlink(world.directory.path(), world.proc.root().join("10/root")).unwrap();
        assert_eq!(world.of(&dir, &attempt()), [10]);
    }

    #[test]
    fn the_time_process_is_distinguished_from_its_children() {
        let mut attempt = attempt();
        attempt.provenance.command = vec!["/usr/bin/time".into(), "time".into()];
        let process = |pid, group, name: &str| Survivor { pid, group, name: name.into(), start: None };
        assert!(process(9, 9, "time").is_time_of(&attempt));
        assert!(
            !process(10, 9, "time").is_time_of(&attempt) && !process(9, 9, "python").is_time_of(&attempt)
        );
        assert!(
            !Survivor { pid: std::process::id(), ..process(9, 9, "time") }.is_alive(),
            "another process has its id"
        );
    }
}
