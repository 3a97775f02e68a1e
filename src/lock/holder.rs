//! Describes the holder of a lock in messages: [`Holder`], read from the lock file, and the processes that keep the
//! lock, if the system reports them.
//!
//! Any user can write anything to a world-writable file. So its text is cut and cleaned, and ignored if the kernel
//! reports that another process took the lock. Content: `{"pid":12,"job":"cpu_m_fp32_bs4_run1","store":"/x/runs"}`.
#![expect(clippy::disallowed_methods, reason = "locks are files, and the kernel lists them in one")]

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::file::{is_own, open_lock};
use crate::clean::deserialize_clean;
use crate::event::Waiting;
use crate::processes::ProcessTable;

/// The most characters of a word shown from a lock file: more than in any label and most paths.
const LONGEST: usize = 200;

/// A longer file was not written by `orchestrate` alone: it is cut, not filled with blanks.
const MOST_BLANKS: u64 = 4096;

/// The last process that took a lock, from the lock's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    /// The process id of `orchestrate`.
    pub(super) pid: i32,
    /// The job's label.
    #[serde(deserialize_with = "deserialize_clean")]
    pub(super) job: String,
    /// The store's path.
    #[serde(deserialize_with = "deserialize_clean")]
    store: String,
}

impl Holder {
    pub(super) fn new(job: &str, store: &Path) -> Holder {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Holder { pid, job: job.to_owned(), store: store.display().to_string() }
    }

    /// The content of the file.
    pub(super) fn load(mut file: &File) -> Option<Holder> {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).ok()?;
        file.take(65_536).read_to_string(&mut text).ok()?;
        let Holder { pid, job, store } = serde_json::from_str(&text).ok()?;
        Some(Holder { pid, job: shown(&job), store: shown(&store) })
    }

    /// The content of the file, unless the kernel reports that another process took the lock.
    pub(super) fn of(file: &File) -> Option<Holder> {
        let takers = takers(file);
        Holder::load(file).filter(|holder| takers.is_empty() || takers.contains(&holder.pid))
    }

    /// Writes it to the file, if the file belongs to this user. Another user's file is locked, but not written.
    ///
    /// Blanks replace the rest of longer content. Some file systems write a truncated file to the disk as soon as it is
    /// closed, which takes longer than all locks of a short job.
    pub(super) fn save(&self, file: &File) -> io::Result<()> {
        if !is_own(file) {
            return Ok(());
        }
        let mut text = serde_json::to_string(self).expect("a holder is a flat record");
        let there = file.metadata()?.len();
        if there > MOST_BLANKS {
            file.set_len(0)?;
        } else {
            let rest = usize::try_from(there).unwrap_or(0).saturating_sub(text.len());
            text.extend(std::iter::repeat_n(' ', rest));
        }
        file.write_all_at(text.as_bytes(), 0)
    }

    pub(super) fn is_alive(&self) -> bool {
        // Zero and negative numbers would mean process groups.
        if self.pid <= 0 {
            return false;
        }
        // EPERM: it exists, but belongs to another user.
        !matches!(kill(Pid::from_raw(self.pid), None), Err(nix::errno::Errno::ESRCH))
    }

    /// Whether another `orchestrate` took the lock and is still running.
    pub(super) fn is_at_work(&self) -> bool {
        u32::try_from(self.pid) != Ok(std::process::id()) && self.is_alive()
    }

    pub(super) fn describe(&self) -> String {
        let Holder { pid, job, store } = self;
        if u32::try_from(*pid) == Ok(std::process::id()) {
            format!("a process that {job} left behind")
        } else if self.is_alive() {
            format!("orchestrate (pid {pid}), which runs {job} of {store}")
        } else {
            format!("the worker of {job} of {store}, whose orchestrate (pid {pid}) died")
        }
    }

    /// As [`Holder::describe`], for the holder of a lock's turn, which workers do not inherit.
    pub(super) fn describe_turn_holder(&self) -> String {
        let Holder { pid, job, store: _ } = self;
        format!("orchestrate (pid {pid}), which is next to run {job}")
    }
}

/// Adds the ids of the processes that keep the lock on `file` to `waiting`, if the system reports them. The process
/// that took it may have ended, but every process that inherited it keeps the lock.
pub(super) fn with_keepers(waiting: Waiting, file: &File) -> Waiting {
    let keepers = keepers(file);
    if keepers.is_empty() {
        return waiting;
    }
    let keepers = keepers_text(&keepers);
    let holder = match waiting.holder {
        Some(holder) => format!("{holder} (kept by {keepers})"),
        None => keepers,
    };
    Waiting { holder: Some(holder), ..waiting }
}

fn keepers_text(keepers: &[u32]) -> String {
    let numbers: Vec<String> = keepers.iter().map(u32::to_string).collect();
    if numbers.len() == 1 {
        format!("process {}", numbers[0])
    } else {
        format!("processes {}", numbers.join(", "))
    }
}

