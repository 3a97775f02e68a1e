//! The sensors of NVIDIA's GPUs, read with the driver's library (NVML): [`GpuSensors`]. The library is loaded on first
//! use; without it, there are no such sensors.

use std::collections::BTreeMap;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use crate::host::{Gpu, GpuUse, gpu_uses};
use crate::record::{ForeignProcess, GpuAddress, GpuSample, OnDevice};
use crate::run::process::{Group, Owner, is_in_first_pid_namespace};

/// The driver's reasons for reduced clocks, by their names in `nvidia-smi`. Idleness is not included.
const REASONS: [(ThrottleReasons, &str); 8] = [
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "applications_clocks_setting"),
    (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync_boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake_slowdown"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display_clock_setting"),
];

/// The library, or the error of loading it.
#[derive(Debug)]
pub(super) struct GpuSensors {
    library: Result<Nvml, NvmlError>,
    /// Whether the driver's process ids are those of this process.
    shares_pid_namespace: bool,
}

impl GpuSensors {
    /// Loads the library.
    pub(super) fn open() -> GpuSensors {
        GpuSensors { library: Nvml::init(), shares_pid_namespace: is_in_first_pid_namespace() }
    }

    /// The temperature of the GPU, in °C.
    pub(super) fn temperature_c(&self, address: &GpuAddress) -> Option<f64> {
        self.board(address)?.temperature_c()
    }

    /// The board of the GPU, if it exists.
    pub(super) fn board(&self, address: &GpuAddress) -> Option<NvidiaBoard<'_>> {
        let gpu = Gpu::find(self.library.as_ref().ok()?, address)?;
        Some(NvidiaBoard { gpu, shares_pid_namespace: self.shares_pid_namespace })
    }
}

/// The sensors of a GPU's board. Each value is absent where the board or its driver does not offer it.
pub(super) trait Board {
    /// Clock of the multiprocessors, in MHz.
    fn sm_mhz(&self) -> Option<f64>;
    /// Clock of the memory, in MHz.
    fn memory_mhz(&self) -> Option<f64>;
    /// Power, in watts.
    fn power_w(&self) -> Option<f64>;
    /// Energy since the driver was loaded, in joules.
    fn energy_j(&self) -> Option<f64>;
    /// Temperature, in °C.
    fn temperature_c(&self) -> Option<f64>;
    /// Memory in use by all processes, in bytes.
    fn memory_used_bytes(&self) -> Option<f64>;
    /// Share of the last sample period in which its memory was read or written, in percent.
    fn memory_busy_percent(&self) -> Option<f64>;
    /// Throttle reasons, and the processes on the GPU that do not belong to `job`.
    fn state(&self, job: Option<Group>) -> GpuSample;
}

/// A board of NVIDIA's driver.
///
/// On a GPU in MIG mode, a job has a part. Clocks, temperature and throttling are the same for all parts, so those of
/// the whole GPU are used. Power, energy and memory activity are sums over all parts, so they are absent. Memory and
/// processes are reported for each part.
#[derive(Debug)]
pub(super) struct NvidiaBoard<'a> {
    gpu: Gpu<'a>,
    shares_pid_namespace: bool,
}

impl Board for NvidiaBoard<'_> {
    fn sm_mhz(&self) -> Option<f64> {
        self.gpu.whole().clock_info(Clock::SM).ok().map(f64::from)
    }

    fn memory_mhz(&self) -> Option<f64> {
        self.gpu.whole().clock_info(Clock::Memory).ok().map(f64::from)
    }

    fn power_w(&self) -> Option<f64> {
        self.gpu.undivided()?.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3)
    }

    fn energy_j(&self) -> Option<f64> {
        // Millijoules since the driver was loaded: exact as a float for a hundred thousand years.
        self.gpu.undivided()?.total_energy_consumption().ok().map(|millijoules| millijoules as f64 / 1e3)
    }

    fn temperature_c(&self) -> Option<f64> {
        self.gpu.whole().temperature(TemperatureSensor::Gpu).ok().map(f64::from)
    }

    fn memory_used_bytes(&self) -> Option<f64> {
        self.gpu.of_job()?.memory_info().ok().map(|memory| memory.used as f64)
    }

    fn memory_busy_percent(&self) -> Option<f64> {
        self.gpu.undivided()?.utilization_rates().ok().map(|rates| f64::from(rates.memory))
    }

    fn state(&self, job: Option<Group>) -> GpuSample {
        GpuSample {
            throttle_reasons: self.gpu.whole().current_throttle_reasons().ok().map(reasons),
            others: job.and_then(|job| self.others(job)),
        }
    }
}

