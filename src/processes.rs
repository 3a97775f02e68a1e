//! The processes of this system, as the kernel lists them in `/proc`: their ids, families, names, times and locks.
//! The rooms `lock`, `store`, `host` and `run` call it; it uses `clean` only. It never signals a process and never
//! judges one.
//!
//! Information that the kernel does not show to this user is absent. On a system without `/proc`, such as macOS,
//! everything is absent.
#![expect(clippy::disallowed_methods, reason = "the kernel shows processes as files")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

use crate::clean::clean_text;

/// The processes that the kernel lists in a directory.
#[derive(Clone, Debug)]
pub struct ProcessTable {
    root: PathBuf,
}

/// The content of `/proc/<pid>/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its name in the kernel, at most 15 bytes.
    pub name: String,
    /// `R` for running, `S` for sleeping, `Z` for a zombie, and others.
    pub state: char,
    /// Its parent's id; 0 if the parent is not in this PID namespace.
    pub parent: u32,
    /// The id of its process group.
    pub group: u32,
    /// The processor time that it has used, in ticks: in user and in system mode.
    pub ticks: u64,
    /// When it was started, in ticks since the system booted. With the boot, this distinguishes it from all processes
    /// with the same id.
    pub start: Option<u64>,
}

/// Identifies a file independently of its path: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNumber {
    device: u64,
    number: u64,
}

impl FileNumber {
    /// The identity of the file or directory at `path`. Follows links.
    pub fn of(path: &Path) -> Option<FileNumber> {
        let data = fs::metadata(path).ok()?;
        Some(FileNumber { device: data.dev(), number: data.ino() })
    }
}

impl ProcessStat {
    /// How long after the boot of the system the process was started.
    pub fn started_since_boot(&self) -> Option<Duration> {
        let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
        Some(Duration::from_secs_f64(self.start? as f64 / per_second as f64))
    }
}

impl ProcessTable {
    /// The processes of this system.
    pub fn of_system() -> ProcessTable {
        ProcessTable { root: PathBuf::from("/proc") }
    }

    /// The processes that are listed in `root`, which is `/proc` except in tests.
    pub fn in_directory(root: PathBuf) -> ProcessTable {
        ProcessTable { root }
    }

    /// Whether the kernel lists processes at all. It always lists the calling process.
    pub fn is_shown(&self) -> bool {
        self.root.join("self").exists()
    }

    /// The process `pid`, the children of its first thread, their children, and so on: at most `most` processes.
    /// Children that were started by other threads are not found.
    pub fn family(&self, pid: u32, most: usize) -> Vec<u32> {
        let mut family = vec![pid];
        let mut asked = 0;
        while asked < family.len() && family.len() < most {
            let parent = family[asked];
            let text = lossy(self.read(parent, &format!("task/{parent}/children")).unwrap_or_default());
            family.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
            asked += 1;
        }
        family.truncate(most);
        family
    }

    /// The ids of all processes, sorted.
    pub fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    /// Identifies this boot of the system.
    pub fn boot_id(&self) -> Option<String> {
        let text = fs::read_to_string(self.root.join("sys/kernel/random/boot_id")).ok()?;
        Some(text.trim().to_owned())
    }

    /// The process `pid`, its parent, that one's parent, and so on.
    pub fn ancestors(&self, pid: u32) -> BTreeSet<u32> {
        let mut line = BTreeSet::new();
        let mut next = Some(pid);
        // An id that is reused meanwhile can make a cycle.
        while let Some(pid) = next.filter(|pid| *pid > 0 && line.insert(*pid)) {
            next = self.stat(pid).map(|stat| stat.parent);
        }
        line
    }

    /// The family and the times of the process `pid`.
    pub fn stat(&self, pid: u32) -> Option<ProcessStat> {
        parse_stat(&lossy(self.read(pid, "stat")?))
    }

    /// The name of the process `pid` in the kernel.
    pub fn name(&self, pid: u32) -> Option<String> {
        Some(clean_text(lossy(self.read(pid, "comm")?).trim()).into_owned())
    }

