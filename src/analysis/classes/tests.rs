//! Classes of synthetic rows, and the experiments that would decide them.

use super::*;
use crate::analysis::fixture::{StudyBuilder, key, measured_peaks, operator, profile, study_with_operators};
use crate::analysis::peaks::{Peaks, Range};
use crate::analysis::{Study, analyse};
use crate::job::{Device, Key};
use crate::protocol::{OperatorClass, OperatorProfile, OperatorSample};

fn class(study: &Study) -> Class {
    analyse(study).classes[0].clone()
}

/// Iterations of 1.6 s of resnet18, of which these operators take shares.
fn row(operators: Vec<OperatorSample>) -> Study {
    let builder = StudyBuilder::new().peaks(measured_peaks(250e9, 20e9));
    builder.operators(&key("cpu", "resnet18", 16, 1), 10.0, profile(3.2, operators)).build()
}

fn at_compute(share: f64) -> OperatorSample {
    let seconds = 3.2 * share;
    operator("gemm", OperatorClass::Product, seconds, 0.9 * 250.0 * seconds, 0.001)
}

fn at_memory(share: f64) -> OperatorSample {
    let seconds = 3.2 * share;
    operator("triad", OperatorClass::Elementwise, seconds, 0.0, 0.9 * 20.0 * seconds)
}

fn far(share: f64) -> OperatorSample {
    operator("tiny", OperatorClass::Elementwise, 3.2 * share, 0.0, 0.0001)
}

/// 98 % of the roof was "unknown", because no bytes were counted.
#[test]
fn a_row_at_its_compute_roof_needs_no_bytes() {
    let with_peak = |peak: f64| {
        StudyBuilder::new().peaks(measured_peaks(peak, 20e9)).runs("cpu", "resnet18", 16, &[10.0, 10.1, 9.9])
    };
    let found = class(&with_peak(110e9).build());
    assert_eq!((found.bound, found.evidence.as_str()), (Bound::Compute, "throughput"));
    assert!(found.why.text.starts_with("it attains 94 to 99 % of the compute roof"), "{}", found.why);
    assert_eq!(class(&with_peak(160e9).build()).bound, Bound::Compute, "66 % ± 3");
    assert_eq!(class(&with_peak(180e9).build()).bound, Bound::Unknown, "the interval straddles 60 %");
    let above = class(&with_peak(90e9).build());
    assert!(above.bound == Bound::Unknown && above.why.text.contains("above the roof"), "{above:?}");
}

#[test]
fn the_limit_with_most_of_the_time_is_that_of_the_row() {
    for (operators, expected) in [
        (vec![at_compute(0.8), at_memory(0.2)], Bound::Compute),
        (vec![at_compute(0.2), at_memory(0.8)], Bound::Memory),
        (vec![at_compute(0.5), at_memory(0.5)], Bound::Mixed),
        (vec![far(0.9)], Bound::Latency),
        (vec![at_compute(0.2)], Bound::Host),
        (vec![operator("wait", OperatorClass::Data, 2.2, 0.0, 0.0), at_compute(0.2)], Bound::Host),
        (vec![operator("slow", OperatorClass::Product, 2.8, 0.4 * 250.0 * 2.8, 0.001)], Bound::Kernel),
    ] {
        let found = class(&row(operators));
        assert_eq!((found.bound, found.evidence.as_str()), (expected, "operators"), "{}", found.why);
        assert_eq!(found.experiment, None);
    }
}

#[test]
fn a_mixture_names_its_limits_with_their_shares() {
    let found = class(&row(vec![at_compute(0.45), at_memory(0.35)]));
    let expected =
        "of the time, 45 % at the compute roof, 35 % at the memory roof, 20 % outside of operators: ";
    assert!(found.why().text.starts_with(expected), "{}", found.why());
}

