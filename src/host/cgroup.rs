//! The limits of our own control group, which workers inherit, on Linux.
//!
//! A group is limited by its ancestors too, so the tightest limit of all that we can see counts. In a container these
//! are the groups of the container. The kernel has two versions of hierarchies, and some hosts have both: version 1 has
//! a tree per controller, version 2 has one tree for all. Formats: `Documentation/admin-guide/cgroup-v2.rst` and
//! `cgroup-v1/` of the kernel, `proc_pid_mountinfo(5)`.

use super::parse::{count_in_list, counter};
use crate::record::CgroupLimits;

/// In version 1, limits from here on mean "unlimited": the greatest number of pages, shown in bytes.
const NO_LIMIT: u64 = 1 << 60;

/// The inputs that locate the files of our control group.
pub(crate) struct CgroupPlace<'a> {
    /// `/proc/self/cgroup`: a line `NUMBER:CONTROLLERS:PATH` per hierarchy.
    pub(crate) groups: &'a str,
    /// `/proc/self/mountinfo`.
    pub(crate) mounts: &'a str,
    /// The text of the file at a path; `None` if there is none.
    pub(crate) read: &'a dyn Fn(&str) -> Option<String>,
}

/// The groups that limit us by one controller: the directories of our own and of its ancestors, ours first.
struct Chain {
    is_first_version: bool,
    directories: Vec<String>,
}

impl CgroupPlace<'_> {
    /// The limits; `None` if the group is unlimited. The host has `logical` processors.
    pub(super) fn limits(&self, logical: u32) -> Option<CgroupLimits> {
        let limits = CgroupLimits {
            memory_bytes: self.least_memory(["memory.limit_in_bytes", "memory.max"]),
            memory_high_bytes: self.least_memory(["", "memory.high"]),
            cpus: self.quota().map(|(_, cpus)| cpus),
            processors: self.processors().filter(|processors| *processors < logical),
        };
        (limits != CgroupLimits::default()).then_some(limits)
    }

    /// The file that counts how long the quota on processors throttled the group; `None` if there is no quota.
    pub(crate) fn quota_file(&self) -> Option<String> {
        self.quota().map(|(directory, _)| format!("{directory}/cpu.stat"))
    }

    /// The tightest limit of memory. The arguments are its names in version 1 and version 2.
    fn least_memory(&self, [first, second]: [&str; 2]) -> Option<u64> {
        let chain = self.chain("memory")?;
        let file = if chain.is_first_version { first } else { second };
        let limit = |directory: &String| memory(&(self.read)(&format!("{directory}/{file}"))?);
        chain.directories.iter().filter_map(limit).min()
    }

    /// The tightest quota, in processors, with the group that has it.
    fn quota(&self) -> Option<(String, f64)> {
        let chain = self.chain("cpu")?;
        let read = |directory: &String, file: &str| (self.read)(&format!("{directory}/{file}"));
        let quota = |directory: String| {
            let cpus = match chain.is_first_version {
                true => {
                    let period = read(&directory, "cpu.cfs_period_us")?;
                    quota(&format!("{} {period}", read(&directory, "cpu.cfs_quota_us")?.trim()))?
                }
                false => quota(&read(&directory, "cpu.max")?)?,
            };
            Some((directory, cpus))
        };
        chain
            .directories
            .iter()
            .cloned()
            .filter_map(quota)
            .min_by(|(_, left), (_, right)| left.total_cmp(right))
    }

    /// The number of processors that the group may use. The kernel takes its ancestors into account.
    fn processors(&self) -> Option<u32> {
        let chain = self.chain("cpuset")?;
        let own = chain.directories.first()?;
        let files: &[&str] = match chain.is_first_version {
            true => &["cpuset.effective_cpus", "cpuset.cpus"],
            false => &["cpuset.cpus.effective"],
        };
        files.iter().find_map(|file| count_in_list(&(self.read)(&format!("{own}/{file}"))?))
    }

    fn chain(&self, controller: &str) -> Option<Chain> {
        let named = |names: &str| names.split(',').any(|name| name == controller);
        let group = |wanted: &dyn Fn(&str) -> bool| {
            self.groups.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (names, path) = rest.split_once(':')?;
                wanted(names).then_some(path)
            })
        };
        let (is_first_version, path) = match group(&named) {
            Some(path) => (true, path),
            None => (false, group(&|names| names.is_empty())?),
        };
        let mount = self.mounts.lines().filter_map(Mount::parse).find(|mount| match is_first_version {
            true => mount.kind == "cgroup" && named(mount.options),
            false => mount.kind == "cgroup2",
        })?;
        Some(Chain { is_first_version, directories: mount.lineage(path) })
    }
}

/// A mounted file system.
pub(super) struct Mount<'a> {
    /// The directory of the file system that is mounted.
    pub(super) root: &'a str,
    /// The mount point.
    pub(super) at: &'a str,
    pub(super) kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (mount, system) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(3);
        let (root, at) = (words.next()?, words.next()?);
        let mut words = system.split(' ');
        let (kind, _, options) = (words.next()?, words.next()?, words.next()?);
        Some(Mount { root, at, kind, options })
    }

    /// The directories of the group at `path` and of its ancestors, as far as they are mounted.
    fn lineage(&self, path: &str) -> Vec<String> {
        let below = match self.root {
            "/" => path,
            // The mounted directory belongs to another group: it is the one that a container sees as its root.
            root => {
                path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or("")
            }
        };
        let is_outside = below.split('/').any(|part| part == "..");
        let parts: Vec<&str> =
            if is_outside { Vec::new() } else { below.split('/').filter(|part| !part.is_empty()).collect() };
        let directory = |depth: usize| {
            parts[..depth].iter().fold(self.at.trim_end_matches('/').to_owned(), |at, part| at + "/" + part)
        };
        (0..=parts.len()).rev().map(directory).collect()
    }
}

