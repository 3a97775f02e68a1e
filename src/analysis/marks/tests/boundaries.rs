//! Every threshold at its boundary: a number that equals it, and the nearest numbers on either side.
//!
//! Each case is a study with an exactly known number, and the threshold is moved to that number. So no number is
//! rounded, and a rule that compares the number with anything except the threshold in force fails too.

use std::collections::BTreeMap;

use super::*;
use crate::analysis::audit;
use crate::analysis::block_shift::shifted_blocks;
use crate::analysis::pipeline::{self, Verdict};
use crate::job::{DataSource, Key, Kind, ParamValue, Profile};
use crate::protocol::IterationClock;
use crate::record::{Counters, GpuTelemetry, NcuCounters, Readings, Sensor, Telemetry};
use crate::stats::Interval;
use crate::threshold::Passed;

/// A number that is compared with a threshold.
struct Case {
    /// The rule of the threshold that this case tests.
    rule: &'static str,
    /// The number, in the unit of the threshold.
    number: f64,
    /// Whether the rule raises its mark or finding with these thresholds.
    raises: Box<dyn Fn(Thresholds) -> bool>,
}

fn case(rule: &'static str, number: f64, raises: impl Fn(Thresholds) -> bool + 'static) -> Vec<Case> {
    vec![Case { rule, number, raises: Box::new(raises) }]
}

/// A case in which the mark `rule` is raised for the last run of a study.
fn marked(rule: &'static str, number: f64, study: impl Fn() -> StudyBuilder + 'static) -> Vec<Case> {
    case(rule, number, move |thresholds| {
        let study = study().thresholds(thresholds).build();
        analyse(&study).runs.last().unwrap().marks.iter().any(|mark| mark.name() == rule)
    })
}

/// One run, modified by `change`.
fn run_on(device: Device, change: impl Fn(&mut Record)) -> StudyBuilder {
    StudyBuilder::new().run_with(Key { device, ..key("e", "resnet18", 16, 1) }, 10.0, change)
}

/// Two quiet runs and a third, each lasting 16 s, with these numbers: foreign processors, switches per second, and the
/// share of two processors' time spent in the system.
fn third(foreign: f64, switches: u64, system_share: f64) -> StudyBuilder {
    let runs = [(0.0, 1024, 0.0), (0.0, 1024, 0.0), (foreign, switches, system_share)].into_iter().zip(1..);
    runs.fold(StudyBuilder::new(), |builder, ((foreign, switches, share), repeat)| {
        builder.run_with(key("e", "resnet18", 16, repeat), 10.0, |record| {
            record.ended_at = record.started_at + TimeDelta::seconds(16);
            let process = record.process.as_mut().unwrap();
            process.wall_s = Some(16.0);
            process.user_s = Some(32.0 * (1.0 - share));
            process.system_s = Some(32.0 * share);
            process.involuntary_switches = Some(16 * switches);
            record.observed.host_busy_s = Some(32.0 + 16.0 * foreign);
        })
    })
}

/// A GPU's run at batch 32 that is 8 times slower than at batch 16, with one processor busy, half of it in the system.
fn cliff() -> StudyBuilder {
    let at = |batch| Key { device: Device::Cuda(0), ..key("e", "resnet18", batch, 1) };
    let busy = |record: &mut Record, system_s: f64| {
        let process = record.process.as_mut().unwrap();
        (process.wall_s, process.user_s, process.system_s) = (Some(16.0), Some(8.0), Some(system_s));
        record.observed.host_busy_s = None;
    };
    StudyBuilder::new()
        .run_with(at(16), 16.0, |record| busy(record, 0.0))
        .run_with(at(32), 2.0, |record| busy(record, 8.0))
}

fn gpu(reason: &'static str) -> impl Fn() -> StudyBuilder {
    move || {
        run_on(Device::Cuda(0), |record| {
            let throttled_samples = [(reason.to_owned(), 8)].into();
            let gpu = Some(GpuTelemetry { throttled_samples, ..GpuTelemetry::default() });
            record.observed.telemetry = Some(Telemetry { samples: 32, gpu, ..Telemetry::default() });
        })
    }
}

