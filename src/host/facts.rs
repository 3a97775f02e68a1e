//! Reads the facts about the machine for a record's provenance ([`probe_host`]), and the counters before and after a
//! job ([`probe_counters`]).
//!
//! This file reads, `parse` interprets: every text of the system is parsed by a pure function. A fact that the system
//! does not report is absent, never guessed. On Linux this starts no process; on macOS only `sysctl`, `pmset`, `ioreg`
//! and `vm_stat`. Everything takes milliseconds, because it happens before every job.
#![expect(clippy::disallowed_methods, reason = "this probes the machine")]

use std::path::Path;
use std::sync::LazyLock;

use super::cgroup::CgroupPlace;
use super::clock::{probe_asleep_s, probe_since_boot};
use super::machine::probe_machine;
use super::nvidia::{NvidiaFacts, probe_nvidia};
use super::system::{entries, output, read, read_in_each};
use super::visible::{Known, visible_gpus};
use super::{macos, parse, settings};
use crate::clean::cleaned;
use crate::record::{CgroupLimits, CpuFacts, GpuFacts, HostCounters, HostFacts, OsFacts};

/// The variable that lists the devices of a host that cannot report them, such as a board with an unusual driver:
/// `cpu,cuda`.
pub const DEVICES_VARIABLE: &str = "ORCHESTRATE_DEVICES";

/// The variable that shows CUDA some of a host's GPUs.
const VISIBLE_VARIABLE: &str = "CUDA_VISIBLE_DEVICES";

/// The facts about the machine that are known without running a job.
pub fn probe_host() -> HostFacts {
    let found = if cfg!(target_os = "macos") { probe_macos() } else { probe_linux() };
    let declared = std::env::var(DEVICES_VARIABLE).ok().filter(|words| !words.trim().is_empty());
    let visible = std::env::var_os(VISIBLE_VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let found = with_devices(found, declared.as_deref(), visible.as_deref());
    // Texts of drivers and firmware, and the host's name, can contain anything.
    cleaned(&found)
}

/// `host`, which has all devices found, with only those that jobs can use: the ones that are `declared` (if any are),
/// that `visible` shows, and that answer.
fn with_devices(host: HostFacts, declared: Option<&str>, visible: Option<&str>) -> HostFacts {
    let is_gpu = |device: &&String| device.starts_with("cuda:");
    let count = host.devices.iter().filter(is_gpu).count();
    let devices = declared.map_or_else(|| host.devices.clone(), parse::devices);
    let has_gpus = devices.iter().any(|device| device.starts_with("cuda"));
    let known = Known { gpus: &host.gpus, count: Some(count).filter(|count| *count > 0) };
    let visible = visible.filter(|_| has_gpus).map(|variable| visible_gpus(variable, known));
    let devices = match (&visible, declared) {
        (Some(visible), None) => parse::linux_devices(visible.entries.len()),
        _ => devices,
    };
    let host = HostFacts { cuda_visible_devices: visible, ..host };
    let can_be_had = |word: &String| word.parse().is_ok_and(|device| host.no_gpu(device).is_none());
    HostFacts { devices: devices.into_iter().filter(can_be_had).collect(), ..host }
}

/// Reads the current counters of the host.
pub fn probe_counters() -> HostCounters {
    if cfg!(target_os = "macos") {
        let load = sysctl(&["vm.loadavg"]).and_then(|text| parse::macos_load(&text));
        return HostCounters { load, ..probe_clocks() };
    }
    let times = read("/proc/stat").and_then(|text| ticks(&text));
    let second = ticks_per_second();
    HostCounters {
        busy_s: times.map(|ticks| ticks.busy as f64 / second),
        steal_s: times.map(|ticks| ticks.steal as f64 / second),
        load: read("/proc/loadavg").and_then(|text| parse::first_number(&text)),
        oom_kills: probe_oom_kills(),
        ..probe_clocks()
    }
}

fn probe_clocks() -> HostCounters {
    HostCounters {
        since_boot_s: probe_since_boot().map(|span| span.as_secs_f64()),
        asleep_s: probe_asleep_s(),
        ..HostCounters::default()
    }
}

/// The ticks of the processors that jobs may run on. The others do not affect jobs.
fn ticks(stat: &str) -> Option<parse::Ticks> {
    let allowed = read("/proc/self/status").and_then(|status| parse::allowed_processors(&status, stat));
    parse::processor_ticks(stat, allowed.as_ref())
}

/// The number of processors that [`ticks`] sums over.
fn counted_processors() -> Option<u32> {
    let stat = read("/proc/stat")?;
    let allowed = read("/proc/self/status").and_then(|status| parse::allowed_processors(&status, &stat));
    let all = parse::listed_processors(&stat).count();
    u32::try_from(allowed.map_or(all, |allowed| allowed.len())).ok().filter(|number| *number > 0)
}

/// Seconds for which the processors that jobs may run on were busy in total, from the text of `/proc/stat`.
pub(crate) fn busy_seconds(stat: &str) -> Option<f64> {
    Some(ticks(stat)?.busy as f64 / ticks_per_second())
}

/// Workers run in our own control group, so the counter of that group is the most precise.
fn probe_oom_kills() -> Option<u64> {
    /// The file of our group, looked up once: processes are not moved to other groups while they run jobs.
    static EVENTS: LazyLock<Option<String>> = LazyLock::new(|| {
        let group = parse::unified_cgroup(&read("/proc/self/cgroup")?)?;
        Some(format!("/sys/fs/cgroup{group}/memory.events"))
    });
    let group = EVENTS.as_deref().and_then(read);
    group
        .and_then(|text| parse::counter(&text, "oom_kill"))
        .or_else(|| parse::counter(&read("/proc/vmstat")?, "oom_kill"))
}

/// Ticks per second, the unit of `/proc/stat` and `/proc/<pid>/stat`. Every Linux seen so far has 100.
pub(crate) fn ticks_per_second() -> f64 {
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK);
    ticks.ok().flatten().filter(|ticks| *ticks > 0).unwrap_or(100) as f64
}

