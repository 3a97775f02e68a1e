//! The columns of `metrics.csv` with the values of sensors. Those of each sensor come from its declaration.

use super::job_line::JobLine;
use super::price::ENERGY_SOURCE;
use crate::analysis::column::{Column, Sourced, list, of};
use crate::analysis::energy::{Draw, NOT_MEASURED, cpu_draw, gpu_draw};
use crate::analysis::source::Source;
use crate::record::{ForeignProcess, GpuTelemetry, Part, Readings, Sensor, Statistic, Summary};

const NOBODY_LOOKED: &str = "no sensor was read";
const NO_DRIVER: &str = "the job runs on no NVIDIA GPU";
const NO_GATE: &str = "no limit asks for it";

type Of<'a> = Column<JobLine<'a>>;

/// What all sensors showed.
pub(super) fn sensor_columns<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let parts = [
        samples(),
        of_part(Part::Processor),
        cpu_power(),
        of_part(Part::Memory),
        of_part(Part::Gpu),
        gpu(),
        gate(),
    ];
    parts.into_iter().flatten().collect()
}

fn samples<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let columns = [
        Of::maybe(
            "telemetry_samples",
            "Samples that were summarised, one per second.",
            NOBODY_LOOKED,
            |line| line.telemetry().map(|telemetry| telemetry.samples),
        ),
        Of::maybe("telemetry_of_window", "Whether they are of the window alone.", NOBODY_LOOKED, |line| {
            line.telemetry().map(|telemetry| telemetry.of_window)
        }),
    ];
    of(Source::Sensors, columns)
}

/// The columns that the sensors of `part` declare; the energy last, for power and joules per sample follow it.
fn of_part<'a>(part: Part) -> Vec<Sourced<JobLine<'a>>> {
    let mut sensors: Vec<Sensor> = Sensor::of(part).collect();
    sensors.sort_by_key(|sensor| matches!(sensor.declaration().summary, Summary::WindowGrowth(_)));
    of(Source::Sensors, sensors.into_iter().flat_map(of_sensor))
}

fn of_sensor<'a>(sensor: Sensor) -> Vec<Of<'a>> {
    let declaration = sensor.declaration();
    let meaning = |summary: &str| format!("{} {summary}", declaration.meaning);
    let absent = declaration.absent;
    match declaration.summary {
        Summary::Gauge(columns) => columns
            .iter()
            .map(|(name, of)| statistic(sensor, name, *of, meaning(&format!("The {}.", of.word()))))
            .collect(),
        Summary::Rate(columns) => columns
            .iter()
            .map(|(name, of)| statistic(sensor, name, *of, meaning(&format!("The {} rate.", of.word()))))
            .collect(),
        Summary::Growth(name) => {
            let meaning = meaning("The growth over the whole attempt.");
            vec![Of::maybe(name, meaning, absent, move |line: &JobLine<'a>| line.telemetry()?.growth(sensor))]
        }
        Summary::WindowGrowth(name) => {
            let meaning = meaning("The growth over the window.");
            vec![Of::maybe(name, meaning, absent, move |line: &JobLine<'a>| {
                line.telemetry()?.window_growth(sensor)
            })]
        }
    }
}

fn statistic<'a>(sensor: Sensor, name: &'static str, of: Statistic, meaning: String) -> Of<'a> {
    Of::maybe(name, meaning, sensor.declaration().absent, move |line: &JobLine<'a>| {
        line.telemetry()?.readings(sensor).map(|readings: Readings| of.of(&readings))
    })
}

fn cpu_power<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let absent = "`cpu_energy_j` is, or it is no timing job with a result";
    let draw = |line: &JobLine<'a>| -> Option<Draw> { cpu_draw(line.record()?) };
    let columns = [
        Of::maybe("cpu_mean_power_w", "`cpu_energy_j` ÷ `window_s`.", absent, move |line| {
            Some(draw(line)?.power_w)
        }),
        Of::maybe("cpu_joules_per_sample", "`cpu_energy_j` ÷ `samples`.", absent, move |line| {
            Some(draw(line)?.joules_per_sample)
        }),
        Of::known("cpu_energy_source", ENERGY_SOURCE, move |line| source(draw(line))),
    ];
    of(Source::Computed, columns)
}

fn source(draw: Option<Draw>) -> &'static str {
    draw.map_or(NOT_MEASURED, |draw| draw.source.as_str())
}

fn gpu<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let absent = "there is no energy and too few readings of power, or it is no timing job with a result";
    let draw = |line: &JobLine<'a>| -> Option<Draw> { gpu_draw(line.record()?) };
    vec![
        Of::maybe(
            "gpu_mean_power_w",
            "`gpu_energy_j` ÷ `window_s`, else the mean of the power that the board shows.",
            absent,
            move |line| Some(draw(line)?.power_w),
        )
        .from(Source::Computed),
        Of::maybe("gpu_joules_per_sample", "`gpu_mean_power_w` ÷ samples per second.", absent, move |line| {
            Some(draw(line)?.joules_per_sample)
        })
        .from(Source::Computed),
        Of::known("gpu_energy_source", ENERGY_SOURCE, move |line| source(draw(line))).from(Source::Computed),
        Of::maybe(
            "gpu_throttle_reasons",
            "Samples in which the driver throttled the clocks, by reason.",
            NO_DRIVER,
            |line| {
                let reasons = line.gpu()?.throttled_samples.iter();
                Some(list(reasons.map(|(reason, samples)| format!("{samples} × {reason}"))))
            },
        )
        .from(Source::Sensors),
        Of::maybe(
            "gpu_foreign_processes",
            "Others on the device; `(draws)` after those that only draw; `unknown` in a container.",
            NO_DRIVER,
            |line| line.gpu().map(foreign_text),
        )
        .from(Source::Sensors),
    ]
}

