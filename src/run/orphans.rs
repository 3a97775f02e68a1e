//! Ends the processes that a worker leaves outside of its process group: [`Orphans`].
//!
//! On Linux, the parent of an orphan becomes its nearest ancestor that is a subreaper, as this process is. So every
//! process that a worker starts stays a descendant of this process until it ends, even in another session, with another
//! environment and all files closed. One system call shows that all have ended. Other systems lack this feature.
//!
//! The first process of a container gets all orphans of the container. There, those of a worker are recognised by their
//! environment.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::processes::ProcessTable;

/// How long an orphan may take to end without being killed, as when it ends together with the worker.
const MOMENT: Duration = Duration::from_millis(200);

/// How long the system may take to end a killed process.
const PATIENCE: Duration = Duration::from_secs(2);

/// Recognises the orphans of a chain that starts now.
#[derive(Debug)]
pub(super) struct Orphans {
    /// Descendants that existed before, such as background jobs of a shell that replaced itself by this process. `None`
    /// if orphans do not become children of this process.
    before: Option<BTreeSet<u32>>,
}

impl Orphans {
    /// Makes this process the parent of all orphaned descendants from now on.
    pub(super) fn expect() -> Orphans {
        Orphans { before: become_reaper().then(descendants) }
    }

    /// Whether orphaned descendants become children of this process.
    pub(super) fn are_reparented(&self) -> bool {
        self.before.is_some()
    }

    /// Ends every orphan of the worker with `variable` in its environment, after the chain has ended. Returns whether
    /// any had to be killed.
    pub(super) async fn end(&self, variable: &[u8]) -> bool {
        let step = Duration::from_millis(10);
        let (mut waited, mut killed) = (Duration::ZERO, false);
        loop {
            let living = self.living(variable);
            if living.is_empty() || waited > MOMENT + PATIENCE {
                return killed;
            }
            if waited >= MOMENT {
                killed = true;
                for pid in living.into_iter().filter_map(to_pid) {
                    // Its children become children of this process as soon as it has ended, and are killed next time.
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
            tokio::time::sleep(step).await;
            waited += step;
        }
    }

    fn living(&self, variable: &[u8]) -> BTreeSet<u32> {
        let Some(before) = &self.before else { return BTreeSet::new() };
        let mut orphans: BTreeSet<u32> = children().difference(before).copied().collect();
        if std::process::id() == 1 && !orphans.is_empty() {
            let table = ProcessTable::of_system();
            orphans.retain(|pid| table.was_started_with(*pid, variable));
        }
        orphans
    }
}

/// Makes this process a subreaper. Returns whether the system supports that.
fn become_reaper() -> bool {
    #[cfg(target_os = "linux")]
    return nix::sys::prctl::set_child_subreaper(true).is_ok();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Reaps every child that has ended. Returns whether a living child is left.
///
/// Must not be called while another part of this program waits for a child.
pub(super) fn reap() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// The living children of this process.
fn children() -> BTreeSet<u32> {
    if reap() { children_in(&living_parents(), std::process::id()).collect() } else { BTreeSet::new() }
}

/// The living descendants of this process.
fn descendants() -> BTreeSet<u32> {
    if !reap() {
        return BTreeSet::new();
    }
    let parents = living_parents();
    let (mut found, mut open) = (BTreeSet::new(), vec![std::process::id()]);
    while let Some(parent) = open.pop() {
        // An id that is reused while the table is read could make a cycle.
        open.extend(children_in(&parents, parent).filter(|pid| found.insert(*pid)));
    }
    found
}

/// Every living process with its parent.
fn living_parents() -> Vec<(u32, u32)> {
    let table = ProcessTable::of_system();
    let stats = table.pids().into_iter().filter_map(|pid| Some((pid, table.stat(pid)?)));
    stats.filter(|(_, stat)| stat.state != 'Z').map(|(pid, stat)| (pid, stat.parent)).collect()
}

fn children_in(parents: &[(u32, u32)], parent: u32) -> impl Iterator<Item = u32> {
    parents.iter().filter(move |(_, of)| *of == parent).map(|(pid, _)| *pid)
}

/// The id of a process or a group to which a signal can be sent. Zero would mean the group of this process.
pub(super) fn to_pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().filter(|number| *number > 0).map(Pid::from_raw)
}
