//! The clock of the arithmetic units while they work. A ceiling is valid for a clock, and laptops and shared machines
//! do not run at that of the data sheet.

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use orchestrate::job::Device;
use orchestrate::protocol::Clocks;

use super::super::device::OpenDevice;
use super::host;

/// Reads a clock when [`Watch::look`] is called, and keeps the readings.
#[derive(Debug)]
pub(super) struct Watch {
    source: Source,
    /// Readings, in MHz.
    seen: Vec<f64>,
}

/// Where the readings come from.
#[derive(Debug)]
enum Source {
    /// The operating system, for the processors that this many threads keep busy.
    Processors(usize),
    /// NVIDIA's management library, for the GPU with this UUID.
    Nvidia(Box<Nvml>, String),
    /// No readings are available (MPS, or a driver without its library).
    Unavailable,
}

impl Watch {
    /// Watches `device`, or the processors that `threads` threads keep busy.
    pub(super) fn of(device: &OpenDevice, threads: u32) -> Self {
        let source = match (device.device, &device.uuid) {
            (Device::Cpu, _) => Source::Processors(usize::try_from(threads).unwrap_or(usize::MAX)),
            (Device::Cuda(_), Some(uuid)) => match Nvml::init() {
                Ok(nvml) => Source::Nvidia(Box::new(nvml), uuid.clone()),
                Err(_) => Source::Unavailable,
            },
            (Device::Cuda(_) | Device::Mps, _) => Source::Unavailable,
        };
        Watch { source, seen: Vec::new() }
    }

    /// Takes a reading.
    pub(super) fn look(&mut self) {
        let now = match &self.source {
            Source::Processors(threads) => busiest(host::processor_clocks(), *threads),
            Source::Nvidia(nvml, uuid) => ask(nvml, uuid, |gpu| gpu.clock_info(Clock::SM)),
            Source::Unavailable => None,
        };
        self.seen.extend(now);
    }

    /// The range of the readings; `None` without readings.
    pub(super) fn clocks(&self) -> Option<Clocks> {
        let low_mhz = self.seen.iter().copied().min_by(f64::total_cmp)?;
        let high_mhz = self.seen.iter().copied().max_by(f64::total_cmp)?;
        let (most_mhz, memory_mhz) = match &self.source {
            Source::Processors(_) => (host::most_processor_clock(), None),
            Source::Nvidia(nvml, uuid) => (
                ask(nvml, uuid, |gpu| gpu.max_clock_info(Clock::SM)),
                ask(nvml, uuid, |gpu| gpu.clock_info(Clock::Memory)),
            ),
            Source::Unavailable => (None, None),
        };
        Some(Clocks { low_mhz, high_mhz, most_mhz, memory_mhz })
    }

    /// The version of NVIDIA's driver.
    pub(super) fn driver(&self) -> Option<String> {
        match &self.source {
            Source::Nvidia(nvml, _) => nvml.sys_driver_version().ok(),
            Source::Processors(_) | Source::Unavailable => None,
        }
    }
}

type Answer = Result<u32, nvml_wrapper::error::NvmlError>;

fn ask(nvml: &Nvml, uuid: &str, question: impl Fn(&nvml_wrapper::Device<'_>) -> Answer) -> Option<f64> {
    let gpu = nvml.device_by_uuid(uuid).ok()?;
    question(&gpu).ok().map(f64::from)
}

/// The mean of the `threads` highest clocks: idle processors slow down, so they do not count.
fn busiest(mut clocks: Vec<f64>, threads: usize) -> Option<f64> {
    clocks.sort_by(|left, right| right.total_cmp(left));
    clocks.truncate(threads.max(1));
    (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_processors_do_not_count() {
        assert_eq!(busiest(vec![800.0, 3000.0, 800.0, 3200.0], 2), Some(3100.0));
        assert_eq!(busiest(vec![800.0], 4), Some(800.0));
        assert_eq!(busiest(Vec::new(), 4), None);
    }

    #[test]
    fn clocks_are_the_range_of_the_readings() {
        let watch = |seen: &[f64]| Watch { source: Source::Unavailable, seen: seen.to_vec() };
        let clocks = watch(&[1500.0, 1400.0, 1450.0]).clocks().unwrap();
        assert_eq!((clocks.low_mhz, clocks.high_mhz, clocks.most_mhz), (1400.0, 1500.0, None));
        assert_eq!(watch(&[]).clocks(), None);
        assert_eq!(watch(&[]).driver(), None);
    }
}