fn foreign_text(gpu: &GpuTelemetry) -> String {
    if gpu.foreign_processes.is_empty() && gpu.unknown_processes_samples > 0 {
        return "unknown".to_owned();
    }
    let text = |process: &ForeignProcess| {
        let draws = if process.graphics { " (draws)" } else { "" };
        format!("{} {}{draws}", process.pid, process.name.as_deref().unwrap_or("without a name"))
    };
    list(gpu.foreign_processes.iter().map(text))
}

fn gate<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let columns = [
        Of::maybe(
            "gate_waited_s",
            "Seconds that the job waited for a quiet and cool machine.",
            NO_GATE,
            |line| line.gate().map(|gate| gate.waited_s),
        ),
        Of::maybe("gate_gave_up", "Why it started anyway; `none` if it did not have to.", NO_GATE, |line| {
            Some(line.gate()?.gave_up.clone().unwrap_or_else(|| "none".to_owned()))
        }),
    ];
    of(Source::Orchestrate, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::table::metrics;
    use crate::record::{Gate, Record, Sample, Telemetry};

    fn columns(change: impl FnOnce(&mut Record)) -> impl Fn(&str) -> String {
        let study = StudyBuilder::new().run_with(key("cpu", "resnet18", 16, 1), 100.0, change).build();
        let table = metrics(&analyse(&study)).table();
        move |name| {
            let place = table.header().iter().position(|column| column == name);
            table.rows[0][place.unwrap_or_else(|| panic!("metrics.csv has no column {name}"))].clone()
        }
    }

    fn process(pid: u32, name: &str) -> ForeignProcess {
        ForeignProcess { pid, name: Some(name.to_owned()), ..ForeignProcess::default() }
    }

    fn readings(values: [f64; 2]) -> Readings {
        Readings::of(values).unwrap()
    }

    /// Samples of a second each, in which every sensor grows by one.
    fn of_every_sensor() -> Telemetry {
        let values = |second: f64| Sensor::ALL.iter().map(|sensor| (*sensor, 100.0 + second)).collect();
        let sample = |second: u32| Sample {
            unix_s: f64::from(second),
            values: values(second.into()),
            ..Sample::default()
        };
        let samples: Vec<Sample> = (0..10).map(sample).collect();
        Telemetry::of(&samples, Some((1.0, 8.0))).unwrap()
    }

    #[test]
    fn every_sensor_that_was_read_has_its_columns() {
        let column = columns(|record| record.observed.telemetry = Some(of_every_sensor()));
        for sensor in Sensor::ALL {
            for name in sensor.metrics_columns() {
                assert_ne!(column(name), "NA", "{sensor:?}: {name}");
            }
        }
    }

    #[test]
    fn values_of_sensors_are_in_columns() {
        let column = columns(|record| {
            record.observed.gate = Some(Gate { waited_s: 7.5, gave_up: Some("too hot".to_owned()) });
            let telemetry = Telemetry {
                samples: 9,
                of_window: true,
                gpu: Some(GpuTelemetry {
                    throttled_samples: [("sw_power_cap".to_owned(), 3)].into(),
                    foreign_processes: vec![
                        process(42, "python3"),
                        ForeignProcess { graphics: true, ..process(43, "Xorg") },
                    ],
                    ..GpuTelemetry::default()
                }),
                ..Telemetry::default()
            };
            let telemetry = telemetry
                .with(Sensor::CpuBusy, readings([1.5, 2.0]))
                .with(Sensor::CpuClock, readings([2000.0, 3000.0]))
                .with(Sensor::CpuEnergy, 80.0)
                .with(Sensor::GpuPower, readings([300.0, 300.0]));
            record.observed.telemetry = Some(telemetry);
        });
        for (name, value) in [
            ("telemetry_samples", "9"),
            ("cpu_mean_busy", "1.75"),
            ("cpu_max_busy", "2"),
            ("cpu_mean_mhz", "2500"),
            ("cpu_mean_power_w", "50"),
            ("cpu_joules_per_sample", "0.5"),
            ("cpu_energy_source", "counter"),
            ("cpu_throttle_events", "NA"),
            ("gpu_energy_j", "NA"),
            ("gpu_mean_power_w", "300"),
            ("gpu_joules_per_sample", "3"),
            ("gpu_energy_source", "sampled"),
            ("gpu_throttle_reasons", "3 × sw_power_cap"),
            ("gpu_foreign_processes", "42 python3; 43 Xorg (draws)"),
            ("gate_waited_s", "7.5"),
            ("gate_gave_up", "too hot"),
        ] {
            assert_eq!(column(name), value, "{name}");
        }
    }

    #[test]
    fn unknown_none_and_not_measured_are_three_things() {
        let foreign = |gpu: Option<GpuTelemetry>| {
            let change = |record: &mut Record| {
                record.observed.telemetry = Some(Telemetry { gpu, ..Telemetry::default() });
            };
            columns(change)("gpu_foreign_processes")
        };
        assert_eq!(foreign(None), "NA");
        assert_eq!(foreign(Some(GpuTelemetry::default())), "none");
        let unknown = GpuTelemetry { unknown_processes_samples: 2, ..GpuTelemetry::default() };
        assert_eq!(foreign(Some(unknown)), "unknown");
        let unwatched = columns(|_| {});
        for name in ["telemetry_samples", "cpu_mean_mhz", "gpu_throttle_reasons", "gate_gave_up"] {
            assert_eq!(unwatched(name), "NA", "{name}");
        }
        for name in ["cpu_energy_source", "gpu_energy_source"] {
            assert_eq!(unwatched(name), "not measured", "{name}");
        }
    }
}
