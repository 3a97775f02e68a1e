//! Marks from sensors.

use super::*;
use crate::record::{ForeignProcess, GpuTelemetry, Readings, Sensor, Telemetry};

/// The marks of a run with this telemetry, as text.
fn marks_of(device: Device, telemetry: Telemetry) -> Vec<String> {
    let key = crate::job::Key { device, ..key("e", "resnet18", 16, 1) };
    let study =
        StudyBuilder::new().run_with(key, 10.0, |record| record.observed.telemetry = Some(telemetry)).build();
    analyse(&study).runs[0].marks.iter().map(ToString::to_string).collect()
}

fn on_gpu(gpu: GpuTelemetry) -> Vec<String> {
    let telemetry = Telemetry { samples: 40, of_window: true, gpu: Some(gpu), ..Telemetry::default() };
    marks_of(Device::Cuda(0), telemetry)
}

fn reasons(reasons: &[(&str, u32)]) -> Vec<String> {
    let throttled_samples = reasons.iter().map(|(name, samples)| ((*name).to_owned(), *samples)).collect();
    on_gpu(GpuTelemetry { throttled_samples, ..GpuTelemetry::default() })
}

#[test]
fn clocks_held_down_by_heat_are_throttling_and_by_the_power_limit_are_not() {
    assert_eq!(reasons(&[("hw_thermal_slowdown", 2), ("sw_power_cap", 2)]), [""; 0]);
    assert_eq!(
        reasons(&[("hw_thermal_slowdown", 3)]),
        [
            "throttled: the driver held the GPU's clocks down by hw_thermal_slowdown in 3 of 40 samples, 8 % of them \
             (threshold 5 %)"
        ]
    );
    for reason in ["sw_thermal_slowdown", "hw_power_brake_slowdown", "hw_slowdown"] {
        assert!(reasons(&[(reason, 40)])[0].starts_with("throttled: "), "{reason}");
    }
    let both =
        reasons(&[("hw_slowdown", 4), ("hw_thermal_slowdown", 5), ("applications_clocks_setting", 40)]);
    assert!(both.len() == 1 && both[0].contains("hw_thermal_slowdown in 5 of 40"), "{both:?}");
    assert!(both[0].ends_with(", and by another reason"), "{both:?}");
    assert_eq!(
        reasons(&[("sw_power_cap", 30)]),
        ["power-capped: the board was at its power limit in 30 of 40 samples, 75 % of them (threshold 5 %)"]
    );
}

#[test]
fn a_processor_that_slowed_itself_down_is_throttled() {
    let on = |device, events: u64| {
        let telemetry = Telemetry { samples: 9, ..Telemetry::default() };
        marks_of(device, telemetry.with(Sensor::CpuThrottleEvents, events))
    };
    let events = |events| on(Device::Cpu, events);
    assert_eq!((events(0), events(1)), (Vec::new(), Vec::new()), "leaving the highest clock is one event");
    assert_eq!(events(2), ["throttled: processors slowed themselves down for heat 2 times (threshold 1)"]);
    assert_eq!(on(Device::Cuda(0), 9), [""; 0]);
}

#[test]
fn the_time_of_slowdowns_takes_precedence_over_their_number() {
    let of = |device, share: f64| {
        let telemetry = Telemetry { samples: 9, ..Telemetry::default() };
        let telemetry = telemetry.with(Sensor::CpuThrottleEvents, 1000_u64);
        marks_of(device, telemetry.with(Sensor::CpuThrottled, Readings::of([share]).unwrap()))
    };
    assert_eq!(of(Device::Cpu, 0.05), [""; 0], "a thousand times, for a moment each");
    assert_eq!(
        of(Device::Cpu, 0.064),
        ["throttled: heat slowed a processor down for 6 % of the time (threshold 5 %)"]
    );
    assert!(
        of(Device::Cpu, 7.5)[0].contains("for 100 % of the time"),
        "a slowdown that began before the window"
    );
    assert_eq!(of(Device::Cuda(0), 0.5), [""; 0]);
}

#[test]
fn only_heat_and_swap_leave_a_run_out() {
    let counts = |telemetry: Telemetry| {
        let study = StudyBuilder::new()
            .run_with(key("e", "resnet18", 16, 1), 10.0, |record| record.observed.telemetry = Some(telemetry))
            .build();
        let analysis = analyse(&study);
        (analysis.runs[0].marks.len(), analysis.runs[0].counts())
    };
    let gpu = |reason: &str| GpuTelemetry {
        throttled_samples: [(reason.to_owned(), 9)].into(),
        ..GpuTelemetry::default()
    };
    let with = |gpu| Telemetry { samples: 9, gpu: Some(gpu), ..Telemetry::default() };
    assert_eq!(counts(with(gpu("hw_thermal_slowdown"))), (1, false));
    assert_eq!(counts(with(gpu("sw_power_cap"))), (1, true));
    assert_eq!(counts(Telemetry::default().with(Sensor::SwappedIn, 1 << 30)), (1, false));
    let clock = Readings::of([3000.0, 2000.0]).unwrap();
    let of_window = Telemetry { of_window: true, ..Telemetry::default() };
    assert_eq!(counts(of_window.with(Sensor::CpuClock, clock)), (1, true));
}

