//! Marks from the comparison with other runs.

use std::sync::Arc;

use super::*;
use crate::job::Key;
use crate::record::{Readings, Sensor, Telemetry};

/// Sets the processor time of `cores` processors, the share of it in the system, and involuntary switches per second.
/// No other process uses the host.
fn busy(record: &mut Record, cores: f64, system_share: f64, switches_per_s: f64) {
    let wall = record.wall_s();
    let process = record.process.as_mut().unwrap();
    process.user_s = Some(cores * wall * (1.0 - system_share));
    process.system_s = Some(cores * wall * system_share);
    process.involuntary_switches = Some((switches_per_s * wall) as u64);
    record.observed.host_busy_s = Some(cores * wall);
}

/// A study of runs with these images per second, system shares and switches per second.
fn runs(all: &[(f64, f64, f64)]) -> Study {
    let repeats = all.iter().zip(1..);
    let builder = repeats.fold(StudyBuilder::new(), |builder, (&(rate, share, switches), repeat)| {
        builder.run_with(key("mac", "mobilenet_v2", 16, repeat), rate, |record| {
            busy(record, 1.9, share, switches);
        })
    });
    builder.build()
}

/// A mistake of the seed reports, with its numbers. MobileNetV2 ran at 1.74 images/s instead of 5.3 to 6.5 without
/// other jobs. It had some 490 000 involuntary switches per second instead of 75 000, and 45 to 65 % of the time in
/// the system instead of 18 to 20 %.
#[test]
fn simultaneous_matrices_are_visible_in_switches_and_system_time() {
    let study = runs(&[
        (5.3, 0.18, 74_000.0),
        (1.74, 0.45, 488_000.0),
        (6.5, 0.20, 76_000.0),
        (6.0, 0.19, 75_000.0),
        (1.9, 0.65, 492_000.0),
    ]);
    let analysis = analyse(&study);
    let marked: Vec<bool> = analysis.runs.iter().map(|run| !run.counts()).collect();
    assert_eq!(marked, [false, true, false, false, true], "{:?}", names(&study));
    let kept = analysis.rows[0].samples_per_s().unwrap();
    assert!((5.9..6.0).contains(&kept), "{kept}");
    assert_eq!(
        analysis.runs[1].marks[0].to_string(),
        "contended: 488000 involuntary context switches per second; in the other runs of the row it was 75500 \
         (threshold 226500)"
    );
    let said =
        analysis.findings.iter().any(|finding| finding.text.starts_with("2 of 5 runs of mac_mobilenet_v2"));
    assert!(said, "{:?}", analysis.findings);
}

/// The first run with `torch.compile` starts as many compilers as there are processors. They preempt each other and the
/// worker. Later runs find the compiled network.
#[test]
fn a_worker_that_compiles_before_its_window_is_not_contended() {
    let study = |in_window: [Option<u64>; 3], in_life: [f64; 3]| {
        let runs = in_window.into_iter().zip(in_life).zip(1..);
        let builder = runs.fold(StudyBuilder::new(), |builder, ((in_window, in_life), repeat)| {
            builder.run_with(key("mac", "mobilenet_v2", 16, repeat), 10.0, |record| {
                busy(record, 1.9, 0.05, in_life);
                record.measurement.as_mut().unwrap().details.involuntary_switches = in_window;
            })
        });
        let study = builder.build();
        analyse(&study).runs.iter().map(|run| run.counts()).collect::<Vec<bool>>()
    };
    let compiles = [5000.0, 20.0, 20.0];
    assert_eq!(study([Some(10); 3], compiles), [true; 3]);
    // Without a count of the window, the whole life is judged. A disturbed window is detected.
    assert_eq!(study([None; 3], compiles), [false, true, true]);
    assert_eq!(study([Some(1_000_000), Some(10), Some(10)], [20.0; 3]), [false, true, true]);
}

/// A worker that was updated between two repeats counts switches of its window from then on. Those of its whole life
/// are many more, because they include the compilation of its network.
#[test]
fn switches_of_a_window_are_not_compared_with_those_of_a_life() {
    let study = |in_windows: [Option<u64>; 5]| {
        let repeats = in_windows.into_iter().zip(1..);
        let builder = repeats.fold(StudyBuilder::new(), |builder, (in_window, repeat)| {
            builder.run_with(key("cpu", "resnet18", 16, repeat), 10.0, move |record| {
                busy(record, 1.9, 0.1, 5000.0);
                record.measurement.as_mut().unwrap().details.involuntary_switches = in_window;
            })
        });
        names(&builder.build())
    };
    let calm = Some(160);
    let marked = |found: Vec<Vec<&'static str>>| -> Vec<usize> {
        (0..found.len()).filter(|index| found[*index].contains(&"contended")).collect()
    };
    assert_eq!(marked(study([None, None, calm, calm, calm])), [0_usize; 0]);
    assert_eq!(marked(study([None, None, None, calm, calm])), [0_usize; 0]);
    assert_eq!(marked(study([calm, calm, calm, calm, Some(160_000)])), [4]);
}

