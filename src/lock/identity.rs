//! Who an `orchestrate` is, as it writes into its own lock file, and whether it can still be alive where locks do not
//! tell.
//!
//! Locks tell among the processes of one kernel, if the file system passes them on. Otherwise the process tells, by its
//! number and its start, to whoever sees the same processes. To all others only the heartbeat tells: the time at which
//! the lock file was last touched, by the clock of its file system.
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

/// Whoever has been silent for this long is lost: thirty beats. A network file system can show a touch a minute late.
pub(super) const LOST: Duration = Duration::from_secs(300);

/// A host of the same name that was booted again is usually the same host. Should it be another one of the same name,
/// its owner would have shown itself within this time.
const SILENT_AFTER_BOOT: Duration = Duration::from_secs(30);

/// Where a process number means something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The host's name.
    #[serde(deserialize_with = "deserialize_clean")]
    pub host: String,
    /// Identifies the boot; absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    /// Identifies the namespace of process numbers, of which each container has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

impl Place {
    /// Where this process is.
    pub(super) fn probe() -> Place {
        let namespace = fs::read_link("/proc/self/ns/pid").ok();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Place {
            host: gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned()),
            boot: boot.map(|text| text.trim().to_owned()),
            namespace: namespace.map(|link| link.to_string_lossy().into_owned()),
        }
    }

    /// Whether both are on one kernel. Only there do the locks of a local file system tell.
    fn is_on_kernel_of(&self, other: &Place) -> bool {
        match (&self.boot, &other.boot) {
            (Some(one), Some(two)) => one == two,
            _ => self.host == other.host,
        }
    }

    /// Whether process numbers mean the same in both.
    fn sees_processes_of(&self, other: &Place) -> bool {
        self.is_on_kernel_of(other) && self.namespace == other.namespace
    }
}

/// Who an `orchestrate` is. The beginning is that of every lock file's content.
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
    /// Who started it.
    #[serde(deserialize_with = "deserialize_clean")]
    pub user: String,
    /// When.
    pub since: DateTime<Utc>,
    /// When, in ticks since the boot, as the kernel tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<u64>,
    /// Where.
    pub place: Place,
}

impl Identity {
    /// This process, which runs `matrix`.
    pub(super) fn of_us(matrix: &str) -> Identity {
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

    /// This process, which runs what is called `name`, for a file that is no lock.
    pub fn of_this_process(name: &str) -> Identity {
        Identity::of_us(name)
    }

    /// Whether we see its process running. `false` also if it is where we see no processes.
    pub fn is_seen_alive(&self) -> bool {
        self.is_seen_running(&Place::probe())
    }

    /// The identity in `file`; `None` if an older version wrote the file.
    pub(super) fn load(file: &File) -> Option<Identity> {
        // It can be read while it is written, and then is whole a moment later.
        (0..3).find_map(|_| {
            let mut bytes = [0; LENGTH];
            let read = file.read_at(&mut bytes, 0).ok()?;
            serde_json::from_slice(bytes[..read].trim_ascii_end()).ok()
        })
    }

    /// Writes it to `file`, in one piece that is always equally long.
    pub(super) fn save(&self, file: &File) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(self).expect("an identity is a flat record");
        bytes.resize(LENGTH, b' ');
        file.write_all_at(&bytes, 0)
    }

    /// Whether it is on the kernel of `here`.
    pub(super) fn is_on_kernel_of(&self, here: &Place) -> bool {
        self.place.is_on_kernel_of(here)
    }

    /// Whether it can still be alive, although no lock tells. It was last touched `silent` ago.
    pub(super) fn may_live(&self, here: &Place, silent: Duration) -> bool {
        if self.place.sees_processes_of(here) {
            return self.is_running(silent);
        }
        let is_host = self.place.host == here.host && !self.place.is_on_kernel_of(here);
        silent <= if is_host { SILENT_AFTER_BOOT } else { LOST }
    }

    /// Whether we see its process running, and are sure that no other has its number by now.
    pub(super) fn is_seen_running(&self, here: &Place) -> bool {
        self.start.is_some() && self.place.sees_processes_of(here) && self.is_running(Duration::ZERO)
    }

    /// Whether its process is running, among those that we see.
    fn is_running(&self, silent: Duration) -> bool {
        if let Some(start) = self.start {
            let stat = ProcessTable::of_system().stat(self.pid);
            return stat.is_some_and(|stat| stat.start == Some(start) && stat.state != 'Z');
        }
        // Without `/proc`, the number could be another's by now.
        let number = i32::try_from(self.pid).unwrap_or(0);
        number > 0 && kill(Pid::from_raw(number), None) != Err(Errno::ESRCH) && silent <= LOST
    }
}

/// Sets the time of `file` to that of its file system, which can be another host's.
pub(super) fn touch(file: &File) {
    // If it fails, others take us for lost after a while, and there is nothing that we could do.
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
        Identity { place, ..Identity::of_us("t") }
    }

    #[test]
    fn what_is_written_is_read_and_names_of_any_length_leave_it_equally_long() {
        let file = tempfile::tempfile().unwrap();
        let mut identity = Identity::of_us("quickstart");
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
    fn a_process_tells_where_its_number_means_something() {
        let here = place("a", "boot", "ns");
        let us = identity(here.clone());
        let long = LOST * 9;
        assert!(us.may_live(&here, long), "it is running, however long it was suspended");
        assert!(!Identity { pid: u32::MAX, ..us.clone() }.may_live(&here, Duration::ZERO));
        if let Some(start) = us.start {
            let reused = Identity { start: Some(start + 1), ..us };
            assert!(!reused.may_live(&here, Duration::ZERO), "another process has its number");
        }
    }

    #[test]
    fn elsewhere_only_the_heartbeat_tells() {
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
    fn without_a_boot_id_the_name_of_the_host_tells_the_kernel() {
        let nameless = |host: &str| Place { host: host.into(), boot: None, namespace: None };
        assert!(nameless("mac").sees_processes_of(&nameless("mac")));
        assert!(!nameless("mac").is_on_kernel_of(&nameless("book")));
        assert!(
            place("a", "boot", "ns").is_on_kernel_of(&place("b", "boot", "ns")),
            "a container's own name"
        );
    }
}
