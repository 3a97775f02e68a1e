//! Sensor readings of an attempt: [`Sample`]s, the lines of its `telemetry.csv`, and [`Telemetry`], their summary in
//! the record.
//!
//! A sensor that the host lacks is absent, never 0. Derived values (mean power, joules per sample, marks) are computed
//! by [`crate::analysis`].

mod readings;
mod sample;
mod sensor;
mod summaries;
mod summary;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use readings::Readings;
pub use sample::{GpuSample, OnDevice, Sample, parse_samples};
pub use sensor::{Declaration, Part, Sensor, Statistic, Summary, sensors_table};
pub use summaries::{Summaries, SummaryValue};

/// A summary of the sensors while a job ran.
///
/// Clocks, temperatures, power, memory and throttle reasons cover the measured window, or the whole attempt if no
/// sample is in a known window (`window_started_at`); `of_window` distinguishes the two. Event counters and foreign
/// processes cover the whole attempt. Energies cover the measured window, or are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// The number of samples that the readings summarise.
    pub samples: u32,
    /// The readings cover only the measured window.
    pub of_window: bool,
    /// Summaries of the host's sensors.
    #[serde(flatten)]
    pub host: Summaries,
    /// The GPU that the job ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuTelemetry>,
}

/// Readings of the driver (NVML) for the GPU that a job ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuTelemetry {
    /// Summaries of the GPU's sensors.
    #[serde(flatten)]
    pub sensors: Summaries,
    /// Samples in which the driver throttled the clocks, by its reason: `sw_power_cap`, `hw_thermal_slowdown`, …. The
    /// low clocks of an idle GPU do not count.
    pub throttled_samples: BTreeMap<String, u32>,
    /// Processes on the device that are not the job's, in the order of their pids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_processes: Vec<ForeignProcess>,
    /// Samples in which the owner of a process on the device was unknown: the driver uses the host's process ids, a
    /// container its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_processes_samples: u32,
}

impl Telemetry {
    /// With `value` as the summary of `sensor`.
    pub fn with(mut self, sensor: Sensor, value: impl Into<SummaryValue>) -> Telemetry {
        self.part_mut(sensor.part()).set(sensor, value.into());
        self
    }

    fn part_mut(&mut self, part: Part) -> &mut Summaries {
        match part {
            Part::Processor | Part::Memory => &mut self.host,
            Part::Gpu => &mut self.gpu.get_or_insert_default().sensors,
        }
    }

    /// The summary of `sensor`, if it was read.
    pub fn get(&self, sensor: Sensor) -> Option<SummaryValue> {
        match sensor.part() {
            Part::Processor | Part::Memory => self.host.get(sensor),
            Part::Gpu => self.gpu.as_ref()?.sensors.get(sensor),
        }
    }

    /// The readings of `sensor`, which is summarised as [`Summary::Gauge`] or [`Summary::Rate`].
    pub fn readings(&self, sensor: Sensor) -> Option<Readings> {
        match self.get(sensor)? {
            SummaryValue::Readings(readings) => Some(readings),
            SummaryValue::Growth(_) | SummaryValue::WindowGrowth(_) => None,
        }
    }

    /// The growth of the counter `sensor`, summarised as [`Summary::Growth`], over the whole attempt.
    pub fn growth(&self, sensor: Sensor) -> Option<u64> {
        match self.get(sensor)? {
            SummaryValue::Growth(growth) => Some(growth),
            SummaryValue::Readings(_) | SummaryValue::WindowGrowth(_) => None,
        }
    }

