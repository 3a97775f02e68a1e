//! The [`Identity`] of an `orchestrate`, as written in its lock file, and whether the process may be alive where locks
//! do not work.
//!
//! Locks show whether an owner lives to processes of the same kernel, if the file system supports them. Otherwise, an
//! observer in the same process namespace looks for the process by its id and start. All other observers use the
//! heartbeat: the time at which the lock file was last touched, by the clock of its file system.
#![expect(clippy::disallowed_methods, reason = "an identity is of a process, and begins at a moment")]

use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use nix::unistd::{Pid, User, gethostname, getuid};
use serde::{Deserialize, Serialize};

use crate::clean::deserialize_clean;
use crate::processes::ProcessTable;

/// An owner shows that it is alive this often.
pub(super) const BEAT: Duration = Duration::from_secs(10);

/// An owner that has been silent for this long, thirty beats, counts as lost. A network file system can show a touch a
/// minute late.
pub(super) const LOST: Duration = Duration::from_secs(300);

/// A host of the same name with another boot id is usually the same host, booted again. If it is a different host, its
/// owner touches the file within this time.
const SILENT_AFTER_BOOT: Duration = Duration::from_secs(30);

/// The host, boot and namespace in which a process id is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The host's name.
    #[serde(deserialize_with = "deserialize_clean")]
    pub host: String,
    /// Identifies the boot; absent where the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    /// Identifies the namespace of process ids; each container has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

impl Place {
    /// The place of this process.
    pub(super) fn probe() -> Place {
        let namespace = fs::read_link("/proc/self/ns/pid").ok();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Place {
            host: gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned()),
            boot: boot.map(|text| text.trim().to_owned()),
            namespace: namespace.map(|link| link.to_string_lossy().into_owned()),
        }
    }

    /// Whether both are on one kernel, so that locks of a local file system are visible to both.
    fn is_on_kernel_of(&self, other: &Place) -> bool {
        match (&self.boot, &other.boot) {
            (Some(one), Some(two)) => one == two,
            _ => self.host == other.host,
        }
    }

    /// Whether process ids are the same in both.
    fn sees_processes_of(&self, other: &Place) -> bool {
        self.is_on_kernel_of(other) && self.namespace == other.namespace
    }
}

/// The identity of an `orchestrate`. Its first fields are those of every lock file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its process id.
    pub pid: u32,
    /// The name of the directory of the job that it runs; empty between two jobs.
    #[serde(deserialize_with = "deserialize_clean")]
    pub job: String,
    /// The name of its matrix.
    #[serde(deserialize_with = "deserialize_clean")]
    pub matrix: String,
    /// The user that started it.
    #[serde(deserialize_with = "deserialize_clean")]
    pub user: String,
    /// When it was started.
    pub since: DateTime<Utc>,
    /// When it was started, in ticks since the boot, from the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<u64>,
    /// Where it runs.
    pub place: Place,
}

impl Identity {
    /// This process, which runs `matrix`.
    pub(super) fn of_current_process(matrix: &str) -> Identity {
        let pid = std::process::id();
        let user = User::from_uid(getuid()).ok().flatten();
        Identity {
            pid,
            job: String::new(),
            matrix: matrix.to_owned(),
            user: user.map_or_else(|| getuid().to_string(), |user| user.name),
            since: Utc::now(),
            start: ProcessTable::of_system().stat(pid).and_then(|stat| stat.start),
            place: Place::probe(),
        }
    }

    /// This process, which runs the submission called `name`, for a file other than a lock.
    pub fn of_this_process(name: &str) -> Identity {
        Identity::of_current_process(name)
    }

    /// Whether its process is running. `false` if its processes are not visible from here.
    pub fn is_visibly_alive(&self) -> bool {
        self.is_visibly_running(&Place::probe())
    }

    /// The identity in `file`; `None` if an older version wrote the file.
    pub(super) fn load(file: &File) -> Option<Identity> {
        // A read can coincide with a write; then it is complete a moment later.
        (0..3).find_map(|_| {
            let mut bytes = [0; LENGTH];
            let read = file.read_at(&mut bytes, 0).ok()?;
            serde_json::from_slice(bytes[..read].trim_ascii_end()).ok()
        })
    }

