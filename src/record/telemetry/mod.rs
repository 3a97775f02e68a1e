//! What sensors showed while a job ran: [`Sample`]s, which stand in `telemetry.csv` of the attempt, and [`Telemetry`],
//! their sum in the record.
//!
//! A sensor that the host does not offer is absent, never zero. Whatever can be derived from these values (mean power,
//! joules a sample, doubts) is derived by [`crate::analysis`].

mod sample;
mod summary;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use sample::{GpuSample, OnDevice, Sample, parse_samples};

/// The readings of one sensor over a span.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// The first.
    pub first: f64,
    /// The least.
    pub min: f64,
    /// Their mean.
    pub mean: f64,
    /// The greatest.
    pub max: f64,
    /// The last.
    pub last: f64,
}

impl Readings {
    /// Sums up `values` in the order they were read; `None` if there are none. Values that are not finite are no
    /// readings.
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

/// What sensors showed while a job ran.
///
/// Clocks, temperatures, power, memory and throttle reasons are over the measured window where the worker says when it
/// was (`window_started_at`) and a sample lies in it, else over the whole run; `of_window` tells. Counters of events and
/// foreign processes are over the whole run. Energies are those of the measured window or absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// Samples that the readings are of.
    pub samples: u32,
    /// The readings are of the measured window alone.
    pub of_window: bool,
    /// Processors of the host that were busy from one sample to the next, with the job or with anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_busy: Option<Readings>,
    /// Clock of the usable processors, the mean of some of them, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_mhz: Option<Readings>,
    /// The hottest sensor of the processor, in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_temperature_c: Option<Readings>,
    /// Times that a processor slowed itself down for heat, over all processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_throttle_events: Option<u64>,
    /// Joules that the processor packages took within the measured window (RAPL or the like).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_energy_j: Option<f64>,
    /// Memory that the host could still give, in bytes.
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

/// What the driver showed of the GPU that a job ran on (NVML).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuTelemetry {
    /// Clock of the multiprocessors, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<Readings>,
    /// Clock of the memory, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mhz: Option<Readings>,
    /// Power of the board, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<Readings>,
    /// Joules that the board took within the measured window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Temperature, in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<Readings>,
    /// Memory in use by everybody, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<Readings>,
    /// Samples in which the driver held the clocks down, by its reason: `sw_power_cap`, `hw_thermal_slowdown`, ….
    /// An idle GPU's own low clocks are no reason.
    pub throttled_samples: BTreeMap<String, u32>,
    /// Processes on the device that are not the job's, by pid: the name and, where the driver tells, the bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_processes: Vec<ForeignProcess>,
    /// Samples in which processes were on the device, but not to be told whose they are: the driver counts processes as
    /// the host does, and this container as itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_processes_samples: u32,
}

/// For `serde`, which hands over a reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A process on the job's device that is not the job's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignProcess {
    /// Its id.
    pub pid: u32,
    /// Its program, where it can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Device memory that it held at most, in bytes, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// It draws and does not compute: the driver listed it among its graphics processes only, in every sample. Absent in
    /// older records, where everybody counts as computing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graphics: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_summed_up_in_their_order() {
        let readings = Readings::of([3.0, f64::NAN, 1.0, 5.0, 3.0]).unwrap();
        assert_eq!(readings, Readings { first: 3.0, min: 1.0, mean: 3.0, max: 5.0, last: 3.0 });
        assert_eq!(Readings::of([f64::NAN]), None);
        assert_eq!(Readings::of([]), None);
    }

    #[test]
    fn a_process_of_an_older_record_computes() {
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
    fn a_sensor_that_is_not_there_leaves_no_word() {
        let json = serde_json::to_string(&Telemetry { samples: 3, ..Telemetry::default() }).unwrap();
        assert_eq!(json, r#"{"samples":3,"of_window":false}"#);
        assert_eq!(serde_json::from_str::<Telemetry>("{}").unwrap(), Telemetry::default());
    }
}