    /// The growth of the counter `sensor`, summarised as [`Summary::WindowGrowth`], over the measured window.
    pub fn window_growth(&self, sensor: Sensor) -> Option<f64> {
        match self.get(sensor)? {
            SummaryValue::WindowGrowth(growth) => Some(growth),
            SummaryValue::Readings(_) | SummaryValue::Growth(_) => None,
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A process on the job's device that is not the job's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignProcess {
    /// Its process id.
    pub pid: u32,
    /// The name of its program, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its peak device memory in bytes, if the driver reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// It only draws: in every sample, the driver listed it as a graphics process and not as a compute process. Absent
    /// in older records, where every process counts as computing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graphics: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Absent values are left out of a record.
    #[test]
    fn processes_of_unknown_owners_are_written_if_there_were_any() {
        let json = |unknown_processes_samples| {
            serde_json::to_value(GpuTelemetry { unknown_processes_samples, ..GpuTelemetry::default() })
                .unwrap()
        };
        assert_eq!(json(0).get("unknown_processes_samples"), None);
        assert_eq!(json(2)["unknown_processes_samples"], 2);
    }

    #[test]
    fn a_process_in_an_older_record_computes() {
        let older = r#"{"pid":7,"name":"python3"}"#;
        let process: ForeignProcess = serde_json::from_str(older).unwrap();
        assert!(!process.graphics);
        assert_eq!(serde_json::to_string(&process).unwrap(), older);
        let drawing = ForeignProcess { graphics: true, ..process };
        let json = serde_json::to_string(&drawing).unwrap();
        assert_eq!(json, r#"{"pid":7,"name":"python3","graphics":true}"#);
        assert_eq!(serde_json::from_str::<ForeignProcess>(&json).unwrap(), drawing);
    }

    #[test]
    fn an_absent_sensor_leaves_no_field() {
        let json = serde_json::to_string(&Telemetry { samples: 3, ..Telemetry::default() }).unwrap();
        assert_eq!(json, r#"{"samples":3,"of_window":false}"#);
        assert_eq!(serde_json::from_str::<Telemetry>("{}").unwrap(), Telemetry::default());
    }

    /// As the first version of `record.json` wrote it, field by field.
    const FIRST_VERSION: &str = r#"{
        "samples": 6,
        "of_window": true,
        "cpu_busy": {"first": 1.5, "min": 1.25, "mean": 1.5, "max": 2.0, "last": 1.25},
        "cpu_mhz": {"first": 2.5, "min": 2.0, "mean": 2.5, "max": 3.0, "last": 2.0},
        "cpu_temperature_c": {"first": 50.0, "min": 50.0, "mean": 55.1, "max": 60.0, "last": 60.0},
        "cpu_throttle_events": 7,
        "cpu_energy_j": 80.1,
        "memory_available_bytes": {"first": 9.0, "min": 9.0, "mean": 9.0, "max": 9.0, "last": 9.0},
        "swapped_out_bytes": 9007199254740993,
        "swapped_in_bytes": 0,
        "gpu": {
            "sm_mhz": {"first": 1980.0, "min": 1900.0, "mean": 1950.5, "max": 1980.0, "last": 1980.0},
            "memory_mhz": {"first": 2619.0, "min": 2619.0, "mean": 2619.0, "max": 2619.0, "last": 2619.0},
            "power_w": {"first": 300.0, "min": 300.0, "mean": 310.3, "max": 320.0, "last": 320.0},
            "energy_j": 1000.1,
            "temperature_c": {"first": 50.0, "min": 50.0, "mean": 50.0, "max": 50.0, "last": 50.0},
            "memory_used_bytes": {"first": 8.0, "min": 8.0, "mean": 8.0, "max": 8.0, "last": 8.0},
            "throttled_samples": {"sw_power_cap": 3},
            "foreign_processes": [{"pid": 7}],
            "unknown_processes_samples": 1
        }
    }"#;

    #[test]
    fn a_record_of_the_first_version_is_read_and_written_again_as_it_was() {
        let telemetry: Telemetry = serde_json::from_str(FIRST_VERSION).unwrap();
        assert_eq!(telemetry.readings(Sensor::CpuClock).map(|mhz| mhz.max), Some(3.0));
        assert_eq!(telemetry.readings(Sensor::GpuTemperature).map(|celsius| celsius.max), Some(50.0));
        assert_eq!(telemetry.growth(Sensor::SwappedOut), Some((1 << 53) + 1), "whole numbers stay exact");
        assert_eq!(telemetry.growth(Sensor::SwappedIn), Some(0));
        assert_eq!(telemetry.window_growth(Sensor::CpuEnergy), Some(80.1));
        assert_eq!(telemetry.window_growth(Sensor::GpuEnergy), Some(1000.1));
        let [again, first] = [serde_json::to_string(&telemetry).unwrap(), FIRST_VERSION.to_owned()]
            .map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
        assert_eq!(again, first);
    }

    /// [`FIRST_VERSION`] was written before; a sensor that was added since is no part of it.
    #[test]
    fn every_sensor_survives_the_record() {
        for sensor in Sensor::ALL {
            let telemetry = match sensor.declaration().summary {
                Summary::Gauge(_) | Summary::Rate(_) => {
                    Telemetry::default().with(*sensor, Readings::of([1.5, 2.0]).unwrap())
                }
                Summary::Growth(_) => Telemetry::default().with(*sensor, 3),
                Summary::WindowGrowth(_) => Telemetry::default().with(*sensor, 4.0),
            };
            let json = serde_json::to_string(&telemetry).unwrap();
            assert_eq!(serde_json::from_str::<Telemetry>(&json).unwrap(), telemetry, "{sensor:?}: {json}");
        }
    }

    #[test]
    fn errors_name_a_summary_of_the_wrong_form() {
        let error = serde_json::from_str::<Telemetry>(r#"{"cpu_throttle_events": -1}"#).unwrap_err();
        assert!(error.to_string().starts_with("cpu_throttle_events: "), "{error}");
        let absent = serde_json::from_str::<Telemetry>(r#"{"cpu_mhz": null, "fan_rpm": 900}"#).unwrap();
        assert_eq!(absent, Telemetry::default());
    }
}
