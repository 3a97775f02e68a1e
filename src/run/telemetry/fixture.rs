//! A fake `/proc` and `/sys` in a temporary directory, for tests.
#![expect(clippy::disallowed_methods, reason = "sensors are files")]

use std::fs;
use std::path::Path;

/// The root of a fake file system.
pub(super) struct Root(tempfile::TempDir);

impl Root {
    pub(super) fn new(files: &[(&str, &str)]) -> Root {
        let root = Root(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| root.set(path, text));
        root
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn set(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Two packages of two cores with two threads each, and every sensor that is read of a host.
pub(super) fn server() -> Root {
    let root = Root::new(&[
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\n"),
        ("proc/stat", "cpu  100 0 50 4000 25 0 25 0 0 0\ncpu0 100 0 50 4000 25 0 25 0 0 0\n"),
        ("proc/meminfo", "MemTotal: 2000 kB\nMemAvailable: 1000 kB\n"),
        ("proc/vmstat", "nr_free_pages 5\npswpin 2\npswpout 3\n"),
        ("proc/thread-self/children", ""),
        // `time`, its worker, and a loader that is stopped.
        ("proc/20/stat", "20 (time) S 1 20 20 0 -1 0 0 0 0 0 0 0\n"),
        ("proc/20/task/20/children", "21 "),
        ("proc/21/stat", "21 (a worker) R 20 20 20 0 -1 0 0 0 0 0 5 5\n"),
        ("proc/21/task/21/children", "22 23 "),
        ("proc/22/stat", "22 (loader) S 21 20 20 0 -1 0 0 0 0 0 0 0\n"),
        ("proc/22/task/22/children", ""),
        ("proc/23/stat", "23 (loader) T 21 20 20 0 -1 0 0 0 0 0 0 0\n"),
        ("proc/23/task/23/children", ""),
        ("proc/self/cgroup", "0::/job/step\n"),
        ("proc/self/mountinfo", "25 30 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/job/cpu.max", "200000 100000\n"),
        ("sys/fs/cgroup/job/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 1250000\n"),
        ("sys/fs/cgroup/job/step/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/job/step/cpu.stat", "usage_usec 9\nnr_throttled 0\nthrottled_usec 0\n"),
        ("sys/class/hwmon/hwmon0/name", "nvme\n"),
        ("sys/class/hwmon/hwmon0/temp1_input", "90000\n"),
        ("sys/class/powercap/intel-rapl:0:0/name", "core\n"),
        ("sys/class/powercap/intel-rapl:0:0/energy_uj", "5\n"),
        ("sys/class/powercap/intel-rapl/enabled", "1\n"),
    ]);
    for (package, celsius) in [(0, 51), (1, 63)] {
        let monitor = format!("sys/class/hwmon/hwmon{}", package + 1);
        root.set(&format!("{monitor}/name"), "coretemp\n");
        root.set(&format!("{monitor}/temp1_label"), &format!("Package id {package}\n"));
        root.set(&format!("{monitor}/temp1_input"), &format!("{celsius}000\n"));
        root.set(&format!("{monitor}/temp2_label"), "Core 0\n");
        root.set(&format!("{monitor}/temp2_input"), "99000\n");
        let domain = format!("sys/class/powercap/intel-rapl:{package}");
        root.set(&format!("{domain}/name"), &format!("package-{package}\n"));
        root.set(&format!("{domain}/max_energy_range_uj"), "1000000000\n");
        root.set(&format!("{domain}/energy_uj"), "999000000\n");
    }
    for processor in 0..8 {
        let directory = format!("sys/devices/system/cpu/cpu{processor}");
        let frequency = 2_000_000 + 100_000 * processor;
        root.set(&format!("{directory}/cpufreq/scaling_cur_freq"), &format!("{frequency}\n"));
        root.set(&format!("{directory}/thermal_throttle/core_throttle_count"), "2\n");
        root.set(&format!("{directory}/thermal_throttle/core_throttle_total_time_ms"), "90000\n");
        let first = processor % 4;
        root.set(&format!("{directory}/topology/thread_siblings_list"), &format!("{first},{}\n", first + 4));
    }
    root
}
