//! Classes of rows: from studies to sentences.

use super::obstacle::spill;
use super::place::Region;
use super::*;
use crate::analysis::fixture::{StudyBuilder, key, measured_peaks};
use crate::analysis::group::Row;
use crate::analysis::marks::{Mark, Thresholds};
use crate::analysis::peaks::{Peaks, Range};
use crate::analysis::{Analysis, analyse};
use crate::job::{DataSource, Device, Key, Kind, ParamValue, Profile};
use crate::record::ncu::NcuCounters;
use crate::record::{Counters, Record};

/// Peaks for `key` on a GPU: 12 to 13 samples of resnet18 per second are half of the peak.
fn gpu_peaks() -> Peaks {
    let mut peaks = measured_peaks(250e9, 20e9);
    (peaks.name, peaks.backend) = ("measured/bench-1-gpu".into(), "cuda".into());
    peaks
}

/// Sets the processors that a run kept busy, in user mode and in the kernel.
fn busy(record: &mut Record, [user, system]: [f64; 2]) {
    let wall = record.wall_s();
    let process = record.process.as_mut().unwrap();
    (process.user_s, process.system_s) = (Some(user * wall), Some(system * wall));
    record.observed.host_busy_s = Some((user + system) * wall);
}

fn gpu_key(repeat: u32) -> Key {
    Key { device: Device::Cuda(0), ..key("gpu", "resnet18", 16, repeat) }
}

/// Three runs on a GPU at `rate` samples per second, changed by `change`, and a job that counted `bytes` for each
/// sample.
fn counted(rate: f64, bytes: u64, change: fn(&mut Record)) -> StudyBuilder {
    let runs = (1..=3).fold(StudyBuilder::new().peaks(gpu_peaks()), |study, repeat| {
        study.run_with(gpu_key(repeat), rate, change)
    });
    runs.run_with(gpu_key(1).profiled(Kind::Ncu, Profile::default()), 0.5, |record| {
        let metrics = [("dram__bytes.sum".to_owned(), 160 * bytes)].into();
        record.counters = Some(Counters::Ncu(NcuCounters { metrics, ..NcuCounters::default() }.into()));
    })
}

/// A run that waited for `share` of its window, and kept one processor busy.
fn waiting(share: f64) -> impl Fn(&mut Record) {
    move |record| {
        busy(record, [1.0, 0.0]);
        let measured = record.measurement.as_mut().unwrap();
        measured.details.data_wait_s = Some(share * measured.elapsed_s);
    }
}

fn found(analysis: &Analysis<'_>, words: &str) -> usize {
    analysis.findings.iter().filter(|finding| finding.text.contains(words)).count()
}

/// 4.7 samples per second of 0.85 GB and 10.6 GFLOP each are 20 % of both roofs.
#[test]
fn a_device_that_waits_for_data_is_host_bound_and_not_latency_bound() {
    let study = counted(4.7, 850_000_000, |record| waiting(0.6)(record)).build();
    let analysis = analyse(&study);
    let point = &analysis.rooflines[0].points[0];
    for share in [point.place.of_compute(), point.place.of_memory()] {
        assert!((share.high - 0.2).abs() < 0.001 && !share.is_wide());
    }
    assert!(analysis.rooflines[0].points.iter().all(|point| point.bound == Bound::Host));
    assert_eq!(analysis.classes[0].bound(), Bound::Host);
    assert_eq!(
        analysis.classes[0].why().text,
        "it waited for data during 60 % of its window, median of n = 3 (threshold 10 %)"
    );
    assert_eq!(found(&analysis, "latency-bound"), 0, "{:?}", analysis.findings);
    assert_eq!(found(&analysis, "gpu_resnet18_fp32_bs16 is host-bound: it waited for data during 60 %"), 1);
    let at_the_threshold = counted(4.7, 850_000_000, |record| waiting(0.1)(record)).build();
    assert_eq!(analyse(&at_the_threshold).classes[0].bound(), Bound::Latency);
}

