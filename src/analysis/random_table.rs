//! Random studies for tests: some rows, each with a few runs with individual disturbances. Most numbers are near
//! limits.

use std::collections::BTreeSet;

use super::Study;
use super::fixture::{HOST, StudyBuilder, key, measured_peaks};
use super::noise::{Calibrated, Noise};
use super::peaks::{Confidence, Origin, Peaks};
use crate::architecture;
use crate::job::{DataSource, Device, Key, Kind, ParamValue, Precision, Profile, WorkerTemplate};
use crate::protocol::IterationClock;
use crate::random::SplitMix64;
use crate::record::ncu::NcuCounters;
use crate::record::{Counters, GpuTelemetry, Outcome, Readings, Record, Sensor, Telemetry};

/// Draws the contents of a table.
struct Dice(SplitMix64);

impl Dice {
    fn is(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    fn among<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.0.unit() * all.len() as f64) as usize]
    }

    /// A number near `limit`, mostly so near that rounding would hide the difference.
    fn near(&mut self, limit: f64) -> f64 {
        let by = 10f64.powf(-5.0 * self.0.unit());
        if self.is(0.5) { limit * (1.0 + by) } else { limit / (1.0 + by) }
    }
}

/// The study of `seed`.
pub(super) fn study(seed: u64) -> Study {
    let mut dice = Dice(SplitMix64::of(seed, &[]));
    let builder = table(&mut dice);
    let mut study = builder.build();
    if dice.is(0.2) {
        study.noise = vec![calibrated(&study)].into_iter().flatten().collect();
    }
    if dice.is(0.1) {
        study.cells[0].peaks = Some("unknown-peaks".to_owned());
    }
    study
}

/// The runs of `seed`, to which others can be added.
pub(super) fn builder(seed: u64) -> StudyBuilder {
    table(&mut Dice(SplitMix64::of(seed, &[])))
}

fn table(dice: &mut Dice) -> StudyBuilder {
    let mut builder = StudyBuilder::new();
    if dice.is(0.9) {
        builder = builder.peaks(peaks(dice));
    }
    if dice.is(0.2) {
        builder = builder.include_marked();
    }
    builder = if dice.is(0.15) { blocks(builder, dice) } else { builder };
    builder = if dice.is(0.1) { disturbed(builder, dice) } else { builder };
    let mut drawn = BTreeSet::new();
    (0..dice.among(&[1, 2, 3, 5])).fold(builder, |builder, _| {
        let config = config(dice);
        if drawn.insert(config.id()) { row(builder, dice, &config) } else { builder }
    })
}

fn peaks(dice: &mut Dice) -> Peaks {
    let mut peaks = measured_peaks(dice.near(250e9), dice.near(20e9));
    if dice.is(0.5) {
        (peaks.name, peaks.backend) = ("measured/gpu".into(), "cuda".into());
        let uuid = dice.among(&[None, Some("GPU-0")]).map(str::to_owned);
        let device = Device::Cuda(0);
        peaks.origin = Origin::Measured { host: HOST.into(), device, uuid, threads: None, quick: false };
    }
    peaks.confidence = dice.among(&[Confidence::Low, Confidence::Estimate, Confidence::High]);
    if dice.is(0.2) {
        peaks.bandwidth = None;
    }
    peaks
}

/// Blocks that share their time, of which one might be slower.
fn blocks(builder: StudyBuilder, dice: &mut Dice) -> StudyBuilder {
    let shift = dice.near(0.03);
    (1..=4).fold(builder, |builder, repeat| {
        let mut rate =
            || 10.0 * (0.002 * dice.0.normal()).exp() * if repeat == 2 { 1.0 - shift } else { 1.0 };
        let rates = [("alexnet", rate()), ("resnet18", rate()), ("vgg16", rate())];
        builder.block(repeat, &rates)
    })
}

/// Rows of three runs, of which one was disturbed and slower.
fn disturbed(builder: StudyBuilder, dice: &mut Dice) -> StudyBuilder {
    let slower = 1.0 - dice.near(0.02);
    [1, 2, 8, 32].into_iter().fold(builder, |builder, batch| {
        let run = |builder: StudyBuilder, repeat: u32, rate: f64, asleep_s: f64| {
            builder.run_with(key("cpu", "vgg16", batch, repeat), rate, |record| {
                record.observed.asleep_s = Some(asleep_s);
            })
        };
        let rate = 10.0 * slower * (0.001 * dice.0.normal()).exp();
        run(run(run(builder, 1, 10.0, 0.0), 2, 10.0, 0.0), 3, rate, 9.0)
    })
}

