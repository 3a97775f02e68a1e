//! Who holds a lock, for people to read: whoever took it last, as its file says, and the processes that keep it, as far
//! as the system tells.
#![expect(clippy::disallowed_methods, reason = "locks are files, and processes are listed as such")]

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::event::Waiting;

/// Who took a lock, as its file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    /// The process id of `orchestrate`.
    pub(super) pid: i32,
    /// The job's label.
    pub(super) job: String,
    /// The store's path.
    store: String,
}

impl Holder {
    pub(super) fn new(job: &str, store: &Path) -> Holder {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Holder { pid, job: job.to_owned(), store: store.display().to_string() }
    }

    pub(super) fn load(mut file: &File) -> Option<Holder> {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).ok()?;
        file.take(65_536).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    pub(super) fn save(&self, mut file: &File) -> io::Result<()> {
        let text = serde_json::to_string(self).expect("a holder is a flat record");
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text.as_bytes())
    }

    pub(super) fn is_alive(&self) -> bool {
        // EPERM: it is there, but another user's.
        !matches!(kill(Pid::from_raw(self.pid), None), Err(nix::errno::Errno::ESRCH))
    }

    /// Whether another `orchestrate` took the lock and is still there: then it is the one to look at.
    pub(super) fn is_at_work(&self) -> bool {
        u32::try_from(self.pid) != Ok(std::process::id()) && self.is_alive()
    }

    pub(super) fn describe(&self) -> String {
        let Holder { pid, job, store } = self;
        if u32::try_from(*pid) == Ok(std::process::id()) {
            format!("a process that {job} left behind")
        } else if self.is_alive() {
            format!("orchestrate (pid {pid}) runs {job} of {store}")
        } else {
            format!("the worker of {job} of {store}, whose orchestrate (pid {pid}) is gone")
        }
    }

    /// The same for whoever has a lock's turn. No worker inherits that.
    pub(super) fn describe_next(&self) -> String {
        let Holder { pid, job, store: _ } = self;
        format!("orchestrate (pid {pid}), which is next to run {job}")
    }
}

/// `waiting` with the ids of the processes that keep the lock on `file`, where the system tells. The one that took
/// it may be long gone: every process that it left behind keeps it.
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

/// The processes that have a locked handle on what `file` is, by id. Those that only wait for the lock have one without
/// it. Empty on a system without `/proc`; another user's processes are not told.
fn keepers(file: &File) -> Vec<u32> {
    let Ok(wanted) = file.metadata() else { return Vec::new() };
    let is_it = |path: &Path| {
        fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (wanted.dev(), wanted.ino()))
    };
    let keeps = |pid: &u32| {
        let handles = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        handles.filter(|handle| is_it(&handle.path())).any(|handle| {
            let info = Path::new("/proc").join(pid.to_string()).join("fdinfo").join(handle.file_name());
            fs::read_to_string(info).is_ok_and(|text| text.lines().any(|line| line.starts_with("lock:")))
        })
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<u32> =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(keeps).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::files::{open_or_make_regular, open_regular};

    #[test]
    fn who_keeps_a_lock_is_told_and_who_only_waits_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = open_or_make_regular(&path).unwrap();
        assert_eq!(keepers(&held), Vec::<u32>::new(), "it is open, but nobody has locked it");
        held.lock().unwrap();
        // A process that another test starts just now has it too, until it becomes another program.
        assert!(keepers(&open_regular(&path).unwrap()).contains(&std::process::id()));
        assert_eq!(
            (keepers_text(&[3]).as_str(), keepers_text(&[3, 14]).as_str()),
            ("process 3", "processes 3, 14")
        );
    }
}
