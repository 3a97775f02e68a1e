//! The sensors of the host, on Linux, [`HostSensors`]: files below `/proc` and `/sys`, opened once and read for every
//! sample.
//!
//! Values that the system does not offer to this user are absent. Reading starts no process. A file that would wake an
//! idle processor is not read where another file has the same value.
#![expect(clippy::disallowed_methods, reason = "sensors are files")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::parse::{self, Unwrapped};
use crate::host::{CgroupPlace, busy_seconds, counter, held_seconds, memory_value};
use crate::processes::ProcessTable;
use crate::run::process::Group;

/// The most processors whose clock is read, spread evenly over the usable ones, the same for every sample. Reading the
/// file of one can interrupt that processor, or wait up to 20 ms for it. So reading all of a large host would disturb
/// the measurement. If a job keeps the host busy, all processors have about the same clock, so four suffice to detect
/// heat, a power limit or a governor.
const MOST_CLOCKS: usize = 4;

/// The most processors whose clocks are read from `/proc/cpuinfo`, which has all of them or none.
const MOST_IN_CPUINFO: usize = 16;

/// The most processes of a job that are checked: a job starts few, and its worker is one of the first.
const MOST_PROCESSES: usize = 64;

/// No file that is read here is longer, in bytes.
const LONGEST: usize = 64 * 1024;

/// The sensors that this host offers.
#[derive(Debug, Default)]
pub(super) struct HostSensors {
    clocks: Clocks,
    /// Thousandths of a °C.
    temperatures: Vec<Probe>,
    throttle_counts: Vec<Probe>,
    throttle_times: Vec<ThrottledCore>,
    packages: Vec<Package>,
    quota: Option<Probe>,
    stops: Option<Stops>,
    load: Option<Probe>,
    memory: Option<Probe>,
    virtual_memory: Option<Probe>,
    /// Pages swapped in and out at this sample. The kernel takes long to sum them, so they are read together.
    paged: Option<Paged>,
    page_bytes: f64,
    /// A buffer for reading, kept to reuse its memory.
    text: Vec<u8>,
}

/// Pages since the system was started, if the system counts them.
#[derive(Clone, Copy, Debug)]
struct Paged {
    inward: Option<u64>,
    outward: Option<u64>,
}

#[derive(Debug, Default)]
enum Clocks {
    #[default]
    Absent,
    /// Files with one clock each, in kHz; at most [`MOST_CLOCKS`].
    Each(Vec<Probe>),
    /// `/proc/cpuinfo`, and the usable processors.
    CpuInfo(Probe, Vec<u32>),
}

/// The energy counter of one processor package, in microjoules.
#[derive(Debug)]
struct Package {
    probe: Probe,
    counter: Unwrapped,
}

/// The milliseconds for which a core was throttled.
#[derive(Debug)]
struct ThrottledCore {
    probe: Probe,
    /// The value at the first sample.
    before: Option<f64>,
}

impl ThrottledCore {
    /// The milliseconds since the first sample.
    fn look(&mut self) -> Option<f64> {
        let now = self.probe.number()?;
        Some(now - *self.before.get_or_insert(now))
    }
}

/// Detects stopped processes of a job.
#[derive(Debug)]
struct Stops {
    processes: ProcessTable,
    /// The number of samples with a stopped process.
    found: u32,
}

impl Stops {
    /// `None` if the kernel does not list children. Searching all processes for them would take too long.
    fn open(root: &Path) -> Option<Stops> {
        let lists_children = root.join("proc/thread-self/children").exists();
        lists_children.then(|| Stops { processes: ProcessTable::in_directory(root.join("proc")), found: 0 })
    }

    /// Counts a sample. A traced process does not count as stopped.
    fn look(&mut self, job: Option<Group>) {
        let Some(job) = job else { return };
        let is_stopped = |pid| self.processes.stat(pid).is_some_and(|stat| stat.state == 'T');
        self.found +=
            u32::from(self.processes.family(job.leader(), MOST_PROCESSES).into_iter().any(is_stopped));
    }
}

/// A file that is read for every sample.
#[derive(Debug)]
struct Probe(File);

impl Probe {
    fn open(path: PathBuf) -> Option<Probe> {
        File::open(path).ok().map(Probe)
    }

    /// Reads the file into `text`. Files below `/proc` return a page per call, so it is read to its end.
    fn read<'a>(&self, text: &'a mut Vec<u8>) -> Option<&'a str> {
        text.resize(LONGEST, 0);
        let mut length = 0;
        while length < LONGEST {
            match self.0.read_at(&mut text[length..], length as u64).ok()? {
                0 => break,
                read => length += read,
            }
        }
        str::from_utf8(&text[..length]).ok()
    }

    /// The number in a file that contains nothing else.
    fn number(&self) -> Option<f64> {
        let mut bytes = [0; 32];
        let length = self.0.read_at(&mut bytes, 0).ok()?;
        parse::number(str::from_utf8(&bytes[..length]).ok()?)
    }
}