fn config(dice: &mut Dice) -> Key {
    let model = dice.among(&["resnet18", "resnet50", "lenet"]);
    let mut config = key(dice.among(&["a", "b"]), model, dice.among(&[4, 16]), 1);
    config.device = dice.among(&[Device::Cpu, Device::Cuda(0)]);
    if dice.is(0.2) {
        config.precision = Precision::Bf16;
    }
    if dice.is(0.1) {
        config.params.insert("lr".into(), ParamValue::Int(1));
        config.worker = WorkerTemplate::Command(["train.py".into()].into());
    }
    config
}

/// The runs of `config`, in files as well, and its profiled job.
fn row(mut builder: StudyBuilder, dice: &mut Dice, config: &Key) -> StudyBuilder {
    let rate = 0.5 + 20.0 * dice.0.unit();
    let cv = dice.among(&[0.0, 0.01, 0.1, 0.4]);
    let (repeats, change) = (dice.among(&[1, 2, 3, 4, 7]), Change::drawn(dice));
    for repeat in 1..=repeats {
        let rate = rate * (cv * dice.0.normal()).exp();
        builder = run(builder, dice, &Key { repeat, ..config.clone() }, rate, &change);
    }
    if dice.is(0.3) {
        let mut on_files = config.clone();
        on_files.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
        let slower = rate * (1.0 - dice.near(0.05));
        for repeat in 1..=repeats {
            let rate = slower * (0.3 * cv * dice.0.normal()).exp();
            builder = run(builder, dice, &Key { repeat, ..on_files.clone() }, rate, &change);
        }
    }
    if dice.is(0.3) {
        builder = profiled(builder, dice, config);
    }
    if dice.is(0.1) {
        builder = builder.failure(Key { repeat: 8, ..config.clone() }, Outcome::Signalled { signal: 11 });
    }
    builder
}

/// The common properties of all runs of a row.
struct Change {
    threads: u32,
    unit: Option<&'static str>,
    data_wait: f64,
    kernel_release: Option<&'static str>,
    reported_flops: Option<f64>,
    counted_flops: Option<f64>,
    evaluation_share: Option<f64>,
}

/// FLOPs per sample of resnet18.
fn needed() -> f64 {
    architecture::network("resnet18", 224, 1000).unwrap().training_flops() as f64
}

impl Change {
    fn drawn(dice: &mut Dice) -> Change {
        let needed = needed();
        Change {
            threads: dice.among(&[1, 2, 2, 2, 3]),
            unit: dice.among(&[None, None, None, Some("tokens")]),
            data_wait: dice.near(0.1),
            kernel_release: dice.among(&[None, Some("6.1"), Some("6.2")]),
            reported_flops: dice.is(0.2).then(|| needed * dice.near(1.05)),
            counted_flops: dice.is(0.2).then(|| needed * dice.near(1.01)),
            evaluation_share: dice.is(0.1).then(|| dice.near(0.05)),
        }
    }
}

/// A run with individual disturbances.
fn run(builder: StudyBuilder, dice: &mut Dice, key: &Key, rate: f64, change: &Change) -> StudyBuilder {
    let builder = builder.run_with(key.clone(), rate, |record| {
        let measured = record.measurement.as_mut().unwrap();
        let wall = (record.ended_at - record.started_at).as_seconds_f64();
        measured.effective.settings.set("threads", change.threads);
        measured.unit = change.unit.map(|unit| unit.to_owned().try_into().unwrap());
        measured.details.data_wait_s = Some(change.data_wait * measured.elapsed_s);
        measured.details.flops_per_sample = change.reported_flops;
        measured.details.counted_flops_per_sample = change.counted_flops;
        measured.details.evaluation_share = change.evaluation_share;
        if change.counted_flops.is_some_and(|flops| flops > needed()) {
            measured.details.uncounted_operators = vec!["mine::fused".to_owned()];
        }
        if dice.is(0.05) {
            measured.details.unreadable_images = Some(3);
        }
        if dice.is(0.1) {
            measured.details.device_uuid = Some("GPU-1".to_owned());
        }
        if dice.is(0.3) {
            record.provenance.host.os.kernel = change.kernel_release.map(str::to_owned);
        }
        if dice.is(0.1) {
            record.provenance.host.swap_total_bytes = Some(1 << 30);
        }
        if dice.is(0.1) {
            record.observed.host_busy_s = Some((1.9 + dice.near(0.25)) * wall);
        }
        if dice.is(0.1) {
            record.observed.host_steal_s = Some(dice.near(0.25) * wall);
        }
        if dice.is(0.1) {
            record.observed.asleep_s = Some(dice.near(0.5));
        }
        if dice.is(0.05) {
            record.observed.host_busy_s = None;
        }
        if dice.is(0.05) {
            record.process.as_mut().unwrap().user_s = Some(dice.near(0.9) * 2.0 * wall);
        }
        if dice.is(0.3) {
            record.observed.telemetry = Some(telemetry(dice));
        }
    });
    if !dice.is(0.1) {
        return builder;
    }
    let (step, first) = (dice.near(0.1) / 30.0, dice.near(2.0));
    let seconds = |place: usize| 1.0 + step * place as f64 + 1e-4 * ((place * 7) % 5) as f64;
    let seconds: Vec<f64> = (0..30).map(|place| if place == 0 { first } else { seconds(place) }).collect();
    builder.seconds(IterationClock::Host, &seconds)
}

