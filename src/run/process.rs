//! The process chain, [`Chain`]: `time` → worker, in its own process group.
//!
//! Signals go to the group. Workers react to SIGINT, while GNU `time` ignores it and still writes its report. SIGTERM
//! would lose the report, and a signal to `time` alone would leave the worker running.
#![expect(clippy::disallowed_methods, reason = "processes are started here")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::orphans::{Orphans, reap, to_pid};
use crate::files::{AttemptDir, Fault};
use crate::host::probe_process_start;
use crate::lock::{DeviceLock, JobLock, inherited};
use crate::processes::{ProcessStat, ProcessTable};
use crate::protocol::MEASUREMENT_VARIABLE;
use crate::store::WorkerGroup;

/// A running process chain. All of its processes keep the locks open with which it was started.
#[derive(Debug)]
pub struct Chain {
    group: Group,
    process: duct::Handle,
    /// Signals that a child of this process has ended.
    child_ended: SignalStream,
    orphans: Orphans,
}

/// The longest interval between checks of a process whose end is normally signalled: the signal can be blocked.
const LOOK: Duration = Duration::from_secs(1);

/// The input of [`Chain::spawn`].
#[derive(Clone, Copy, Debug)]
pub struct ChainCall<'a> {
    /// The program and its arguments.
    pub argv: &'a [String],
    /// The complete environment.
    pub environment: &'a BTreeMap<String, String>,
    /// The working directory.
    pub directory: &'a Path,
}

impl Chain {
    /// Starts the chain; its output goes to the attempt's files. The caller must hold both locks.
    ///
    /// # Errors
    /// The files cannot be created, or the first program cannot be started.
    pub fn spawn(
        call: ChainCall<'_>,
        attempt: &AttemptDir,
        job_lock: &JobLock,
        device_lock: &DeviceLock,
    ) -> io::Result<Chain> {
        let (program, arguments) = call.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut locks: Vec<RawFd> = inherited(job_lock, device_lock).map(|fd| fd.as_raw_fd()).collect();
        locks.retain(|_| !Fault::NoLockInheritance.is_on());
        let orphans = Orphans::expect();
        // Before the process starts, so that its end is not missed.
        let child_ended = signal(SignalKind::child())?;
        let inherited = Inherited::new(locks)?;
        let process = duct::cmd(program, arguments)
            .stdin_null()
            .stdout_file(create_for_appending(&attempt.stdout())?)
            .stderr_file(create_for_appending(&attempt.stderr())?)
            .full_env(call.environment)
            .dir(call.directory)
            .unchecked()
            .before_spawn(|command| {
                if !Fault::NoProcessGroup.is_on() {
                    command.process_group(0);
                }
                Ok(())
            })
            .start()?;
        drop(inherited);
        let pid = process.pids().first().copied().and_then(|pid| i32::try_from(pid).ok());
        let group = Group(Pid::from_raw(pid.ok_or_else(|| io::Error::other("a started process has no id"))?));
        Ok(Chain { group, process, child_ended, orphans })
    }

    /// The process group of the worker.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Waits until the chain's first process has ended. Cancel safe.
    ///
    /// No thread waits for the process: waking that thread first would delay the next job.
    ///
    /// # Errors
    /// The system does not report how it ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(output) = self.process.try_wait()? {
                return Ok(output.status);
            }
            // The signal comes for any child, and one signal can stand for several.
            let _ = tokio::time::timeout(LOOK, self.child_ended.recv()).await;
        }
    }

    /// Whether its first process has ended, even if [`Chain::wait`] has not returned yet. `false` where the system
    /// cannot show that.
    pub fn has_ended(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            // It might have been reaped already; then this is an error.
            waitid(Id::Pid(self.group.0), flags) != Ok(WaitStatus::StillAlive)
        }
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Ends the remaining processes of the chain after its first process has ended, inside and outside of its group.
    /// `measurement` is the path of its worker's measurement. Returns whether there were any.
    pub async fn sweep(&self, measurement: &Path) -> bool {
        let in_group = self.group.sweep().await;
        let elsewhere = match self.orphans.are_reparented() {
            true => self.orphans.end(&worker_variable(measurement)).await,
            false => kill_escaped(measurement),
        };
        in_group || elsewhere
    }
}

/// Creates an output file. Processes that inherit it always write at its end, also after it was cut.
fn create_for_appending(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_APPEND).open(path)
}

/// Until this is dropped, the next child process inherits the files `locks`.
///
/// The flags are set in this process, not in the child between fork and exec. A child without work between these is
/// started without copying the page tables, which takes longer for larger stores. No other process is started
/// meanwhile.
struct Inherited(Vec<RawFd>);