impl NvidiaBoard<'_> {
    /// The processes on the GPU, or on the job's part of it, that do not belong to `job`; `None` where the driver does
    /// not list processes.
    fn others(&self, job: Group) -> Option<OnDevice> {
        let gpu = self.gpu.of_job()?;
        let computing = gpu.running_compute_processes().ok()?;
        let drawing = gpu.running_graphics_processes().unwrap_or_default();
        let listed = gpu_uses(computing, drawing);
        Some(foreign_processes_of(listed, self.shares_pid_namespace, |pid| job.owner_of(pid)))
    }
}

fn reasons(held_down: ThrottleReasons) -> Vec<String> {
    let held = REASONS.iter().filter(|(reason, _)| held_down.contains(*reason));
    held.map(|(_, name)| (*name).to_owned()).collect()
}

/// The `listed` processes, by pid, that do not belong to the job.
fn foreign_processes_of(
    listed: BTreeMap<u32, GpuUse>,
    shares_pid_namespace: bool,
    owner_of: impl Fn(u32) -> Owner,
) -> OnDevice {
    if !shares_pid_namespace && !listed.is_empty() {
        return OnDevice::Unknown;
    }
    let foreign = listed.into_iter().filter_map(|(pid, listed)| match owner_of(pid) {
        Owner::Other { name } => {
            let GpuUse { computes, memory_bytes } = listed;
            Some(ForeignProcess { pid, name, memory_bytes, graphics: !computes })
        }
        Owner::Group | Owner::Gone => None,
    });
    OnDevice::Foreign(foreign.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Extent;

    #[test]
    fn an_idle_gpu_is_not_throttled() {
        assert!(reasons(ThrottleReasons::GPU_IDLE).is_empty());
        assert!(reasons(ThrottleReasons::NONE).is_empty());
        let both = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(reasons(both | ThrottleReasons::GPU_IDLE), ["sw_power_cap", "hw_thermal_slowdown"]);
    }

    #[test]
    fn processes_of_the_job_and_ended_processes_are_not_foreign() {
        let owner_of = |pid| match pid {
            1 => Owner::Group,
            2 => Owner::Gone,
            _ => Owner::Other { name: Some("trainer".to_owned()) },
        };
        let uses = |computes, memory_bytes| GpuUse { computes, memory_bytes };
        let listed = [
            (1, uses(true, Some(10))),
            (2, uses(true, Some(20))),
            (3, uses(true, None)),
            (4, uses(false, Some(5))),
        ];
        let listed = BTreeMap::from(listed);
        let foreign = |pid, memory_bytes, graphics| ForeignProcess {
            pid,
            name: Some("trainer".to_owned()),
            memory_bytes,
            graphics,
        };
        let both = vec![foreign(3, None, false), foreign(4, Some(5), true)];
        assert_eq!(foreign_processes_of(listed.clone(), true, owner_of), OnDevice::Foreign(both));
        let foreign = foreign_processes_of(listed, false, owner_of);
        assert_eq!(foreign, OnDevice::Unknown, "the ids are of another namespace");
        assert_eq!(foreign_processes_of(BTreeMap::new(), false, owner_of), OnDevice::Foreign(Vec::new()));
    }

    /// On a host without a driver, or with GPUs but none of this number.
    #[test]
    fn a_missing_gpu_has_no_values() {
        let sensors = GpuSensors::open();
        let address = GpuAddress { index: Some(u32::MAX), uuid: None, extent: Extent::Whole };
        assert!(sensors.board(&address).is_none());
        assert_eq!(sensors.temperature_c(&address), None);
    }
}
