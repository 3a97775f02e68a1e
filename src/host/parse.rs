//! Parses the texts in which Linux and macOS describe the machine. Pure: text in, facts out. Missing facts are absent.

use std::collections::BTreeSet;

use crate::job::Device;
use crate::processor::{field, first_field};

/// Processor time since boot, in ticks, summed over processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) busy: u64,
    pub(super) steal: u64,
}

/// Parses `/proc/stat`: the lines of the processors that are `allowed`, otherwise the first line, which is their sum. A
/// line is `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`. `user` and `nice` already contain
/// the time of guests. gVisor prints only zeros in the sum and has no other line, which counts as absent.
pub(super) fn processor_ticks(stat: &str, allowed: Option<&BTreeSet<u32>>) -> Option<Ticks> {
    let whole = || ticks_of(stat.lines().next()?.strip_prefix("cpu ")?);
    let Some(allowed) = allowed else { return whole() };
    let mut sum: Option<Ticks> = None;
    for line in stat.lines().skip(1).map_while(|line| line.strip_prefix("cpu")) {
        let (number, times) = line.split_once(' ')?;
        if allowed.contains(&number.parse().ok()?) {
            let Ticks { busy, steal } = ticks_of(times)?;
            let so_far = sum.unwrap_or(Ticks { busy: 0, steal: 0 });
            sum =
                Some(Ticks { busy: so_far.busy.checked_add(busy)?, steal: so_far.steal.checked_add(steal)? });
        }
    }
    sum.or_else(whole)
}

fn ticks_of(times: &str) -> Option<Ticks> {
    let ticks: Vec<u64> = times.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, _iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
    let busy = [user, nice, system, irq, softirq].into_iter().try_fold(0_u64, u64::checked_add)?;
    (busy > 0 || idle > 0).then_some(Ticks { busy, steal })
}

/// The numbers of the processors that have a line in `/proc/stat`.
pub(super) fn listed_processors(stat: &str) -> impl Iterator<Item = u32> {
    let lines = stat.lines().skip(1).map_while(|line| line.strip_prefix("cpu"));
    lines.filter_map(|line| line.split_once(' ')?.0.parse::<u32>().ok())
}

/// The processors on which this process may run: the line `Cpus_allowed_list` of `/proc/self/status`. `None` if `stat`,
/// the text of `/proc/stat`, lists no others. In some containers, it lists only those of the container, with new
/// numbers.
pub(super) fn allowed_processors(status: &str, stat: &str) -> Option<BTreeSet<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let allowed = processors_in_list(list)?;
    let listed: BTreeSet<u32> = listed_processors(stat).collect();
    // A processor that is offline has no line.
    let counted: BTreeSet<u32> = allowed.intersection(&listed).copied().collect();
    (listed.len() > allowed.len() && !counted.is_empty()).then_some(counted)
}

/// The numbers in a list such as `0-3,8,10-11`.
fn processors_in_list(list: &str) -> Option<BTreeSet<u32>> {
    /// An upper bound for processors, so that a damaged list does not fill the memory.
    const MOST: u32 = 1 << 16;
    let mut found = BTreeSet::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        found.extend(first..=last.min(MOST));
    }
    Some(found)
}

/// Our control group's path in the unified hierarchy, without a trailing slash: the line `0::PATH` of
/// `/proc/self/cgroup`.
pub(super) fn unified_cgroup(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.trim_end_matches('/').to_owned())
}

