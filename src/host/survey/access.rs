//! The counters that this user may read according to the kernel and the driver, and whether the clock is synchronised.
#![expect(clippy::disallowed_methods, reason = "this probes the machine")]

use std::fs;

use serde::Serialize;

/// The counters that this user may read. Facts that the system does not report are absent; macOS reports none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CounterAccess {
    /// `/proc/sys/kernel/perf_event_paranoid`: above 2, a user without privileges must not count anything.
    pub perf_event_paranoid: Option<i32>,
    /// Whether the kernel offers the processor's own counters (cycles, instructions, cache misses).
    pub hardware_events: Option<bool>,
    /// Whether NVIDIA's driver reserves its counters for administrators.
    pub gpu_counters_restricted: Option<bool>,
    /// Whether this process has the rights of an administrator (`CAP_SYS_ADMIN`).
    pub is_admin: bool,
    /// Whether this process may count anything (`CAP_PERFMON` or `CAP_SYS_ADMIN`).
    pub may_count: bool,
}

/// Bits in the capability masks, from `linux/capability.h`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

impl CounterAccess {
    /// Reads the facts from the system.
    pub(crate) fn probe() -> CounterAccess {
        let capabilities = read("/proc/self/status").and_then(|text| effective(&text)).unwrap_or(0);
        let has = |bit: u32| capabilities >> bit & 1 == 1;
        let sources = fs::read_dir("/sys/bus/event_source/devices").ok();
        let sources = sources.map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        });
        CounterAccess {
            perf_event_paranoid: read("/proc/sys/kernel/perf_event_paranoid")
                .and_then(|text| text.trim().parse().ok()),
            hardware_events: sources.map(|names| names.iter().any(|name| is_processors(name))),
            gpu_counters_restricted: read("/proc/driver/nvidia/params").and_then(|text| restricted(&text)),
            is_admin: has(CAP_SYS_ADMIN),
            may_count: has(CAP_SYS_ADMIN) || has(CAP_PERFMON),
        }
    }
}

/// Parses `CapEff` in `/proc/self/status`, a mask of 64 bits in hex.
fn effective(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Whether an event source is the processor: `cpu`, `cpu_core` on hybrids, `armv8_…` on ARM.
fn is_processors(source: &str) -> bool {
    source == "cpu" || source == "cpu_core" || source.starts_with("armv")
}

/// Parses `RmProfilingAdminOnly: 1` in `/proc/driver/nvidia/params`.
fn restricted(params: &str) -> Option<bool> {
    let value = params.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?;
    Some(value.trim() != "0")
}

/// The number of NVIDIA GPUs on the PCI bus that do not use NVIDIA's driver.
pub(super) fn probe_gpus_without_driver() -> u32 {
    let root = "/sys/bus/pci/devices";
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let is_unserved = |name: &str| {
        let value = |file: &str| read(&format!("{root}/{name}/{file}")).unwrap_or_default();
        let driver = fs::read_link(format!("{root}/{name}/driver")).unwrap_or_default();
        is_nvidia_gpu(&value("vendor"), &value("class"))
            && driver.file_name().is_none_or(|driver| driver != "nvidia")
    };
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    u32::try_from(names.filter(|name| is_unserved(name)).count()).unwrap_or(u32::MAX)
}

/// Whether a PCI device with these ids is a display or 3D controller of NVIDIA.
fn is_nvidia_gpu(vendor: &str, class: &str) -> bool {
    vendor.trim() == "0x10de" && (class.starts_with("0x0300") || class.starts_with("0x0302"))
}

/// Whether the kernel considers the wall clock synchronised with a time server.
#[cfg(target_os = "linux")]
pub(super) fn probe_clock_synchronised() -> Option<bool> {
    use nix::libc;

    // SAFETY: the struct is plain numbers, for which zeros are valid. Without modes the call only fills it in.
    let (answer, status) = unsafe {
        let mut state: libc::timex = std::mem::zeroed();
        let answer = libc::adjtimex(&mut state);
        (answer, state.status)
    };
    (answer >= 0).then_some(status & libc::STA_UNSYNC == 0)
}

/// macOS does not report it without privileges.
#[cfg(not(target_os = "linux"))]
pub(super) fn probe_clock_synchronised() -> Option<bool> {
    None
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_bits() {
        let status = |mask: &str| format!("Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t{mask}\n");
        let all = effective(&status("000001ffffffffff")).unwrap();
        assert!(all >> CAP_SYS_ADMIN & 1 == 1 && all >> CAP_PERFMON & 1 == 1);
        assert_eq!(effective(&status("0000000000000000")), Some(0));
        assert_eq!(effective("Name:\tx\n"), None);
    }

    #[test]
    fn counters_of_the_processor_are_distinguished_from_those_of_the_kernel() {
        let are = ["cpu", "cpu_core", "armv8_pmuv3_0"].map(is_processors);
        let are_not = ["software", "breakpoint", "tracepoint", "power", "msr", "cpuidle", "cstate_core"];
        assert_eq!((are, are_not.map(is_processors)), ([true; 3], [false; 7]));
    }

    #[test]
    fn the_restriction_of_the_driver_is_parsed() {
        let params = |value: &str| format!("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {value}\n");
        assert_eq!((restricted(&params("1")), restricted(&params("0"))), (Some(true), Some(false)));
        assert_eq!(restricted("EnableMSI: 1\n"), None);
    }

    #[test]
    fn gpus_on_the_bus() {
        assert!(is_nvidia_gpu("0x10de\n", "0x030000\n") && is_nvidia_gpu("0x10de", "0x030200"));
        // The audio function of the same card, and a card of another vendor.
        assert!(!is_nvidia_gpu("0x10de", "0x040300") && !is_nvidia_gpu("0x8086", "0x030000"));
    }
}
