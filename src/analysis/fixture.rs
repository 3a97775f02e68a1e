//! A builder of synthetic studies for tests. By default these have one host, one device and undisturbed runs.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::cost::FlopsConvention;
use super::idle::Idle;
use super::marks::Thresholds;
use super::peaks::{Catalogue, Ceiling, Confidence, Origin, Peaks, Range};
use super::{Cell, NoRecord, Span, Study};
use crate::job::{Declared, Device, Job, Key, Kind, Precision, Profile};
use crate::protocol::{
    Details, Effective, IterationClock, Iterations, Measurement, OperatorClass, OperatorProfile,
    OperatorSample, Settings,
};
use crate::record::ncu::{KernelGroup, NcuCounters};
use crate::record::testing::{self, record_of};
use crate::record::{
    Counters, CpuFacts, HostFacts, MatrixFacts, Observed, OsFacts, Outcome, ProcessStats, Provenance, Record,
    WorkerFacts,
};

pub(crate) const HOST: &str = "bench-1";
pub(crate) const CPU: &str = "Test CPU @ 2.00 GHz";
const ITERATIONS: u64 = 10;

pub(crate) fn key(env: &str, model: &str, batch: u32, repeat: u32) -> Key {
    Key { env: env.into(), model: model.into(), batch, repeat, ..Key::example() }
}

/// A measurement of `key` at `samples_per_s`, with every setting as requested.
pub(crate) fn measurement(key: &Key, samples_per_s: f64) -> Measurement {
    let samples = ITERATIONS * u64::from(key.batch);
    let mut settings = Settings::default();
    settings.set("threads", 2);
    settings.set("channels_last", false);
    if key.worker.is_shipped() {
        let shape = ["input_size", "classes"].map(|name| (name, key.param(name).unwrap()));
        let declared = key.params.iter().map(|(name, value)| (name, value.clone()));
        for (name, value) in declared.chain(shape) {
            settings.set(name, serde_json::to_value(value).unwrap());
        }
    }
    Measurement {
        samples,
        elapsed_s: samples as f64 / samples_per_s,
        synchronized: true,
        effective: Effective {
            device: key.device,
            precision: key.precision,
            batch: key.batch,
            model: None,
            tf32: None,
            settings,
        }
        .into(),
        unit: None,
        metrics: Default::default(),
        ops: None,
        details: Details {
            data_wait_s: Some(0.0),
            device_name: Some(CPU.to_owned()),
            versions: [("libtorch".to_owned(), "2.11.0".to_owned())].into(),
            ..Details::default()
        }
        .into(),
    }
}

/// A record of a success. `slot` places it in time: records of different slots do not overlap.
pub(crate) fn record(key: Key, samples_per_s: f64, slot: i64) -> Record {
    let measurement = measurement(&key, samples_per_s);
    let started_at: DateTime<Utc> = DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::hours(slot);
    let wall = measurement.elapsed_s + 2.0;
    Record {
        started_at,
        ended_at: started_at + TimeDelta::milliseconds((wall * 1000.0) as i64),
        measurement: Some(measurement),
        process: Some(ProcessStats {
            wall_s: Some(wall),
            user_s: Some(1.8 * wall),
            system_s: Some(0.1 * wall),
            max_rss_bytes: Some(1_500_000_000),
            ..ProcessStats::default()
        }),
        observed: Observed { load_before: Some(0.1), host_busy_s: Some(1.95 * wall), ..Observed::default() },
        provenance: provenance().into(),
        ..record_of(key, Outcome::Succeeded)
    }
}

fn matrix() -> MatrixFacts {
    MatrixFacts { name: "test".into(), path: "matrices/test.yaml".into(), sha256: "cd".repeat(32) }
}