fn clocks<const N: usize>(all: &'static [[f64; N]]) -> impl Fn() -> StudyBuilder {
    move || {
        let runs = all.iter().zip(1..);
        runs.fold(StudyBuilder::new(), |builder, (mhz, repeat)| {
            builder.run_with(key("e", "resnet18", 16, repeat), 10.0, |record| {
                let telemetry = Telemetry { samples: 2, of_window: true, ..Telemetry::default() };
                let mhz = Readings::of(*mhz).expect("there are some");
                record.observed.telemetry = Some(telemetry.with(Sensor::CpuClock, mhz));
            })
        })
    }
}

fn seconds(seconds: impl Fn(usize) -> f64 + 'static) -> impl Fn() -> StudyBuilder {
    move || {
        let seconds: Vec<f64> = (0..64).map(&seconds).collect();
        run_on(Device::Cpu, |_| {}).seconds(IterationClock::Host, &seconds)
    }
}

/// A run on files at 6 images per second that waits for a quarter of its window, and one on synthetic tensors at 8.
fn gap() -> StudyBuilder {
    let mut folder = key("e", "resnet18", 16, 1);
    folder.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
    run_on(Device::Cpu, |_| {}).run("e", "resnet18", 32, 1, 8.0).run_with(folder, 6.0, |record| {
        let measured = record.measurement.as_mut().unwrap();
        measured.details.data_wait_s = Some(0.25 * measured.elapsed_s);
    })
}

/// Three rows in four blocks that scatter a little. In the second block, throughput is multiplied by `factor`.
fn shifted(factor: f64) -> StudyBuilder {
    let scatter = [[1.002, 0.999, 1.0], [0.998, 1.001, 1.003], [1.0, 1.003, 0.998], [1.001, 0.998, 1.0]];
    scatter.into_iter().zip(1..).fold(StudyBuilder::new(), |builder, (scatter, repeat)| {
        let rate = |scatter: f64| 10.0 * scatter * if repeat == 2 { factor } else { 1.0 };
        let [one, two, three] = scatter.map(rate);
        builder.block(repeat, &[("alexnet", one), ("resnet18", two), ("vgg16", three)])
    })
}

/// A run, and one of the same config that executed a tenth of its operations under Nsight Compute.
fn counted() -> StudyBuilder {
    let profiled = key("e", "resnet18", 16, 1).profiled(Kind::Ncu, Profile::default());
    run_on(Device::Cpu, |_| {}).run_with(profiled, 0.5, |record| {
        let operations = |kind: &str| {
            ["add", "mul", "fma"].map(|op| format!("sm__sass_thread_inst_executed_op_{kind}{op}_pred_on.sum"))
        };
        let mut metrics: BTreeMap<String, u64> =
            ["f", "h", "d"].into_iter().flat_map(operations).map(|name| (name, 1 << 33)).collect();
        metrics.insert("sm__ops_path_tensor_src_fp16.sum".into(), 0);
        record.counters =
            Some(Counters::Ncu(NcuCounters { kernels: 2, metrics, ..NcuCounters::default() }.into()));
        let settings = &mut record.measurement.as_mut().unwrap().effective.settings;
        settings.set("iters", 10);
        settings.set("nvtx", true);
    })
}

/// The verdict of a gap with this ratio and interval.
fn verdict(ratio: f64, [low, high]: [f64; 2], thresholds: Thresholds) -> Verdict {
    let study = gap().build();
    let analysis = analyse(&study);
    let gap = pipeline::Gap {
        real: &analysis.rows[0],
        synthetic: &analysis.rows[0],
        ratio,
        interval: Some(Interval { low, high, coverage: 0.95 }),
        blocks: None,
        data_wait_share: Some(0.25),
    };
    gap.verdict(&thresholds)
}

fn finds(study: impl Fn() -> StudyBuilder, thresholds: Thresholds, words: &str) -> bool {
    let study = study().thresholds(thresholds).build();
    analyse(&study).findings.iter().any(|finding| finding.text.contains(words))
}