/// A process that keeps all processors busy during GPU training is host-bound; on a CPU, they are the device.
#[test]
fn a_gpu_process_that_uses_every_processor_is_host_bound() {
    let with = |cores: f64, device: Device| {
        let key = Key { device, ..key("e", "resnet18", 16, 1) };
        let study = StudyBuilder::new().run_with(key, 1.0, |record| busy(record, [cores, 0.0]));
        analyse(&study.build()).classes[0].clone()
    };
    let class = with(1.85, Device::Cuda(0));
    let why =
        "its process kept 1.85 of 2 usable processors busy beside the device, 92 % of them (threshold 90 %)";
    assert_eq!((class.bound(), class.why().text.as_str()), (Bound::Host, why));
    assert_eq!(with(1.75, Device::Cuda(0)).bound(), Bound::Unknown);
    assert_eq!(with(1.95, Device::Cpu).bound(), Bound::Unknown);
}

#[test]
fn training_that_is_slower_on_files_is_host_bound() {
    let mut builder = StudyBuilder::new();
    for repeat in 1..=3 {
        let synthetic = gpu_key(repeat);
        let mut folder = synthetic.clone();
        folder.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
        builder = builder.run_with(synthetic, 10.0, waiting(0.0)).run_with(folder, 8.0, waiting(0.0));
    }
    let study = builder.build();
    let analysis = analyse(&study);
    let classes = analysis.rows.iter().zip(&analysis.classes);
    let of_files = |row: &Row<'_>| row.config.params.contains_key("data");
    let bounds: Vec<(bool, Bound)> = classes.map(|(row, class)| (of_files(row), class.bound())).collect();
    assert!(bounds.contains(&(true, Bound::Host)) && bounds.contains(&(false, Bound::Unknown)), "{bounds:?}");
    let why = analysis.classes.iter().map(|class| class.why().text).find(|why| why.contains("synthetic"));
    assert_eq!(why.as_deref(), Some("it is 20.0 % slower than on synthetic tensors (threshold 5 %)"));
}

/// Batch 32 pages its memory: it is 10 × slower and spends its time in the kernel.
#[test]
fn a_row_whose_runs_spilled_is_spilled() {
    let pages = |record: &mut Record| busy(record, [0.4, 0.6]);
    let spilling = || {
        let smaller = StudyBuilder::new().peaks(gpu_peaks()).run_with(gpu_key(1), 10.0, waiting(0.0));
        let larger = |repeat| Key { batch: 32, ..gpu_key(repeat) };
        smaller.run_with(larger(1), 1.0, pages).run_with(larger(2), 1.0, pages)
    };
    let (left_out, included) = (spilling().build(), spilling().include_marked().build());
    for (study, points) in [(&left_out, 2), (&included, 4)] {
        let analysis = analyse(study);
        let class = &analysis.classes[1];
        assert_eq!(
            (class.bound(), class.why().text.as_str()),
            (Bound::Spilled, "2 of 2 runs are marked spilled")
        );
        assert_eq!(found(&analysis, "gpu_resnet18_fp32_bs32 is spilled: 2 of 2 runs are marked spilled."), 1);
        assert_eq!(analysis.rooflines[0].points.len(), points);
    }
    let analysis = analyse(&included);
    let of_larger = analysis.rooflines[0].points.iter().filter(|point| point.row == 1);
    assert!(of_larger.map(|point| point.bound).all(|bound| bound == Bound::Spilled));
    assert_eq!(analysis.classes[0].bound(), Bound::Unknown);
}

/// The order of the classes: the host first, then memory that spilled, then the roofs.
#[test]
fn a_row_that_waits_and_spills_is_host_bound() {
    let study = counted(4.7, 850_000_000, |record| waiting(0.6)(record)).include_marked().build();
    let analysis = analyse(&study);
    let mut row = analysis.rows[0].clone();
    let mark = Mark::Spilled { batch: 8, cliff: 9.0, cores: 1.0, system_share: 0.6, threshold: 4.0 };
    row.runs.iter_mut().for_each(|run| run.marks.push(mark.clone()));
    let thresholds = Thresholds::default();
    let found = obstacles(std::slice::from_ref(&row), &thresholds);
    assert!(matches!(found[..], [Some(Obstacle::Waits { .. })]), "{found:?}");
    assert_eq!(spill(&row), Some(Obstacle::Spill { runs: 3, of: 3 }));
}

