//! NVIDIA's GPUs, as reported by the driver's library (NVML) or else listed by the driver in `/proc`.
//!
//! The library is opened once per process and stays open. Opening it can take a second if the driver does not stay
//! loaded, and keeps the driver loaded from then on. Without a driver, nothing is loaded.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;

use super::system::read_in_each;
use crate::processes::ProcessTable;
use crate::record::GpuFacts;

/// Where the driver lists its GPUs.
const LISTED: &str = "/proc/driver/nvidia/gpus";

/// What NVIDIA's driver reports about this host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NvidiaFacts {
    /// In the driver's order.
    pub(super) gpus: Vec<GpuFacts>,
    /// The driver's version.
    pub(super) driver: Option<String>,
    /// The newest CUDA version that it supports.
    pub(super) cuda_driver: Option<String>,
}

/// A process that uses a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuProcess {
    /// Which GPU of [`crate::record::HostFacts::gpus`], from 0.
    pub gpu: usize,
    /// Whether it computes; otherwise it only draws.
    pub computes: bool,
    /// Its id.
    pub pid: u32,
    /// The name of its program, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Device memory that it holds, in bytes, if the driver reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// What a process does with a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuUse {
    /// Whether it computes; otherwise it only draws.
    pub(crate) computes: bool,
    /// Device memory that it holds, in bytes, if the driver reports it.
    pub(crate) memory_bytes: Option<u64>,
}

/// Asks the driver. Without one, everything is absent.
pub(super) fn probe_nvidia() -> NvidiaFacts {
    let Some(nvml) = library() else {
        return NvidiaFacts { gpus: listed_gpus(), ..NvidiaFacts::default() };
    };
    let gpus: Vec<GpuFacts> = devices(nvml).iter().map(gpu_facts).collect();
    NvidiaFacts {
        gpus: if gpus.is_empty() { listed_gpus() } else { gpus },
        driver: nvml.sys_driver_version().ok(),
        cuda_driver: nvml.sys_cuda_driver_version().ok().map(cuda_version),
    }
}

/// All processes that use a GPU of this host now. In a container, ids are the host's and names can be unknown.
pub fn probe_gpu_processes() -> Vec<GpuProcess> {
    let Some(nvml) = library() else { return Vec::new() };
    let table = &ProcessTable::of_system();
    let of_device = |(gpu, device): (usize, &Device<'_>)| {
        let computing = device.running_compute_processes().unwrap_or_default();
        let drawing = device.running_graphics_processes().unwrap_or_default();
        let processes = gpu_uses(computing, drawing).into_iter();
        processes.map(move |(pid, GpuUse { computes, memory_bytes })| GpuProcess {
            gpu,
            computes,
            pid,
            name: table.name(pid),
            memory_bytes,
        })
    };
    devices(nvml).iter().enumerate().flat_map(of_device).collect()
}

/// Merges the driver's two lists of the processes on a GPU, by pid. A process that computes and draws is in both lists,
/// with the same memory, and counts as computing.
pub(crate) fn gpu_uses(computing: Vec<ProcessInfo>, drawing: Vec<ProcessInfo>) -> BTreeMap<u32, GpuUse> {
    let listed = |processes: Vec<ProcessInfo>, computes| {
        processes.into_iter().map(move |process| {
            let memory_bytes = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            (process.pid, GpuUse { computes, memory_bytes })
        })
    };
    // Of two entries with the same pid, the later one stays.
    listed(drawing, false).chain(listed(computing, true)).collect()
}

/// The driver's library; `None` if there is no driver or it does not answer.
fn library() -> Option<&'static Nvml> {
    static LIBRARY: OnceLock<Option<Nvml>> = OnceLock::new();
    LIBRARY.get_or_init(|| if has_driver() { Nvml::init().ok() } else { None }).as_ref()
}

/// Whether there is a driver, of Linux or of WSL.
fn has_driver() -> bool {
    ["/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"].iter().any(|path| Path::new(path).exists())
}