fn provenance() -> Provenance {
    Provenance {
        orchestrate: "0.1.0".into(),
        host: HostFacts {
            hostname: HOST.into(),
            os: OsFacts { name: "linux".into(), architecture: "x86_64".into(), ..OsFacts::default() },
            cpu: CpuFacts { model: Some(CPU.into()), logical: 2, usable: 2, ..CpuFacts::default() },
            memory_bytes: Some(8_000_000_000),
            devices: vec!["cpu".into()],
            ..HostFacts::default()
        }
        .into(),
        worker: WorkerFacts {
            path: "/opt/worker".into(),
            sha256: Some("ab".repeat(32)),
            ..WorkerFacts::default()
        }
        .into(),
        matrix: matrix().into(),
        command: vec!["/opt/worker".into()],
        ..testing::provenance()
    }
}

/// The same of another device of another host.
pub(crate) fn peaks_of(host: &str, device: &str, flops: f64, bandwidth: f64) -> Peaks {
    let origin = Origin::Measured {
        host: host.to_owned(),
        device: Device::Cpu,
        uuid: None,
        threads: Some(2),
        quick: false,
    };
    Peaks {
        name: format!("measured/{host}-cpu"),
        device: device.to_owned(),
        names: vec![device.to_owned()],
        origin,
        ..measured_peaks(flops, bandwidth)
    }
}

pub(crate) fn measured_peaks(flops: f64, bandwidth: f64) -> Peaks {
    Peaks {
        name: "measured/bench-1-cpu".into(),
        device: CPU.into(),
        backend: "cpu".into(),
        names: vec![CPU.into()],
        origin: Origin::Measured {
            host: HOST.into(),
            device: Device::Cpu,
            uuid: None,
            threads: Some(2),
            quick: false,
        },
        flops: vec![Ceiling::of(Precision::Fp32, Range::exactly(flops))],
        left_out: Vec::new(),
        bandwidth: Some(Range::exactly(bandwidth)),
        bandwidth_spread: None,
        caches: Vec::new(),
        cache_bytes: None,
        clocks: None,
        source: "orchestrate peaks measure".into(),
        date: "2026-10-31".into(),
        confidence: Confidence::High,
        note: None,
        warnings: Vec::new(),
    }
}

/// Three launches of a kernel, with its seconds, FLOPs and bytes.
pub(crate) fn kernel(name: &str, seconds: f64, gflop: f64, gigabytes: f64) -> KernelGroup {
    KernelGroup {
        name: name.to_owned(),
        launches: 3,
        seconds: Some(seconds),
        flops: Some((gflop * 1e9) as u64),
        dram_bytes: Some((gigabytes * 1e9) as u64),
    }
}

/// Builds a [`Study`] cell by cell.
#[derive(Default)]
pub(crate) struct StudyBuilder {
    cells: Vec<Cell>,
    peaks: Vec<Peaks>,
    usd_per_hour: Option<f64>,
    include_marked: bool,
    thresholds: Thresholds,
}

impl StudyBuilder {
    pub(crate) fn new() -> Self {
        StudyBuilder::default()
    }

    pub(crate) fn peaks(mut self, peaks: Peaks) -> Self {
        self.peaks.push(peaks);
        self
    }

    pub(crate) fn usd_per_hour(mut self, usd: f64) -> Self {
        self.usd_per_hour = Some(usd);
        self
    }

    fn cell(mut self, key: Key, record: Result<Arc<Record>, NoRecord>) -> Self {
        let usd_per_hour = self.usd_per_hour;
        self.cells.push(Cell { job: Job::new(key), peaks: None, usd_per_hour, record, iterations: None });
        self
    }

    /// An undisturbed success.
    pub(crate) fn run(self, env: &str, model: &str, batch: u32, repeat: u32, samples_per_s: f64) -> Self {
        self.run_with(key(env, model, batch, repeat), samples_per_s, |_| {})
    }

