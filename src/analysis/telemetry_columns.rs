//! The columns of `metrics.csv` that tell what sensors showed.

use super::energy::{Draw, cpu_draw, gpu_draw};
use super::line::Line;
use crate::record::{ForeignProcess, GpuTelemetry, Part, Record, Sensor, Summary, Telemetry};

/// Adds them to `line`; `NA` in all of them where nobody looked.
pub(super) fn telemetry_columns(line: &mut Line, record: Option<&Record>) {
    let telemetry = record.and_then(|record| record.observed.telemetry.as_ref());
    line.maybe("telemetry_samples", telemetry.map(|telemetry| telemetry.samples));
    line.maybe("telemetry_of_window", telemetry.map(|telemetry| telemetry.of_window));
    sensor_columns(line, Part::Processor, telemetry);
    draw_columns(line, "cpu", record.and_then(cpu_draw));
    sensor_columns(line, Part::Memory, telemetry);
    sensor_columns(line, Part::Gpu, telemetry);
    draw_columns(line, "gpu", record.and_then(gpu_draw));
    gpu_columns(line, telemetry.and_then(|telemetry| telemetry.gpu.as_ref()));
    let gate = record.and_then(|record| record.observed.gate.as_ref());
    line.maybe("gate_waited_s", gate.map(|gate| gate.waited_s));
    let gave_up = gate.map(|gate| gate.gave_up.clone().unwrap_or_else(|| "none".to_owned()));
    line.maybe("gate_gave_up", gave_up);
}

/// The columns that the sensors of `part` declare; the energy last, for power and joules per image follow it.
fn sensor_columns(line: &mut Line, part: Part, telemetry: Option<&Telemetry>) {
    let mut sensors: Vec<Sensor> = Sensor::of(part).collect();
    sensors.sort_by_key(|sensor| matches!(sensor.declaration().summary, Summary::WindowGrowth(_)));
    for sensor in sensors {
        match sensor.declaration().summary {
            Summary::Gauge(columns) | Summary::Rate(columns) => {
                let readings = telemetry.and_then(|telemetry| telemetry.readings(sensor));
                for (name, statistic) in columns {
                    line.maybe(name, readings.map(|readings| statistic.of(&readings)));
                }
            }
            Summary::Growth(name) => line.maybe(name, telemetry.and_then(|it| it.growth(sensor))),
            Summary::WindowGrowth(name) => {
                line.maybe(name, telemetry.and_then(|it| it.window_growth(sensor)))
            }
        }
    }
}

fn draw_columns(line: &mut Line, part: &str, draw: Option<Draw>) {
    line.maybe(&format!("{part}_mean_power_w"), draw.map(|draw| draw.power_w));
    line.maybe(&format!("{part}_joules_per_image"), draw.map(|draw| draw.joules_per_image));
}

fn gpu_columns(line: &mut Line, gpu: Option<&GpuTelemetry>) {
    let reasons = gpu.map(|gpu| {
        listed(gpu.throttled_samples.iter().map(|(reason, samples)| format!("{samples} × {reason}")))
    });
    line.maybe("gpu_throttle_reasons", reasons);
    line.maybe("gpu_foreign_processes", gpu.map(foreign_text));
}

fn foreign_text(gpu: &GpuTelemetry) -> String {
    if gpu.foreign_processes.is_empty() && gpu.unknown_processes_samples > 0 {
        return "unknown".to_owned();
    }
    let text = |process: &ForeignProcess| {
        let draws = if process.graphics { " (draws)" } else { "" };
        format!("{} {}{draws}", process.pid, process.name.as_deref().unwrap_or("without a name"))
    };
    listed(gpu.foreign_processes.iter().map(text))
}

fn listed(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    if words.is_empty() { "none".to_owned() } else { words.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::table::metrics;
    use crate::record::{Gate, Readings, Sample};

    fn columns(change: impl FnOnce(&mut Record)) -> impl Fn(&str) -> String {
        let study = StudyBuilder::new().run_with(key("cpu", "resnet18", 16, 1), 100.0, change).build();
        let table = metrics(&analyse(&study));
        move |name| {
            let place = table.header.iter().position(|column| column == name);
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
    fn what_sensors_showed_stands_in_columns() {
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
            ("cpu_joules_per_image", "0.5"),
            ("cpu_throttle_events", "NA"),
            ("gpu_energy_j", "NA"),
            ("gpu_mean_power_w", "300"),
            ("gpu_joules_per_image", "3"),
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
        let nobody_looked = columns(|_| {});
        for name in ["telemetry_samples", "cpu_mean_mhz", "gpu_throttle_reasons", "gate_gave_up"] {
            assert_eq!(nobody_looked(name), "NA", "{name}");
        }
    }
}
