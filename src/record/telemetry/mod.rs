//! Sensor readings of an attempt: [`Sample`]s, the lines of its `telemetry.csv`, and [`Telemetry`], their summary in
//! the record.
//!
//! A sensor that the host lacks is absent, never 0. What follows from these values (mean power, joules per image,
//! marks) is derived by [`crate::analysis`].

mod sample;
mod summary;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use sample::{GpuSample, OnDevice, Sample, parse_samples};

/// Summary of one sensor's readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// The first reading.
    pub first: f64,
    /// The minimum.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The maximum.
    pub max: f64,
    /// The last reading.
    pub last: f64,
}

impl Readings {
    /// Summarises `values`, given in the order they were read. Skips values that are not finite; `None` if none is
    /// left.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Readings> {
        let mut values = values.into_iter().filter(|value| value.is_finite());
        let first = values.next()?;
        let mut readings = Readings { first, min: first, mean: first, max: first, last: first };
        let mut count = 1.0;
        for value in values {
            count += 1.0;
            readings.min = readings.min.min(value);
            readings.max = readings.max.max(value);
            readings.mean += (value - readings.mean) / count;
            readings.last = value;
        }
        Some(readings)
    }
}

/// What the sensors showed while a job ran.
///
/// Clocks, temperatures, power, memory and throttle reasons cover the measured window, or the whole attempt if no
/// sample lies in a known window (`window_started_at`); `of_window` tells which. Event counters and foreign processes
/// cover the whole attempt. Energies cover the measured window, or are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// How many samples the readings summarise.
    pub samples: u32,
    /// The readings cover only the measured window.
    pub of_window: bool,
    /// How many of the host's processors were busy between two samples, with this job or anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_busy: Option<Readings>,
    /// Mean clock of some of the usable processors, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_mhz: Option<Readings>,
    /// Temperature of the processor's hottest sensor, in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_temperature_c: Option<Readings>,
    /// Thermal throttling events, summed over all processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_throttle_events: Option<u64>,
    /// Energy that the processor packages used during the measured window (RAPL or similar), in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_energy_j: Option<f64>,
    /// The host's available memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_available_bytes: Option<Readings>,
    /// Bytes that the host wrote to swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swapped_out_bytes: Option<u64>,
    /// Bytes that the host read back from swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swapped_in_bytes: Option<u64>,
    /// The GPU that the job ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuTelemetry>,
}

/// What the driver (NVML) showed about the GPU that a job ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuTelemetry {
    /// SM clock, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<Readings>,
    /// Memory clock, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mhz: Option<Readings>,
    /// Power of the board, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<Readings>,
    /// Energy that the board used during the measured window, in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Temperature, in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<Readings>,
    /// Memory used by all processes, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<Readings>,
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

    #[test]
    fn readings_are_summarised_in_order() {
        let readings = Readings::of([3.0, f64::NAN, 1.0, 5.0, 3.0]).unwrap();
        assert_eq!(readings, Readings { first: 3.0, min: 1.0, mean: 3.0, max: 5.0, last: 3.0 });
        assert_eq!(Readings::of([f64::NAN]), None);
        assert_eq!(Readings::of([]), None);
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
}
