//! Summarises samples. Energies are differences of counters between the ends of the measured window.

use std::collections::BTreeMap;

use super::{
    ForeignProcess, GpuTelemetry, OnDevice, Readings, Sample, Sensor, Summaries, Summary, SummaryValue,
    Telemetry,
};

/// The shortest window that gets an energy, in seconds. The counter's values at the ends of the window are interpolated
/// between samples one second apart, as if power were constant between them. In a window of few samples, most of the
/// energy would be guessed.
const LEAST_WINDOW_S: f64 = 5.0;

/// The longest gap between the two samples around an end of the window, in seconds.
const GREATEST_GAP_S: f64 = 3.0;

impl Telemetry {
    /// Summarises `samples`, given in the order they were taken. `window` is the start and end of the measured window
    /// in seconds since the Unix epoch, if the worker reported it. `None` if there are no samples.
    pub fn of(samples: &[Sample], window: Option<(f64, f64)>) -> Option<Telemetry> {
        if samples.is_empty() {
            return None;
        }
        let is_inside =
            |sample: &&Sample| window.is_some_and(|(from, to)| (from..=to).contains(&sample.unix_s));
        let inside: Vec<&Sample> = samples.iter().filter(is_inside).collect();
        let of_window = !inside.is_empty();
        let read = if of_window { inside } else { samples.iter().collect() };
        let telemetry = Telemetry {
            samples: u32::try_from(read.len()).unwrap_or(u32::MAX),
            of_window,
            gpu: gpu(samples, &read),
            ..Telemetry::default()
        };
        let add = |telemetry: Telemetry, sensor: &Sensor| match summarise(*sensor, samples, &read, window) {
            Some(value) => telemetry.with(*sensor, value),
            None => telemetry,
        };
        Some(Sensor::ALL.iter().fold(telemetry, add))
    }
}

/// The summary of `sensor`: over the samples in `read`, over all `samples`, or between the ends of the `window`.
fn summarise(
    sensor: Sensor,
    samples: &[Sample],
    read: &[&Sample],
    window: Option<(f64, f64)>,
) -> Option<SummaryValue> {
    match sensor.declaration().summary {
        Summary::Gauge(_) => Readings::of(read.iter().filter_map(|it| it.get(sensor))).map(Into::into),
        Summary::Rate(_) => {
            let rates = read.windows(2).filter_map(|pair| rate(sensor, pair[0], pair[1]));
            Readings::of(rates).map(Into::into)
        }
        Summary::Growth(_) => growth(sensor, samples).map(Into::into),
        Summary::WindowGrowth(_) => window_growth(sensor, samples, window).map(Into::into),
    }
}

/// The shortest interval over which a load is computed, in seconds: the kernel counts in hundredths of a second.
const LEAST_BETWEEN_S: f64 = 0.5;

/// The growth of the counter `sensor` per second between two samples. `None` if it was not read, or if the clock or the
/// counter went backwards.
fn rate(sensor: Sensor, from: &Sample, to: &Sample) -> Option<f64> {
    let seconds = to.unix_s - from.unix_s;
    let rate = (to.get(sensor)? - from.get(sensor)?) / seconds;
    (seconds >= LEAST_BETWEEN_S && rate >= 0.0).then_some(rate)
}

/// `None` if no sample has a reading of a GPU.
fn gpu(samples: &[Sample], read: &[&Sample]) -> Option<GpuTelemetry> {
    if !samples.iter().any(Sample::has_gpu) {
        return None;
    }
    let mut throttled_samples = BTreeMap::new();
    for reason in read.iter().filter_map(|sample| sample.gpu.throttle_reasons.as_ref()).flatten() {
        *throttled_samples.entry(reason.clone()).or_default() += 1;
    }
    let unknown = samples.iter().filter(|sample| sample.gpu.others == Some(OnDevice::Unknown)).count();
    Some(GpuTelemetry {
        sensors: Summaries::default(),
        throttled_samples,
        foreign_processes: foreign_processes(samples),
        unknown_processes_samples: u32::try_from(unknown).unwrap_or(u32::MAX),
    })
}

/// Every foreign process in any sample, by pid, with its peak memory. It counts as computing if it did so in any
/// sample.
fn foreign_processes(samples: &[Sample]) -> Vec<ForeignProcess> {
    let mut found: BTreeMap<u32, ForeignProcess> = BTreeMap::new();
    for sample in samples {
        let Some(OnDevice::Foreign(processes)) = &sample.gpu.others else { continue };
        for process in processes {
            let known = found.entry(process.pid).or_insert_with(|| process.clone());
            known.name = known.name.take().or_else(|| process.name.clone());
            known.memory_bytes = known.memory_bytes.max(process.memory_bytes);
            known.graphics &= process.graphics;
        }
    }
    found.into_values().collect()
}