#[test]
fn an_unknown_class_names_the_experiment_that_would_decide_it() {
    let run = || StudyBuilder::new().run("cpu", "resnet18", 16, 1, 10.0);
    let peaks = || measured_peaks(250e9, 20e9);
    let experiment = |study: Study| class(&study).experiment.unwrap_or_default();
    assert_eq!(experiment(run().build()), "measure the ceilings: `orchestrate peaks measure --device cpu`");
    assert_eq!(
        experiment(run().peaks(peaks()).build()),
        "profile it by operator: `orchestrate run matrices/test.yaml --profile ops`"
    );
    let mut unknown = operator("mystery", OperatorClass::Other, 2.8, 0.0, 0.0);
    (unknown.flops, unknown.bytes) = (None, None);
    assert_eq!(
        experiment(row(vec![unknown.clone()])),
        "report `flops` and `bytes` of the operator `mystery`, whose work is unknown"
    );
    let shared = Peaks { bandwidth: Some(Range { low: 15e9, high: 20e9 }), ..peaks() };
    let stream = operator("triad", OperatorClass::Elementwise, 2.8, 0.0, 0.5 * 20.0 * 2.8);
    let builder = StudyBuilder::new().peaks(shared);
    assert_eq!(
        experiment(
            builder.operators(&key("cpu", "resnet18", 16, 1), 10.0, profile(3.2, vec![stream])).build()
        ),
        "measure the ceilings when nothing else uses the memory: `orchestrate peaks measure --device cpu`"
    );
    let with_neighbours = |gflops: f64| {
        let mut peaks = peaks();
        peaks.flops[0].flops_per_s = Range { low: 150e9, high: 250e9 };
        let product = operator("mm", OperatorClass::Product, 2.8, gflops * 2.8, 0.01);
        let builder = StudyBuilder::new().peaks(peaks);
        class(&builder.operators(&key("cpu", "resnet18", 16, 1), 10.0, profile(3.2, vec![product])).build())
    };
    assert_eq!(
        with_neighbours(110.0).experiment.unwrap(),
        "measure the ceilings when nothing else uses the processor: `orchestrate peaks measure --device cpu`"
    );
    assert_eq!(with_neighbours(170.0).bound, Bound::Compute, "at both ends");
    assert_eq!(with_neighbours(80.0).bound, Bound::Kernel, "at neither end");
    let short = StudyBuilder::new().peaks(peaks());
    let slowed = profile(6.4, vec![at_compute(0.9)]);
    assert_eq!(
        experiment(short.operators(&key("cpu", "resnet18", 16, 1), 10.0, slowed).build()),
        "profile a larger batch, whose operators take longer"
    );
    let summed_up = OperatorProfile { rest_s: 2.2, ..profile(3.2, vec![at_compute(0.2)]) };
    let listed = StudyBuilder::new().peaks(peaks());
    assert_eq!(
        experiment(listed.operators(&key("cpu", "resnet18", 16, 1), 10.0, summed_up).build()),
        "report more operators: those in `rest_s` decide it"
    );
    let gpu = Key { device: Device::Cuda(0), ..key("gpu", "resnet18", 16, 1) };
    let on_gpu = Peaks { backend: "cuda".into(), ..peaks() };
    let study =
        StudyBuilder::new().peaks(on_gpu).operators_with(&gpu, 10.0, profile(3.2, vec![unknown]), |record| {
            record.process.as_mut().unwrap().user_s = Some(1.0);
            record.observed.host_busy_s = Some(2.0);
        });
    assert_eq!(
        experiment(study.build()),
        "count its bytes: `orchestrate run matrices/test.yaml --profile ncu`"
    );
    let not_run = StudyBuilder::new().not_run(gpu, "no time").build();
    assert_eq!(class(&not_run).experiment, None, "its reason contains the remedy");
}

/// An iteration in which most is at the compute roof, although the throughput alone does not show it.
#[test]
fn the_reason_names_the_largest_parts_of_the_time() {
    let found = class(&study_with_operators());
    assert_eq!((found.bound, found.evidence.as_str()), (Bound::Compute, "operators"));
    let start = "70 % of the time is in operators at the compute roof (threshold 60 %): 70 % of the time in convolutions";
    assert!(found.why().text.starts_with(start), "{}", found.why);
}