impl Inherited {
    fn new(locks: Vec<RawFd>) -> io::Result<Inherited> {
        let inherited = Inherited(locks);
        for lock in &inherited.0 {
            set_flags(*lock, FdFlag::empty())?;
        }
        Ok(inherited)
    }
}

impl Drop for Inherited {
    fn drop(&mut self) {
        for lock in &self.0 {
            // If this fails, the next child process keeps the lock until it ends.
            let _ = set_flags(*lock, FdFlag::FD_CLOEXEC);
        }
    }
}

fn set_flags(file: RawFd, flags: FdFlag) -> io::Result<()> {
    // SAFETY: `JobLock` and `DeviceLock` keep the file open for longer than this.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    fcntl(file, FcntlArg::F_SETFD(flags)).map(drop).map_err(io::Error::from)
}

/// The exit code and the signal in `status`.
pub fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}

/// A process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(Pid);

impl Group {
    /// The group with this id. `None` for zero, which would mean the group of this process.
    pub(super) fn numbered(number: u32) -> Option<Group> {
        to_pid(number).map(Group)
    }

    /// Whether it is the group of this process.
    pub(super) fn is_ours(self) -> bool {
        self.0 == getpgrp()
    }

    /// The note by which a later `orchestrate` finds the group. `None` if it is not needed, because the system has
    /// `/proc`, or if the system does not report when the first process started.
    pub fn to_note(self) -> Option<WorkerGroup> {
        self.to_note_in(&ProcessTable::of_system(), probe_process_start)
    }

    pub(super) fn to_note_in(
        self,
        table: &ProcessTable,
        start: impl Fn(u32) -> Option<String>,
    ) -> Option<WorkerGroup> {
        let is_needed = !table.is_shown();
        let start = is_needed.then(|| start(self.leader())).flatten()?;
        Some(WorkerGroup { leader: self.leader(), start })
    }

    /// Asks all processes of the group to end.
    pub fn interrupt(self) {
        self.send(Signal::SIGINT);
    }

    /// Kills all processes of the group.
    pub fn kill(self) {
        self.send(Signal::SIGKILL);
    }

    fn send(self, signal: Signal) {
        // The group might have ended already, which is fine.
        let _ = killpg(self.0, signal);
    }

    /// The id of its first process, `time`.
    pub fn leader(self) -> u32 {
        self.0.as_raw().unsigned_abs()
    }

    /// For tests: the group whose first process has this id.
    #[cfg(test)]
    pub(crate) fn with_leader(pid: i32) -> Group {
        Group(Pid::from_raw(pid))
    }

    fn exists(self) -> bool {
        // An orphan that has ended still counts until its parent, which is this process, reaps it.
        reap();
        killpg(self.0, None) != Err(Errno::ESRCH)
    }

    /// Kills the remaining processes of the group after its first process has ended. Returns whether there were any.
    ///
    /// Children that end together with the worker get a moment to do so. The group's id cannot refer to another group
    /// meanwhile: the system does not reuse it while any process of the group exists. An empty group is checked within
    /// microseconds.
    async fn sweep(self) -> bool {
        if self.is_gone_within(Duration::from_millis(200)).await
            || !self.has_living(&ProcessTable::of_system())
        {
            return false;
        }
        self.kill();
        self.is_gone_within(Duration::from_secs(2)).await;
        true
    }

    /// Waits until the group is empty, for at most `bound`. Returns whether it is.
    pub async fn is_gone_within(self, bound: Duration) -> bool {
        let step = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        while self.exists() {
            if waited >= bound {
                return false;
            }
            tokio::time::sleep(step).await;
            waited += step;
        }
        true
    }

    /// The owner of the process `pid`. It is the group if the process or one of its ancestors belongs to the group.
    pub fn owner_of(self, pid: u32) -> Owner {
        self.owner_in(&ProcessTable::of_system(), pid)
    }

    fn owner_in(self, table: &ProcessTable, pid: u32) -> Owner {
        let Some(number) = to_pid(pid) else { return Owner::Gone };
        if self.has_descendant(table, pid) {
            return Owner::Group;
        }
        match kill(number, None) {
            Err(Errno::ESRCH) => Owner::Gone,
            _ => Owner::Other { name: table.name(pid) },
        }
    }

    /// Whether `pid` or one of its ancestors belongs to the group.
    fn has_descendant(self, table: &ProcessTable, pid: u32) -> bool {
        // No process tree is deeper than this. The bound matters because a parent's id can be reused meanwhile.
        const DEEPEST: usize = 64;
        let line = std::iter::successors(table.stat(pid), |stat| table.stat(stat.parent));
        line.take(DEEPEST).any(|stat| self.has(&stat))
    }