/// The growth of a counter of whole numbers over all samples. `None` if there are fewer than two readings, or if the
/// counter was reset meanwhile.
fn growth(sensor: Sensor, samples: &[Sample]) -> Option<u64> {
    let readings: Vec<f64> = samples.iter().filter_map(|sample| sample.get(sensor)).collect();
    let (first, last) = (readings.first()?, readings.last()?);
    // Counters are whole numbers far below 2^53, so the conversion is exact.
    (readings.len() >= 2 && readings.is_sorted()).then_some((last - first) as u64)
}

/// The growth of the counter `sensor` during `window`. `None` if there is no window, or it is too short, or an end has
/// no samples close around it. `None` also if the counter or the clock went backwards.
fn window_growth(sensor: Sensor, samples: &[Sample], window: Option<(f64, f64)>) -> Option<f64> {
    let (from, to) = window?;
    let readings: Vec<(f64, f64)> =
        samples.iter().filter_map(|sample| Some((sample.unix_s, sample.get(sensor)?))).collect();
    let advances = readings.is_sorted_by(|left, right| left.0 < right.0 && left.1 <= right.1);
    if !advances || to - from < LEAST_WINDOW_S {
        return None;
    }
    Some(value_at(&readings, to)? - value_at(&readings, from)?)
}