#[test]
fn switches_and_system_time_each_have_a_threshold() {
    let last = |share, switches| {
        let quiet = (10.0, 0.19, 75_000.0);
        names(&runs(&[quiet, quiet, (10.0, share, switches)])).remove(2)
    };
    assert!(last(0.19, 224_000.0).is_empty());
    assert_eq!(last(0.19, 226_000.0), ["contended"]);
    let quiet = (10.0, 0.19, 75_000.0);
    assert_eq!(
        analyse(&runs(&[quiet, quiet, (10.0, 0.45, 75_000.0)])).runs[2].marks[0].to_string(),
        "contended: 45 % of its processor time went to the system; in the other runs of the row it was 19 % \
         (threshold 32 %)"
    );
    assert!(last(0.31, 75_000.0).is_empty());
    assert_eq!(last(0.33, 75_000.0), ["contended"]);
}

/// Three times a few switches are still few.
#[test]
fn switches_of_an_idle_system_are_tolerated() {
    let last = |switches| {
        let quiet = (10.0, 0.05, 20.0);
        names(&runs(&[quiet, quiet, (10.0, 0.05, switches)])).remove(2)
    };
    assert!(last(199.0).is_empty());
    assert_eq!(last(202.0), ["contended"]);
}

#[test]
fn two_runs_do_not_identify_the_odd_one() {
    let study = runs(&[(10.0, 0.19, 75_000.0), (3.0, 0.6, 490_000.0)]);
    assert_eq!(names(&study), [[""; 0]; 2]);
}

/// One of three runs is left out because other processes kept the host busy. The other two are still compared. Other
/// work only adds to a trace, so the lower one cannot be too low.
#[test]
fn beside_a_bad_run_the_other_two_are_still_compared() {
    let beside = |first: (f64, f64), second: (f64, f64)| {
        let (first, second) = ((10.0, first.0, first.1), (10.0, second.0, second.1));
        let mut study = runs(&[(3.0, 0.6, 490_000.0), first, second]);
        let record = Arc::make_mut(study.cells[0].record.as_mut().unwrap());
        record.observed.host_busy_s = Some(1e6);
        let analysis = analyse(&study);
        let marks = analysis.runs[1..].iter().flat_map(|run| &run.marks);
        marks.map(ToString::to_string).collect::<Vec<String>>()
    };
    let quiet = (0.19, 75_000.0);
    assert_eq!(beside(quiet, quiet), [""; 0]);
    assert_eq!(beside((0.19, 224_000.0), quiet), [""; 0], "not three times as many");
    let expected = "contended: 226000 involuntary context switches per second; in the least disturbed other run of the row \
                it was 75000 (threshold 225000)";
    assert_eq!(beside((0.19, 226_000.0), quiet), [expected]);
    assert_eq!(beside(quiet, (0.19, 226_000.0)), [expected], "in either order");
    assert_eq!(
        beside((0.33, 75_000.0), quiet),
        [
            "contended: 33 % of its processor time went to the system; in the least disturbed other run of the row it was \
          19 % (threshold 32 %)"
        ]
    );
}

/// A host that slept has too few switches per second, and the effect of heat on them is unknown.
#[test]
fn only_contended_runs_extend_a_small_baseline() {
    let with = |change: fn(&mut Record)| {
        let mut study = runs(&[(10.0, 0.19, 20_000.0), (10.0, 0.19, 75_000.0), (10.0, 0.19, 75_000.0)]);
        change(Arc::make_mut(study.cells[0].record.as_mut().unwrap()));
        names(&study)
    };
    let slept = with(|record| record.observed.asleep_s = Some(60.0));
    assert_eq!(slept, [vec!["suspended"], vec![], vec![]]);
    let shared = with(|record| record.observed.host_busy_s = Some(1e6));
    assert_eq!(shared, [["contended"]; 3], "undisturbed, it would have had fewer still");
}