impl HostSensors {
    /// Opens the sensors below `root`, which is `/` except in tests. A page of memory has `page_bytes` bytes.
    pub(super) fn open(root: &Path, page_bytes: f64) -> HostSensors {
        let status = read(&root.join("proc/self/status")).unwrap_or_default();
        let usable = parse::allowed_processors(&status);
        HostSensors {
            clocks: open_clocks(root, &usable),
            temperatures: open_temperatures(root),
            throttle_counts: open_throttle_files(root, "core_throttle_count"),
            throttle_times: open_throttle_files(root, "core_throttle_total_time_ms")
                .into_iter()
                .map(|probe| ThrottledCore { probe, before: None })
                .collect(),
            packages: open_packages(root),
            quota: open_quota(root),
            stops: Stops::open(root),
            load: Probe::open(root.join("proc/stat")),
            memory: Probe::open(root.join("proc/meminfo")),
            virtual_memory: Probe::open(root.join("proc/vmstat")),
            paged: None,
            page_bytes,
            text: Vec::new(),
        }
    }

    /// Discards cached values before a new sample.
    pub(super) fn begin_look(&mut self) {
        self.paged = None;
    }

    /// Seconds that the processors were busy since the system was started.
    pub(super) fn busy_s(&mut self) -> Option<f64> {
        busy_seconds(self.load.as_ref()?.read(&mut self.text)?)
    }

    /// How often processors were throttled because of heat.
    pub(super) fn throttle_events(&self) -> Option<f64> {
        sum(self.throttle_counts.iter().map(Probe::number))
    }

    /// Seconds since the first sample for which the most throttled core was throttled. Threads that wait for each other
    /// wait for that core. Absent where the file of one core cannot be read.
    pub(super) fn throttled_s(&mut self) -> Option<f64> {
        let cores: Option<Vec<f64>> = self.throttle_times.iter_mut().map(ThrottledCore::look).collect();
        cores?.into_iter().max_by(f64::total_cmp).map(|milliseconds| milliseconds / 1e3)
    }

    /// Seconds for which a quota throttled the processors.
    pub(super) fn quota_held_s(&mut self) -> Option<f64> {
        held_seconds(self.quota.as_ref()?.read(&mut self.text)?)
    }

    /// How many samples have found a stopped process of `job`.
    pub(super) fn stopped_looks(&mut self, job: Option<Group>) -> Option<f64> {
        let stops = self.stops.as_mut()?;
        stops.look(job);
        Some(f64::from(stops.found))
    }

    /// Memory that is available on the host, in bytes.
    pub(super) fn memory_available_bytes(&mut self) -> Option<f64> {
        let bytes = memory_value(self.memory.as_ref()?.read(&mut self.text)?, "MemAvailable")?;
        Some(bytes as f64)
    }

    /// Bytes swapped in since the system was started.
    pub(super) fn swapped_in_bytes(&mut self) -> Option<f64> {
        let pages = self.paged()?.inward?;
        Some(pages as f64 * self.page_bytes)
    }

    /// Bytes swapped out since the system was started.
    pub(super) fn swapped_out_bytes(&mut self) -> Option<f64> {
        let pages = self.paged()?.outward?;
        Some(pages as f64 * self.page_bytes)
    }

    fn paged(&mut self) -> Option<Paged> {
        if self.paged.is_none() {
            let text = self.virtual_memory.as_ref()?.read(&mut self.text)?;
            self.paged = Some(Paged { inward: counter(text, "pswpin"), outward: counter(text, "pswpout") });
        }
        self.paged
    }

