//! The settings of processor and kernel: clocks, turbo, SMT, huge pages, mitigations, and the kind of container.
//!
//! All of it comes from small files in `/sys` and `/proc`, each parsed by a pure function.
#![expect(clippy::disallowed_methods, reason = "this probes the machine")]

use std::collections::BTreeSet;
use std::path::Path;

use super::parse;
use super::system::{read, read_in_each};
use crate::processor::{first_field, processor_name};
use crate::record::CpuFacts;

const CPU: &str = "/sys/devices/system/cpu";
const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

/// The processor of a Linux host. `cpu_info` is the text of `/proc/cpuinfo`.
pub(super) fn probe_processor(cpu_info: &str, usable: u32, allowed: Option<u32>) -> CpuFacts {
    let online = read(&format!("{CPU}/online")).and_then(|text| parse::count_in_list(&text));
    let numa = read("/sys/devices/system/node/online").and_then(|text| parse::count_in_list(&text));
    let megahertz = |file: &str| -> Vec<f64> {
        read_in_each(POLICIES, file).iter().filter_map(|text| megahertz(text)).collect()
    };
    CpuFacts {
        model: processor_name(cpu_info),
        logical: online.or_else(|| parse::count_processors(cpu_info)).unwrap_or(usable),
        usable,
        allowed,
        cores: cores(cpu_info),
        smt: read(&format!("{CPU}/smt/active")).and_then(|text| switch(&text)),
        numa_nodes: numa,
        microcode: first_field(cpu_info, "microcode").map(str::to_owned),
        turbo: probe_turbo(),
        frequency_driver: parse::governors(&read_in_each(POLICIES, "scaling_driver")),
        min_mhz: megahertz("cpuinfo_min_freq").into_iter().reduce(f64::min),
        max_mhz: megahertz("cpuinfo_max_freq").into_iter().reduce(f64::max),
        cap_mhz: megahertz("scaling_max_freq").into_iter().reduce(f64::max),
    }
}

/// Intel's driver reports whether turbo is off. Other drivers report whether boost is on, for all processors or for
/// each.
fn probe_turbo() -> Option<bool> {
    let off = read(&format!("{CPU}/intel_pstate/no_turbo")).and_then(|text| switch(&text));
    let on = || {
        let boost = read(&format!("{POLICIES}/boost"));
        boost.into_iter().chain(read_in_each(POLICIES, "boost")).find_map(|text| switch(&text))
    };
    off.map(|off| !off).or_else(on)
}

