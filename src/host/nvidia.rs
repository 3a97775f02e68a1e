//! NVIDIA's GPUs, as reported by the driver's library (NVML), otherwise as listed by the driver in `/proc`.
//!
//! The library is opened once per process and stays open. Opening it can take a second if the driver does not stay
//! loaded, and keeps the driver loaded from then on. Without a driver, nothing is loaded.
#![expect(clippy::disallowed_methods, reason = "this probes the machine")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device as Handle, Nvml};
use serde::Serialize;

use super::system::read_in_each;
use crate::job::Device;
use crate::processes::ProcessTable;
use crate::record::{Extent, GpuAddress, GpuFacts, GpuInstance, HostFacts};

/// Where the driver lists its GPUs.
const LISTED: &str = "/proc/driver/nvidia/gpus";

/// The name of a GPU that does not report one.
const UNNAMED: &str = "NVIDIA GPU";

/// The variable with the directories that are searched for libraries before the system's.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The driver's library.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Facts from NVIDIA's driver about this host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NvidiaFacts {
    /// The GPUs in the driver's order. One that does not answer keeps its position.
    pub(super) gpus: Vec<GpuFacts>,
    /// Whether the driver has others that this process must not use, such as those of another job of a scheduler.
    pub(super) hides_some: bool,
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
    /// Its device memory in bytes, if the driver reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// How a process uses a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuUse {
    /// Whether it computes; otherwise it only draws.
    pub(crate) computes: bool,
    /// Its device memory in bytes, if the driver reports it.
    pub(crate) memory_bytes: Option<u64>,
}

/// Asks the driver. Without a driver, all facts are absent.
pub(super) fn probe_nvidia() -> NvidiaFacts {
    let Some(nvml) = library() else {
        return NvidiaFacts { gpus: listed_gpus(), ..NvidiaFacts::default() };
    };
    let (gpus, hides_some) = gpus(nvml);
    NvidiaFacts {
        gpus: if gpus.is_empty() { listed_gpus() } else { gpus },
        hides_some,
        driver: nvml.sys_driver_version().ok(),
        cuda_driver: nvml.sys_cuda_driver_version().ok().map(cuda_version),
    }
}

/// All processes that now use the GPUs of `host` that jobs can have. On a GPU in MIG mode, only those in the part of a
/// job. In a container, ids are the host's and names can be unknown.
pub fn probe_gpu_processes(host: &HostFacts) -> Vec<GpuProcess> {
    let Some(nvml) = library() else { return Vec::new() };
    let table = &ProcessTable::of_system();
    let of_gpu = |(gpu, device): (usize, Gpu<'_>)| {
        let device = device.of_job();
        let computing = device.as_ref().and_then(|device| device.running_compute_processes().ok());
        let drawing = device.as_ref().and_then(|device| device.running_graphics_processes().ok());
        let processes = gpu_uses(computing.unwrap_or_default(), drawing.unwrap_or_default()).into_iter();
        processes.map(move |(pid, GpuUse { computes, memory_bytes })| GpuProcess {
            gpu,
            computes,
            pid,
            name: table.name(pid),
            memory_bytes,
        })
    };
    let found =
        addresses(host).into_iter().filter_map(|(gpu, address)| Some((gpu, Gpu::find(nvml, &address)?)));
    found.flat_map(of_gpu).collect()
}

/// The GPUs that jobs can have, each with its position in [`HostFacts::gpus`].
fn addresses(host: &HostFacts) -> Vec<(usize, GpuAddress)> {
    let visible = host.cuda_visible_devices.as_ref();
    let count = visible.map_or(host.gpus.len(), |visible| visible.entries.len());
    let position = |index: u32| {
        let index = index as usize;
        visible.map_or(Some(index), |visible| visible.entries.get(index)?.gpu)
    };
    let numbers = (0..).take(count);
    numbers.filter_map(|index| Some((position(index)?, host.gpu_address(Device::Cuda(index))?))).collect()
}

/// The GPU of a job, as handles of the driver's library.
#[derive(Debug)]
pub(crate) struct Gpu<'a> {
    /// The whole GPU.
    whole: Handle<'a>,
    /// The job's part of it, if it is in MIG mode. `Err` if the library does not offer that part.
    part: Option<Result<Handle<'a>, NvmlError>>,
}