fn telemetry(dice: &mut Dice) -> Telemetry {
    let samples = dice.among(&[40, 99, 1999]);
    let reason = dice.among(&["sw_power_cap", "hw_thermal_slowdown"]).to_owned();
    let held = (dice.near(0.05) * f64::from(samples)) as u32;
    let gpu = GpuTelemetry { throttled_samples: [(reason, held)].into(), ..GpuTelemetry::default() };
    let clock = dice.near(2000.0);
    let clocks: Vec<f64> = (0..40).map(|i| clock * (1.0 - 0.11 * f64::from(i % 2))).collect();
    let clock = if dice.is(0.5) { Sensor::CpuClock } else { Sensor::GpuSmClock };
    Telemetry { samples, of_window: true, gpu: Some(gpu), ..Telemetry::default() }
        .with(clock, Readings::of(clocks).unwrap())
        .with(Sensor::CpuThrottled, Readings::of([dice.near(0.05)]).unwrap())
        .with(Sensor::CpuQuotaHeld, Readings::of([dice.near(0.05)]).unwrap())
        .with(Sensor::SwappedOut, (dice.near(8.0) * f64::from(1 << 20)) as u64)
        .with(Sensor::SwappedIn, (dice.near(8.0) * f64::from(1 << 20)) as u64)
}

fn profiled(builder: StudyBuilder, dice: &mut Dice, config: &Key) -> StudyBuilder {
    let (needed, samples) = (needed(), 10 * u64::from(config.batch));
    let names = ["fadd", "fmul", "ffma", "hadd", "hmul", "hfma", "dadd", "dmul", "dfma"];
    let name = |name: &str| format!("sm__sass_thread_inst_executed_op_{name}_pred_on.sum");
    let mut metrics: std::collections::BTreeMap<String, u64> =
        names.into_iter().map(|it| (name(it), 0)).collect();
    metrics.insert(name("fadd"), samples * (needed * dice.near(1.05)) as u64);
    metrics.insert("sm__ops_path_tensor_src_fp16.sum".into(), 0);
    metrics
        .insert("dram__bytes.sum".into(), samples * (dice.among(&[0.2e9, 1e9, 9e9]) * dice.near(1.0)) as u64);
    let (threads, is_disturbed) = (dice.among(&[2, 2, 2, 1]), dice.is(0.2));
    builder.run_with(config.profiled(Kind::Ncu, Profile::default()), 0.5, |record: &mut Record| {
        record.measurement.as_mut().unwrap().effective.settings.set("threads", threads);
        record.counters =
            Some(Counters::Ncu(NcuCounters { kernels: 2, metrics, ..NcuCounters::default() }.into()));
        if is_disturbed {
            record.observed.asleep_s = Some(9.0);
        }
    })
}

fn calibrated(study: &Study) -> Option<Calibrated> {
    let record = study.cells.first()?.record()?;
    let noise = Noise {
        pairs: 5,
        left_out: 0,
        window_s: 1.0,
        within: 0.02,
        within_interval: (0.01, 0.03),
        between: 0.01,
        drift_per_hour: None,
        autocorrelation: None,
        by_iterations: None,
        idle_processors: None,
        verdict: "same",
        is_wrong: false,
    };
    Some(Calibrated {
        plan: "calibration-cpu".to_owned(),
        device: record.key.device,
        host: record.provenance.host.clone(),
        date: "2026-11-24".to_owned(),
        noise,
    })
}