    /// The mean clock in MHz, of at most [`MOST_CLOCKS`] of the usable processors, always the same ones. Idle
    /// processors count too: the processors that a job uses are unknown and change. From `/proc/cpuinfo`, which
    /// contains all clocks, it is the mean of all usable processors.
    pub(super) fn mhz(&mut self) -> Option<f64> {
        let clocks: Vec<f64> = match &self.clocks {
            Clocks::Absent => return None,
            Clocks::Each(probes) => {
                probes.iter().filter_map(Probe::number).map(|kilohertz| kilohertz / 1e3).collect()
            }
            Clocks::CpuInfo(probe, usable) => parse::measured_clocks(probe.read(&mut self.text)?, usable),
        };
        (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
    }

    /// The hottest sensor of the processor, in °C.
    pub(super) fn temperature_c(&self) -> Option<f64> {
        let readings = self.temperatures.iter().filter_map(Probe::number);
        readings.max_by(f64::total_cmp).map(|thousandths| thousandths / 1e3)
    }

    /// Energy of all packages since the first sample, in joules. Absent where one of them cannot be read.
    pub(super) fn energy_j(&mut self) -> Option<f64> {
        let advance = |package: &mut Package| {
            package.probe.number().map(|microjoules| package.counter.advance(microjoules))
        };
        // Every counter is read every time, so that no wrap is missed.
        let readings: Vec<Option<f64>> = self.packages.iter_mut().map(advance).collect();
        sum(readings.into_iter()).map(|microjoules| microjoules / 1e6)
    }
}

/// The sum of `values`; `None` if there are none, or if one of them is absent.
fn sum(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    if values.len() == 0 { None } else { values.sum() }
}

fn open_clocks(root: &Path, usable: &[u32]) -> Clocks {
    let path =
        |processor: u32| root.join(format!("sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq"));
    let chosen = parse::spread(usable, MOST_CLOCKS);
    let each: Vec<Probe> = chosen.into_iter().filter_map(|processor| Probe::open(path(processor))).collect();
    if !each.is_empty() {
        return Clocks::Each(each);
    }
    let cpu_info = root.join("proc/cpuinfo");
    let text = read(&cpu_info).unwrap_or_default();
    let is_short = text.lines().filter(|line| line.starts_with("processor")).count() <= MOST_IN_CPUINFO;
    match Probe::open(cpu_info) {
        Some(probe) if is_short && !parse::measured_clocks(&text, usable).is_empty() => {
            Clocks::CpuInfo(probe, usable.to_vec())
        }
        _ => Clocks::Absent,
    }
}

/// The sensors of hardware monitors; without any, those of thermal zones.
fn open_temperatures(root: &Path) -> Vec<Probe> {
    let mut found = Vec::new();
    for monitor in directories(&root.join("sys/class/hwmon")) {
        let driver = word(&monitor.join("name"));
        let sensors = monitor_sensors(&monitor);
        let labels: Vec<String> = sensors.iter().map(|(label, _)| label.clone()).collect();
        let chosen =
            sensors.into_iter().filter(|(label, _)| parse::is_processor_temperature(&driver, label, &labels));
        found.extend(chosen.filter_map(|(_, path)| Probe::open(path)));
    }
    if found.is_empty() {
        let zones = directories(&root.join("sys/class/thermal")).into_iter();
        let zones = zones.filter(|zone| parse::is_processor_zone(&word(&zone.join("type"))));
        found.extend(zones.filter_map(|zone| Probe::open(zone.join("temp"))));
    }
    found
}

/// Labels and files of the temperatures of a hardware monitor.
fn monitor_sensors(monitor: &Path) -> Vec<(String, PathBuf)> {
    let mut sensors = Vec::new();
    for path in directories(monitor) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(sensor) = name.strip_suffix("_input").filter(|name| name.starts_with("temp")) else {
            continue;
        };
        sensors.push((word(&monitor.join(format!("{sensor}_label"))), path));
    }
    sensors
}

/// The file `name` of the first thread of each core; all threads of a core have the same value.
fn open_throttle_files(root: &Path, name: &str) -> Vec<Probe> {
    let mut found = Vec::new();
    for directory in directories(&root.join("sys/devices/system/cpu")) {
        let processor = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(number) = processor.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok()) else {
            continue;
        };
        let threads = parse::processors(&word(&directory.join("topology/thread_siblings_list")));
        if threads.first().is_none_or(|first| *first == number) {
            found.extend(Probe::open(directory.join("thermal_throttle").join(name)));
        }
    }
    found
}

/// The counters of the control group whose quota limits this process, if there is one.
fn open_quota(root: &Path) -> Option<Probe> {
    let read = |path: &str| read(&root.join(path.trim_start_matches('/')));
    let text = |path: &str| read(path).unwrap_or_default();
    let (groups, mounts) = (text("/proc/self/cgroup"), text("/proc/self/mountinfo"));
    let file = CgroupPlace { groups: &groups, mounts: &mounts, read: &read }.quota_file()?;
    Probe::open(root.join(file.trim_start_matches('/')))
}

/// The packages' energy counters; empty unless this user may read all of them (usually only root may).
fn open_packages(root: &Path) -> Vec<Package> {
    let domains = directories(&root.join("sys/class/powercap")).into_iter().filter(|domain| {
        let name = domain.file_name().unwrap_or_default().to_string_lossy();
        parse::is_package(&name, &word(&domain.join("name")))
    });
    let open = |domain: PathBuf| {
        let greatest = parse::number(&read(&domain.join("max_energy_range_uj"))?)?;
        let probe = Probe::open(domain.join("energy_uj"))?;
        probe.number()?;
        Some(Package { probe, counter: Unwrapped::new(greatest) })
    };
    domains.map(open).collect::<Option<Vec<Package>>>().unwrap_or_default()
}