/// The mode of transparent huge pages.
pub(super) fn probe_huge_pages() -> Option<String> {
    read("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| chosen(&text))
}

/// The clock source of the kernel.
pub(super) fn probe_clock_source() -> Option<String> {
    let text = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The options on the kernel's command line that affect performance.
pub(super) fn probe_kernel_options() -> Vec<String> {
    read("/proc/cmdline").map(|text| options(&text)).unwrap_or_default()
}

/// The kind of container in which this process runs.
pub(super) fn probe_container() -> Option<String> {
    let has = |name: &str| std::env::var_os(name).is_some();
    container(&ContainerSigns {
        systemd: read("/run/systemd/container")
            .or_else(|| std::env::var("container").ok())
            .unwrap_or_default(),
        docker_file: Path::new("/.dockerenv").exists(),
        podman_file: Path::new("/run/.containerenv").exists(),
        cgroup: read("/proc/1/cgroup").unwrap_or_default(),
        in_pod: has("KUBERNETES_SERVICE_HOST"),
        in_apptainer: has("APPTAINER_CONTAINER") || has("SINGULARITY_CONTAINER"),
    })
}

/// The signs by which kinds of containers are recognised.
#[derive(Clone, Debug, Default)]
struct ContainerSigns {
    /// The container's kind: `/run/systemd/container` if systemd runs in it, otherwise the variable `container`, which
    /// Podman, LXC and systemd-nspawn set.
    systemd: String,
    /// Whether `/.dockerenv` exists.
    docker_file: bool,
    /// Whether `/run/.containerenv` exists.
    podman_file: bool,
    /// `/proc/1/cgroup`.
    cgroup: String,
    /// Whether the environment names a Kubernetes cluster.
    in_pod: bool,
    /// Whether the environment names an Apptainer or Singularity image.
    in_apptainer: bool,
}

/// The manager of a container is named rather than its runtime: a pod's containers are run by containerd or Docker.
fn container(signs: &ContainerSigns) -> Option<String> {
    let in_group = |word: &str| signs.cgroup.contains(word);
    let systemd = signs.systemd.trim();
    let kinds = [
        (signs.in_pod || in_group("kubepods"), "kubernetes"),
        (signs.in_apptainer, "apptainer"),
        (!systemd.is_empty(), systemd),
        (signs.podman_file || in_group("libpod"), "podman"),
        (signs.docker_file || in_group("docker"), "docker"),
        (in_group("lxc"), "lxc"),
        (in_group("containerd"), "containerd"),
    ];
    kinds.into_iter().find(|(is, _)| *is).map(|(_, kind)| kind.to_owned())
}

/// Parses `0` or `1`.
fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Converts a clock from the kernel's kHz.
fn megahertz(kilohertz: &str) -> Option<f64> {
    kilohertz.trim().parse::<f64>().ok().map(|kilohertz| kilohertz / 1e3).filter(|clock| *clock > 0.0)
}

/// The word in brackets of `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

/// Physical cores: the pairs of `physical id` and `core id` in `/proc/cpuinfo`, which only x86 kernels list.
fn cores(cpu_info: &str) -> Option<u32> {
    let pair = |processor| Some((first_field(processor, "physical id")?, first_field(processor, "core id")?));
    let pairs: BTreeSet<(&str, &str)> = cpu_info.split("\n\n").filter_map(pair).collect();
    u32::try_from(pairs.len()).ok().filter(|count| *count > 0)
}

/// The words of the kernel's command line that affect performance: mitigations cost time, and idle states or isolated
/// processors change latencies.
fn options(command_line: &str) -> Vec<String> {
    const NAMES: &[&str] = &[
        "mitigations",
        "nopti",
        "pti",
        "nospectre_v1",
        "nospectre_v2",
        "spectre_v2",
        "spectre_v2_user",
        "spec_store_bypass_disable",
        "nospec_store_bypass_disable",
        "l1tf",
        "mds",
        "tsx",
        "tsx_async_abort",
        "mmio_stale_data",
        "retbleed",
        "spec_rstack_overflow",
        "gather_data_sampling",
        "kpti",
        "nosmt",
        "maxcpus",
        "isolcpus",
        "nohz_full",
        "idle",
        "intel_idle.max_cstate",
        "processor.max_cstate",
        "intel_pstate",
        "amd_pstate",
        "preempt",
        "transparent_hugepage",
        "clocksource",
        "tsc",
    ];
    let is_one = |word: &&str| NAMES.contains(&word.split_once('=').map_or(*word, |(name, _)| name));
    command_line.split_whitespace().filter(is_one).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_container() {
        let none = ContainerSigns::default();
        assert_eq!(container(&none), None);
        let cases: [(&str, ContainerSigns); 8] = [
            ("docker", ContainerSigns { docker_file: true, ..none.clone() }),
            ("docker", ContainerSigns { cgroup: "12:cpu:/docker/af3".into(), ..none.clone() }),
            ("podman", ContainerSigns { podman_file: true, ..none.clone() }),
            ("lxc", ContainerSigns { cgroup: "0::/lxc.payload/web".into(), ..none.clone() }),
            ("lxc", ContainerSigns { systemd: "lxc\n".into(), ..none.clone() }),
            ("apptainer", ContainerSigns { in_apptainer: true, ..none.clone() }),
            ("kubernetes", ContainerSigns { in_pod: true, docker_file: true, ..none.clone() }),
            (
                "kubernetes",
                ContainerSigns { cgroup: "0::/kubepods/pod1/cri-containerd-2".into(), ..none.clone() },
            ),
        ];
        for (kind, signs) in cases {
            assert_eq!(container(&signs).as_deref(), Some(kind), "{signs:?}");
        }
    }

    #[test]
    fn switches_and_clocks() {
        assert_eq!([switch("0\n"), switch("1\n"), switch("notsupported\n")], [Some(false), Some(true), None]);
        assert_eq!(
            [megahertz("3500000\n"), megahertz("<unknown>"), megahertz("0")],
            [Some(3500.0), None, None]
        );
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen("always\n"), None);
    }

    #[test]
    fn threads_of_a_core_count_once() {
        let thread = |package: u32, core: u32| {
            format!("processor\t: 0\nmicrocode\t: 0x1a\nphysical id\t: {package}\ncore id\t\t: {core}\n\n")
        };
        let text = [thread(0, 0), thread(0, 1), thread(0, 0), thread(1, 0)].concat();
        assert_eq!(cores(&text), Some(3));
        assert_eq!(first_field(&text, "microcode"), Some("0x1a"));
        assert_eq!(cores("processor\t: 0\nCPU part\t: 0xd4f\n"), None);
    }

    #[test]
    fn only_relevant_kernel_options_are_kept() {
        let line =
            "BOOT_IMAGE=/vmlinuz root=UUID=4f quiet mitigations=off nosmt tsc=reliable password=secret\n";
        assert_eq!(options(line), ["mitigations=off", "nosmt", "tsc=reliable"]);
        assert_eq!(options("ro quiet\n"), Vec::<String>::new());
    }
}
