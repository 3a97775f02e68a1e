//! Breakdowns of synthetic profiles.

use super::*;
use crate::analysis::bound::Bound;
use crate::analysis::fixture::{StudyBuilder, key, measured_peaks, operator, profile, study_with_operators};
use crate::analysis::roofline::BytesSource;
use crate::analysis::{Study, analyse};
use crate::protocol::{OperatorClass, OperatorProfile, OperatorSample};

/// The result of `check` for the only breakdown of `study`.
fn with<T>(study: &Study, check: impl Fn(&Breakdown<'_>) -> T) -> T {
    let analysis = analyse(study);
    check(analysis.breakdowns[0].as_ref().expect("the row has a profile"))
}

fn of(profile: OperatorProfile) -> Study {
    let builder = StudyBuilder::new().peaks(measured_peaks(250e9, 20e9));
    builder.operators(&key("cpu", "resnet18", 16, 1), 10.0, profile).build()
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[test]
fn an_iteration_divides_into_parts_and_limits_that_add_up() {
    with(&study_with_operators(), |found| {
        assert!(near(found.iteration_s, 1.6) && near(found.timed_s.unwrap(), 1.6));
        for (part, share) in
            [(Part::Products, 0.7), (Part::Elementwise, 0.2), (Part::Idle, 0.1), (Part::Copies, 0.0)]
        {
            assert!(near(found.share(part), share), "{part}: {}", found.share(part));
        }
        assert!(near(found.parts.iter().map(|(_, share)| share).sum(), 1.0));
        let TimeByLimit { compute, memory, latency, kernel, data, host, open } = found.limits;
        assert!(near(compute, 0.7) && near(memory, 0.2) && near(host, 0.1), "{:?}", found.limits);
        assert!(latency + kernel + data + open < 1e-9);
    });
}

/// Other work slowed the profile. Products at 26 % of the roof there can have been at 39 % in the timing runs.
#[test]
fn a_limit_is_the_same_at_the_pace_of_the_profile_and_of_the_timing_runs() {
    let limit = |elapsed_s: f64, share: f64| {
        let products = operator("gemm", OperatorClass::Product, elapsed_s, share * 250.0 * elapsed_s, 0.1);
        let study = of(profile(elapsed_s, vec![products]));
        let analysis = analyse(&study);
        let breakdown = analysis.breakdowns[0].as_ref().unwrap();
        (breakdown.operators[0].limit, analysis.classes[0].experiment.clone())
    };
    // A timed iteration takes 1.6 s, and a profile has two.
    assert_eq!(limit(3.2, 0.26).0, Limit::Latency);
    assert_eq!(limit(4.8, 0.26).0, Limit::Kernel);
    assert_eq!(limit(3.2, 0.5).0, Limit::Kernel);
    let (open, experiment) = limit(4.8, 0.5);
    assert_eq!(open, Limit::Open);
    assert_eq!(
        experiment.as_deref(),
        Some(
            "measure it again when nothing else uses the machine, in a new store: `orchestrate run matrices/test.yaml --store \
             DIR`"
        )
    );
    assert_eq!(limit(3.2, 0.7).0, Limit::Compute);
    assert_eq!(limit(2.4, 0.7).0, Limit::Open, "the timing runs were slower");
}

/// The profile of a network without a description determines its bytes, and with FLOPs its place.
#[test]
fn operators_with_known_bytes_place_a_network_without_a_description() {
    let place = |unknown_s: f64| {
        let known = operator("gemm", OperatorClass::Product, 1.0, 0.0, 6.4);
        let unknown =
            OperatorSample { bytes: None, ..operator("x::y", OperatorClass::Other, unknown_s, 0.0, 0.0) };
        let study = StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .operators_with(&key("cpu", "lenet", 16, 1), 10.0, profile(1.2, vec![known, unknown]), |record| {
                record.measurement.as_mut().unwrap().details.counted_flops_per_sample = Some(4e9);
            })
            .build();
        let analysis = analyse(&study);
        let mut points = analysis.rooflines[0].points.iter();
        points.find(|point| point.source == BytesSource::Modelled).map(|point| point.intensity)
    };
    // 4 GFLOP per sample, and 6.4 GB in two iterations of 16 samples.
    assert!(near(place(0.01).unwrap(), 20.0), "{:?}", place(0.01));
    assert_eq!(place(0.5), None);
}

#[test]
fn the_sentence_has_shares_roofs_and_headroom() {
    let text = with(&study_with_operators(), |found| found.text());
    assert_eq!(
        text,
        "70 % of the time in convolutions at 80 % of the compute roof, 20 % in normalisation at 80 % of the \
         bandwidth, 10 % outside operators; at most 1.2 × is left in convolutions, 1.4 × if everything else were free"
    );
}

/// A stream whose bytes might come from a cache, and an operator with unknown work, have no limit.
#[test]
fn the_limit_of_an_operator_follows_from_its_work() {
    let cases = [
        ("gemm", OperatorClass::Product, 0.8 * 250.0, 0.001, Limit::Compute),
        ("slow gemm", OperatorClass::Product, 0.4 * 250.0, 0.001, Limit::Kernel),
        ("tiny", OperatorClass::Product, 0.01 * 250.0, 0.001, Limit::Latency),
        ("stream", OperatorClass::Elementwise, 0.0, 0.7 * 20.0, Limit::Memory),
        ("cached stream", OperatorClass::Elementwise, 0.0, 2.5, Limit::Latency),
        ("fast cached stream", OperatorClass::Elementwise, 0.0, 2.9, Limit::Latency),
        ("loader", OperatorClass::Data, 0.0, 0.0, Limit::Data),
    ];
    for (name, class, gflop_per_s, gb_per_s, expected) in cases {
        let seconds = 1.0;
        let sample = operator(name, class, seconds, gflop_per_s * seconds, gb_per_s * seconds);
        let limit = with(&of(profile(3.2, vec![sample])), |found| found.operators[0].limit);
        assert_eq!(limit, expected, "{name}");
    }
    let unknown = OperatorSampleOf::without_work("mystery");
    assert_eq!(with(&of(profile(3.2, vec![unknown])), |found| found.operators[0].limit), Limit::Open);
}

/// Helpers for incomplete operators.
struct OperatorSampleOf;

impl OperatorSampleOf {
    fn without_work(name: &str) -> crate::protocol::OperatorSample {
        let mut sample = operator(name, OperatorClass::Other, 1.0, 1.0, 1.0);
        (sample.flops, sample.bytes) = (None, None);
        sample
    }
}

/// On an accelerator, the seconds of kernels count, and an idle device is limited by the host or by launches.
#[test]
fn an_idle_accelerator_is_limited_by_the_host_or_by_launches() {
    let on_device = |host_s: f64| {
        let mut sample = operator("conv", OperatorClass::Convolution, host_s, 0.8 * 250.0 * 0.32, 0.001);
        sample.device_s = Some(0.32);
        of(OperatorProfile { device_busy_s: Some(0.32), ..profile(3.2, vec![sample]) })
    };
    with(&on_device(0.1), |found| {
        assert!(near(found.share(Part::Products), 0.1) && near(found.share(Part::Idle), 0.9));
        assert!(near(found.limits.host, 0.9) && near(found.limits.latency, 0.0));
    });
    with(&on_device(2.5), |found| assert!(near(found.limits.latency, 0.9)));
}

#[test]
fn overlapping_kernels_take_at_most_the_busy_time_of_the_device() {
    let kernel = |name| {
        let mut sample = operator(name, OperatorClass::Product, 0.1, 1.0, 1.0);
        sample.device_s = Some(2.0);
        sample
    };
    let study =
        of(OperatorProfile { device_busy_s: Some(2.4), ..profile(3.2, vec![kernel("a"), kernel("b")]) });
    with(&study, |found| {
        assert!(near(found.share(Part::Products), 0.75) && near(found.share(Part::Idle), 0.25));
        assert!(near(found.operators[0].rates.time_share, 0.375));
    });
}

#[test]
fn unlisted_seconds_belong_to_other_operators() {
    let sample = operator("conv", OperatorClass::Convolution, 1.6, 100.0, 0.1);
    let study = of(OperatorProfile { rest_s: 0.8, ..profile(3.2, vec![sample]) });
    with(&study, |found| {
        assert!(near(found.share(Part::Other), 0.25) && near(found.limits.open, 0.25));
    });
}

#[test]
fn a_profile_that_slowed_the_iterations_is_inconclusive() {
    let conv = operator("conv", OperatorClass::Convolution, 6.0, 0.8 * 250.0 * 6.0, 0.1);
    let study = of(profile(6.4, vec![conv]));
    with(&study, |found| assert!(near(found.slowdown().unwrap(), 2.0) && !found.is_representative()));
    let analysis = analyse(&study);
    assert_eq!(analysis.classes[0].bound, Bound::Unknown);
    let why = analysis.classes[0].why().text;
    assert!(why.contains("its profiled iterations took 2.0 × as long as the timed ones"), "{why}");
}