/// The cases of every threshold. A match, so that a new threshold needs one.
fn cases(threshold: Threshold) -> Vec<Case> {
    let cpu = Device::Cpu;
    match threshold {
        Threshold::ForeignCores | Threshold::ForeignShare => {
            // With two usable processors, one foreign processor is a share of a half.
            let number = if threshold == Threshold::ForeignCores { 1.0 } else { 0.5 };
            let only = move |thresholds: Thresholds| {
                let other = match threshold {
                    Threshold::ForeignCores => Threshold::ForeignShare,
                    _ => Threshold::ForeignCores,
                };
                thresholds.with(other, 0.0)
            };
            let contended = move |stolen: bool| {
                move |thresholds: Thresholds| {
                    let study = run_on(cpu, |record| {
                        record.ended_at = record.started_at + TimeDelta::seconds(16);
                        let process = record.process.as_mut().unwrap();
                        (process.wall_s, process.user_s, process.system_s) =
                            (Some(16.0), Some(32.0), Some(0.0));
                        let (foreign, steal) = if stolen { (0.0, 16.0) } else { (16.0, 0.0) };
                        record.observed.host_busy_s = Some(32.0 + foreign);
                        record.observed.host_steal_s = Some(steal);
                    });
                    let study = study.thresholds(only(thresholds)).build();
                    names(&study)[0] == ["contended"]
                }
            };
            let mut cases = case("processors kept busy by other processes", number, contended(false));
            cases.extend(case("processors taken by the hypervisor", number, contended(true)));
            cases
        }
        Threshold::ForeignAbove => marked("contended", 0.125, || third(0.125, 1024, 0.0)),
        Threshold::Switches => marked("contended", 4.0, || third(0.0, 4096, 0.0)),
        Threshold::SwitchesFloor => case("switches of a host with two processors", 2048.0, |thresholds| {
            let study = third(0.0, 4096, 0.0).thresholds(thresholds.with(Threshold::Switches, 1.0)).build();
            names(&study)[2] == ["contended"]
        }),
        Threshold::SystemShare => marked("contended", 0.25, || third(0.0, 1024, 0.25)),
        Threshold::OverlapS => case("seconds beside another job", 8.0, |thresholds| {
            let study = StudyBuilder::new().runs("e", "resnet18", 16, &[10.0, 10.0]).thresholds(thresholds);
            let mut study = study.build();
            let [first, second] = &mut study.spans[..] else { unreachable!() };
            second.started_at = first.ended_at - TimeDelta::seconds(8);
            // Only the span of the first run is that of its record, so only this run overlaps the other one.
            names(&study)[0] == ["contended"]
        }),
        Threshold::ThrottledShare => {
            let mut cases = marked("throttled", 0.25, gpu("hw_thermal_slowdown"));
            cases.extend(marked("power-capped", 0.25, gpu("sw_power_cap")));
            cases.extend(marked("throttled", 0.25, move || {
                run_on(cpu, |record| {
                    let share = Readings::of([0.25]).unwrap();
                    record.observed.telemetry = Some(Telemetry::default().with(Sensor::CpuThrottled, share));
                })
            }));
            cases
        }
        Threshold::ThrottleEvents => marked("throttled", 4.0, move || {
            run_on(cpu, |record| {
                record.process.as_mut().unwrap().wall_s = Some(120.0);
                let telemetry = Telemetry { samples: 9, ..Telemetry::default() };
                record.observed.telemetry = Some(telemetry.with(Sensor::CpuThrottleEvents, 16));
            })
        }),
        Threshold::QuotaHeld => marked("quota-throttled", 0.25, move || {
            run_on(cpu, |record| {
                let held = Readings::of([0.25]).unwrap();
                record.observed.telemetry = Some(Telemetry::default().with(Sensor::CpuQuotaHeld, held));
            })
        }),
        Threshold::SuspendedS => {
            let mut cases =
                marked("suspended", 3.0, move || run_on(cpu, |record| record.observed.asleep_s = Some(3.0)));
            cases.extend(marked("suspended", 3.0, move || {
                run_on(cpu, |record| {
                    let telemetry = Telemetry::default().with(Sensor::WorkerStopped, 3);
                    record.observed.telemetry = Some(telemetry);
                })
            }));
            cases
        }
        Threshold::SpillCliff => marked("spilled", 8.0, cliff),
        Threshold::SpillCores => marked("spilled", 1.0, cliff),
        Threshold::SpillSystemShare => marked("spilled", 0.5, cliff),
        Threshold::SwappedMib => marked("swapped", 48.0, move || {
            run_on(cpu, |record| {
                let telemetry = Telemetry::default().with(Sensor::SwappedOut, 32 << 20);
                record.observed.telemetry = Some(telemetry.with(Sensor::SwappedIn, 16 << 20));
            })
        }),
        // The rule sees a change of 63 steps of 1/64 around a median of 2.
        Threshold::Trend => {
            let mut cases = marked("trend", 63.0 / 128.0, seconds(|i| (96.5 + i as f64) / 64.0));
            cases.extend(marked("trend", 63.0 / 128.0, seconds(|i| (159.5 - i as f64) / 64.0)));
            cases
        }
        Threshold::Periodic => {
            let mut cases = marked("periodic", 2.0, seconds(|i| if i % 4 == 1 { 2.0 } else { 1.0 }));
            cases.extend(marked("periodic", 2.0, seconds(|i| if i % 4 == 1 { 1.0 } else { 2.0 })));
            cases
        }
        Threshold::Bimodal => marked("bimodal", 2.0, seconds(|i| if i < 32 { 0.5 } else { 1.0 })),
        Threshold::SlowFirst => marked("slow-first", 2.0, seconds(|i| if i == 0 { 0.5 } else { 0.25 })),
        // Four of 64 take 17 s, the others 1 s: 64 s beyond the median, of 128 s.
        Threshold::Stalls => {
            marked("stalls", 0.5, seconds(|i| if i % 16 == 5 + i / 16 { 17.0 } else { 1.0 }))
        }
        // Half of them, in the middle, take three times as long: half of the time is lost.
        Threshold::LevelShift => {
            marked("level-shift", 0.5, seconds(|i| if (16..48).contains(&i) { 3.0 } else { 1.0 }))
        }
        // Of eleven readings, the second and the tenth by size are the quantiles.
        Threshold::ClockWithin => {
            const MHZ: [[f64; 11]; 1] =
                [[2304.0, 1792.0, 2048.0, 2304.0, 1792.0, 2048.0, 2048.0, 2048.0, 2048.0, 2048.0, 2048.0]];
            marked("clock-changed", 0.25, clocks(&MHZ))
        }
        Threshold::ClockBetween => {
            let mut cases = marked("clock-changed", 0.25, clocks(&[[2048.0; 2], [2048.0; 2], [1536.0; 2]]));
            cases.extend(marked("clock-changed", 0.25, clocks(&[[2048.0; 2], [2048.0; 2], [2560.0; 2]])));
            cases
        }
        Threshold::HighVariation => {
            let study = || StudyBuilder::new().runs("e", "resnet18", 16, &[8.0, 10.0, 9.5]);
            let built = study().build();
            let rates: Vec<f64> =
                analyse(&built).runs.iter().filter_map(crate::analysis::Run::samples_per_s).collect();
            // Both ends of a 90 % interval are bounds at 95 %.
            let bound = crate::stats::variation_interval(&rates, 0.90).unwrap().low;
            case("a row's doubt", bound, move |thresholds| {
                let study = study().thresholds(thresholds).build();
                !analyse(&study).rows[0].doubts.is_empty()
            })
        }
        Threshold::Autocorrelated => {
            let study = || {
                let rising = |builder: StudyBuilder, batch| {
                    builder.runs("e", "resnet18", batch, &[10.0, 10.1, 10.2, 10.3, 10.4])
                };
                (1..=12).fold(StudyBuilder::new(), rising)
            };
            let built = study().thresholds(Thresholds::default().with(threshold, 0.0)).build();
            let found = analyse(&built).rows[0].doubts.iter().find_map(|doubt| match doubt {
                Mark::Autocorrelated { too_narrow, .. } => Some(*too_narrow),
                _ => None,
            });
            case("a row's doubt", found.unwrap(), move |thresholds| {
                let study = study().thresholds(thresholds).build();
                analyse(&study).rows[0].doubts.iter().any(|doubt| doubt.name() == "autocorrelated")
            })
        }
        Threshold::DataWaitShare => {
            let waits = || {
                run_on(Device::Cpu, |record| {
                    let measured = record.measurement.as_mut().unwrap();
                    measured.details.data_wait_s = Some(0.25 * measured.elapsed_s);
                })
            };
            let mut cases =
                case("the finding", 0.25, move |thresholds| finds(waits, thresholds, "waited for data"));
            cases.extend(case("the verdict", 0.25, |thresholds| {
                verdict(0.5, [0.5, 0.5], thresholds) == Verdict::Waits
            }));
            cases
        }
        Threshold::DataGap => {
            // A wait cannot be longer than the whole window.
            let verdict = |ratio, interval, thresholds: Thresholds| {
                verdict(ratio, interval, thresholds.with(Threshold::DataWaitShare, 1.0))
            };
            let mut cases = case("how much slower", 0.25, move |thresholds| {
                verdict(0.75, [0.5, 0.875], thresholds) == Verdict::SharesProcessors
            });
            cases.extend(case("the end of its interval", 0.5, move |thresholds| {
                verdict(0.75, [0.5, 1.125], thresholds) == Verdict::CannotTell
            }));
            cases
        }
        Threshold::BlockShift => {
            let mut cases = Vec::new();
            for factor in [0.95, 1.05] {
                let study = move || shifted(factor);
                let built = study().build();
                let rows = analyse(&built).rows;
                let block = &shifted_blocks(&rows, &Thresholds::default().with(threshold, 0.0))[0];
                cases.extend(case("the finding", block.shift.change.abs(), move |thresholds| {
                    finds(study, thresholds, "the block of repeat 2")
                }));
            }
            cases
        }
        Threshold::ExecutedFlops => {
            let built = counted().build();
            let analysis = analyse(&built);
            let row = &analysis.rows[0];
            let executed = row.counted.ncu.as_ref().unwrap().flops_per_sample().unwrap();
            let modelled = row.cost.as_ref().unwrap().training_flops();
            case("the finding", (executed / modelled - 1.0).abs(), |thresholds| {
                finds(counted, thresholds, "the device executed")
            })
        }
        Threshold::ReportedFlops => {
            let reports = || {
                let key = key("cpu", "resnet18", 16, 1);
                StudyBuilder::new().run_with(key, 10.0, |record| {
                    record.measurement.as_mut().unwrap().details.flops_per_sample = Some(1e10);
                })
            };
            let built = reports().build();
            let analysis = analyse(&built);
            let described = analysis.rows[0].cost.as_ref().unwrap().training_flops();
            case("the finding", (1e10 / described - 1.0).abs(), move |thresholds| {
                finds(reports, thresholds, "the worker counts")
            })
        }
        Threshold::CountedFlops => {
            let counts = || {
                StudyBuilder::new().run_with(key("cpu", "resnet18", 16, 1), 10.0, |record| {
                    record.measurement.as_mut().unwrap().details.counted_flops_per_sample = Some(1e10);
                })
            };
            let built = counts().build();
            let described = analyse(&built).rows[0].cost.as_ref().unwrap().training_flops();
            case("the finding", (1e10 / described - 1.0).abs(), move |thresholds| {
                finds(counts, thresholds, "counted 10.0")
            })
        }
        Threshold::ExclusionBias => {
            // Three rows, each with a run that is left out and about a quarter slower.
            let excluded = || {
                [(1, 7.5), (2, 7.4), (3, 7.6)].into_iter().fold(
                    StudyBuilder::new(),
                    |builder, (batch, rate)| {
                        let contended = |record: &mut Record| record.observed.host_busy_s = Some(1e6);
                        builder.run("e", "resnet18", batch, 1, 10.0).run_with(
                            key("e", "resnet18", batch, 2),
                            rate,
                            contended,
                        )
                    },
                )
            };
            let built = excluded().build();
            let analysis = analyse(&built);
            let distance = audit::bias(&audit::audit(&analysis.rows)).unwrap().distance();
            case("the finding", distance, move |thresholds| {
                finds(excluded, thresholds, "marks leave out were")
            })
        }
    }
}

/// Catches "from" instead of "above", a constant instead of the threshold, and the wrong threshold.
#[test]
fn every_threshold_is_passed_exactly_as_declared() {
    let mut wrong = Vec::new();
    for threshold in Threshold::all() {
        let (name, cases) = (threshold.name(), cases(threshold));
        assert!(!cases.is_empty(), "{name} has no case");
        for Case { rule, number, raises } in cases {
            let at = |value: f64| raises(Thresholds::default().with(threshold, value));
            let found = [number.next_down(), number, number.next_up()].map(at);
            let expected = [true, threshold.facts().passed == Passed::From, false];
            if found != expected {
                wrong.push(format!(
                    "{name} ({rule}): {found:?} just below, at and just above {number}, not {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "numbers that do not pass a threshold as declared:\n{}", wrong.join("\n"));
}