/// A limit of memory in bytes; `None` if it is `max` or the value with which version 1 means "unlimited".
fn memory(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT)
}

/// A quota of time per period, in processors: `200000 100000` is 2. `None` if it is `max` or -1.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Seconds for which a quota throttled processors, summed over all processors, from the text of `cpu.stat`. Version 2
/// counts microseconds, version 1 nanoseconds.
pub(crate) fn held_seconds(stat: &str) -> Option<f64> {
    let microseconds = counter(stat, "throttled_usec").map(|count| count as f64 / 1e6);
    microseconds.or_else(|| counter(stat, "throttled_time").map(|count| count as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const UNIFIED: &str = "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    /// The limits and the file of the quota on a host of 16 processors with these `files`.
    fn of(groups: &str, mounts: &str, files: &[(&str, &str)]) -> (Option<CgroupLimits>, Option<String>) {
        let files: BTreeMap<&str, &str> = files.iter().copied().collect();
        let read = |path: &str| files.get(path).map(|text| (*text).to_owned());
        let place = CgroupPlace { groups, mounts, read: &read };
        (place.limits(16), place.quota_file())
    }

    #[test]
    fn the_tightest_limit_of_all_ancestors_counts() {
        let found = of(
            "0::/user.slice/job_7/step_0\n",
            UNIFIED,
            &[
                ("/sys/fs/cgroup/user.slice/job_7/step_0/memory.max", "max\n"),
                ("/sys/fs/cgroup/user.slice/job_7/step_0/memory.high", "3000\n"),
                ("/sys/fs/cgroup/user.slice/job_7/memory.max", "4000\n"),
                ("/sys/fs/cgroup/user.slice/memory.max", "9000\n"),
                ("/sys/fs/cgroup/user.slice/job_7/step_0/cpu.max", "800000 100000\n"),
                ("/sys/fs/cgroup/user.slice/job_7/cpu.max", "250000 100000\n"),
                ("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"),
                ("/sys/fs/cgroup/user.slice/job_7/step_0/cpuset.cpus.effective", "0-3,8\n"),
            ],
        );
        let limits = CgroupLimits {
            memory_bytes: Some(4000),
            memory_high_bytes: Some(3000),
            cpus: Some(2.5),
            processors: Some(5),
        };
        assert_eq!(found, (Some(limits), Some("/sys/fs/cgroup/user.slice/job_7/cpu.stat".to_owned())));
    }

    #[test]
    fn a_group_without_limits_has_none() {
        let all = [
            ("/sys/fs/cgroup/memory.max", "max\n"),
            ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/cpuset.cpus.effective", "0-15\n"),
        ];
        assert_eq!(of("0::/\n", UNIFIED, &all), (None, None));
        assert_eq!(of("0::/\n", UNIFIED, &[]), (None, None), "the root group");
        assert_eq!(of("", "", &all), (None, None));
        assert_eq!(of("0::/\n", "torn", &all), (None, None));
    }

    /// On a host with both hierarchies.
    #[test]
    fn version_1_has_a_tree_per_controller() {
        let groups = "4:memory:/docker/abc\n3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n0::/\n";
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let files = [
            ("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "2147483648\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "150000\n"),
            ("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-1\n"),
        ];
        let limits = CgroupLimits {
            memory_bytes: Some(2 << 30),
            memory_high_bytes: None,
            cpus: Some(1.5),
            processors: Some(2),
        };
        let file = "/sys/fs/cgroup/cpu/docker/abc/cpu.stat".to_owned();
        assert_eq!(of(groups, mounts, &files), (Some(limits), Some(file)));
        let unlimited = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(of(groups, mounts, &unlimited), (None, None));
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount() {
        let limited = [("/sys/fs/cgroup/memory.max", "5000\n")];
        let memory = |groups: &str, root: &str| {
            let mounts = format!("25 30 0:23 {root} /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
            of(groups, &mounts, &limited).0.and_then(|limits| limits.memory_bytes)
        };
        // With a separate namespace; with the host's paths; with a path outside of the mounted directory.
        for (groups, root) in [
            ("0::/\n", "/"),
            ("0::/docker/abc\n", "/docker/abc"),
            ("0::/docker/abcd\n", "/docker/abc"),
            ("0::/../../init\n", "/"),
        ] {
            assert_eq!(memory(groups, root), Some(5000), "{groups} {root}");
        }
    }

    #[test]
    fn throttled_time_is_read_in_either_unit() {
        assert_eq!(held_seconds("nr_periods 9\nnr_throttled 4\nthrottled_usec 2500000\n"), Some(2.5));
        assert_eq!(held_seconds("nr_periods 9\nnr_throttled 4\nthrottled_time 2500000000\n"), Some(2.5));
        assert_eq!(held_seconds("usage_usec 5\n"), None);
    }
}