/// The counter `name` in `/proc/vmstat` or in a control group's `memory.events`, which have the same format.
pub(crate) fn counter(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

/// The first word as a number: the one-minute load in `/proc/loadavg`.
pub(super) fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The one-minute load in macOS's `{ 1.86 1.93 2.01 }`. Some locales print `1,86`.
pub(super) fn macos_load(text: &str) -> Option<f64> {
    first_number(&text.trim().trim_start_matches('{').replace(',', "."))
}

/// The number of entries in a list such as `0-3,8,10-11`.
pub(super) fn count_in_list(list: &str) -> Option<u32> {
    list.trim().split(',').map(count_in_range).try_fold(0, |sum: u32, count| sum.checked_add(count?))
}

fn count_in_range(range: &str) -> Option<u32> {
    let Some((first, last)) = range.split_once('-') else { return range.parse::<u32>().ok().map(|_| 1) };
    last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

/// The number of processors in `/proc/cpuinfo`.
pub(super) fn count_processors(cpu_info: &str) -> Option<u32> {
    let count = cpu_info.lines().filter(|line| field(line, "processor").is_some()).count();
    u32::try_from(count).ok().filter(|count| *count > 0)
}

/// Whether the processor's flags report a hypervisor.
pub(super) fn has_hypervisor_flag(cpu_info: &str) -> bool {
    let flags = first_field(cpu_info, "flags");
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// `PRETTY_NAME` of `/etc/os-release`.
pub(super) fn os_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty())
}

/// The value `name` in `/proc/meminfo`, in bytes.
pub(crate) fn memory_value(memory_info: &str, name: &str) -> Option<u64> {
    let value = memory_info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The device names of a Linux host with this many NVIDIA GPUs.
pub(super) fn linux_devices(gpus: usize) -> Vec<String> {
    let mut names = vec!["cpu".to_owned()];
    if gpus > 0 {
        names.push("cuda".to_owned());
    }
    names.extend((0..gpus).map(|index| format!("cuda:{index}")));
    names
}

/// The devices in a user's comma-separated list, without duplicates. Words that are not devices are skipped.
pub(super) fn devices(words: &str) -> Vec<String> {
    let named = words.split(',').filter_map(|word| word.trim().parse::<Device>().ok());
    let mut devices: Vec<String> = Vec::new();
    for device in named.map(|device| device.to_string()) {
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    devices
}

/// Whether `/dev/<name>` is an NVIDIA GPU: `nvidia0`, not `nvidiactl` or `nvidia-uvm`.
pub(super) fn is_gpu_node(name: &str) -> bool {
    name.strip_prefix("nvidia")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The driver's version in `/proc/driver/nvidia/version`. Its first line reads `NVRM version: NVIDIA UNIX x86_64 Kernel
/// Module  550.54.14  Thu Feb 22 …`.
pub(super) fn nvidia_driver(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

/// The signs of layers between the program and the hardware, such as hypervisors and containers.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    /// `uname -r`.
    pub(super) kernel_release: String,
    /// `uname -v`.
    pub(super) kernel_version: String,
    /// Whether Docker's or Podman's marker file exists.
    pub(super) container_file: bool,
    /// `/proc/1/cgroup`.
    pub(super) first_cgroup: String,
    /// The board's vendor, according to the firmware.
    pub(super) vendor: String,
    /// The board's name, according to the firmware.
    pub(super) product: String,
    /// `/sys/hypervisor/type`.
    pub(super) hypervisor: String,
    /// The clock sources that the kernel could use.
    pub(super) clock_sources: String,
    /// The processor's `hypervisor` flag.
    pub(super) hypervisor_flag: bool,
}

/// The layers between the program and the hardware, outermost last and joined by `+`: `wsl2`, `gvisor`, `container`,
/// the name of a hypervisor, or `vm` for an unknown one. `None` if nothing is detected, as on bare metal.
pub(super) fn virtualisation(layers: &Layers) -> Option<String> {
    if let Some(whole) = compatibility_layer(layers) {
        return Some(whole.to_owned());
    }
    let words = ["docker", "kubepods", "lxc", "containerd", "libpod"];
    let in_container = layers.container_file || words.iter().any(|word| layers.first_cgroup.contains(word));
    let names: Vec<&str> =
        in_container.then_some("container").into_iter().chain(hypervisor(layers)).collect();
    (!names.is_empty()).then(|| names.join("+"))
}

/// A layer that hides everything below it. gVisor always reports the same kernel version.
fn compatibility_layer(layers: &Layers) -> Option<&'static str> {
    let release = &layers.kernel_release;
    if release.contains("gvisor") || layers.kernel_version.contains("Sun Jan 10 15:06:54 PST 2016") {
        return Some("gvisor");
    }
    if release.contains("microsoft") || release.contains("WSL2") {
        return Some("wsl2");
    }
    release.contains("Microsoft").then_some("wsl1")
}

fn hypervisor(layers: &Layers) -> Option<&'static str> {
    let board = format!("{} {}", layers.vendor.trim(), layers.product.trim());
    let by_board = [
        ("Google Compute Engine", "gce"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Microsoft Corporation Virtual Machine", "hyper-v"),
        ("Parallels", "parallels"),
        ("Apple Virtualization", "apple"),
        ("KVM", "kvm"),
        ("QEMU", "kvm"),
    ];
    if let Some((_, name)) = by_board.into_iter().find(|(sign, _)| board.contains(sign)) {
        return Some(name);
    }
    if board.contains("Amazon EC2") && !board.contains(".metal") {
        return Some("ec2");
    }
    if layers.hypervisor.trim() == "xen" {
        return Some("xen");
    }
    let by_clock = [("kvm-clock", "kvm"), ("hyperv", "hyper-v"), ("xen", "xen")];
    let by_clock = by_clock.into_iter().find(|(sign, _)| layers.clock_sources.contains(sign));
    by_clock.map(|(_, name)| name).or(layers.hypervisor_flag.then_some("vm"))
}

/// The governors of all processors; several are joined by `+`.
pub(super) fn governors(texts: &[String]) -> Option<String> {
    let names: BTreeSet<&str> =
        texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join("+"))
}

/// One entry of `/sys/class/power_supply`.
#[derive(Clone, Debug, Default)]
pub(super) struct PowerSupply {
    /// `Mains`, `USB`, `Battery`, …
    pub(super) kind: String,
    /// `Charging`, `Discharging`, …
    pub(super) status: String,
    /// Whether it belongs to a peripheral such as a mouse, not to the machine.
    pub(super) of_a_peripheral: bool,
}

/// `mains` or `battery`; `None` on machines without a power supply in the list, such as servers.
pub(super) fn power_source(supplies: &[PowerSupply]) -> Option<String> {
    let mut own = supplies.iter().filter(|supply| !supply.of_a_peripheral).peekable();
    own.peek()?;
    // A battery can discharge although a weak charger is plugged in. That changes the clocks, too.
    let on_battery = own.any(|supply| supply.kind == "Battery" && supply.status == "Discharging");
    Some(if on_battery { "battery" } else { "mains" }.to_owned())
}

/// `mains` or `battery`, from `pmset -g batt`, whose first line reads `Now drawing from 'AC Power'`.
pub(super) fn macos_power_source(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let source = if line.contains("'AC Power'") {
        "mains"
    } else if line.contains("'Battery Power'") {
        "battery"
    } else {
        return None;
    };
    Some(source.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oom_kills_are_counted() {
        let events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(counter(events, "oom_kill"), Some(2));
        assert_eq!(counter("nr_free_pages 5\noom_kill 0\n", "oom_kill"), Some(0));
        assert_eq!(counter("oom_killed 7\n", "oom_kill"), None);
        assert_eq!(unified_cgroup("4:memory:/a\n0::/user.slice/b\n").as_deref(), Some("/user.slice/b"));
        assert_eq!(unified_cgroup("0::/\n").as_deref(), Some(""));
        assert_eq!(unified_cgroup("4:memory:/a\n"), None);
    }

    #[test]
    fn processor_time_excludes_waiting_and_counts_guests_once() {
        let stat = "cpu  100 10 50 9000 700 3 7 25 40 4\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5\n";
        assert_eq!(processor_ticks(stat, None), Some(Ticks { busy: 170, steal: 25 }));
        assert_eq!(processor_ticks("cpu  0 0 0 0 0 0 0 0 0 0\n", None), None);
        assert_eq!(processor_ticks("cpu  1 2 3\n", None), None);
        assert_eq!(processor_ticks("cpu0 100 10 50 9000 700 3 7 25\n", None), None);
        assert_eq!(processor_ticks("", None), None);
        assert_eq!(
            processor_ticks("cpu  18446744073709551615 1 0 0 0 0 0 0 0 0\n", None),
            None,
            "too large for a count"
        );
        let idle = "cpu  1 0 0 18446744073709551615 0 0 0 0 0 0\n";
        assert_eq!(processor_ticks(idle, None), Some(Ticks { busy: 1, steal: 0 }));
    }

    /// A job in a cpuset of a large host is disturbed only by processes in that cpuset.
    #[test]
    fn only_processors_that_jobs_may_use_count() {
        let stat = "cpu  111 0 0 300 0 0 0 3 0 0\ncpu0 1 0 0 100 0 0 0 1 0 0\ncpu1 10 0 0 100 0 0 0 1 0 0\n\
                    cpu10 100 0 0 100 0 0 0 1 0 0\nintr 5\n";
        let status = |list: &str| {
            format!("Name:\tx\nCpus_allowed:\t5\nCpus_allowed_list:\t{list}\nMems_allowed:\t1\n")
        };
        let busy = |list: &str| {
            let allowed = allowed_processors(&status(list), stat);
            processor_ticks(stat, allowed.as_ref()).map(|ticks| (ticks.busy, ticks.steal))
        };
        assert_eq!([busy("0"), busy("1,10"), busy("0-1")], [Some((1, 1)), Some((110, 2)), Some((11, 2))]);
        assert_eq!([busy("0-10"), busy("0-1,10")], [Some((111, 3)); 2], "all existing processors");
        assert_eq!(allowed_processors(&status("0-4294967295"), stat), None);
        assert_eq!(
            allowed_processors(&status("0-1"), "cpu  5 0 0 5 0 0 0 0\n"),
            None,
            "no line per processor"
        );
        assert_eq!([busy("x"), busy("3")], [Some((111, 3)); 2], "an unreadable list does not restrict");
        assert_eq!(busy("2-4"), Some((111, 3)), "a container that renumbers its processors");
        assert_eq!(busy("1,11"), Some((10, 1)), "one is offline");
    }

    #[test]
    fn loads() {
        assert_eq!(first_number("0.44 0.35 0.35 2/91 15387\n"), Some(0.44));
        assert_eq!(macos_load("{ 1.86 1.93 2.01 }\n"), Some(1.86));
        assert_eq!(macos_load("{ 1,86 1,93 2,01 }\n"), Some(1.86));
        assert_eq!(macos_load(""), None);
    }

    #[test]
    fn lists_of_processors() {
        for (list, count) in [("0-1\n", Some(2)), ("0", Some(1)), ("0-3,8,10-11", Some(7))] {
            assert_eq!(count_in_list(list), count, "{list}");
        }
        for list in ["", "3-1", "a", "0-", "0-4294967294,0-1"] {
            assert_eq!(count_in_list(list), None, "{list}");
        }
    }

    #[test]
    fn processors_of_both_families() {
        let x86 = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)  CPU @ 2.20GHz\nflags\t\t: fpu hypervisor lm\n\n\
                   processor\t: 1\nmodel name\t: Intel(R) Xeon(R)  CPU @ 2.20GHz\n";
        assert_eq!(count_processors(x86), Some(2));
        assert!(has_hypervisor_flag(x86));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n";
        assert_eq!(count_processors(arm), Some(1));
        assert!(!has_hypervisor_flag(arm));
        assert_eq!(count_processors(""), None);
    }

    #[test]
    fn names_and_sizes() {
        let release = "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n";
        assert_eq!(os_name(release).as_deref(), Some("Ubuntu 24.04.1 LTS"));
        assert_eq!(os_name("NAME=x\n"), None);
        let memory = "MemTotal:       24684084 kB\nMemFree: 1 kB\nSwapTotal: 0 kB\n";
        let value = |name| memory_value(memory, name);
        assert_eq!(value("MemTotal"), Some(24_684_084 * 1024));
        assert_eq!((value("SwapTotal"), value("Mem"), value("SwapFree")), (Some(0), None, None));
    }

    #[test]
    fn a_list_of_devices_is_parsed() {
        assert_eq!(devices(" cpu,cuda, cuda:1,cuda:0,gpu,"), ["cpu", "cuda", "cuda:1"]);
        assert_eq!(devices("gpu"), Vec::<String>::new());
    }

    #[test]
    fn nvidia() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n\
                      GCC version:  gcc version 12.3.0\n";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n";
        assert_eq!(nvidia_driver(closed).as_deref(), Some("550.54.14"));
        assert_eq!(nvidia_driver(open).as_deref(), Some("570.86.15"));
        assert_eq!(nvidia_driver("GCC version: 12.3.0\n"), None);
        let nodes = ["nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia", "null"];
        assert_eq!(nodes.map(is_gpu_node), [true, true, false, false, false, false]);
        assert_eq!(linux_devices(0), ["cpu"]);
        assert_eq!(linux_devices(2), ["cpu", "cuda", "cuda:0", "cuda:1"]);
    }

    #[test]
    fn layers_are_recognised() {
        let bare = Layers {
            kernel_release: "6.8.0-45-generic".into(),
            kernel_version: "#45-Ubuntu SMP PREEMPT_DYNAMIC".into(),
            vendor: "Dell Inc.\n".into(),
            product: "PowerEdge R740\n".into(),
            clock_sources: "tsc hpet acpi_pm".into(),
            ..Layers::default()
        };
        type Change = fn(&mut Layers);
        let cases: [(Option<&str>, Change); 13] = [
            (None, |_| ()),
            (Some("wsl2"), |it| it.kernel_release = "5.15.153.1-microsoft-standard-WSL2".into()),
            (Some("wsl1"), |it| it.kernel_release = "4.4.0-19041-Microsoft".into()),
            (Some("gvisor"), |it| it.kernel_release = "4.19.0-gvisor".into()),
            (Some("gvisor"), |it| it.kernel_version = "#1 SMP Sun Jan 10 15:06:54 PST 2016".into()),
            (Some("container"), |it| it.container_file = true),
            (Some("container"), |it| it.first_cgroup = "0::/kubepods/besteffort/pod1".into()),
            (Some("gce"), |it| (it.vendor, it.product) = ("Google".into(), "Google Compute Engine".into())),
            (Some("kvm"), |it| it.vendor = "QEMU".into()),
            (Some("ec2"), |it| (it.vendor, it.product) = ("Amazon EC2".into(), "g6.xlarge".into())),
            (None, |it| (it.vendor, it.product) = ("Amazon EC2".into(), "m5.metal".into())),
            (Some("vm"), |it| it.hypervisor_flag = true),
            (Some("container+kvm"), |it| {
                it.container_file = true;
                it.hypervisor_flag = true;
                it.clock_sources = "kvm-clock tsc".into();
            }),
        ];
        for (expected, change) in cases {
            let mut layers = bare.clone();
            change(&mut layers);
            assert_eq!(virtualisation(&layers).as_deref(), expected, "{layers:?}");
        }
    }

    #[test]
    fn power() {
        let supply = |kind: &str, status: &str| PowerSupply {
            kind: kind.into(),
            status: status.into(),
            of_a_peripheral: false,
        };
        let mouse = PowerSupply { of_a_peripheral: true, ..supply("Battery", "Discharging") };
        let source = |supplies: &[PowerSupply]| power_source(supplies);
        assert_eq!(source(&[]), None);
        assert_eq!(source(std::slice::from_ref(&mouse)), None);
        let plugged = [supply("Mains", ""), supply("Battery", "Charging"), mouse];
        assert_eq!(source(&plugged).as_deref(), Some("mains"));
        let unplugged = [supply("Mains", ""), supply("Battery", "Discharging")];
        assert_eq!(source(&unplugged).as_deref(), Some("battery"));
        assert_eq!(
            macos_power_source("Now drawing from 'AC Power'\n -InternalBattery-0").as_deref(),
            Some("mains")
        );
        assert_eq!(macos_power_source("Now drawing from 'Battery Power'\n").as_deref(), Some("battery"));
        assert_eq!(macos_power_source(""), None);
    }

    #[test]
    fn governors_are_joined() {
        let texts = |words: &[&str]| words.iter().map(|word| format!("{word}\n")).collect::<Vec<_>>();
        assert_eq!(
            governors(&texts(&["powersave", "performance", "powersave"])).as_deref(),
            Some("performance+powersave")
        );
        assert_eq!(governors(&[]), None);
    }
}
