//! The processes that respect the locks in a directory. Containers, services and users that cannot see the directory do
//! not notice its locks, and can measure at the same time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::cgroup::Mount;
use super::settings::probe_container;
use super::system::read;
use crate::record::LockReach;

/// The processes that locks in the directory at the absolute `path` exclude.
pub fn probe_lock_reach(path: &Path) -> LockReach {
    reach(&Signs {
        path: &path.display().to_string(),
        mounts: &read("/proc/self/mountinfo").unwrap_or_default(),
        in_container: probe_container().is_some(),
        is_for_all_users: is_for_all_users(path),
    })
}

/// Whether every user can create files in the directory at `path`. A missing directory counts, because it will be
/// created for all users.
fn is_for_all_users(path: &Path) -> bool {
    let mode = |path: &Path| fs::metadata(path).ok().map(|data| data.permissions().mode());
    let may_enter = |above: &Path| mode(above).is_none_or(|mode| mode & 0o001 != 0);
    mode(path).is_none_or(|mode| mode & 0o002 != 0) && path.ancestors().all(may_enter)
}

/// The inputs of [`reach`].
struct Signs<'a> {
    path: &'a str,
    /// `/proc/self/mountinfo`.
    mounts: &'a str,
    in_container: bool,
    is_for_all_users: bool,
}

fn reach(signs: &Signs<'_>) -> LockReach {
    let mounts = signs.mounts.lines().filter_map(Mount::parse);
    // If two file systems are mounted at one place, the later one hides the other.
    let mount = mounts.filter(|mount| mount.contains(signs.path)).max_by_key(|mount| mount.at.len());
    match mount {
        Some(mount) if signs.in_container && mount.is_of_a_container() => LockReach::Container,
        Some(mount) if mount.is_of_a_service_or_user() => LockReach::Service,
        _ if !signs.is_for_all_users => LockReach::User,
        _ => LockReach::Host,
    }
}

impl Mount<'_> {
    fn contains(&self, path: &str) -> bool {
        let at = self.at.trim_end_matches('/');
        path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether it was created for a container: its root, or an empty file system in memory. Mounts from the host are
    /// directories of other file systems.
    fn is_of_a_container(&self) -> bool {
        self.at == "/" || self.kind == "overlay" || (self.kind == "tmpfs" && self.root == "/")
    }

    /// Whether it is a private `/tmp`, which systemd (`PrivateTmp`) creates for services and `pam_namespace` for users.
    fn is_of_a_service_or_user(&self) -> bool {
        self.root.split('/').any(|part| part.starts_with("systemd-private-") || part.ends_with("-inst"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reach of locks in `/tmp/orchestrate-locks` below these mounts.
    fn of(mounts: &str, in_container: bool, is_for_all_users: bool) -> LockReach {
        reach(&Signs { path: "/tmp/orchestrate-locks", mounts, in_container, is_for_all_users })
    }

    const ROOT: &str = "22 1 259:2 / / rw shared:1 - ext4 /dev/nvme0n1p2 rw\n";
    const OVERLAY: &str = "812 700 0:52 / / rw - overlay overlay rw,lowerdir=/x\n";

    #[test]
    fn on_a_host_the_directory_decides() {
        let tmpfs = format!("{ROOT}40 22 0:35 / /tmp rw - tmpfs tmpfs rw\n");
        for mounts in [ROOT, &tmpfs, ""] {
            assert_eq!(of(mounts, false, true), LockReach::Host, "{mounts}");
            assert_eq!(of(mounts, false, false), LockReach::User, "{mounts}");
        }
    }

    #[test]
    fn in_a_container_only_mounts_from_the_host_are_shared() {
        let with = |line: &str| of(&format!("{OVERLAY}{line}\n"), true, true);
        assert_eq!(with(""), LockReach::Container);
        assert_eq!(with("813 812 0:60 / /tmp rw - tmpfs tmpfs rw"), LockReach::Container);
        assert_eq!(with("813 812 0:60 / /tmp/orchestrate rw - ext4 /dev/sda1 rw"), LockReach::Container);
        let bound = "813 812 259:2 /tmp/orchestrate-locks /tmp/orchestrate-locks rw - ext4 /dev/nvme0n1p2 rw";
        assert_eq!(with(bound), LockReach::Host);
        let bound_tmpfs = "813 812 0:35 /orchestrate-locks /tmp/orchestrate-locks rw - tmpfs tmpfs rw";
        assert_eq!(with(bound_tmpfs), LockReach::Host);
    }

    #[test]
    fn a_private_tmp_is_not_shared() {
        let with =
            |root: &str| of(&format!("{ROOT}50 22 259:2 {root} /tmp rw - ext4 /dev/x rw\n"), false, true);
        assert_eq!(with("/tmp/systemd-private-0f3a-bench.service-xyz/tmp"), LockReach::Service);
        assert_eq!(with("/tmp/tmp-inst/alice"), LockReach::Service);
        assert_eq!(with("/big/tmp"), LockReach::Host);
    }

    #[test]
    fn a_directory_of_one_user_excludes_other_users() {
        let directory = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        set(0o1777);
        let above = directory.path().ancestors().skip(1);
        let is_reachable = above.clone().all(|it| fs::metadata(it).unwrap().permissions().mode() & 1 != 0);
        assert_eq!(is_for_all_users(directory.path()), is_reachable);
        set(0o755);
        assert!(!is_for_all_users(directory.path()), "others cannot create files in it");
        set(0o700);
        assert!(!is_for_all_users(&directory.path().join("locks")), "others cannot enter it");
    }
}