    /// Whether the process `pid` was started with `variable`, a `NAME=value`, in its environment.
    pub fn was_started_with(&self, pid: u32, variable: &[u8]) -> bool {
        let environment = self.read(pid, "environ").unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable)
    }

    /// The path in the environment variable `name` with which the process `pid` was started, unresolved.
    pub fn path_in(&self, pid: u32, name: &str) -> Option<PathBuf> {
        let environment = self.read(pid, "environ")?;
        let value = environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        Some(PathBuf::from(OsString::from_vec(value.to_vec())))
    }

    /// The file at the absolute `path` from the point of view of the process `pid`, which may be in a container.
    pub fn resolve_as(&self, pid: u32, path: &Path) -> Option<FileNumber> {
        let root = self.root.join(pid.to_string()).join("root");
        match fs::metadata(&root).is_ok() {
            true => FileNumber::of(&root.join(path.strip_prefix("/").ok()?)),
            false => FileNumber::of(path),
        }
    }

    /// The file that the process `pid` has open as file descriptor `handle`.
    pub fn open_file(&self, pid: u32, handle: u32) -> Option<FileNumber> {
        FileNumber::of(&self.root.join(pid.to_string()).join("fd").join(handle.to_string()))
    }

    /// The program that the process `pid` executes.
    pub fn program(&self, pid: u32) -> Option<FileNumber> {
        FileNumber::of(&self.root.join(pid.to_string()).join("exe"))
    }

    /// Whether the process `pid` holds a lock on `file` through one of its handles. A process that only waits for the
    /// lock has a handle without it.
    pub fn keeps_lock(&self, pid: u32, file: &Metadata) -> bool {
        let is_it = |data: Metadata| (data.dev(), data.ino()) == (file.dev(), file.ino());
        let directory = self.root.join(pid.to_string());
        let handles = fs::read_dir(directory.join("fd")).into_iter().flatten().flatten();
        handles.filter(|handle| fs::metadata(handle.path()).is_ok_and(is_it)).any(|handle| {
            let info = fs::read_to_string(directory.join("fdinfo").join(handle.file_name()));
            info.is_ok_and(|text| text.lines().any(|line| line.starts_with("lock:")))
        })
    }

    fn read(&self, pid: u32, file: &str) -> Option<Vec<u8>> {
        fs::read(self.root.join(pid.to_string()).join(file)).ok()
    }
}

/// The name of a process can be any bytes, UTF-8 or not. It is cleaned before it is printed.
fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses `7 (a name) S PARENT GROUP …`, where fields 14 and 15 are the times in user and in system mode, and field 22
/// is the start. The name can contain blanks and parentheses.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    let (head, rest) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    // The field after the name is the third.
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let [state, parent, group, _, _, _, _, _, _, _, _, user, system, ref later @ ..] = fields[..] else {
        return None;
    };
    Some(ProcessStat {
        name: clean_text(name).into_owned(),
        state: state.chars().next()?,
        parent: parent.parse().ok()?,
        group: group.parse().ok()?,
        ticks: user.parse::<u64>().ok()?.checked_add(system.parse().ok()?)?,
        start: later.get(6).and_then(|start| start.parse().ok()),
    })
}

/// Fake processes for tests.
#[cfg(test)]
pub(crate) mod testing {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    /// A fake `/proc`, empty at first.
    pub(crate) struct FakeProc(tempfile::TempDir);

    impl FakeProc {
        pub(crate) fn new() -> FakeProc {
            FakeProc(tempfile::tempdir().unwrap())
        }

        pub(crate) fn table(&self) -> ProcessTable {
            ProcessTable { root: self.root().to_owned() }
        }

        pub(crate) fn root(&self) -> &Path {
            self.0.path()
        }

        /// Adds a file of the process `pid`.
        pub(crate) fn file(&self, pid: u32, name: &str, contents: &[u8]) -> &Self {
            let path = self.0.path().join(pid.to_string()).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
            self
        }

        /// Adds a file of the system.
        pub(crate) fn system(&self, name: &str, contents: &[u8]) -> &Self {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
            self
        }

        /// Adds a process called `name`, which can be any bytes.
        pub(crate) fn process(&self, pid: u32, name: &[u8], state: char, parent: u32, group: u32) -> &Self {
            let rest = format!(") {state} {parent} {group} 7 0 -1 4194304 1 2 3 4 120 30 5 6 20 0 1 0 99\n");
            self.file(pid, "stat", &[pid.to_string().as_bytes(), b" (", name, rest.as_bytes()].concat());
            self.file(pid, "comm", &[name, b"\n"].concat())
        }