/// All GPUs that answer: one that fell off the bus must not hide the others.
fn devices(nvml: &Nvml) -> Vec<Device<'_>> {
    let count = nvml.device_count().unwrap_or(0);
    (0..count).filter_map(|index| nvml.device_by_index(index).ok()).collect()
}

fn gpu_facts(device: &Device<'_>) -> GpuFacts {
    let capability = device.cuda_compute_capability().ok();
    GpuFacts {
        name: device.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned()),
        uuid: device.uuid().ok(),
        memory_bytes: device.memory_info().ok().map(|memory| memory.total),
        compute_capability: capability.map(|capability| format!("{}.{}", capability.major, capability.minor)),
        cores: None,
        power_limit_w: device.enforced_power_limit().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
        persistence_mode: device.is_in_persistent_mode().ok(),
        ecc: device.is_ecc_enabled().ok().map(|ecc| ecc.currently_enabled),
    }
}

/// `12.4` for 12040.
fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// The GPUs that the driver lists in `/proc`, by bus address.
fn listed_gpus() -> Vec<GpuFacts> {
    read_in_each(LISTED, "information").iter().filter_map(|text| listed_gpu(text)).collect()
}

/// Parses `/proc/driver/nvidia/gpus/*/information`. Before a GPU's first use, its UUID is full of question marks.
fn listed_gpu(information: &str) -> Option<GpuFacts> {
    let value = |name: &str| {
        let lines = information.lines().filter_map(|line| line.split_once(':'));
        let found = lines.into_iter().find(|(found, _)| found.trim() == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let uuid = value("GPU UUID").filter(|uuid| !uuid.contains('?'));
    Some(GpuFacts { name: value("Model")?, uuid, ..GpuFacts::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFORMATION: &str = "Model: \t\t NVIDIA L4\nIRQ:   \t\t 36\nGPU UUID: \t GPU-3e8c2b1a-0f5d\n\
                               Video BIOS: \t 95.04.29.00.06\nBus Location: \t 0000:00:03.0\n";

    #[test]
    fn a_listed_gpu_has_a_name_and_after_first_use_a_uuid() {
        let gpu = listed_gpu(INFORMATION).unwrap();
        assert_eq!((gpu.name.as_str(), gpu.uuid.as_deref()), ("NVIDIA L4", Some("GPU-3e8c2b1a-0f5d")));
        let unused = INFORMATION.replace("GPU-3e8c2b1a-0f5d", "GPU-????????-????");
        assert_eq!(listed_gpu(&unused).unwrap().uuid, None);
        assert_eq!(listed_gpu("IRQ: 36\n"), None);
    }

    #[test]
    fn the_cuda_version_is_decoded() {
        assert_eq!([12040, 13000, 11080].map(cuda_version), ["12.4", "13.0", "11.8"]);
    }

    #[test]
    fn a_process_that_computes_and_draws_counts_as_computing() {
        let process = |pid, used_gpu_memory| ProcessInfo {
            pid,
            used_gpu_memory,
            gpu_instance_id: None,
            compute_instance_id: None,
        };
        let computing = vec![process(2, UsedGpuMemory::Used(20)), process(3, UsedGpuMemory::Unavailable)];
        let drawing = vec![process(1, UsedGpuMemory::Used(10)), process(2, UsedGpuMemory::Used(20))];
        let uses = [
            (1, GpuUse { computes: false, memory_bytes: Some(10) }),
            (2, GpuUse { computes: true, memory_bytes: Some(20) }),
            (3, GpuUse { computes: true, memory_bytes: None }),
        ];
        assert_eq!(gpu_uses(computing, drawing), uses.into());
    }

    #[test]
    fn without_a_driver_nothing_is_found_and_nothing_fails() {
        if !has_driver() {
            assert_eq!(probe_nvidia(), NvidiaFacts::default());
            assert_eq!(probe_gpu_processes(), []);
        }
    }
}