/// The value at `time`, interpolated linearly between the two readings around it; `None` if they are too far apart.
fn value_at(readings: &[(f64, f64)], time: f64) -> Option<f64> {
    let encloses = |pair: &&[(f64, f64)]| {
        let (before, after) = (pair[0].0, pair[1].0);
        (before..=after).contains(&time) && after - before <= GREATEST_GAP_S
    };
    let enclosing = readings.windows(2).find(encloses)?;
    let [(before, low), (after, high)] = enclosing else { return None };
    Some(low + (high - low) * (time - before) / (after - before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::GpuSample;

    /// One sample per second with these joules, starting at 100 s.
    fn counted(joules: &[f64]) -> Vec<Sample> {
        let sample = |(second, joules): (usize, &f64)| Sample {
            unix_s: 100.0 + second as f64,
            values: [(Sensor::CpuEnergy, *joules)].into(),
            ..Sample::default()
        };
        joules.iter().enumerate().map(sample).collect()
    }

    fn cpu_energy(samples: &[Sample], from: f64, to: f64) -> Option<f64> {
        Telemetry::of(samples, Some((from, to))).unwrap().window_growth(Sensor::CpuEnergy)
    }

    #[test]
    fn load_is_computed_between_samples() {
        let at = |(unix_s, busy): &(f64, Option<f64>)| Sample {
            unix_s: *unix_s,
            values: busy.map(|busy| (Sensor::CpuBusy, busy)).into_iter().collect(),
            ..Sample::default()
        };
        let load = |readings: &[(f64, Option<f64>)]| {
            let samples: Vec<Sample> = readings.iter().map(at).collect();
            Telemetry::of(&samples, None)
                .unwrap()
                .readings(Sensor::CpuBusy)
                .map(|load| (load.min, load.mean, load.max))
        };
        let counted = [(10.0, Some(5.0)), (11.0, Some(7.0)), (13.0, Some(7.0)), (14.0, Some(8.0))];
        assert_eq!(load(&counted), Some((0.0, 1.0, 2.0)));
        assert_eq!(load(&[(10.0, Some(5.0)), (12.0, Some(9.0))]), Some((2.0, 2.0, 2.0)));
        // Too close together; counter reset and clock set back; not counted.
        assert_eq!(load(&[(10.0, Some(5.0)), (10.1, Some(5.2))]), None);
        assert_eq!(load(&[(10.0, Some(5.0)), (11.0, Some(4.0)), (10.5, Some(5.0))]), None);
        assert_eq!(load(&[(10.0, None), (11.0, Some(4.0))]), None);
    }

    #[test]
    fn energy_is_interpolated_at_the_ends_of_the_window() {
        // 10 W for two seconds, 50 W for six, 20 W for the rest.
        let samples = counted(&[0.0, 10.0, 20.0, 70.0, 120.0, 170.0, 220.0, 270.0, 320.0, 340.0]);
        assert_eq!(cpu_energy(&samples, 102.0, 108.0), Some(300.0), "both ends on a sample");
        // From 102.5 (20 + 25) to 108.25 (320 + 5).
        assert_eq!(cpu_energy(&samples, 102.5, 108.25), Some(325.0 - 45.0));
        assert_eq!(cpu_energy(&samples, 100.0, 109.0), Some(340.0), "the ends are the first and last sample");
        // Two seconds apart: from 100.5 (5) to 107.5 (270 - 25).
        let rarer: Vec<Sample> = samples.iter().step_by(2).cloned().collect();
        assert_eq!(cpu_energy(&rarer, 100.5, 107.5), Some(220.0 + 0.75 * 100.0 - 5.0));
    }

    #[test]
    fn unknown_energy_is_absent() {
        let samples = counted(&[0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]);
        assert_eq!(cpu_energy(&samples, 100.5, 106.5), Some(60.0));
        assert_eq!(cpu_energy(&samples, 100.5, 105.0), None, "too short");
        assert_eq!(cpu_energy(&samples, 99.5, 106.0), None, "begins before the first sample");
        assert_eq!(cpu_energy(&samples, 101.0, 107.5), None, "ends after the last sample");
        let no_window = Telemetry::of(&samples, None).unwrap();
        assert_eq!(no_window.window_growth(Sensor::CpuEnergy), None, "no window");
        let gap = [&samples[..2], &samples[6..]].concat();
        assert_eq!(cpu_energy(&gap, 101.5, 107.0), None, "an end is in a gap");
        assert_eq!(cpu_energy(&gap, 101.0, 106.0), Some(50.0), "a gap inside the window does not matter");
        let mut reset = samples.clone();
        reset[4].values.insert(Sensor::CpuEnergy, 1.0);
        assert_eq!(cpu_energy(&reset, 100.5, 106.5), None, "the counter went backwards");
        let mut clock_set = samples;
        clock_set[4].unix_s = 100.0;
        assert_eq!(cpu_energy(&clock_set, 100.5, 106.5), None, "the clock was set back");
        clock_set[4].unix_s = clock_set[3].unix_s;
        assert_eq!(cpu_energy(&clock_set, 100.5, 106.5), None, "the clock did not advance");
    }

    #[test]
    fn readings_cover_the_window_and_counters_the_whole_attempt() {
        let sample = |second: f64, mhz, events| Sample {
            unix_s: second,
            values: [(Sensor::CpuClock, mhz), (Sensor::CpuThrottleEvents, events)].into(),
            ..Sample::default()
        };
        let samples = [
            sample(0.0, 800.0, 5.0),
            sample(1.0, 3000.0, 6.0),
            sample(2.0, 3200.0, 9.0),
            sample(3.0, 900.0, 9.0),
        ];
        let sum = Telemetry::of(&samples, Some((0.5, 2.5))).unwrap();
        assert_eq!((sum.samples, sum.of_window, sum.growth(Sensor::CpuThrottleEvents)), (2, true, Some(4)));
        assert_eq!(sum.readings(Sensor::CpuClock), Readings::of([3000.0, 3200.0]));
        for window in [None, Some((1.2, 1.8))] {
            let sum = Telemetry::of(&samples, window).unwrap();
            assert_eq!((sum.samples, sum.of_window), (4, false), "{window:?}");
            assert_eq!(sum.readings(Sensor::CpuClock).unwrap().min, 800.0);
        }
        assert_eq!(
            (sum.gpu.clone(), sum.get(Sensor::SwappedIn), sum.get(Sensor::CpuTemperature)),
            (None, None, None)
        );
        assert_eq!(
            Telemetry::of(&samples[..1], None).unwrap().get(Sensor::CpuThrottleEvents),
            None,
            "one reading"
        );
        assert_eq!(Telemetry::of(&[], None), None);
    }

    #[test]
    fn throttle_reasons_are_counted_and_foreign_processes_collected() {
        let process = |pid, name: Option<&str>, memory_bytes| ForeignProcess {
            pid,
            name: name.map(str::to_owned),
            memory_bytes,
            graphics: false,
        };
        let drawing = |pid| ForeignProcess { pid, graphics: true, ..ForeignProcess::default() };
        let sample = |second: f64, reasons: &[&str], others| Sample {
            unix_s: second,
            values: [(Sensor::GpuPower, 100.0 * second)].into(),
            gpu: GpuSample {
                throttle_reasons: Some(reasons.iter().map(|reason| (*reason).to_owned()).collect()),
                others: Some(others),
            },
        };
        let foreign = |processes: Vec<ForeignProcess>| OnDevice::Foreign(processes);
        let samples = [
            sample(1.0, &["hw_slowdown"], foreign(vec![process(9, None, Some(10)), drawing(4)])),
            sample(2.0, &["sw_power_cap"], OnDevice::Unknown),
            sample(3.0, &["sw_power_cap", "hw_slowdown"], foreign(vec![])),
            sample(
                4.0,
                &[],
                foreign(vec![process(9, Some("x"), Some(30)), process(3, None, None), drawing(5)]),
            ),
            sample(4.0, &[], foreign(vec![process(4, None, None)])),
        ];
        let sum = Telemetry::of(&samples, Some((2.0, 4.0))).unwrap();
        let gpu = sum.gpu.as_ref().unwrap();
        assert_eq!(gpu.throttled_samples, [("hw_slowdown".into(), 1), ("sw_power_cap".into(), 2)].into());
        let computed_later = process(4, None, None);
        assert_eq!(
            gpu.foreign_processes,
            [process(3, None, None), computed_later, drawing(5), process(9, Some("x"), Some(30))]
        );
        assert_eq!(gpu.unknown_processes_samples, 1);
        assert_eq!(sum.readings(Sensor::GpuPower).map(|power| power.max), Some(400.0));
        assert_eq!(sum.get(Sensor::GpuSmClock), None);
    }
}