/// AlexNet at 14 images per second with batch 1: five passes over 244 MB of parameters, with 32 MB of caches.
#[test]
fn a_row_whose_parameters_alone_take_the_bandwidth_is_at_its_memory_roof() {
    let found = |cache_bytes: u64, bandwidth: f64, counts_steps: bool| {
        let peaks = Peaks { cache_bytes: Some(cache_bytes), ..measured_peaks(250e9, bandwidth) };
        let builder = (1..=3).fold(StudyBuilder::new().peaks(peaks), |builder, repeat| {
            builder.run_with(key("cpu", "alexnet", 1, repeat), 14.0, |record| {
                let measurement = record.measurement.as_mut().unwrap();
                measurement.details.parameters = Some(61_100_840);
                measurement.details.optimizer_steps = Some(measurement.samples).filter(|_| counts_steps);
            })
        });
        class(&builder.build())
    };
    let at_roof = found(32_000_000, 20e9, true);
    assert_eq!((at_roof.bound, at_roof.evidence.as_str()), (Bound::Memory, "throughput"));
    assert_eq!(at_roof.why.text, "data beyond its caches take 74 % of the memory roof");
    assert_eq!(found(100_000_000, 20e9, true).bound, Bound::Unknown, "larger caches contain more");
    assert_eq!(found(32_000_000, 20e9, false).bound, Bound::Unknown, "parameters may be frozen");
    let above = found(32_000_000, 10e9, true);
    assert!(above.bound == Bound::Unknown && above.why.text.contains("above the roof"), "{above:?}");
}

#[test]
fn a_gpu_whose_memory_is_hardly_in_use_is_far_from_both_roofs() {
    use crate::record::{Readings, Sensor, Telemetry};
    let found = |rate: f64, busy: &[Option<f64>], samples: u32, of_window: bool| {
        let peaks = Peaks { backend: "cuda".into(), ..measured_peaks(500e12, 3e12) };
        let runs = busy.iter().zip(1..);
        let builder = runs.fold(StudyBuilder::new().peaks(peaks), |builder, (busy, repeat)| {
            let key = Key { device: Device::Cuda(0), ..key("gpu", "resnet18", 16, repeat) };
            builder.run_with(key, rate, |record| {
                record.process.as_mut().unwrap().user_s = Some(1e-3);
                record.observed.host_busy_s = Some(1e-3);
                let telemetry = Telemetry { samples, of_window, ..Telemetry::default() };
                let readings = busy.and_then(|busy| Readings::of([0.0, busy]));
                record.observed.telemetry = Some(match readings {
                    Some(readings) => telemetry.with(Sensor::GpuMemoryBusy, readings),
                    None => telemetry,
                });
            })
        });
        class(&builder.build())
    };
    let some = [Some(9.0), Some(12.0), Some(10.0)];
    let far = found(1600.0, &some, 3, true);
    assert_eq!((far.bound, far.evidence.as_str()), (Bound::Latency, "activity"), "{far:?}");
    let expected = "it attains 3 % of the compute roof, and its memory was in use for at most 13 % of the time \
                    (threshold 16 %)";
    assert_eq!(far.why.text, expected);
    for (what, open) in [
        ("the compute roof is near", found(20_000.0, &some, 3, true)),
        ("a sample might not contain four iterations", found(300.0, &some, 3, true)),
        ("too few samples", found(1600.0, &some, 2, true)),
        ("samples of the whole attempt", found(1600.0, &some, 3, false)),
        ("one run is unknown", found(1600.0, &[Some(12.0), None, Some(13.0)], 3, true)),
        ("15 % may be rounded", found(1600.0, &[Some(12.0), Some(15.0), Some(13.0)], 3, true)),
        ("the driver reports 0", found(1600.0, &[Some(0.0), Some(0.0), Some(0.0)], 3, true)),
    ] {
        assert_eq!(open.bound, Bound::Unknown, "{what}");
    }
}