#[test]
fn a_host_that_swaps_is_marked() {
    let swap = |written: u64, read: u64| {
        let written = Telemetry::default().with(Sensor::SwappedOut, written << 20);
        marks_of(Device::Cpu, written.with(Sensor::SwappedIn, read << 20))
    };
    assert_eq!(swap(10, 6), [""; 0]);
    assert_eq!(
        swap(10, 7),
        ["swapped: the host wrote 10 MiB to swap and read 7 MiB from it, together 17 MiB (threshold 16 MiB)"]
    );
}

#[test]
fn the_clock_of_the_computing_device_is_judged() {
    let readings = |low: f64| Readings::of([2000.0, low, 2000.0]).unwrap();
    let of = |device, of_window, cpu: f64, gpu: f64| {
        let telemetry = Telemetry { samples: 3, of_window, ..Telemetry::default() };
        let telemetry = telemetry.with(Sensor::CpuClock, readings(cpu));
        marks_of(device, telemetry.with(Sensor::GpuSmClock, readings(gpu)))
    };
    assert_eq!(of(Device::Cpu, true, 1850.0, 500.0), [""; 0]);
    assert_eq!(
        of(Device::Cpu, true, 1700.0, 500.0),
        [
            "clock-changed: the processor's clock went from 1760 to 2000 MHz within the window, 13 % of its mean, \
             leaving out the lowest and the highest tenth of its readings (threshold 10 %)"
        ]
    );
    assert!(of(Device::Cuda(0), true, 2000.0, 1500.0)[0].starts_with("clock-changed: the GPU's clock"));
    assert_eq!(of(Device::Cuda(0), true, 500.0, 2000.0), [""; 0]);
    assert_eq!(of(Device::Cpu, false, 500.0, 500.0), [""; 0]);
}

/// A clock read once per second: a slow moment is tolerated, half of the window is a change.
#[test]
fn a_slow_moment_does_not_mark_the_clock() {
    let with = |readings: Vec<f64>| {
        let telemetry = Telemetry { samples: 120, of_window: true, ..Telemetry::default() };
        marks_of(Device::Cpu, telemetry.with(Sensor::CpuClock, Readings::of(readings).unwrap())).len()
    };
    let slow = |n: usize| (0..120).map(|second| if second < n { 1500.0 } else { 2000.0 }).collect();
    assert_eq!((with(slow(3)), with(slow(14)), with(slow(60)), with(slow(107))), (0, 1, 1, 1));
    let readings = Readings { middle: None, ..Readings::of([2000.0, 1000.0]).unwrap() };
    let older = Telemetry { samples: 2, of_window: true, ..Telemetry::default() };
    assert_eq!(marks_of(Device::Cpu, older.with(Sensor::CpuClock, readings)), [""; 0], "of an older version");
}

#[test]
fn another_process_on_the_device_is_contention() {
    let process = |pid, name: Option<&str>, mebibytes: Option<u64>| ForeignProcess {
        pid,
        name: name.map(str::to_owned),
        memory_bytes: mebibytes.map(|size| size << 20),
        graphics: false,
    };
    let drawing = |process| ForeignProcess { graphics: true, ..process };
    let with = |foreign_processes| on_gpu(GpuTelemetry { foreign_processes, ..GpuTelemetry::default() });
    assert_eq!(with(vec![]), [""; 0]);
    let screen = [process(5, Some("a-compositor"), Some(90)), process(6, Some("firefox"), None)].map(drawing);
    assert_eq!(with(screen.to_vec()), [""; 0]);
    assert_eq!(
        with([&screen[..], &[process(7, Some("Xorg"), None)]].concat()),
        ["contended: on its device there was also Xorg (pid 7) (threshold 0)"],
        "its activity decides, not its name"
    );
    assert_eq!(
        with(vec![process(7, Some("blender"), Some(900)), process(8, None, None)]),
        ["contended: on its device there was also blender (pid 7, 900 MiB) and 1 more (threshold 0)"]
    );
    assert_eq!(
        with(vec![process(8, None, None)]),
        ["contended: on its device there was also a process (pid 8) (threshold 0)"]
    );
}