    /// Undisturbed successes, repeat by repeat.
    pub(crate) fn runs(self, env: &str, model: &str, batch: u32, samples_per_s: &[f64]) -> Self {
        let repeats = samples_per_s.iter().zip(1..);
        repeats.fold(self, |builder, (rate, repeat)| builder.run(env, model, batch, repeat, *rate))
    }

    /// Undisturbed successes, one after the other, of these models: a block.
    pub(crate) fn block(self, repeat: u32, samples_per_s: &[(&str, f64)]) -> Self {
        let mut pause = None;
        samples_per_s.iter().fold(self, |builder, (model, rate)| {
            builder.run_with(key("cpu", model, 16, repeat), *rate, |record| {
                let took = record.ended_at - record.started_at;
                record.started_at = pause.unwrap_or(record.started_at);
                record.ended_at = record.started_at + took;
                pause = Some(record.ended_at + TimeDelta::seconds(1));
            })
        })
    }

    /// A success of `key`, modified by `change`.
    pub(crate) fn run_with(self, key: Key, samples_per_s: f64, change: impl FnOnce(&mut Record)) -> Self {
        let slot = self.cells.len() as i64;
        let mut record = record(key.clone(), samples_per_s, slot);
        change(&mut record);
        self.cell(key, Ok(Arc::new(record)))
    }

    /// A profiled job of `config`, a day earlier, in which these kernels took `whole` seconds together.
    pub(crate) fn kernels(self, config: &Key, kernels: Vec<KernelGroup>, whole: f64) -> Self {
        self.kernels_with(config, kernels, whole, |_| {})
    }

    /// The same, modified by `change`.
    pub(crate) fn kernels_with(
        self,
        config: &Key,
        kernels: Vec<KernelGroup>,
        whole: f64,
        change: impl FnOnce(&mut Record),
    ) -> Self {
        let metrics = [("gpu__time_duration.sum".to_owned(), (whole * 1e9) as u64)].into();
        let counters = NcuCounters { metrics, top_kernels: kernels, ..NcuCounters::default() };
        self.run_with(config.profiled(Kind::Ncu, Profile::default()), 0.5, |record| {
            record.started_at -= TimeDelta::days(1);
            record.ended_at -= TimeDelta::days(1);
            record.counters = Some(Counters::Ncu(counters.into()));
            change(record);
        })
    }

    /// Three runs of `config` at about `samples_per_s`, and a job of the kind `ops` with this profile.
    pub(crate) fn operators(self, config: &Key, samples_per_s: f64, profile: OperatorProfile) -> Self {
        self.operators_with(config, samples_per_s, profile, |_| {})
    }

    /// The same, with all records modified by `change`.
    pub(crate) fn operators_with(
        self,
        config: &Key,
        samples_per_s: f64,
        profile: OperatorProfile,
        change: fn(&mut Record),
    ) -> Self {
        let rates = [1.0, 1.001, 0.999].map(|factor| factor * samples_per_s);
        let runs = rates.into_iter().zip(1..).fold(self, |builder, (rate, repeat)| {
            builder.run_with(Key { repeat, ..config.clone() }, rate, change)
        });
        runs.profiled(config, samples_per_s, profile, change)
    }

    /// A job of the kind `ops` of `config`, with this profile.
    pub(crate) fn profiled(
        self,
        config: &Key,
        samples_per_s: f64,
        profile: OperatorProfile,
        change: impl FnOnce(&mut Record),
    ) -> Self {
        self.run_with(config.profiled(Kind::Ops, Profile::default()), samples_per_s, |record| {
            record.measurement.as_mut().unwrap().ops = Some(profile.into());
            change(record);
        })
    }

    /// Sets the seconds of the last run's iterations, timed by `clock`.
    pub(crate) fn seconds(mut self, clock: IterationClock, seconds: &[f64]) -> Self {
        let iterations: Vec<(f64, f64)> = seconds.iter().map(|seconds| (*seconds, 0.0)).collect();
        self.cells.last_mut().unwrap().iterations = Iterations::new(clock, &iterations);
        self
    }

