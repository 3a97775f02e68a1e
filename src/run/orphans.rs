//! The processes that a worker leaves behind outside of its process group.
//!
//! On Linux, an orphan comes to its nearest ancestor that has asked for orphans, which is us. So whatever a worker
//! starts stays below us until it ends, even in a session of its own, without our environment and with all of its files
//! closed. To see that nothing is left takes one system call. Other systems have nothing like it.
//!
//! The first process of a container gets the orphans of everybody in it. There, a worker's are told by their
//! environment.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::processes::ProcessTable;

/// How long an orphan may take to end on its own, as one does that ends together with the worker.
const MOMENT: Duration = Duration::from_millis(200);

/// How long the system may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Recognises the orphans of a chain that starts now.
#[derive(Debug)]
pub(super) struct Orphans {
    /// What ran below us before, such as the background jobs of a shell that became us. `None` if the system gives us
    /// no orphans.
    before: Option<BTreeSet<u32>>,
}

impl Orphans {
    /// Asks for the orphans of every process below us.
    pub(super) fn expect() -> Orphans {
        Orphans { before: become_reaper().then(descendants) }
    }

    /// Whether the system gives us the orphans.
    pub(super) fn come_to_us(&self) -> bool {
        self.before.is_some()
    }

    /// Ends every orphan of the worker with `variable` in its environment, once the chain itself has ended. Returns
    /// whether there was any that did not end on its own.
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
                    // Its children become ours as soon as it has ended, and are ended in the next turn.
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

/// Asks the system to give us the orphans of every process below us. Returns whether it will.
fn become_reaper() -> bool {
    #[cfg(target_os = "linux")]
    return nix::sys::prctl::set_child_subreaper(true).is_ok();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Takes note of every child that has ended. Returns whether any is left that has not.
///
/// Must only be called while nobody waits for a child of ours.
pub(super) fn reap() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Our living children.
fn children() -> BTreeSet<u32> {
    if reap() { children_in(&living_parents(), std::process::id()).collect() } else { BTreeSet::new() }
}

/// Everything that lives below us.
fn descendants() -> BTreeSet<u32> {
    if !reap() {
        return BTreeSet::new();
    }
    let parents = living_parents();
    let (mut found, mut open) = (BTreeSet::new(), vec![std::process::id()]);
    while let Some(parent) = open.pop() {
        // A number that is reused while the table is read could make a circle.
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

/// The number of a process or a group that a signal can be sent to. Zero would mean our own group.
pub(super) fn to_pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().filter(|number| *number > 0).map(Pid::from_raw)
}