/// A disturbed run is found even if most other runs were disturbed, as long as their own records show that.
#[test]
fn marked_runs_are_not_in_the_baseline() {
    let disturbed = (3.0, 0.6, 490_000.0);
    let quiet = (10.0, 0.19, 75_000.0);
    let mut study = runs(&[disturbed, disturbed, quiet, quiet, disturbed]);
    for cell in &mut study.cells[..2] {
        let record = Arc::make_mut(cell.record.as_mut().unwrap());
        record.observed.host_busy_s = Some(1e6);
    }
    let contended = vec!["contended"];
    assert_eq!(names(&study), [contended.clone(), contended.clone(), vec![], vec![], contended]);
}

#[test]
fn permitted_neighbours_cause_switches_too() {
    let quiet = (10.0, 0.19, 75_000.0);
    let mut study = runs(&[quiet, quiet, (10.0, 0.6, 490_000.0)]);
    let record = Arc::make_mut(study.cells[2].record.as_mut().unwrap());
    record.observed.beside = vec!["other_resnet18_fp32_bs16_run1".to_owned()];
    assert_eq!(names(&study), [[""; 0]; 3]);
}

#[test]
fn a_clock_that_differs_from_the_others_is_marked() {
    let last = |mhz: f64, of_window: bool| {
        let with = |builder: StudyBuilder, repeat, mhz| {
            builder.run_with(key("cpu", "resnet18", 16, repeat), 10.0, |record| {
                let telemetry = Telemetry { samples: 2, of_window, ..Telemetry::default() };
                let clock = Readings::of([mhz, mhz]).unwrap();
                record.observed.telemetry = Some(telemetry.with(Sensor::CpuClock, clock));
            })
        };
        let builder = with(with(StudyBuilder::new(), 1, 3000.0), 2, 3000.0);
        let study = with(builder, 3, mhz).build();
        let analysis = analyse(&study);
        assert!(analysis.runs.iter().all(|run| run.counts()));
        analysis.runs[2].marks.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(last(2860.0, true).is_empty());
    assert_eq!(
        last(2700.0, true),
        ["clock-changed: the processor's clock was 2700 MHz; in the other runs of the row it was 3000 MHz \
             (-10 %, threshold 5 %)"]
    );
    assert!(last(0.0, true).is_empty(), "a clock of 0 was not read");
    assert!(last(2700.0, false).is_empty(), "a clock before and after the window does not count");
}

/// Beside a disturbed run, a clock is changed only if both others agree that it is.
#[test]
fn beside_a_bad_run_a_clock_is_compared_with_the_nearest() {
    let clocks = |all: [f64; 3]| {
        let builder = all.into_iter().zip(1..).fold(StudyBuilder::new(), |builder, (mhz, repeat)| {
            builder.run_with(key("cpu", "resnet18", 16, repeat), 10.0, |record| {
                let telemetry = Telemetry { samples: 2, of_window: true, ..Telemetry::default() };
                let clock = Readings::of([mhz, mhz]).unwrap();
                record.observed.telemetry = Some(telemetry.with(Sensor::CpuClock, clock));
                if repeat == 1 {
                    record.observed.host_busy_s = Some(1e6);
                }
            })
        });
        let study = builder.build();
        let analysis = analyse(&study);
        let texts = |run: &crate::analysis::Run<'_>| run.marks.iter().map(ToString::to_string).collect();
        analysis.runs[1..].iter().map(texts).collect::<Vec<Vec<String>>>()
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(
        clocks([2700.0, 3000.0, 3000.0]),
        [none.clone(), none.clone()],
        "turbo of a busy host is lower"
    );
    assert_eq!(clocks([3000.0, 2860.0, 3000.0]), [none.clone(), none.clone()]);
    let expected = "clock-changed: the processor's clock was 2700 MHz; in the nearest other run of the row it was 3000 MHz \
                (-10 %, threshold 5 %)";
    assert_eq!(clocks([3000.0, 2700.0, 3000.0]), [vec![expected.to_owned()], none.clone()]);
    assert_eq!(clocks([2700.0, 2700.0, 3000.0])[0], none, "two of three");
}

/// ResNet-50 at batch 128 and at larger ones on `device`: each with its batch, images per second, busy processors, and
/// the share of their time in the system.
fn batches(device: Device, greater: &[(u32, f64, f64, f64)]) -> Study {
    let at = |batch, repeat| Key { device, ..key("wsl", "resnet50", batch, repeat) };
    let builder = StudyBuilder::new().run_with(at(128, 1), 206.8, |record| busy(record, 2.06, 0.116, 20.0));
    let builder = greater.iter().fold(builder, |builder, &(batch, rate, cores, system)| {
        builder.run_with(at(batch, 1), rate, |record| busy(record, cores, system, 20.0))
    });
    builder.build()
}

/// The numbers of a run on WSL2 that took 51 minutes: 8.92 images/s, with 1187 s in user mode and 2006 s in the system
/// out of 3097 s.
#[test]
fn a_cliff_at_the_next_batch_with_a_pegged_core_in_the_system_is_a_spill() {
    let cuda = Device::Cuda(0);
    let study = batches(cuda, &[(256, 8.92, 1.03, 0.628), (512, 5.0, 1.0, 0.6)]);
    assert_eq!(names(&study), [vec![], vec!["spilled"], vec!["spilled"]]);
    let analysis = analyse(&study);
    assert_eq!(
        analysis.runs[2].marks[0].to_string(),
        "spilled: 41.4 times slower than batch 128 (threshold 4 ×), with 1.0 processors busy and 60 % of that time in \
         the system, as when device memory is paged to the host"
    );
    assert_eq!(analysis.rows[1].statistics, Err("its only run is spilled".to_owned()));
    for (what, device, spill) in [
        ("a smaller cliff", cuda, (256, 206.8 / 3.9, 1.03, 0.628)),
        ("little system time", cuda, (256, 8.92, 1.03, 0.39)),
        ("an idle processor", cuda, (256, 8.92, 0.7, 0.628)),
        ("no accelerator", Device::Cpu, (256, 8.92, 1.03, 0.628)),
    ] {
        assert_eq!(names(&batches(device, &[spill])), [[""; 0]; 2], "{what}");
    }
}

#[test]
fn only_the_same_config_at_a_smaller_batch_reveals_a_spill() {
    let beside = |model: &'static str, batch, change: fn(&mut Record)| {
        let at = |model: &str, batch| Key { device: Device::Cuda(0), ..key("wsl", model, batch, 1) };
        let study = StudyBuilder::new()
            .run_with(at(model, batch), 206.8, |record| {
                busy(record, 2.06, 0.116, 20.0);
                change(record);
            })
            .run_with(at("resnet50", 256), 8.92, |record| busy(record, 1.03, 0.628, 20.0));
        names(&study.build()).concat()
    };
    assert_eq!(beside("resnet50", 128, |_| {}), ["spilled"]);
    assert_eq!(beside("resnet18", 128, |_| {}), [""; 0], "another network");
    assert_eq!(beside("resnet50", 512, |_| {}), [""; 0], "a larger batch");
    let of_batch = |record: &mut Record| {
        record.measurement.as_mut().unwrap().effective.settings.set("algorithm", "winograd");
    };
    assert_eq!(beside("resnet50", 256, of_batch), [""; 0], "the same batch");
    let channels_last = |record: &mut Record| {
        record.measurement.as_mut().unwrap().effective.settings.set("channels_last", true);
    };
    assert_eq!(beside("resnet50", 128, channels_last), [""; 0], "another setting");
}

/// Two of four runs at the smaller batch were disturbed, so the level is that of the other two.
#[test]
fn disturbed_runs_do_not_count_for_the_level_of_a_smaller_batch() {
    let at = |batch, repeat| Key { device: Device::Cuda(0), ..key("wsl", "resnet50", batch, repeat) };
    let smaller = [(100.0, 20.0), (100.0, 20.0), (10.0, 9e5), (10.0, 9e5)].into_iter().zip(1..);
    let builder = smaller.fold(StudyBuilder::new(), |builder, ((rate, switches), repeat)| {
        builder.run_with(at(128, repeat), rate, |record| busy(record, 1.0, 0.1, switches))
    });
    let study = builder.run_with(at(256, 1), 20.0, |record| busy(record, 1.0, 0.6, 20.0)).build();
    let (disturbed, spilled) = (vec!["contended"], vec!["spilled"]);
    assert_eq!(names(&study), [vec![], vec![], disturbed.clone(), disturbed, spilled]);
}

/// The runs of another host are not in the baseline, even if interleaved with those of this one.
#[test]
fn only_runs_in_equal_circumstances_are_in_the_baseline() {
    let switches = [20.0, 9e4, 20.0, 9e4, 20.0, 9e4];
    let builder = switches.into_iter().zip(1..).fold(StudyBuilder::new(), |builder, (switches, repeat)| {
        builder.run_with(key("cpu", "resnet18", 16, repeat), 10.0, |record| {
            busy(record, 1.0, 0.1, switches);
            if switches > 1e3 {
                record.provenance.host.hostname = "other".into();
            }
        })
    });
    assert_eq!(names(&builder.build()), [[""; 0]; 6]);
}
