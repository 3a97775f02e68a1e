//! Every sensor, declared once.
//!
//! This table decides the columns of `telemetry.csv`, the summaries in a record, the sensors' columns of `metrics.csv`
//! and the manual's table of sensors. The code that reads a sensor is an exhaustive match in `run::telemetry`.

use super::readings::Readings;

/// The part of the machine that a sensor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The host's processors.
    Processor,
    /// The host's memory and swap.
    Memory,
    /// The GPU that the job runs on.
    Gpu,
}

/// How the samples of a sensor are summarised, with the columns of `metrics.csv` that show the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// A gauge: its readings within the measured window.
    Gauge(&'static [(&'static str, Statistic)]),
    /// A counter, as its growth per second between successive samples of the measured window.
    Rate(&'static [(&'static str, Statistic)]),
    /// A counter of whole numbers: its growth over the whole attempt.
    Growth(&'static str),
    /// A counter: its growth between the ends of the measured window, interpolated between samples.
    WindowGrowth(&'static str),
}

/// The statistic of a sensor's readings in a column of `metrics.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The smallest reading.
    Min,
    /// The mean of all readings.
    Mean,
    /// The largest reading.
    Max,
}

impl Statistic {
    /// Its name in the manual.
    pub fn word(self) -> &'static str {
        match self {
            Min => "minimum",
            Mean => "mean",
            Max => "maximum",
        }
    }

    /// Its value for `readings`.
    pub fn of(self, readings: &Readings) -> f64 {
        match self {
            Min => readings.min,
            Mean => readings.mean,
            Max => readings.max,
        }
    }
}

/// The declaration of a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The quantity that the sensor measures and its unit, as one sentence.
    pub meaning: &'static str,
    /// The part of the machine that it belongs to.
    pub part: Part,
    /// Its column in `telemetry.csv`. The name ends with the unit. Names are never changed: older files have them.
    pub column: &'static str,
    /// Its field in a record: of `telemetry`, or of `telemetry.gpu` for a GPU's sensor. Never changed either.
    pub field: &'static str,
    /// How its samples are summarised.
    pub summary: Summary,
    /// The source of the reading.
    pub source: &'static str,
    /// When there is no reading.
    pub absent: &'static str,
}

/// A sensor that is read once per second while a job runs, in the order of the columns of `telemetry.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the table below documents each of them")]
pub enum Sensor {
    CpuBusy,
    CpuClock,
    CpuTemperature,
    CpuThrottleEvents,
    CpuThrottled,
    CpuQuotaHeld,
    WorkerStopped,
    CpuEnergy,
    MemoryAvailable,
    SwappedIn,
    SwappedOut,
    GpuSmClock,
    GpuMemoryClock,
    GpuPower,
    GpuEnergy,
    GpuTemperature,
    GpuMemoryUsed,
    GpuMemoryBusy,
}

/// Makes [`Sensor::ALL`] and an exhaustive match for [`Sensor::declaration`] from one table. The doc comment above an
/// entry is the sensor's sentence in the manual.
macro_rules! declare {
    ($(
        $(#[doc = $meaning:literal])+
        $sensor:ident {
            part: $part:ident,
            column: $column:literal,
            field: $field:literal,
            summary: $summary:expr,
            source: $source:literal,
            absent: $absent:literal,
        }
    )+) => {
        impl Sensor {
            /// Every sensor.
            pub const ALL: &'static [Sensor] = &[$(Sensor::$sensor),+];

            /// Its declaration.
            pub const fn declaration(self) -> &'static Declaration {
                match self {
                    $(Sensor::$sensor => const { &Declaration {
                        meaning: concat!($($meaning),+).trim_ascii(),
                        part: Part::$part,
                        column: $column,
                        field: $field,
                        summary: $summary,
                        source: $source,
                        absent: $absent,
                    } },)+
                }
            }
        }
    };
}

use Statistic::{Max, Mean, Min};
use Summary::{Gauge, Growth, Rate, WindowGrowth};

