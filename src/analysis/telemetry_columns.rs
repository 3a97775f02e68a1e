//! The columns of `metrics.csv` that tell what sensors showed.

use super::energy::{cpu_draw, gpu_draw};
use super::line::Line;
use crate::record::{ForeignProcess, GpuTelemetry, Readings, Record, Telemetry};

/// Adds them to `line`; `NA` in all of them where nobody looked.
pub(super) fn telemetry_columns(line: &mut Line, record: Option<&Record>) {
    let telemetry = record.and_then(|record| record.observed.telemetry.as_ref());
    line.maybe("telemetry_samples", telemetry.map(|telemetry| telemetry.samples));
    line.maybe("telemetry_of_window", telemetry.map(|telemetry| telemetry.of_window));
    let of = |field: fn(&Telemetry) -> Option<Readings>| telemetry.and_then(field);
    line.maybe("cpu_mean_busy", of(|it| it.cpu_busy).map(|it| it.mean));
    line.maybe("cpu_max_busy", of(|it| it.cpu_busy).map(|it| it.max));
    line.maybe("cpu_mean_mhz", of(|it| it.cpu_mhz).map(|it| it.mean));
    line.maybe("cpu_min_mhz", of(|it| it.cpu_mhz).map(|it| it.min));
    line.maybe("cpu_max_temperature_c", of(|it| it.cpu_temperature_c).map(|it| it.max));
    line.maybe("cpu_throttle_events", telemetry.and_then(|it| it.cpu_throttle_events));
    let cpu = record.and_then(cpu_draw);
    line.maybe("cpu_energy_j", telemetry.and_then(|it| it.cpu_energy_j));
    line.maybe("cpu_mean_power_w", cpu.map(|draw| draw.power_w));
    line.maybe("cpu_joules_per_image", cpu.map(|draw| draw.joules_per_image));
    line.maybe("memory_min_available_bytes", of(|it| it.memory_available_bytes).map(|it| it.min));
    line.maybe("swapped_in_bytes", telemetry.and_then(|it| it.swapped_in_bytes));
    line.maybe("swapped_out_bytes", telemetry.and_then(|it| it.swapped_out_bytes));
    gpu_columns(line, record, telemetry.and_then(|telemetry| telemetry.gpu.as_ref()));
    let gate = record.and_then(|record| record.observed.gate.as_ref());
    line.maybe("gate_waited_s", gate.map(|gate| gate.waited_s));
    let gave_up = gate.map(|gate| gate.gave_up.clone().unwrap_or_else(|| "none".to_owned()));
    line.maybe("gate_gave_up", gave_up);
}

fn gpu_columns(line: &mut Line, record: Option<&Record>, gpu: Option<&GpuTelemetry>) {
    let of = |field: fn(&GpuTelemetry) -> Option<Readings>| gpu.and_then(field);
    line.maybe("gpu_mean_sm_mhz", of(|it| it.sm_mhz).map(|it| it.mean));
    line.maybe("gpu_min_sm_mhz", of(|it| it.sm_mhz).map(|it| it.min));
    line.maybe("gpu_mean_memory_mhz", of(|it| it.memory_mhz).map(|it| it.mean));
    line.maybe("gpu_max_temperature_c", of(|it| it.temperature_c).map(|it| it.max));
    line.maybe("gpu_max_memory_used_bytes", of(|it| it.memory_used_bytes).map(|it| it.max));
    let draw = record.and_then(gpu_draw);
    line.maybe("gpu_energy_j", gpu.and_then(|gpu| gpu.energy_j));
    line.maybe("gpu_mean_power_w", draw.map(|draw| draw.power_w));
    line.maybe("gpu_joules_per_image", draw.map(|draw| draw.joules_per_image));
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
    use crate::record::Gate;

    fn columns(change: impl FnOnce(&mut Record)) -> impl Fn(&str) -> String {
        let study = StudyBuilder::new().run_with(key("cpu", "resnet18", 16, 1), 100.0, change).build();
        let table = metrics(&analyse(&study));
        move |name| table.rows[0][table.header.iter().position(|column| column == name).unwrap()].clone()
    }

    fn process(pid: u32, name: &str) -> ForeignProcess {
        ForeignProcess { pid, name: Some(name.to_owned()), ..ForeignProcess::default() }
    }

    #[test]
    fn what_sensors_showed_stands_in_columns() {
        let column = columns(|record| {
            record.observed.gate = Some(Gate { waited_s: 7.5, gave_up: Some("too hot".to_owned()) });
            record.observed.telemetry = Some(Telemetry {
                samples: 9,
                of_window: true,
                cpu_busy: Readings::of([1.5, 2.0]),
                cpu_mhz: Readings::of([2000.0, 3000.0]),
                cpu_energy_j: Some(80.0),
                gpu: Some(GpuTelemetry {
                    power_w: Readings::of([300.0]),
                    throttled_samples: [("sw_power_cap".to_owned(), 3)].into(),
                    foreign_processes: vec![
                        process(42, "python3"),
                        ForeignProcess { graphics: true, ..process(43, "Xorg") },
                    ],
                    ..GpuTelemetry::default()
                }),
                ..Telemetry::default()
            });
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