impl<'a> Gpu<'a> {
    /// The GPU at `address`; `None` if it does not answer.
    pub(crate) fn find(nvml: &'a Nvml, address: &GpuAddress) -> Option<Gpu<'a>> {
        let part = match &address.extent {
            Extent::Whole => None,
            Extent::Part(Some(uuid)) => Some(nvml.device_by_uuid(uuid.as_str())),
            Extent::Part(None) => Some(Err(NvmlError::NotFound)),
        };
        let parent = || part.as_ref()?.as_ref().ok()?.mig_parent_device().ok();
        let by_uuid = || nvml.device_by_uuid(address.uuid.as_deref()?).ok();
        let whole = match address.index {
            Some(index) => nvml.device_by_index(index).ok(),
            None => by_uuid().or_else(parent),
        };
        Some(Gpu { whole: whole?, part })
    }

    /// The whole GPU, for readings that are the same for all of its parts, such as temperature and clocks.
    pub(crate) fn whole(&self) -> &Handle<'a> {
        &self.whole
    }

    /// The GPU if the job has all of it, for readings that are sums over its parts, such as power.
    pub(crate) fn undivided(&self) -> Option<&Handle<'a>> {
        self.part.is_none().then_some(&self.whole)
    }

    /// The job's part of it, for memory and processes. `None` if the library does not report them.
    pub(crate) fn of_job(&self) -> Option<&Handle<'a>> {
        self.part.as_ref().map_or(Some(&self.whole), |part| part.as_ref().ok())
    }
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

/// Whether there is a driver, of Linux or of WSL. Without one, loading its library would waste time.
///
/// A library in a directory of `LD_LIBRARY_PATH` counts as a driver: some sandboxes, and tests, have a driver without
/// these files. CUDA's toolkit has no file of that name, only `libnvidia-ml.so` to link with. Relative directories are
/// skipped.
fn has_driver() -> bool {
    let seen = ["/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"];
    let path = std::env::var_os(LIBRARY_PATH).unwrap_or_default();
    seen.iter().any(|path| Path::new(path).exists())
        || std::env::split_paths(&path).any(|path| path.is_absolute() && path.join(LIBRARY).exists())
}

/// All GPUs that this process may use, and whether there are others. CUDA does not count those.
fn gpus(nvml: &Nvml) -> (Vec<GpuFacts>, bool) {
    let (mut found, mut hides_some) = (Vec::new(), false);
    for number in 0..nvml.device_count().unwrap_or(0) {
        let facts = match nvml.device_by_index(number) {
            Ok(device) => gpu_facts(&device),
            Err(NvmlError::NoPermission | NvmlError::OperatingSystem) => {
                hides_some = true;
                continue;
            }
            // A GPU that fell off the bus must not hide the others or change their numbers.
            Err(error) => GpuFacts {
                name: UNNAMED.to_owned(),
                problem: Some(problem_text(&error)),
                ..GpuFacts::default()
            },
        };
        let index = Some(number).filter(|number| *number as usize != found.len());
        found.push(GpuFacts { index, ..facts });
    }
    (found, hides_some)
}

fn gpu_facts(device: &Handle<'_>) -> GpuFacts {
    let capability = device.cuda_compute_capability().ok();
    let memory = device.memory_info();
    GpuFacts {
        name: device.name().unwrap_or_else(|_| UNNAMED.to_owned()),
        uuid: device.uuid().ok(),
        compute_capability: capability.map(|capability| format!("{}.{}", capability.major, capability.minor)),
        cores: None,
        power_limit_w: device.enforced_power_limit().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
        persistence_mode: device.is_in_persistent_mode().ok(),
        ecc: device.is_ecc_enabled().ok().map(|ecc| ecc.currently_enabled),
        index: None,
        problem: match &memory {
            Err(error @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => Some(problem_text(error)),
            _ => None,
        },
        instances: instances(device),
        memory_bytes: memory.ok().map(|memory| memory.total),
    }
}

/// The parts of a GPU in MIG mode.
fn instances(device: &Handle<'_>) -> Option<Vec<GpuInstance>> {
    device.mig_mode().ok().filter(|mode| mode.current == 1)?;
    let parts = (0..device.mig_device_count().unwrap_or(0))
        .filter_map(|index| device.mig_device_by_index(index).ok());
    let facts = |part: Handle<'_>| {
        let memory_bytes = part.memory_info().ok().map(|memory| memory.total);
        Some(GpuInstance { uuid: part.uuid().ok()?, memory_bytes })
    };
    Some(parts.filter_map(facts).collect())
}

fn problem_text(error: &NvmlError) -> String {
    match error {
        NvmlError::GpuLost => "it fell off the bus".to_owned(),
        NvmlError::ResetRequired => "it needs a reset".to_owned(),
        NvmlError::InsufficientPower => "its power cables are not attached".to_owned(),
        other => other.to_string(),
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
    fn without_a_driver_there_are_no_gpus_and_no_errors() {
        if !has_driver() {
            assert_eq!(probe_nvidia(), NvidiaFacts::default());
            assert_eq!(probe_gpu_processes(&HostFacts::default()), []);
        }
    }
}