    pub(crate) fn include_marked(mut self) -> Self {
        self.include_marked = true;
        self
    }

    /// Sets the thresholds.
    pub(crate) fn thresholds(mut self, thresholds: Thresholds) -> Self {
        self.thresholds = thresholds;
        self
    }

    pub(crate) fn failure(self, key: Key, outcome: Outcome) -> Self {
        self.run_with(key, 1.0, |record| {
            record.outcome = outcome;
            record.measurement = None;
        })
    }

    pub(crate) fn not_run(self, key: Key, reason: &str) -> Self {
        self.cell(key, Err(NoRecord { reason: reason.to_owned(), is_altered: false }))
    }

    pub(crate) fn build(self) -> Study {
        Study {
            matrix: matrix(),
            description: Some("A matrix for tests".into()),
            declared: Declared::default(),
            spans: self.cells.iter().filter_map(Cell::record).map(Span::of).collect(),
            cells: self.cells,
            peaks: Catalogue::new(self.peaks),
            convention: FlopsConvention::default(),
            include_marked: self.include_marked,
            thresholds: self.thresholds,
            replaced: Vec::new(),
            noise: Vec::new(),
            idle: Idle::default(),
        }
    }
}

/// An operator of a separate class, by its seconds, GFLOP and gigabytes over two iterations.
pub(crate) fn operator(
    name: &str,
    class: OperatorClass,
    seconds: f64,
    gflop: f64,
    gigabytes: f64,
) -> OperatorSample {
    OperatorSample {
        name: name.to_owned(),
        class: Some(class),
        types: vec![Some("float32".to_owned())],
        calls: 2,
        host_s: seconds,
        flops: Some(gflop * 1e9),
        bytes: Some(gigabytes * 1e9),
        ..OperatorSample::default()
    }
}

/// A profile of two iterations of `elapsed_s` seconds together, on a processor.
pub(crate) fn profile(elapsed_s: f64, operators: Vec<OperatorSample>) -> OperatorProfile {
    OperatorProfile {
        source: "a test".to_owned(),
        iterations: 2,
        elapsed_s,
        device_busy_s: None,
        operators,
        rest_s: 0.0,
        notes: Vec::new(),
    }
}

/// A row of iterations of 1.6 s below roofs of 250 GFLOP/s and 20 GB/s. 70 % of the time is at 80 % of the compute
/// roof, 20 % at 80 % of the memory roof.
pub(crate) fn study_with_operators() -> Study {
    let conv = operator("conv", OperatorClass::Convolution, 2.24, 0.8 * 250.0 * 2.24, 0.1);
    let norm = operator("norm", OperatorClass::Normalisation, 0.64, 0.0, 0.8 * 20.0 * 0.64);
    StudyBuilder::new()
        .peaks(measured_peaks(250e9, 20e9))
        .operators(&key("cpu", "resnet18", 16, 1), 10.0, profile(3.2, vec![conv, norm]))
        .build()
}

/// Two models × two batches with peaks, one failure and one job that never ran.
pub(crate) fn study_with_peaks() -> Study {
    StudyBuilder::new()
        .peaks(measured_peaks(250e9, 20e9))
        .usd_per_hour(0.36)
        .runs("cpu", "resnet18", 4, &[8.0, 8.1, 8.2])
        .runs("cpu", "resnet18", 16, &[10.0, 10.1, 9.9, 10.2, 9.8, 10.05])
        .runs("cpu", "mobilenet_v2", 4, &[12.0])
        .runs("cpu", "mobilenet_v2", 16, &[20.0, 26.0])
        .failure(
            key("cpu", "vgg16", 16, 1),
            Outcome::OutOfMemory {
                message: "cannot allocate 9 GB".into(),
                needed_bytes: None,
                free_bytes: None,
            },
        )
        .not_run(key("cpu", "vgg16", 16, 2), "not started")
        .build()
}
