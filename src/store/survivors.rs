//! The processes of a worker that live on without its `orchestrate` and keep no lock.
//!
//! A launcher such as `torchrun` starts the real workers. Python closes what they would inherit, so they keep no lock,
//! and they have sessions of their own. If `orchestrate`, `time` and the launcher are killed, nothing but their
//! environment says whose they are. Where the system does not show it, none are found.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::attempt::Attempt;
use crate::files::{AttemptDir, Fault};
use crate::processes::{FileNumber, ProcessTable};
use crate::protocol::MEASUREMENT_VARIABLE;

/// How much earlier than its attempt a process can seem to have started: the kernel counts in ticks.
const SLACK: Duration = Duration::from_secs(1);

/// The longest name of a process that the kernel keeps, in bytes.
const LONGEST_NAME: usize = 15;

/// The processes of all workers of this system. They are listed once, when somebody asks for some.
#[derive(Debug)]
pub struct Survivors {
    table: ProcessTable,
    named: OnceCell<Vec<Named>>,
}

/// A process that was started with a place for a measurement.
#[derive(Debug)]
struct Named {
    pid: u32,
    /// The directory of its attempt, as its environment names it.
    directory: PathBuf,
}

/// A process of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its number.
    pub pid: u32,
    /// The number of its process group.
    pub group: u32,
    /// Its name in the kernel.
    name: String,
    /// When it was started, in ticks. With its number, that tells it from all others.
    start: Option<u64>,
}

impl Survivor {
    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        let stat = ProcessTable::of_system().stat(self.pid);
        stat.is_some_and(|stat| stat.start == self.start && stat.state != 'Z')
    }

    /// Whether it is the `time` at the head of `attempt`, which reports how the worker ends.
    pub fn is_time_of(&self, attempt: &Attempt) -> bool {
        let time = attempt.provenance.command.first().and_then(|path| Path::new(path).file_name()?.to_str());
        let is_called = |name: &str| name.bytes().take(LONGEST_NAME).eq(self.name.bytes());
        // It leads the group in which the chain was started.
        self.pid == self.group && time.is_some_and(is_called)
    }
}

impl Survivors {
    /// Those of this system.
    pub fn of_system() -> Survivors {
        Survivors::in_table(ProcessTable::of_system())
    }

    /// Those among the processes of `table`.
    pub fn in_table(table: ProcessTable) -> Survivors {
        Survivors { table, named: OnceCell::new() }
    }

    /// The processes of the worker of `attempt` in `dir`, `time` included.
    ///
    /// Each of them was started on this boot with the path of that very directory in its environment, and not before
    /// the attempt. No other process can be taken for one of them, even if another store has come to stand at the path.
    pub fn of(&self, dir: &AttemptDir, attempt: &Attempt) -> Vec<Survivor> {
        // A campaign must be able to see this fault, which nothing else would let it see.
        if Fault::NoLockInheritance.is_on() || attempt.provenance.host.boot_id != self.table.boot_id() {
            return Vec::new();
        }
        let Some(directory) = FileNumber::of(dir.path()) else { return Vec::new() };
        let mut named = self.named().iter();
        let mut found = Vec::new();
        while let Some(named) = named.find(|named| self.belongs_to(named, directory, dir)) {
            let Some(stat) = self.table.stat(named.pid) else { continue };
            let begun = attempt.began_since_boot();
            let is_older =
                stat.started_since_boot().zip(begun).is_some_and(|(start, begun)| start + SLACK < begun);
            if !is_older {
                found.push(Survivor {
                    pid: named.pid,
                    group: stat.group,
                    name: stat.name,
                    start: stat.start,
                });
            }
        }
        found
    }

    /// The names of the directories of jobs, of any store, that have processes.
    pub fn job_names(&self) -> BTreeSet<String> {
        let name =
            |named: &Named| Some(named.directory.ancestors().nth(2)?.file_name()?.to_str()?.to_owned());
        self.named().iter().filter_map(name).collect()
    }