declare! {
    /// Busy time of the processors that jobs may use, in seconds, by all processes; its rate is the number of busy
    /// ones.
    CpuBusy {
        part: Processor,
        column: "cpu_busy_s",
        field: "cpu_busy",
        summary: Rate(&[("cpu_mean_busy", Mean), ("cpu_max_busy", Max)]),
        source: "`/proc/stat`",
        absent: "gVisor hides it",
    }
    /// Mean clock of up to four of the usable processors, the same ones throughout, in MHz.
    CpuClock {
        part: Processor,
        column: "cpu_mhz",
        field: "cpu_mhz",
        summary: Gauge(&[("cpu_mean_mhz", Mean), ("cpu_min_mhz", Min)]),
        source: "`cpufreq`, else `/proc/cpuinfo`",
        absent: "a virtual machine hides it",
    }
    /// Temperature of the processor's hottest sensor, in °C.
    CpuTemperature {
        part: Processor,
        column: "cpu_temperature_c",
        field: "cpu_temperature_c",
        summary: Gauge(&[("cpu_max_temperature_c", Max)]),
        source: "coretemp, k10temp or a thermal zone",
        absent: "the host has no such sensor",
    }
    /// Number of times that a processor slowed itself down for heat, over all processors.
    CpuThrottleEvents {
        part: Processor,
        column: "cpu_throttle_events",
        field: "cpu_throttle_events",
        summary: Growth("cpu_throttle_events"),
        source: "the kernel's `thermal_throttle`",
        absent: "the kernel does not count it",
    }
    /// Seconds for which heat slowed down the core that it slowed down longest; per second, the share of the time.
    CpuThrottled {
        part: Processor,
        column: "cpu_throttled_s",
        field: "cpu_throttled",
        summary: Rate(&[("cpu_mean_throttled", Mean)]),
        source: "the kernel's `thermal_throttle`",
        absent: "the kernel does not count it",
    }
    /// Seconds of processor time lost to the control group's quota; per second, processors lost.
    CpuQuotaHeld {
        part: Processor,
        column: "cpu_quota_held_s",
        field: "cpu_quota_held",
        summary: Rate(&[("cpu_mean_quota_held", Mean)]),
        source: "`cpu.stat` of the control group with the quota",
        absent: "no quota applies",
    }
    /// Number of samples that found a process of the job stopped, by a signal or by the process itself.
    WorkerStopped {
        part: Processor,
        column: "worker_stopped_events",
        field: "worker_stopped_events",
        summary: Growth("worker_stopped_events"),
        source: "`/proc/PID/stat`",
        absent: "the kernel does not list a process's children",
    }
    /// Energy that the processor packages used, in joules.
    CpuEnergy {
        part: Processor,
        column: "cpu_energy_j",
        field: "cpu_energy_j",
        summary: WindowGrowth("cpu_energy_j"),
        source: "RAPL, all packages",
        absent: "only root can read it, or the window is shorter than 5 s",
    }
    /// Memory that the host could still give to programs, in bytes.
    MemoryAvailable {
        part: Memory,
        column: "memory_available_bytes",
        field: "memory_available_bytes",
        summary: Gauge(&[("memory_min_available_bytes", Min)]),
        source: "`/proc/meminfo`",
        absent: "the host does not run Linux",
    }
    /// Bytes that the host read back from swap.
    SwappedIn {
        part: Memory,
        column: "swapped_in_bytes",
        field: "swapped_in_bytes",
        summary: Growth("swapped_in_bytes"),
        source: "`/proc/vmstat`",
        absent: "the host does not run Linux",
    }
    /// Bytes that the host wrote to swap.
    SwappedOut {
        part: Memory,
        column: "swapped_out_bytes",
        field: "swapped_out_bytes",
        summary: Growth("swapped_out_bytes"),
        source: "`/proc/vmstat`",
        absent: "the host does not run Linux",
    }
    /// Clock of the GPU's multiprocessors, in MHz.
    GpuSmClock {
        part: Gpu,
        column: "gpu_sm_mhz",
        field: "sm_mhz",
        summary: Gauge(&[("gpu_mean_sm_mhz", Mean), ("gpu_min_sm_mhz", Min)]),
        source: "NVML",
        absent: "the job runs on no NVIDIA GPU",
    }
    /// Clock of the GPU's memory, in MHz.
    GpuMemoryClock {
        part: Gpu,
        column: "gpu_memory_mhz",
        field: "memory_mhz",
        summary: Gauge(&[("gpu_mean_memory_mhz", Mean)]),
        source: "NVML",
        absent: "the job runs on no NVIDIA GPU",
    }
    /// Power of the GPU's board, in watts; `gpu_mean_power_w` falls back on it where there is no energy counter.
    GpuPower {
        part: Gpu,
        column: "gpu_power_w",
        field: "power_w",
        summary: Gauge(&[]),
        source: "NVML",
        absent: "the job runs on no NVIDIA GPU",
    }
    /// Energy that the GPU's board used, in joules.
    GpuEnergy {
        part: Gpu,
        column: "gpu_energy_j",
        field: "energy_j",
        summary: WindowGrowth("gpu_energy_j"),
        source: "NVML",
        absent: "the board has no such counter, or the window is shorter than 5 s",
    }
    /// Temperature of the GPU, in °C.
    GpuTemperature {
        part: Gpu,
        column: "gpu_temperature_c",
        field: "temperature_c",
        summary: Gauge(&[("gpu_max_temperature_c", Max)]),
        source: "NVML",
        absent: "the job runs on no NVIDIA GPU",
    }
    /// Memory of the GPU that all processes together use, in bytes.
    GpuMemoryUsed {
        part: Gpu,
        column: "gpu_memory_used_bytes",
        field: "memory_used_bytes",
        summary: Gauge(&[("gpu_max_memory_used_bytes", Max)]),
        source: "NVML",
        absent: "the job runs on no NVIDIA GPU",
    }
    /// Share of up to a second in which the GPU's memory was used, in percent.
    GpuMemoryBusy {
        part: Gpu,
        column: "gpu_memory_busy_percent",
        field: "memory_busy_percent",
        summary: Gauge(&[("gpu_mean_memory_busy_percent", Mean), ("gpu_max_memory_busy_percent", Max)]),
        source: "NVML",
        absent: "the job runs on no NVIDIA GPU, or on a part of one",
    }
}