#[test]
fn unknown_limits_have_a_reason() {
    let why = |study: &crate::analysis::Study| analyse(study).classes[0].why().text;
    let run = |model| StudyBuilder::new().run("cpu", model, 16, 1, 10.0);
    assert_eq!(why(&run("resnet18").build()), "its device has no peaks");
    assert_eq!(why(&run("lenet").build()), "its FLOPs are unknown");
    assert_eq!(
        why(&run("resnet18").peaks(measured_peaks(250e9, 20e9)).build()),
        "its bytes were not counted"
    );
    let mut without = measured_peaks(250e9, 20e9);
    without.bandwidth = None;
    assert_eq!(why(&run("resnet18").peaks(without.clone()).build()), "the peaks have no bandwidth");
    without.flops.clear();
    let expected = "the peaks have no figure for its precision";
    assert_eq!(why(&run("resnet18").peaks(without).build()), expected);
    let not_run = StudyBuilder::new().not_run(key("cpu", "resnet18", 16, 1), "no time").build();
    assert_eq!(why(&not_run), "no run counts");
}

/// 9.9 of 20 to 33.9 TFLOP/s is 29 % or 50 %: far from the roof, or not.
#[test]
fn a_range_of_peaks_has_a_class_only_if_both_ends_agree() {
    let range = |low, high| Range { low, high };
    let place = |attained: f64, peak: Range, allowed: Range| Place {
        attained: Range::exactly(attained),
        peak,
        allowed,
    };
    let class = |attained| place(attained, range(20.0, 33.9), range(100.0, 100.0)).class();
    assert_eq!(class(5.9).bound(), Bound::Latency);
    assert_eq!(class(9.9).bound(), Bound::Unknown);
    assert_eq!(
        class(9.9).why().text,
        "a roof is only known as a range, and it could be latency-bound or between its roofs: with the bytes \
         that ncu counted it reaches 29 to 50 % of the compute roof and 10 % of the memory roof"
    );
    assert!(class(11.0).why().text.starts_with("it is between its roofs: "), "{}", class(11.0).why());
    assert_eq!(
        (class(20.34).bound(), class(20.34).why().text.as_str()),
        (
            Bound::Compute,
            "with the bytes that ncu counted it reaches 60 to 100 % of the compute roof and 20 % of the memory roof"
        )
    );
    assert!(class(34.0).why().text.starts_with("it is above its roof: "), "{}", class(34.0).why());
    assert_eq!(place(19.9, range(20.0, 33.0), range(100.0, 100.0)).class().bound(), Bound::Compute);
    let by_bandwidth = |low| place(7.0, range(100.0, 100.0), range(low, 11.0)).class().bound();
    assert_eq!(
        [by_bandwidth(11.0), by_bandwidth(7.0), by_bandwidth(6.9)],
        [Bound::Memory, Bound::Memory, Bound::Memory]
    );
    let crossing = place(80.0, range(90.0, 120.0), range(100.0, 100.0)).class();
    assert!(crossing.why().text.contains("could be memory-bound or compute-bound"), "{crossing:?}");
}

/// Including a region that contains no end of a range.
#[test]
fn every_region_that_a_range_touches_is_named() {
    let range = |low, high| Range { low, high };
    let exactly = Range::exactly;
    let crossing = "memory-bound or compute-bound";
    for (attained, peak, allowed, expected) in [
        (
            range(9.0, 70.0),
            exactly(100.0),
            exactly(1000.0),
            "latency-bound or between its roofs or compute-bound",
        ),
        (
            range(50.0, 110.0),
            exactly(100.0),
            exactly(101.0),
            "between its roofs or compute-bound or above its roof",
        ),
        (
            range(50.0, 110.0),
            exactly(1000.0),
            exactly(100.0),
            "between its roofs or memory-bound or above its roof",
        ),
        (exactly(80.0), range(70.0, 120.0), exactly(100.0), crossing),
        (exactly(80.0), exactly(100.0), range(70.0, 120.0), crossing),
        (range(60.0, 110.0), range(70.0, 100.0), exactly(1000.0), "compute-bound or above its roof"),
    ] {
        let place = Place { attained, peak, allowed };
        let could = format!(", and it could be {expected}: ");
        assert!(place.class().why().text.contains(&could), "{expected}: {:?}", place.class());
        // An oracle: try many points.
        let steps = |range: Range| {
            (0..=40_u32).map(move |step| range.low + (range.high - range.low) * f64::from(step) / 40.0)
        };
        // A roof is at least as high as the attained FLOP/s, if its range allows that.
        let roofs = |range: Range, attained: f64| {
            steps(range).map(move |roof| if attained <= range.high { roof.max(attained) } else { roof })
        };
        let mut seen: Vec<Region> = Vec::new();
        for attained in steps(attained) {
            for peak in roofs(peak, attained) {
                let of = |allowed: f64| Region::of(attained / peak, attained / allowed);
                seen.extend(roofs(allowed, attained).map(of));
            }
        }
        let named = place.regions();
        assert!(seen.iter().all(|region| named.contains(region)), "{named:?}");
        assert!(named.iter().all(|region| seen.contains(region)), "{named:?}");
    }
}