/// `word`, cut if too long.
fn shown(word: &str) -> String {
    match word.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

/// The ids of the processes that took the lock of `file`, from the kernel; several if it is shared. They may have
/// ended, while processes that they started keep the lock. Empty on a system that does not report them.
#[cfg(target_os = "linux")]
fn takers(file: &File) -> Vec<i32> {
    use nix::sys::stat::{major, minor};
    let Ok(data) = file.metadata() else { return Vec::new() };
    let table = fs::read_to_string("/proc/locks").unwrap_or_default();
    flock_takers(&table, &format!("{:02x}:{:02x}:{}", major(data.dev()), minor(data.dev()), data.ino()))
}

#[cfg(not(target_os = "linux"))]
fn takers(_: &File) -> Vec<i32> {
    Vec::new()
}

/// The processes that took an flock on `file`, from `/proc/locks`. Its lines have the form `1: FLOCK ADVISORY WRITE PID
/// MAJOR:MINOR:INODE 0 EOF`, with `->` before `FLOCK` for a waiting process. Processes invisible from here have no id.
#[cfg(target_os = "linux")]
fn flock_takers(table: &str, file: &str) -> Vec<i32> {
    let taker = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&file);
        is_it.then(|| words[4].parse().ok()).flatten().filter(|pid| *pid > 0)
    };
    table.lines().filter_map(taker).collect()
}

/// The ids of the processes with a locked handle on the same file as `file`. Processes that only wait have a handle
/// without the lock. Empty on a system without `/proc`. Handles of other users' processes are invisible.
fn keepers(file: &File) -> Vec<u32> {
    let found = own_keepers(&ProcessTable::of_system(), file);
    if found.is_empty() {
        takers(file).into_iter().filter_map(|pid| pid.try_into().ok()).collect()
    } else {
        found
    }
}

/// The ids of the processes that keep the lock in the file at `path`, if the process that took it has died. Empty where
/// the system does not report them.
pub fn orphaned_keepers(path: &Path) -> Vec<u32> {
    let Ok(file) = open_lock(path) else { return Vec::new() };
    let table = ProcessTable::of_system();
    let takers = takers(&file);
    let is_alive = |pid: &i32| u32::try_from(*pid).is_ok_and(|pid| table.stat(pid).is_some());
    if takers.is_empty() || takers.iter().any(is_alive) {
        return Vec::new();
    }
    own_keepers(&table, &file)
}

fn own_keepers(table: &ProcessTable, file: &File) -> Vec<u32> {
    let Ok(wanted) = file.metadata() else { return Vec::new() };
    table.pids().into_iter().filter(|pid| table.keeps_lock(*pid, &wanted)).collect()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::lock::file::{Access, open_lock, open_or_make_lock};
    use crate::processes::testing::FakeProc;

    /// Text that another user wrote to a world-writable file.
    const WORDS: &str = r#"{"pid":1,"job":"a\u001b[31m\u0000b","store":"LONG"}"#;

    #[test]
    fn text_of_other_users_is_cut_and_cleaned() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        fs::write(&path, WORDS.replace("LONG", &"x".repeat(60_000))).unwrap();
        let holder = Holder::load(&open_lock(&path).unwrap()).unwrap();
        assert_eq!(holder.job, "ab");
        assert_eq!(holder.store.chars().count(), LONGEST + 1);
        for pid in [0, -1, i32::MIN] {
            assert!(!Holder { pid, ..holder.clone() }.is_alive(), "{pid}");
        }
    }

    #[test]
    fn finds_the_takers_of_a_lock_in_proc_locks() {
        let table = "1: FLOCK  ADVISORY  WRITE 28796 fe:00:11134266 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 7 fe:00:12 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 20645 fe:00:12 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 27538 fe:00:12 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 0 fe:00:12 0 EOF\n\
                     5: FLOCK  ADVISORY  READ 31 fe:00:12 0 EOF\ntorn";
        assert_eq!(flock_takers(table, "fe:00:12"), [20645, 31]);
        assert_eq!(flock_takers(table, "fe:00:13"), Vec::<i32>::new());
    }

    #[test]
    fn the_file_is_ignored_if_the_kernel_reports_another_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        fs::write(&path, WORDS).unwrap();
        let held = open_or_make_lock(&path, Access::AllUsers).unwrap();
        assert!(Holder::of(&held).is_some(), "the lock is free, so the file is not contradicted");
        held.lock().unwrap();
        let is_reported = !takers(&held).is_empty();
        let is_ignored = Holder::of(&open_lock(&path).unwrap()).is_none();
        assert_eq!(is_ignored, is_reported, "process 1 has not taken it");
        Holder::new("job", Path::new("-")).save(&held).unwrap();
        assert_eq!(Holder::of(&held).unwrap().job, "job");
    }

    #[test]
    fn a_shorter_holder_replaces_a_longer_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let file = open_or_make_lock(&path, Access::Umask).unwrap();
        for job in ["a_job_with_a_long_label", "job", "a_job_with_the_longest_label_of_all"] {
            Holder::new(job, Path::new("-")).save(&file).unwrap();
            assert_eq!(Holder::load(&open_lock(&path).unwrap()).unwrap().job, job);
        }
        file.set_len(1 << 40).unwrap();
        Holder::new("job", Path::new("-")).save(&file).unwrap();
        assert_eq!(Holder::load(&file).unwrap().job, "job");
        assert!(file.metadata().unwrap().len() < MOST_BLANKS);
    }

    #[test]
    fn keepers_of_a_lock_are_listed_and_waiting_processes_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let file = open_or_make_lock(&path, Access::Umask).unwrap();
        let proc = FakeProc::new();
        assert_eq!(own_keepers(&proc.table(), &file), Vec::<u32>::new());
        let lock = "lock:\t1: FLOCK  ADVISORY  WRITE 14 fe:00:12 0 EOF\n";
        proc.handle(14, 3, &path, lock).handle(3, 9, &path, lock).handle(5, 3, &path, "flags:\t02\n");
        assert_eq!(own_keepers(&proc.table(), &file), [3, 14]);
        assert_eq!(
            (keepers_text(&[3]).as_str(), keepers_text(&[3, 14]).as_str()),
            ("process 3", "processes 3, 14")
        );
    }
}
