//! Takes a sample: maps each declared sensor to its reading, in a fixed order.

use super::gpu::Board;
use super::host::HostSensors;
use crate::record::{Part, Sample, Sensor};
use crate::run::process::Group;

/// Reads all sensors at `unix_s`, in seconds since the Unix epoch. `job` is the job's process group.
///
/// The GPU comes first, right after the clock, because its energy is interpolated by the sample's time. Reading the
/// host's files takes up to tens of milliseconds, which vary between samples.
pub(super) fn look(
    unix_s: f64,
    host: &mut HostSensors,
    board: Option<&impl Board>,
    job: Option<Group>,
) -> Sample {
    host.begin_look();
    let mut sample = Sample { unix_s, ..Sample::default() };
    for sensor in Sensor::of(Part::Gpu) {
        sample.values.extend(read(sensor, host, board, job).map(|value| (sensor, value)));
    }
    sample.gpu = board.map(|board| board.state(job)).unwrap_or_default();
    for sensor in of_host() {
        sample.values.extend(read(sensor, host, board, job).map(|value| (sensor, value)));
    }
    sample
}

/// The host's sensors in the order in which they are read: the energy first, because it belongs to the sample's time,
/// and the clocks last, because reading them can block.
fn of_host() -> Vec<Sensor> {
    let mut sensors: Vec<Sensor> =
        Sensor::ALL.iter().copied().filter(|sensor| sensor.part() != Part::Gpu).collect();
    sensors.sort_by_key(|sensor| (*sensor != Sensor::CpuEnergy, *sensor == Sensor::CpuClock));
    sensors
}