#[test]
fn ranges_of_shares_have_a_class_only_if_all_ends_agree() {
    let range = |low, high| Range { low, high };
    let near_nothing = range(0.01, 0.01);
    assert_eq!(of_shares(range(0.7, 0.9), near_nothing), Bound::Compute);
    assert_eq!(of_shares(range(0.5, 0.9), near_nothing), Bound::Unknown, "at the roof or not");
    assert_eq!(of_shares(range(0.7, 0.7), range(0.61, 0.9)), Bound::Unknown, "which roof");
    assert_eq!(of_shares(range(0.1, 0.4), near_nothing), Bound::Unknown, "far or not");
    assert_eq!(of_shares(range(1.1, 1.1), near_nothing), Bound::Unknown, "above");
}

/// Runs of 3.9, 4.7 and 5.5 samples per second are far from the roofs on average, and not within their scatter.
#[test]
fn a_scattering_throughput_has_a_class_only_if_its_whole_interval_agrees() {
    let class = |rates: [f64; 3]| {
        let mut study = StudyBuilder::new().peaks(gpu_peaks());
        for (rate, repeat) in rates.into_iter().zip(1..) {
            study = study.run_with(gpu_key(repeat), rate, waiting(0.0));
        }
        let profiled = gpu_key(1).profiled(Kind::Ncu, Profile::default());
        let study = study.run_with(profiled, 0.5, |record| {
            let metrics = [("dram__bytes.sum".to_owned(), 160 * 850_000_000)].into();
            let counters = NcuCounters { metrics, ..NcuCounters::default() };
            record.counters = Some(Counters::Ncu(counters.into()));
        });
        analyse(&study.build()).classes[0].clone()
    };
    assert_eq!(class([4.6, 4.7, 4.8]).bound(), Bound::Latency);
    let scattered = class([3.4, 4.7, 6.0]);
    assert_eq!(scattered.bound(), Bound::Unknown);
    let start = "the throughput scatters, and it could be latency-bound or between its roofs: ";
    assert!(scattered.why().text.starts_with(start), "{scattered:?}");
    // Which roof is nearer does not depend on the throughput.
    let place = Place {
        attained: Range { low: 65.0, high: 75.0 },
        peak: Range::exactly(100.0),
        allowed: Range::exactly(101.0),
    };
    assert_eq!(place.class().bound(), Bound::Compute);
}

/// From a peaks file with a range to the class of a row and its share of the peak.
#[test]
fn a_range_reaches_the_class_and_the_share_of_the_peak() {
    let mut study = counted(4.7, 850_000_000, |record| waiting(0.0)(record)).build();
    let mut peaks = gpu_peaks();
    peaks.flops[0].flops_per_s = Range { low: 100e9, high: 250e9 };
    study.peaks = crate::analysis::peaks::Catalogue::new(vec![peaks]);
    let analysis = analyse(&study);
    assert_eq!(analysis.classes[0].bound(), Bound::Unknown);
    let could = "a roof is only known as a range, and it could be latency-bound or between its roofs";
    assert_eq!(found(&analysis, could), 1, "{:?}", analysis.findings);
    assert_eq!(analysis.rows[0].share_of_peak().unwrap().times(100.0).text(2), "20 to 50");
}

/// 59.6 % must not be printed as "60 %" if a point is at a roof from 60 % on.
#[test]
fn a_share_is_printed_on_its_side_of_every_limit() {
    for (share, text) in [
        (0.432, "43"),
        (0.596, "59.6"),
        (0.5999, "59.99"),
        (0.6, "60"),
        (0.2999, "29.99"),
        (1.0004, "100.04"),
    ] {
        assert_eq!(percent(share), text);
    }
}
