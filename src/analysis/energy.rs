//! The power and energy of a measured window, from the sensors' readings.

use super::group::Row;
use crate::job::Kind;
use crate::protocol::Measurement;
use crate::record::{Record, Sensor, Telemetry};
use crate::stats::median;

/// The least number of readings for a window's power, since boards report a mean over the preceding second.
const LEAST_SAMPLES: u32 = 5;

/// Replaces the source of an energy that was not measured.
pub const NOT_MEASURED: &str = "not measured";

/// The method of measurement of an energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergySource {
    /// It is the difference of an energy counter between the ends of the window.
    Counter,
    /// It is the mean of samples of the power, times the seconds of the window.
    Sampled,
}

impl EnergySource {
    /// In one word, for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            EnergySource::Counter => "counter",
            EnergySource::Sampled => "sampled",
        }
    }
}

/// The power and energy of a part of the machine during the measured window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Mean power, in watts.
    pub power_w: f64,
    /// Energy of one sample, in joules.
    pub joules_per_sample: f64,
    /// The method of measurement.
    pub source: EnergySource,
}

impl Draw {
    fn of((power_w, source): (f64, EnergySource), measurement: &Measurement) -> Draw {
        let joules_per_sample = power_w * measurement.elapsed_s / measurement.samples as f64;
        Draw { power_w, joules_per_sample, source }
    }
}

/// The energy of a sample over the runs of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowEnergy {
    /// The runs that count and have an energy from `source`.
    pub n: usize,
    /// Their median.
    pub joules_per_sample: f64,
    /// The method of measurement.
    pub source: EnergySource,
}

/// The energy of a sample over the runs of `row` that count, by the `draw` of each. Counters and samples of the power
/// err in different ways, so they are not mixed: if any run has a counter, only those with one count. `None` if it was
/// not measured.
pub fn row_energy(row: &Row<'_>, draw: fn(&Record) -> Option<Draw>) -> Option<RowEnergy> {
    let counting = row.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.record());
    let draws: Vec<Draw> = counting.filter_map(draw).collect();
    let is_counted = draws.iter().any(|draw| draw.source == EnergySource::Counter);
    let source = if is_counted { EnergySource::Counter } else { EnergySource::Sampled };
    let of_source = draws.iter().filter(|draw| draw.source == source);
    let joules: Vec<f64> = of_source.map(|draw| draw.joules_per_sample).collect();
    Some(RowEnergy { n: joules.len(), joules_per_sample: median(&joules).ok()?, source })
}

/// The draw of the processor packages: their energy over the window's seconds. `None` if it was not measured, and for
/// an unsynchronised window, whose seconds are meaningless.
pub fn cpu_draw(record: &Record) -> Option<Draw> {
    let (telemetry, measurement) = measured(record)?;
    let power = telemetry.window_growth(Sensor::CpuEnergy)? / measurement.elapsed_s;
    Some(Draw::of((power, EnergySource::Counter), measurement))
}

/// The draw of the GPU's board, from its energy counter if it has one, or else from the mean power within the window.
/// `None` as for [`cpu_draw`].
pub fn gpu_draw(record: &Record) -> Option<Draw> {
    let (telemetry, measurement) = measured(record)?;
    let counted = telemetry.window_growth(Sensor::GpuEnergy).map(|joules| joules / measurement.elapsed_s);
    let is_long = telemetry.of_window && telemetry.samples >= LEAST_SAMPLES;
    let shown = telemetry.readings(Sensor::GpuPower).filter(|_| is_long).map(|power| power.mean);
    let counted = counted.map(|power| (power, EnergySource::Counter));
    Some(Draw::of(counted.or(shown.map(|power| (power, EnergySource::Sampled)))?, measurement))
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
    use crate::analysis::analyse;
    use crate::analysis::fixture::{self, StudyBuilder};
    use crate::record::Readings;

    /// 160 images in 1.6 s.
    fn record(telemetry: Telemetry) -> Record {
        let mut record = fixture::record(fixture::key("cpu", "resnet18", 16, 1), 100.0, 0);
        record.observed.telemetry = Some(telemetry);
        record
    }

    #[test]
    fn energy_is_converted_to_watts_and_joules_per_sample() {
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
        assert_eq!((cpu.source, shown.source), (EnergySource::Counter, EnergySource::Sampled));
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
    fn a_row_does_not_mix_counters_with_samples_of_the_power() {
        let with = |counted: &[Option<f64>]| {
            let mut study = StudyBuilder::new();
            for (repeat, energy) in (1..).zip(counted) {
                study = study.run_with(fixture::key("cuda", "resnet18", 16, repeat), 100.0, |record| {
                    let telemetry = Telemetry { samples: 9, of_window: true, ..Telemetry::default() };
                    let telemetry = telemetry.with(Sensor::GpuPower, Readings::of([300.0, 300.0]).unwrap());
                    record.observed.telemetry = Some(match energy {
                        Some(joules) => telemetry.with(Sensor::GpuEnergy, *joules),
                        None => telemetry,
                    });
                });
            }
            let study = study.build();
            let found = row_energy(&analyse(&study).rows[0], gpu_draw).unwrap();
            assert_eq!(row_energy(&analyse(&study).rows[0], cpu_draw), None);
            (found.n, (found.joules_per_sample * 1e6).round() / 1e6, found.source)
        };
        assert_eq!(with(&[None, None, None]), (3, 3.0, EnergySource::Sampled));
        assert_eq!(with(&[Some(160.0), None, Some(320.0)]), (2, 1.5, EnergySource::Counter));
    }

    #[test]
    fn a_profiled_job_has_no_energy() {
        let mut record = record(Telemetry::default().with(Sensor::CpuEnergy, 80.0));
        record.key.kind = Kind::Perf;
        assert_eq!(cpu_draw(&record), None);
    }
}