        /// Adds the handle `number` of the process `pid` on the file at `target`, described by `info`.
        pub(crate) fn handle(&self, pid: u32, number: u32, target: &Path, info: &str) -> &Self {
            let directory = self.0.path().join(pid.to_string()).join("fd");
            fs::create_dir_all(&directory).unwrap();
            symlink(target, directory.join(number.to_string())).unwrap();
            self.file(pid, &format!("fdinfo/{number}"), info.as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::FakeProc;
    use super::*;

    #[test]
    fn processes_are_listed_by_id_and_other_entries_are_skipped() {
        let proc = FakeProc::new();
        proc.process(10, b"ten", 'S', 1, 10).process(9, b"nine", 'S', 1, 9);
        fs::create_dir(proc.root().join("self")).unwrap();
        fs::write(proc.root().join("meminfo"), "").unwrap();
        assert_eq!(proc.table().pids(), [9, 10]);
        assert_eq!(proc.table().stat(11), None);
        let nowhere = ProcessTable { root: proc.root().join("nowhere") };
        assert_eq!((nowhere.pids(), nowhere.stat(9), nowhere.name(9)), (vec![], None, None));
        assert!(proc.table().is_shown() && !nowhere.is_shown());
    }

    #[test]
    fn a_name_can_contain_anything() {
        let proc = FakeProc::new();
        proc.process(7, b"tmux: (server) S 3", 'Z', 1, 5).process(8, b"caf\xe9)", 'R', 7, 5);
        let tmux = ProcessStat {
            name: "tmux: (server) S 3".into(),
            state: 'Z',
            parent: 1,
            group: 5,
            ticks: 150,
            start: Some(99),
        };
        assert_eq!(proc.table().stat(7), Some(tmux.clone()));
        let latin = ProcessStat { name: "caf\u{fffd})".into(), state: 'R', parent: 7, ..tmux };
        assert_eq!(proc.table().stat(8), Some(latin));
        assert_eq!(proc.table().name(8).as_deref(), Some("caf\u{fffd})"));
    }

    #[test]
    fn a_torn_stat_is_absent() {
        let whole = "7 (x) S 1 7 7 0 -1 4194304 1 2 3 4 120 30 5";
        assert_eq!(parse_stat(whole).map(|stat| stat.ticks), Some(150));
        let times = whole.find("30").unwrap();
        for end in 0..times {
            assert_eq!(parse_stat(&whole[..end]), None, "{}", &whole[..end]);
        }
        assert_eq!(parse_stat(&whole.replace(" 1 7", " -1 7")), None);
    }

    #[test]
    fn a_variable_must_match_completely() {
        let proc = FakeProc::new();
        proc.file(7, "environ", b"HOME=/\0OUT=/a\0");
        let table = proc.table();
        assert!(table.was_started_with(7, b"OUT=/a"));
        for other in [&b"OUT=/"[..], b"OUT=/a/b", b"UT=/a", b"OUT"] {
            assert!(!table.was_started_with(7, other), "{}", other.escape_ascii());
        }
        assert!(!table.was_started_with(8, b"OUT=/a"));
    }

    #[test]
    fn keeps_lock_is_false_for_waiting_processes_and_other_files() {
        let proc = FakeProc::new();
        let [ours, other] = ["ours", "other"].map(|name| proc.root().join(name));
        fs::write(&ours, "").unwrap();
        fs::write(&other, "").unwrap();
        let lock = "pos:\t0\nflags:\t02\nlock:\t1: FLOCK  ADVISORY  WRITE 7 fe:00:12 0 EOF\n";
        let no_lock = "pos:\t0\nflags:\t02\n";
        proc.handle(7, 3, &other, no_lock).handle(7, 4, &ours, lock);
        proc.handle(8, 3, &ours, no_lock).handle(8, 4, &other, lock);
        let wanted = fs::metadata(&ours).unwrap();
        let keeps = |pid| proc.table().keeps_lock(pid, &wanted);
        assert_eq!([7, 8, 9].map(keeps), [true, false, false]);
    }
}
