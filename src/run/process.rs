//! The process chain: `time` → worker, in its own process group.
//!
//! Signals go to the group. Workers react to SIGINT, while GNU `time` ignores it and still writes its report. SIGTERM
//! would lose the report, and a signal to `time` alone would leave the worker running.
#![expect(clippy::disallowed_methods, reason = "processes are started here")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::task::JoinHandle;

use crate::files::AttemptDir;
use crate::lock::{DeviceLock, JobLock, inherited};
use crate::protocol::MEASUREMENT_VARIABLE;

/// A running process chain. All of its processes keep the locks open with which it was started.
#[derive(Debug)]
pub struct Chain {
    group: Group,
    exit: JoinHandle<io::Result<ExitStatus>>,
}

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
        let locks: Vec<RawFd> = inherited(job_lock, device_lock).map(|fd| fd.as_raw_fd()).collect();
        let handle = duct::cmd(program, arguments)
            .stdin_null()
            .stdout_file(File::create(attempt.stdout())?)
            .stderr_file(File::create(attempt.stderr())?)
            .full_env(call.environment)
            .dir(call.directory)
            .unchecked()
            .before_spawn(move |command| {
                prepare(command, locks.clone());
                Ok(())
            })
            .start()?;
        let pid = handle.pids().first().copied().and_then(|pid| i32::try_from(pid).ok());
        let group = Group(Pid::from_raw(pid.ok_or_else(|| io::Error::other("a started process has no id"))?));
        let handle = Arc::new(handle);
        let exit = tokio::task::spawn_blocking(move || handle.wait().map(|output| output.status));
        Ok(Chain { group, exit })
    }

    /// The process group.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Waits until the chain's first process has ended. Cancel safe, but must not be called again after it has
    /// returned.
    ///
    /// # Errors
    /// The system does not report how it ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        (&mut self.exit).await.map_err(io::Error::other)?
    }
}

/// Gives the child its own process group, lets it inherit the locks, and resets the signals that we send to their
/// default action. The background jobs of a shell inherit an ignored SIGINT.
fn prepare(command: &mut Command, locks: Vec<RawFd>) {
    command.process_group(0);
    let hook = move || {
        for lock in &locks {
            // SAFETY: a plain system call on a file that `JobLock` and `DeviceLock` keep open in the parent.
            if unsafe { libc::fcntl(*lock, libc::F_SETFD, 0) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            // SAFETY: setting a default disposition is allowed between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the hook makes system calls only; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) };
}

/// The exit code and the signal in `status`.
pub fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}

/// A process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(Pid);

impl Group {
    /// The group of the worker that writes its measurement to `path`. `None` if the worker has ended, or if the system
    /// has no `/proc`.
    pub fn of_worker(path: &Path) -> Option<Group> {
        let first = processes_of_worker(path).into_iter().next()?;
        stat_of(first).map(|stat| Group(stat.group))
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

    fn exists(self) -> bool {
        killpg(self.0, None) != Err(Errno::ESRCH)
    }

    /// Kills whatever is left of the group after its first process has ended. Returns whether there was anything.
    ///
    /// Children that end together with the worker get a moment to do so. Meanwhile the group's number cannot come to
    /// name another group: the system does not reuse it while any process of the group exists. An empty group is
    /// checked within microseconds.
    pub async fn sweep(self) -> bool {
        if self.is_gone_within(Duration::from_millis(200)).await || !self.has_living() {
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

    /// Who owns the process `pid`. It is the group's if the process or one of its ancestors belongs to the group.
    pub fn owner_of(self, pid: u32) -> Owner {
        let Ok(number) = i32::try_from(pid) else { return Owner::Gone };
        // No process tree is deeper than this. The bound matters because a parent's number can be reused while we
        // climb.
        const DEEPEST: usize = 64;
        let parents = std::iter::successors(stat(&pid.to_string()), |stat| stat_of(stat.parent));
        if parents.take(DEEPEST).any(|stat| stat.group == self.0) {
            return Owner::Group;
        }
        match kill(Pid::from_raw(number), None) {
            Err(Errno::ESRCH) => Owner::Gone,
            _ => {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok();
                Owner::Other { name: name.map(|name| name.trim().to_owned()) }
            }
        }
    }

    /// Whether the group contains anything but zombies. In a container whose first process does not reap, zombies stay
    /// forever. Without `/proc`, everything that exists counts.
    fn has_living(self) -> bool {
        let stats = processes().filter_map(|pid| stat(&pid)).collect::<Vec<_>>();
        stats.is_empty() || stats.iter().any(|stat| stat.group == self.0 && stat.state != 'Z')
    }
}

/// The owner of a process, from the point of view of a [`Group`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The group.
    Group,
    /// Somebody else.
    Other {
        /// The name of its program, if the system reports it.
        name: Option<String>,
    },
    /// Nobody: the process has ended.
    Gone,
}

/// Whether this process sees the same process numbers as the kernel's drivers, because it is in the system's first
/// namespace of process numbers. A container has its own.
pub fn is_in_first_pid_namespace() -> bool {
    // `PROC_PID_INIT_INO`, which is part of Linux's stable interface.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST)
}

/// The processes of the worker that writes its measurement to `path`, including those in another group or session. They
/// are recognised by their environment; no other process has the same by accident. Empty on a system without `/proc`.
pub fn processes_of_worker(path: &Path) -> Vec<Pid> {
    let wanted = [MEASUREMENT_VARIABLE.as_bytes(), b"=", path.as_os_str().as_bytes()].concat();
    let has = |environment: Vec<u8>| environment.split(|byte| *byte == 0).any(|entry| entry == wanted);
    processes()
        .filter(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(has))
        .filter_map(|pid| pid.parse().ok().map(Pid::from_raw))
        .collect()
}

/// Kills the processes of a worker that have left its group, since they would keep the device and its lock. Returns
/// whether there were any.
pub fn kill_escaped(path: &Path) -> bool {
    let mut found = false;
    // A process can start another one while we look. A few rounds catch all but malicious ones.
    for _ in 0..10 {
        let escaped = processes_of_worker(path);
        if escaped.is_empty() {
            break;
        }
        found = true;
        for pid in escaped {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
    found
}

fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A process as `/proc` shows it.
#[derive(Clone, Copy, Debug)]
struct Stat {
    state: char,
    parent: Pid,
    group: Pid,
}

fn stat_of(pid: Pid) -> Option<Stat> {
    stat(&pid.to_string())
}

/// The name before the fields is in parentheses and can contain anything.
fn stat(pid: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = Pid::from_raw(fields.next()?.parse().ok()?);
    let group = Pid::from_raw(fields.next()?.parse().ok()?);
    Some(Stat { state, parent, group })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn processes_belong_to_a_group_by_birth() {
        let own = Group(nix::unistd::getpgrp());
        let pid = std::process::id();
        assert_eq!(own.owner_of(pid), Owner::Group);
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        assert_eq!(own.owner_of(child.id()), Owner::Group, "a child in a group of its own");
        let other = Group(Pid::from_raw(i32::try_from(child.id()).unwrap()));
        assert!(matches!(other.owner_of(pid), Owner::Other { name: Some(_) }), "a parent is not a child");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(own.owner_of(child.id()), Owner::Gone);
        assert_eq!(own.owner_of(u32::MAX), Owner::Gone);
    }
}