/// The current value of `sensor`.
fn read(
    sensor: Sensor,
    host: &mut HostSensors,
    board: Option<&impl Board>,
    job: Option<Group>,
) -> Option<f64> {
    match sensor {
        Sensor::CpuBusy => host.busy_s(),
        Sensor::CpuClock => host.mhz(),
        Sensor::CpuTemperature => host.temperature_c(),
        Sensor::CpuThrottleEvents => host.throttle_events(),
        Sensor::CpuThrottled => host.throttled_s(),
        Sensor::CpuQuotaHeld => host.quota_held_s(),
        Sensor::WorkerStopped => host.stopped_looks(job),
        Sensor::CpuEnergy => host.energy_j(),
        Sensor::MemoryAvailable => host.memory_available_bytes(),
        Sensor::SwappedIn => host.swapped_in_bytes(),
        Sensor::SwappedOut => host.swapped_out_bytes(),
        Sensor::GpuSmClock => board?.sm_mhz(),
        Sensor::GpuMemoryClock => board?.memory_mhz(),
        Sensor::GpuPower => board?.power_w(),
        Sensor::GpuEnergy => board?.energy_j(),
        Sensor::GpuTemperature => board?.temperature_c(),
        Sensor::GpuMemoryUsed => board?.memory_used_bytes(),
        Sensor::GpuMemoryBusy => board?.memory_busy_percent(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::fixture::{Root, server};
    use super::*;
    use crate::record::GpuSample;

    /// A GPU of which every value can be read. The function is called for each.
    struct FakeBoard<F>(F);

    impl<F: Fn()> FakeBoard<F> {
        fn show(&self, value: f64) -> Option<f64> {
            self.0();
            Some(value)
        }
    }

    impl<F: Fn()> Board for FakeBoard<F> {
        fn sm_mhz(&self) -> Option<f64> {
            self.show(1980.0)
        }

        fn memory_mhz(&self) -> Option<f64> {
            self.show(2619.0)
        }

        fn power_w(&self) -> Option<f64> {
            self.show(312.5)
        }

        fn energy_j(&self) -> Option<f64> {
            self.show(99_000.0)
        }

        fn temperature_c(&self) -> Option<f64> {
            self.show(54.0)
        }

        fn memory_used_bytes(&self) -> Option<f64> {
            self.show(8e9)
        }

        fn memory_busy_percent(&self) -> Option<f64> {
            self.show(37.0)
        }

        fn state(&self, _: Option<Group>) -> GpuSample {
            self.0();
            GpuSample { throttle_reasons: Some(vec!["hw_slowdown".to_owned()]), others: None }
        }
    }

    fn open(root: &Root) -> HostSensors {
        HostSensors::open(root.path(), 4096.0)
    }

    /// The value of a sensor of [`server`] and [`FakeBoard`]; all values differ.
    fn expected(sensor: Sensor) -> f64 {
        match sensor {
            // User, system and interrupts, in hundredths of a second.
            Sensor::CpuBusy => 1.75,
            // The mean of the four usable processors.
            Sensor::CpuClock => 2150.0,
            // The hotter package, not a core or a disk.
            Sensor::CpuTemperature => 63.0,
            // Four cores, not eight threads.
            Sensor::CpuThrottleEvents => 8.0,
            // Counted from the first sample.
            Sensor::CpuThrottled => 0.0,
            // Of the group with the quota.
            Sensor::CpuQuotaHeld => 1.25,
            // At the first sample.
            Sensor::WorkerStopped => 1.0,
            // The counter begins at the first sample.
            Sensor::CpuEnergy => 0.0,
            Sensor::MemoryAvailable => 1_024_000.0,
            Sensor::SwappedIn => 8192.0,
            Sensor::SwappedOut => 12_288.0,
            Sensor::GpuSmClock => 1980.0,
            Sensor::GpuMemoryClock => 2619.0,
            Sensor::GpuPower => 312.5,
            Sensor::GpuEnergy => 99_000.0,
            Sensor::GpuTemperature => 54.0,
            Sensor::GpuMemoryUsed => 8e9,
            Sensor::GpuMemoryBusy => 37.0,
        }
    }

    #[test]
    fn every_sensor_is_read() {
        let job = Group::with_leader(20);
        let sample = look(7.0, &mut open(&server()), Some(&FakeBoard(|| ())), Some(job));
        for sensor in Sensor::ALL {
            let shown = sample.get(*sensor);
            assert_eq!(shown, Some(expected(*sensor)), "{sensor:?} is not read, or another is in its place");
        }
        assert_eq!(sample.unix_s, 7.0);
        assert_eq!(sample.gpu.throttle_reasons, Some(vec!["hw_slowdown".to_owned()]));
    }

    #[test]
    fn every_sample_is_read_again() {
        let root = server();
        let mut host = open(&root);
        for pages in [7, 8] {
            root.set("proc/vmstat", &format!("pswpin {pages}\npswpout {}\n", 2 * pages));
            let sample = look(7.0, &mut host, None::<&FakeBoard<fn()>>, None);
            let bytes = f64::from(pages) * 4096.0;
            assert_eq!(sample.get(Sensor::SwappedIn), Some(bytes));
            assert_eq!(sample.get(Sensor::SwappedOut), Some(2.0 * bytes));
        }
    }

    #[test]
    fn a_job_on_the_processor_has_no_gpu_values() {
        let sample = look(7.0, &mut open(&server()), None::<&FakeBoard<fn()>>, None);
        for sensor in Sensor::ALL {
            assert_eq!(sample.get(*sensor).is_some(), sensor.part() != Part::Gpu, "{sensor:?}");
        }
        assert_eq!(sample.gpu, GpuSample::default());
    }

    #[test]
    fn missing_sensors_have_no_values() {
        let sample = look(7.0, &mut open(&Root::new(&[])), None::<&FakeBoard<fn()>>, None);
        assert_eq!(sample, Sample { unix_s: 7.0, ..Sample::default() });
    }

    #[test]
    fn the_gpu_is_read_before_the_hosts_files() {
        let root = server();
        let looks = RefCell::new(0);
        let change = || {
            *looks.borrow_mut() += 1;
            root.set("proc/meminfo", &format!("MemAvailable: {} kB\n", looks.borrow()));
        };
        let sample = look(7.0, &mut open(&root), Some(&FakeBoard(change)), None);
        let all = Sensor::of(Part::Gpu).count() + 1;
        assert_eq!(*looks.borrow(), all);
        assert_eq!(sample.get(Sensor::MemoryAvailable), Some(1024.0 * all as f64));
    }

    #[test]
    fn of_the_host_the_energy_is_read_first_and_the_clocks_last() {
        let order = of_host();
        assert_eq!((order.first(), order.last()), (Some(&Sensor::CpuEnergy), Some(&Sensor::CpuClock)));
        assert_eq!(order.len() + Sensor::of(Part::Gpu).count(), Sensor::ALL.len());
    }
}