/// The entries of a directory, sorted; empty if it cannot be read.
fn directories(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn word(path: &Path) -> String {
    read(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn read(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Root, server};
    use super::*;

    fn open(root: &Root) -> HostSensors {
        HostSensors::open(root.path(), 4096.0)
    }

    #[test]
    fn on_a_large_host_the_same_four_clocks_are_read() {
        let root = Root::new(&[("proc/self/status", "Cpus_allowed_list:\t64-127\n")]);
        let set = |processor: u32, kilohertz: u32| {
            let path = format!("sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq");
            root.set(&path, &format!("{kilohertz}\n"));
        };
        (0..128).for_each(|processor| set(processor, 1000 * processor));
        let mut sensors = open(&root);
        let Clocks::Each(probes) = &sensors.clocks else { panic!("{:?}", sensors.clocks) };
        assert_eq!(probes.len(), 4);
        assert_eq!(
            sensors.mhz(),
            Some((64.0 + 80.0 + 96.0 + 112.0) / 4.0),
            "evenly spread over the usable processors"
        );
        (0..128).filter(|processor| processor % 16 != 0).for_each(|processor| set(processor, 9_000_000));
        assert_eq!(sensors.mhz(), Some(88.0), "other clocks are not read");
    }

    #[test]
    fn files_are_read_for_every_sample_and_energies_wrap() {
        let root = server();
        let mut sensors = open(&root);
        assert_eq!(sensors.energy_j(), Some(0.0), "the counter begins at the first sample");
        root.set("sys/class/powercap/intel-rapl:0/energy_uj", "999500000\n");
        root.set("sys/class/powercap/intel-rapl:1/energy_uj", "3000000\n");
        root.set("proc/meminfo", "MemAvailable: 7 kB\n");
        // 0.5 J of the first package; of the second 1 J up to the wrap and 3 J after it.
        assert_eq!(sensors.energy_j(), Some(4.5));
        assert_eq!(sensors.memory_available_bytes(), Some(7168.0));
        root.set("sys/class/powercap/intel-rapl:1/energy_uj", "torn\n");
        assert_eq!(sensors.energy_j(), None, "the energy of one package is not enough");
    }

    #[test]
    fn reports_the_most_throttled_core() {
        let root = server();
        let mut sensors = open(&root);
        assert_eq!(sensors.throttled_s(), Some(0.0), "the time counts from the first sample");
        let set = |core: u32, milliseconds: u32| {
            let path =
                format!("sys/devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_total_time_ms");
            root.set(&path, &format!("{milliseconds}\n"));
        };
        set(1, 90_400);
        set(2, 91_500);
        // The second thread of a core is ignored.
        set(6, 99_000);
        assert_eq!(sensors.throttled_s(), Some(1.5));
        root.set("sys/devices/system/cpu/cpu3/thermal_throttle/core_throttle_total_time_ms", "torn\n");
        assert_eq!(sensors.throttled_s(), None);
    }

    #[test]
    fn without_one_package_the_energy_is_absent() {
        let root = server();
        fs::remove_file(root.path().join("sys/class/powercap/intel-rapl:1/energy_uj")).unwrap();
        assert_eq!(open(&root).energy_j(), None);
    }

    #[test]
    fn thermal_zones_replace_missing_hardware_monitors() {
        let zones = Root::new(&[
            ("sys/class/thermal/thermal_zone0/type", "acpitz\n"),
            ("sys/class/thermal/thermal_zone0/temp", "20000\n"),
            ("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n"),
            ("sys/class/thermal/thermal_zone1/temp", "44500\n"),
        ]);
        assert_eq!(open(&zones).temperature_c(), Some(44.5));
    }

    #[test]
    fn clocks_come_from_cpuinfo_if_they_are_measured_and_few() {
        let system = |processors: u32, flags: &str| {
            let one = |i| format!("processor\t: {i}\ncpu MHz\t\t: 3000.5\nflags\t\t: fpu {flags}\n\n");
            let text: String = (0..processors).map(one).collect();
            Root::new(&[("proc/cpuinfo", &text), ("proc/self/status", "Cpus_allowed_list:\t0-1\n")])
        };
        assert_eq!(open(&system(4, "aperfmperf")).mhz(), Some(3000.5));
        assert_eq!(open(&system(4, "hypervisor")).mhz(), None);
        assert_eq!(open(&system(64, "aperfmperf")).mhz(), None);
    }
}