    /// Whether the group contains processes other than zombies. In a container whose first process does not reap,
    /// zombies stay forever. Without `/proc`, every process counts.
    fn has_living(self, table: &ProcessTable) -> bool {
        let stats: Vec<ProcessStat> = table.pids().into_iter().filter_map(|pid| table.stat(pid)).collect();
        stats.is_empty() || stats.iter().any(|stat| self.has(stat) && stat.state != 'Z')
    }

    fn has(self, process: &ProcessStat) -> bool {
        to_pid(process.group) == Some(self.0)
    }
}

/// The owner of a process, from the point of view of a [`Group`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The group.
    Group,
    /// Another program or user.
    Other {
        /// The name of its program, if the system reports it.
        name: Option<String>,
    },
    /// The process has ended.
    Gone,
}

/// Whether this process sees the same process ids as the kernel's drivers, because it is in the system's first PID
/// namespace. A container has its own.
pub fn is_in_first_pid_namespace() -> bool {
    // `PROC_PID_INIT_INO`, which is part of Linux's stable interface.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST)
}

/// The processes of the worker that writes its measurement to `path`, including those in another group or session. They
/// are recognised by their environment, which is unique. Empty on a system without `/proc`.
fn processes_of_worker(table: &ProcessTable, path: &Path) -> Vec<u32> {
    let variable = worker_variable(path);
    table.pids().into_iter().filter(|pid| table.was_started_with(*pid, &variable)).collect()
}

/// The environment variable, as `NAME=value`, that only the worker that writes its measurement to `path` has.
pub fn worker_variable(path: &Path) -> Vec<u8> {
    [MEASUREMENT_VARIABLE.as_bytes(), b"=", path.as_os_str().as_bytes()].concat()
}

/// Kills one process.
pub fn kill_process(pid: u32) {
    if let Some(pid) = to_pid(pid) {
        // It might have ended already, which is fine.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// Kills the processes of a worker of this run that have left its group, since they would keep the device and its lock.
/// Returns whether there were any.
fn kill_escaped(path: &Path) -> bool {
    let mut found = false;
    // A process can start another one during the search. A few rounds catch all but malicious ones.
    for _ in 0..10 {
        let escaped = processes_of_worker(&ProcessTable::of_system(), path);
        if escaped.is_empty() {
            break;
        }
        found = true;
        for pid in escaped.into_iter().filter_map(to_pid) {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::testing::FakeProc;

    fn group(number: u32) -> Group {
        Group(to_pid(number).unwrap())
    }

    #[test]
    fn descendants_belong_to_a_group() {
        let proc = FakeProc::new();
        proc.process(1, b"init", 'S', 0, 1)
            .process(20, b"worker", 'S', 1, 20)
            .process(21, b"loader", 'S', 20, 20)
            .process(30, b"in another group", 'S', 21, 30)
            .process(40, b"a stranger", 'S', 1, 40);
        let table = proc.table();
        let descendants = |of: u32| -> Vec<u32> {
            table.pids().into_iter().filter(|pid| group(of).has_descendant(&table, *pid)).collect()
        };
        assert_eq!(descendants(20), [20, 21, 30]);
        assert_eq!(descendants(30), [30], "a parent is not a child");
    }

    #[test]
    fn a_cycle_of_parents_ends() {
        let proc = FakeProc::new();
        proc.process(5, b"reused", 'S', 6, 5).process(6, b"reused", 'S', 5, 5);
        assert!(!group(7).has_descendant(&proc.table(), 5));
    }

    #[test]
    fn living_processes_that_are_not_descendants_have_another_owner() {
        let proc = FakeProc::new();
        let own = std::process::id();
        let owner = |of: u32, pid| group(of).owner_in(&proc.table(), pid);
        assert_eq!(owner(7, own), Owner::Other { name: None }, "for example of another user");
        proc.process(own, b"python", 'S', 1, 8);
        assert_eq!(owner(7, own), Owner::Other { name: Some("python".to_owned()) });
        assert_eq!(owner(8, own), Owner::Group);
        for pid in [0, u32::MAX, 1 << 31] {
            assert_eq!(owner(7, pid), Owner::Gone, "{pid} is not a process");
        }
    }

    #[test]
    fn a_group_of_zombies_is_not_living() {
        let proc = FakeProc::new();
        assert!(group(5).has_living(&proc.table()), "without `/proc`, everything counts");
        proc.process(5, b"ended", 'Z', 1, 5).process(6, b"stranger", 'S', 1, 6);
        assert!(!group(5).has_living(&proc.table()));
        proc.process(7, b"caf\xe9", 'S', 1, 5);
        assert!(group(5).has_living(&proc.table()), "a process counts even if its name is not UTF-8");
    }
}