    /// Whether the process belongs to the attempt in `dir`, which is `directory`.
    fn belongs_to(&self, named: &Named, directory: FileNumber, dir: &AttemptDir) -> bool {
        self.table.find_as(named.pid, &named.directory) == Some(directory) || self.was_moved_with(named, dir)
    }

    /// Whether the process belongs to the attempt in `dir`, whose store stood elsewhere when it was started: it still
    /// writes to the outputs of that attempt.
    fn was_moved_with(&self, named: &Named, dir: &AttemptDir) -> bool {
        let tail = |path: &Path| path.iter().rev().take(3).map(ToOwned::to_owned).collect::<Vec<_>>();
        let outputs = [(1, dir.stdout()), (2, dir.stderr())];
        let writes = |(handle, path): &(u32, PathBuf)| {
            let file = FileNumber::of(path);
            file.is_some() && self.table.open_file(named.pid, *handle) == file
        };
        tail(&named.directory) == tail(dir.path()) && outputs.iter().any(writes)
    }

    /// All processes that were started with a place for a measurement, but for us, those who started us, and any other
    /// `orchestrate`.
    fn named(&self) -> &[Named] {
        self.named.get_or_init(|| {
            let pids = self.table.pids().into_iter();
            let found: Vec<Named> = pids.filter_map(|pid| self.look_at(pid)).collect();
            if found.is_empty() {
                return found;
            }
            let us = std::process::id();
            let (line, program) = (self.table.line_of(us), self.table.program(us));
            let is_foreign = |named: &Named| {
                let is_program = program.is_some() && self.table.program(named.pid) == program;
                !line.contains(&named.pid) && !is_program
            };
            found.into_iter().filter(is_foreign).collect()
        })
    }

    fn look_at(&self, pid: u32) -> Option<Named> {
        let path = self.table.path_in(pid, MEASUREMENT_VARIABLE)?;
        let directory = path.parent().filter(|directory| directory.is_absolute())?;
        Some(Named { pid, directory: directory.to_owned() })
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
        /// As in the example of an attempt, the boot has no name.
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
    fn neither_we_nor_who_started_us_nor_another_orchestrate_is_a_survivor() {
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
    fn an_attempt_of_another_boot_has_none_and_neither_has_one_that_began_later() {
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
    fn what_writes_to_the_outputs_of_a_store_that_was_moved_belongs_to_it_and_to_no_copy() {
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
    fn what_a_path_means_is_asked_where_the_process_is() {
        let world = World::new();
        let dir = world.attempt_in("runs", 1);
        world.rank(9, dir.path());
        // In its container, another store stands at that path.
        let inside = world.directory.path().join("container");
        fs::create_dir_all(inside.join(dir.path().strip_prefix("/").unwrap())).unwrap();
        symlink(&inside, world.proc.root().join("9/root")).unwrap();
        assert!(world.of(&dir, &attempt()).is_empty());
        // And ours stands at another one.
        world.rank(10, Path::new("/runs/job-0123/attempts/01"));
        symlink(world.directory.path(), world.proc.root().join("10/root")).unwrap();
        assert_eq!(world.of(&dir, &attempt()), [10]);
    }

    #[test]
    fn the_head_of_the_chain_is_told_from_what_it_started() {
        let mut attempt = attempt();
        attempt.provenance.command = vec!["/usr/bin/time".into(), "time".into()];
        let process = |pid, group, name: &str| Survivor { pid, group, name: name.into(), start: None };
        assert!(process(9, 9, "time").is_time_of(&attempt));
        assert!(
            !process(10, 9, "time").is_time_of(&attempt) && !process(9, 9, "python").is_time_of(&attempt)
        );
        assert!(
            !Survivor { pid: std::process::id(), ..process(9, 9, "time") }.is_alive(),
            "another has its number"
        );
    }
}