impl Sensor {
    /// The part of the machine that it belongs to.
    pub const fn part(self) -> Part {
        self.declaration().part
    }

    /// The sensors of `part`, in their order.
    pub fn of(part: Part) -> impl Iterator<Item = Sensor> {
        Sensor::ALL.iter().copied().filter(move |sensor| sensor.part() == part)
    }

    /// The columns of `metrics.csv` that its summary yields.
    pub fn metrics_columns(self) -> Vec<&'static str> {
        match self.declaration().summary {
            Gauge(columns) | Rate(columns) => columns.iter().map(|(name, _)| *name).collect(),
            Growth(name) | WindowGrowth(name) => vec![name],
        }
    }
}

/// The manual's table of sensors, in Markdown.
pub fn sensors_table() -> String {
    let mut text =
        "| column of `telemetry.csv` | meaning | columns of `metrics.csv` | read from | `NA` if |\n\
                    |---|---|---|---|---|\n"
            .to_owned();
    for sensor in Sensor::ALL {
        let Declaration { meaning, column, summary, source, absent, .. } = sensor.declaration();
        let kind = match summary {
            Gauge(_) => "Gauge",
            Rate(_) | Growth(_) | WindowGrowth(_) => "Counter",
        };
        let columns: Vec<String> =
            sensor.metrics_columns().iter().map(|column| format!("`{column}`")).collect();
        text +=
            &format!("| `{column}` | {kind}. {meaning} | {} | {source} | {absent} |\n", columns.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn statistics_of_readings() {
        let readings = Readings { first: 2.0, min: 1.0, mean: 3.0, max: 7.0, last: 4.0, middle: None };
        let all = [Min, Mean, Max].map(|statistic| (statistic.word(), statistic.of(&readings)));
        assert_eq!(all, [("minimum", 1.0), ("mean", 3.0), ("maximum", 7.0)]);
    }

    /// Two sensors with the same name would silently overwrite each other.
    #[test]
    fn names_of_sensors_are_unique() {
        for pair in Sensor::ALL.windows(2) {
            let [first, second] = pair else { unreachable!("two of them") };
            assert!(first < second, "{first:?} is before {second:?} in the table, but not in the enum");
        }
        let mut names = BTreeSet::new();
        for sensor in Sensor::ALL {
            let Declaration { part, column, field, .. } = sensor.declaration();
            let part = if *part == Part::Gpu { "gpu" } else { "host" };
            let columns = sensor.metrics_columns();
            let columns = columns.into_iter().map(|column| format!("metrics.csv: {column}"));
            let own = [format!("telemetry.csv: {column}"), format!("record, {part}: {field}")];
            for name in own.into_iter().chain(columns) {
                assert!(names.insert(name.clone()), "{sensor:?}: {name} is taken");
            }
        }
    }

    #[test]
    fn every_sensor_is_explained_and_names_its_unit() {
        const UNITS: [&str; 8] = ["_s", "_mhz", "_c", "_events", "_j", "_w", "_bytes", "_percent"];
        for sensor in Sensor::ALL {
            let Declaration { meaning, column, source, absent, .. } = sensor.declaration();
            assert!(meaning.ends_with('.') && !source.is_empty() && !absent.is_empty(), "{sensor:?}");
            assert!(UNITS.iter().any(|unit| column.ends_with(unit)), "{sensor:?}: {column} has no unit");
        }
    }

    #[test]
    fn the_manuals_table_has_one_row_per_sensor() {
        let table = sensors_table();
        assert_eq!(table.lines().count(), 2 + Sensor::ALL.len());
        let row = "| `swapped_in_bytes` | Counter. Bytes that the host read back from swap. | `swapped_in_bytes` | \
                   `/proc/vmstat` | the host does not run Linux |";
        assert!(table.lines().any(|line| line == row), "{table}");
    }
}