/// The number of processors that this process can use, according to its affinity and its cgroup's quota.
fn usable_processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |number| u32::try_from(number.get()).unwrap_or(u32::MAX))
}

/// The host's name.
pub fn hostname() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn probe_linux() -> HostFacts {
    let kernel = Kernel::probe();
    let cpu_info = read("/proc/cpuinfo").unwrap_or_default();
    let memory_info = read("/proc/meminfo").unwrap_or_default();
    let nvidia = probe_nvidia();
    let cpu = settings::probe_processor(&cpu_info, usable_processors(), counted_processors());
    let swap = |name: &str| parse::memory_value(&memory_info, name);
    HostFacts {
        hostname: hostname(),
        os: OsFacts {
            name: "linux".to_owned(),
            version: read("/etc/os-release").and_then(|text| parse::os_name(&text)),
            kernel: Some(kernel.release.clone()).filter(|release| !release.is_empty()),
            architecture: std::env::consts::ARCH.to_owned(),
        },
        memory_bytes: parse::memory_value(&memory_info, "MemTotal"),
        devices: parse::linux_devices(nvidia_gpus(&nvidia)),
        nvidia_driver: probe_nvidia_module().or(nvidia.driver),
        virtualisation: parse::virtualisation(&probe_layers(kernel, &cpu_info)),
        governor: parse::governors(&read_in_each("/sys/devices/system/cpu/cpufreq", "scaling_governor")),
        power_source: parse::power_source(&power_supplies()),
        boot_id: read("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned()),
        machine: probe_machine(),
        container: settings::probe_container(),
        gpus: nvidia.gpus,
        cuda_visible_devices: None,
        cuda_driver: nvidia.cuda_driver,
        swap_total_bytes: swap("SwapTotal"),
        swap_used_bytes: swap("SwapTotal").zip(swap("SwapFree")).map(|(all, free)| all.saturating_sub(free)),
        transparent_huge_pages: settings::probe_huge_pages(),
        clock_source: settings::probe_clock_source(),
        kernel_options: settings::probe_kernel_options(),
        cgroup: probe_cgroup(cpu.logical),
        cpu,
    }
}

fn probe_cgroup(logical: u32) -> Option<CgroupLimits> {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    CgroupPlace { groups: &groups, mounts: &mounts, read: &|path| read(path) }.limits(logical)
}

/// The version of the driver that is loaded in the kernel.
fn probe_nvidia_module() -> Option<String> {
    let version = read("/sys/module/nvidia/version").map(|text| text.trim().to_owned());
    version.or_else(|| parse::nvidia_driver(&read("/proc/driver/nvidia/version")?))
}

/// Memory that is still available on the host, in bytes.
pub fn probe_memory_available() -> Option<u64> {
    if cfg!(target_os = "macos") {
        return output("/usr/bin/vm_stat", &[]).and_then(|text| macos::memory_available(&text));
    }
    parse::memory_value(&read("/proc/meminfo")?, "MemAvailable")
}

/// The answer of `uname`.
struct Kernel {
    release: String,
    version: String,
}

impl Kernel {
    fn probe() -> Kernel {
        let text = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
        match nix::sys::utsname::uname() {
            Ok(name) => Kernel { release: text(name.release()), version: text(name.version()) },
            Err(_) => Kernel { release: String::new(), version: String::new() },
        }
    }
}

fn probe_layers(kernel: Kernel, cpu_info: &str) -> parse::Layers {
    let dmi = |name: &str| read(&format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    let clock = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    parse::Layers {
        kernel_release: kernel.release,
        kernel_version: kernel.version,
        container_file: Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists(),
        first_cgroup: read("/proc/1/cgroup").unwrap_or_default(),
        vendor: dmi("sys_vendor"),
        product: dmi("product_name"),
        hypervisor: read("/sys/hypervisor/type").unwrap_or_default(),
        clock_sources: read(clock).unwrap_or_default(),
        hypervisor_flag: parse::has_hypervisor_flag(cpu_info),
    }
}

/// The number of NVIDIA GPUs that this process can use. Device nodes come first, because a container hides nodes but
/// not always the driver's list. The list comes second, because nodes are made on first use. WSL2 and some sandboxes
/// have neither, only the driver's library. A scheduler hides GPUs from the library, but not their nodes.
fn nvidia_gpus(nvidia: &NvidiaFacts) -> usize {
    if nvidia.hides_some {
        return nvidia.gpus.len();
    }
    let nodes = entries("/dev").into_iter().filter(|name| parse::is_gpu_node(name)).count();
    let listed = entries("/proc/driver/nvidia/gpus").len();
    let in_wsl =
        usize::from(Path::new("/dev/dxg").exists() && Path::new("/usr/lib/wsl/lib/libcuda.so.1").exists());
    [nodes, listed, in_wsl, nvidia.gpus.len()].into_iter().find(|count| *count > 0).unwrap_or(0)
}

fn power_supplies() -> Vec<parse::PowerSupply> {
    let directory = "/sys/class/power_supply";
    let supply = |name: String| {
        let value = |file: &str| {
            read(&format!("{directory}/{name}/{file}")).map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        parse::PowerSupply {
            kind: value("type"),
            status: value("status"),
            of_a_peripheral: value("scope") == "Device",
        }
    };
    entries(directory).into_iter().map(supply).collect()
}

/// The names that one call asks macOS for. `sysctl -n` prints one line per name, in this order, and none for an unknown
/// name. So this list has only names that every supported release knows.
const MACOS_FACTS: [&str; 8] = [
    "kern.osproductversion",
    "kern.osrelease",
    "machdep.cpu.brand_string",
    "hw.logicalcpu",
    "hw.memsize",
    "kern.bootsessionuuid",
    "hw.physicalcpu",
    "vm.swapusage",
];

fn probe_macos() -> HostFacts {
    let text = sysctl(&MACOS_FACTS).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let line = |index: usize| lines.get(index).map(|line| (*line).to_owned()).filter(|line| !line.is_empty());
    let number = |index: usize| line(index).and_then(|number| number.parse().ok());
    let swap = |name: &str| macos::swap(&line(7)?, name);
    let usable = usable_processors();
    let on_apple_silicon = cfg!(target_arch = "aarch64");
    HostFacts {
        hostname: hostname(),
        os: OsFacts {
            name: "macos".to_owned(),
            version: line(0).map(|version| format!("macOS {version}")),
            kernel: line(1),
            architecture: std::env::consts::ARCH.to_owned(),
        },
        cpu: CpuFacts {
            model: line(2),
            logical: number(3).unwrap_or(usable),
            usable,
            cores: number(6),
            ..CpuFacts::default()
        },
        memory_bytes: line(4).and_then(|number| number.parse().ok()),
        devices: ["cpu", "mps"][..if on_apple_silicon { 2 } else { 1 }]
            .iter()
            .map(|name| name.to_string())
            .collect(),
        governor: output("pmset", &["-g"]).and_then(|text| macos::power_mode(&text)),
        power_source: output("pmset", &["-g", "batt"]).and_then(|text| parse::macos_power_source(&text)),
        boot_id: line(5),
        machine: probe_machine(),
        gpus: if on_apple_silicon { vec![apple_gpu(line(2))] } else { Vec::new() },
        swap_total_bytes: swap("total"),
        swap_used_bytes: swap("used"),
        ..HostFacts::default()
    }
}

/// The GPU of the chip named `chip`.
fn apple_gpu(chip: Option<String>) -> GpuFacts {
    let registry = output("/usr/sbin/ioreg", &["-r", "-d", "1", "-c", "AGXAccelerator"]).unwrap_or_default();
    GpuFacts {
        name: macos::registry_value(&registry, "model").or(chip).unwrap_or_else(|| "Apple GPU".to_owned()),
        cores: macos::registry_value(&registry, "gpu-core-count").and_then(|number| number.parse().ok()),
        ..GpuFacts::default()
    }
}

fn sysctl(names: &[&str]) -> Option<String> {
    let mut arguments = vec!["-n"];
    arguments.extend(names);
    output("/usr/sbin/sysctl", &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_this_machine_are_plausible() {
        let facts = probe_host();
        assert_eq!(facts.devices[0], "cpu");
        assert!(facts.cpu.usable >= 1 && facts.cpu.logical >= facts.cpu.usable, "{:?}", facts.cpu);
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(facts.os.name, std::env::consts::OS);
        assert!(!facts.os.architecture.is_empty());
        assert!(facts.boot_id.as_ref().is_some_and(|id| !id.is_empty() && !id.contains('\n')));
        assert!(facts.swap_used_bytes <= facts.swap_total_bytes, "{facts:?}");
        assert!(facts.gpus.iter().all(|gpu| !gpu.name.is_empty()), "{:?}", facts.gpus);
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&json).unwrap(), facts, "a record can be read back");
        assert!(probe_memory_available().is_some_and(|bytes| Some(bytes) <= facts.memory_bytes));
    }

    #[test]
    fn jobs_can_have_the_gpus_that_are_shown_and_answer() {
        let gpu = |problem: Option<&str>| GpuFacts {
            problem: problem.map(str::to_owned),
            uuid: Some("GPU-1".to_owned()).filter(|_| problem.is_none()),
            ..GpuFacts::default()
        };
        let found = |count: usize, declared, visible| {
            let gpus = [gpu(None), gpu(Some("lost"))].into_iter().take(count).collect();
            let host = HostFacts { devices: parse::linux_devices(count), gpus, ..HostFacts::default() };
            let host = with_devices(host, declared, visible);
            (host.devices.join(" "), host.cuda_visible_devices.map(|visible| visible.entries.len()))
        };
        let expected = |devices: &str, entries| (devices.to_owned(), entries);
        assert_eq!(found(2, None, None), expected("cpu cuda cuda:0", None), "the second does not answer");
        assert_eq!(found(1, None, Some("0")), expected("cpu cuda cuda:0", Some(1)));
        assert_eq!(found(2, None, Some("1,0")), expected("cpu cuda:1", Some(2)));
        assert_eq!(found(1, None, Some("")), expected("cpu", Some(0)));
        assert_eq!(found(1, None, Some("1")), expected("cpu", Some(0)));
        assert_eq!(found(0, None, Some("0")), expected("cpu", None), "a host without a GPU");
        // Devices that cannot be queried are declared, and then the variable is trusted.
        assert_eq!(found(0, Some("cpu,cuda"), None), expected("cpu cuda", None));
        assert_eq!(found(0, Some("cpu,cuda,cuda:1"), Some("7")), expected("cpu cuda", Some(1)));
        assert_eq!(found(1, Some("cpu"), Some("0")), expected("cpu", None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn counters_never_decrease() {
        let before = probe_counters();
        let after = probe_counters();
        let (busy, steal) = after.since(&before);
        assert!(busy.is_some() && steal.is_some(), "{before:?} {after:?}");
        assert_eq!(before.since(&HostCounters::default()), (None, None));
    }

    #[test]
    fn oom_kills_are_detected_by_their_counter() {
        let counters = |oom_kills| HostCounters { oom_kills, ..HostCounters::default() };
        assert!(counters(Some(4)).has_oom_killed_since(&counters(Some(3))));
        for (after, before) in [(Some(3), Some(3)), (Some(3), None), (None, Some(3)), (None, None)] {
            assert!(!counters(after).has_oom_killed_since(&counters(before)), "{after:?} {before:?}");
        }
    }

    #[test]
    fn a_counter_that_went_backwards_is_ignored() {
        let counters =
            |busy| HostCounters { busy_s: Some(busy), steal_s: Some(busy), ..HostCounters::default() };
        assert_eq!(counters(5.0).since(&counters(3.0)), (Some(2.0), Some(2.0)));
        assert_eq!(counters(3.0).since(&counters(5.0)), (None, None));
    }
}