    /// Writes it to `file` in one write of constant length.
    pub(super) fn save(&self, file: &File) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(self).expect("an identity is a flat record");
        bytes.resize(LENGTH, b' ');
        file.write_all_at(&bytes, 0)
    }

    /// Whether it is on the kernel of `here`.
    pub(super) fn is_on_kernel_of(&self, here: &Place) -> bool {
        self.place.is_on_kernel_of(here)
    }

    /// Whether it may still be alive, judged without locks. Its file was last touched `silent` ago.
    pub(super) fn may_live(&self, here: &Place, silent: Duration) -> bool {
        if self.place.sees_processes_of(here) {
            return self.is_running(silent);
        }
        let is_host = self.place.host == here.host && !self.place.is_on_kernel_of(here);
        silent <= if is_host { SILENT_AFTER_BOOT } else { LOST }
    }

    /// Whether its process is visible from here and running, and certainly not another process with the same id.
    pub(super) fn is_visibly_running(&self, here: &Place) -> bool {
        self.start.is_some() && self.place.sees_processes_of(here) && self.is_running(Duration::ZERO)
    }

    /// Whether its process is running, among those visible from here.
    fn is_running(&self, silent: Duration) -> bool {
        if let Some(start) = self.start {
            let stat = ProcessTable::of_system().stat(self.pid);
            return stat.is_some_and(|stat| stat.start == Some(start) && stat.state != 'Z');
        }
        // Without `/proc`, another process could have the id by now.
        let number = i32::try_from(self.pid).unwrap_or(0);
        number > 0 && kill(Pid::from_raw(number), None) != Err(Errno::ESRCH) && silent <= LOST
    }
}

/// Sets the time of `file` to that of its file system, which can be another host's.
pub(super) fn touch(file: &File) {
    // If this fails, others consider this process lost after a while, which cannot be prevented.
    let _ = futimens(file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW);
}

/// The length of a lock file with an identity: room for the longest names of a directory, a host and a user.
const LENGTH: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, boot: &str, namespace: &str) -> Place {
        Place { host: host.into(), boot: Some(boot.into()), namespace: Some(namespace.into()) }
    }

    fn identity(place: Place) -> Identity {
        Identity { place, ..Identity::of_current_process("t") }
    }

    #[test]
    fn identities_round_trip_and_files_have_constant_length() {
        let file = tempfile::tempfile().unwrap();
        let mut identity = Identity::of_current_process("quickstart");
        for job in ["", &"x".repeat(255), "cpu_m_fp32_bs4_run1-0123456789ab"] {
            identity.job = job.into();
            identity.save(&file).unwrap();
            assert_eq!(Identity::load(&file).as_ref(), Some(&identity));
            assert_eq!(file.metadata().unwrap().len(), LENGTH as u64);
        }
        file.set_len(100).unwrap();
        assert_eq!(Identity::load(&file), None);
    }

    #[test]
    fn a_visible_process_is_alive_while_it_runs() {
        let here = place("a", "boot", "ns");
        let us = identity(here.clone());
        let long = LOST * 9;
        assert!(us.may_live(&here, long), "it is running, even if it was suspended for long");
        assert!(!Identity { pid: u32::MAX, ..us.clone() }.may_live(&here, Duration::ZERO));
        if let Some(start) = us.start {
            let reused = Identity { start: Some(start + 1), ..us };
            assert!(!reused.may_live(&here, Duration::ZERO), "another process has its number");
        }
    }

    #[test]
    fn an_invisible_process_is_alive_while_its_heartbeat_is_recent() {
        let here = place("a", "boot", "ns");
        let second = Duration::from_secs(1);
        for (other, bound) in [
            (place("b", "other", "ns"), LOST),
            (place("a", "boot", "of a container"), LOST),
            (place("a", "earlier", "ns"), SILENT_AFTER_BOOT),
        ] {
            let owner = identity(other);
            assert!(owner.may_live(&here, bound), "{owner:?}");
            assert!(!owner.may_live(&here, bound + second), "{owner:?}");
        }
    }

    #[test]
    fn without_a_boot_id_the_host_name_identifies_the_kernel() {
        let nameless = |host: &str| Place { host: host.into(), boot: None, namespace: None };
        assert!(nameless("mac").sees_processes_of(&nameless("mac")));
        assert!(!nameless("mac").is_on_kernel_of(&nameless("book")));
        assert!(
            place("a", "boot", "ns").is_on_kernel_of(&place("b", "boot", "ns")),
            "a container's own name"
        );
    }
}
