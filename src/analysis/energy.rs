//! The power and energy of a measured window, from the sensors' readings.

use crate::job::Kind;
use crate::protocol::Measurement;
use crate::record::{Record, Sensor, Telemetry};

/// The fewest readings whose mean counts as a window's power, since boards report a mean over the preceding second.
const LEAST_SAMPLES: u32 = 5;

/// The power and energy of a part of the machine during the measured window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Mean power, in watts.
    pub power_w: f64,
    /// Energy of one image, in joules.
    pub joules_per_sample: f64,
}

impl Draw {
    fn of(power_w: f64, measurement: &Measurement) -> Draw {
        Draw { power_w, joules_per_sample: power_w * measurement.elapsed_s / measurement.samples as f64 }
    }
}

/// The draw of the processor packages: their energy over the window's seconds. `None` if it was not measured, and for
/// an unsynchronised window, whose seconds mean nothing.
pub fn cpu_draw(record: &Record) -> Option<Draw> {
    let (telemetry, measurement) = measured(record)?;
    Some(Draw::of(telemetry.window_growth(Sensor::CpuEnergy)? / measurement.elapsed_s, measurement))
}

/// The draw of the GPU's board, from its energy counter if it has one, or else from the mean power within the window.
/// `None` as for [`cpu_draw`].
pub fn gpu_draw(record: &Record) -> Option<Draw> {
    let (telemetry, measurement) = measured(record)?;
    let counted = telemetry.window_growth(Sensor::GpuEnergy).map(|joules| joules / measurement.elapsed_s);
    let is_long = telemetry.of_window && telemetry.samples >= LEAST_SAMPLES;
    let shown = telemetry.readings(Sensor::GpuPower).filter(|_| is_long).map(|power| power.mean);
    Some(Draw::of(counted.or(shown)?, measurement))
}

/// Profiled jobs have no energy, because a profiler repeats work that training does once.
fn measured(record: &Record) -> Option<(&Telemetry, &Measurement)> {
    if record.key.kind != Kind::Timing {
        return None;
    }
    let measurement = record.measurement.as_ref().filter(|measurement| measurement.synchronized)?;
    Some((record.observed.telemetry.as_ref()?, measurement))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::record::Readings;

    /// 160 images in 1.6 s.
    fn record(telemetry: Telemetry) -> Record {
        let mut record = fixture::record(fixture::key("cpu", "resnet18", 16, 1), 100.0, 0);
        record.observed.telemetry = Some(telemetry);
        record
    }

    #[test]
    fn energy_gives_watts_and_joules_per_sample() {
        let cpu = cpu_draw(&record(Telemetry::default().with(Sensor::CpuEnergy, 80.0))).unwrap();
        assert!((cpu.power_w - 50.0).abs() < 1e-9 && (cpu.joules_per_sample - 0.5).abs() < 1e-9, "{cpu:?}");
        let gpu = |energy_j: Option<f64>, of_window, samples| {
            let power_w = Readings::of([290.0, 310.0]).unwrap();
            let telemetry = Telemetry { samples, of_window, ..Telemetry::default() };
            let telemetry = telemetry.with(Sensor::GpuPower, power_w);
            gpu_draw(&record(match energy_j {
                Some(energy_j) => telemetry.with(Sensor::GpuEnergy, energy_j),
                None => telemetry,
            }))
        };
        assert!((gpu(Some(320.0), true, 1).unwrap().power_w - 200.0).abs() < 1e-9, "the counter comes first");
        let shown = gpu(None, true, 5).unwrap();
        assert!((shown.power_w - 300.0).abs() < 1e-9 && (shown.joules_per_sample - 3.0).abs() < 1e-9);
        assert_eq!(gpu(None, false, 5), None, "readings of the whole run do not belong to the window");
        assert_eq!(gpu(None, true, 4), None, "too few readings reflect the seconds before");
    }

    #[test]
    fn energy_that_was_not_measured_is_absent() {
        assert_eq!(cpu_draw(&record(Telemetry::default())), None);
        assert_eq!(gpu_draw(&record(Telemetry::default())), None);
        let mut record = record(Telemetry::default().with(Sensor::CpuEnergy, 80.0));
        record.measurement.as_mut().unwrap().synchronized = false;
        assert_eq!(cpu_draw(&record), None);
        record.observed.telemetry = None;
        assert_eq!(cpu_draw(&record), None);
    }

    #[test]
    fn a_profiled_job_has_no_energy() {
        let mut record = record(Telemetry::default().with(Sensor::CpuEnergy, 80.0));
        record.key.kind = Kind::Perf;
        assert_eq!(cpu_draw(&record), None);
    }
}
