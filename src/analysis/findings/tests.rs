use std::collections::BTreeMap;

use chrono::TimeDelta;

use crate::analysis::analyse;
use crate::analysis::cost::FlopsConvention;
use crate::analysis::fixture::{HOST, StudyBuilder, key, measured_peaks, study_with_peaks};
use crate::analysis::peaks::{Confidence, Origin, Peaks};
use crate::architecture;
use crate::job::{Device, Key, Kind, ParamValue, Precision, Profile, WorkerTemplate};
use crate::protocol::LeftOut;
use crate::record::ncu::NcuCounters;
use crate::record::{Counters, Outcome, Record};

fn texts(study: &crate::analysis::Study) -> Vec<String> {
    analyse(study).findings.into_iter().map(|finding| finding.text).collect()
}

#[test]
fn an_undisturbed_study_has_no_findings() {
    let study = StudyBuilder::new()
        .peaks(measured_peaks(250e9, 20e9))
        .runs("cpu", "resnet18", 16, &[10.0, 10.1, 9.9])
        .build();
    assert_eq!(texts(&study), [""; 0]);
}

#[test]
fn findings_have_number_and_threshold() {
    insta::assert_snapshot!(texts(&study_with_peaks()).join("\n"));
}

/// The texts of the findings that contain `words`.
fn about(words: &str, study: &crate::analysis::Study) -> Vec<String> {
    texts(study).into_iter().filter(|text| text.contains(words)).collect()
}

#[test]
fn unknown_flops_are_not_reported_for_failed_rows() {
    let failed = StudyBuilder::new().not_run(key("cpu", "lenet", 16, 1), "it ran out of memory");
    assert_eq!(about("no description", &failed.build()), [""; 0]);
    let ran = StudyBuilder::new().run("cpu", "lenet", 16, 1, 10.0).build();
    assert_eq!(about("no description", &ran).len(), 1);
}

#[test]
fn missing_results_are_counted() {
    let failed = || Outcome::Signalled { signal: 11 };
    let one = StudyBuilder::new().failure(key("cpu", "vgg16", 16, 1), failed());
    assert_eq!(about("result", &one.build()), ["0 of 1 job has a result; 1 failed."]);
    let two =
        StudyBuilder::new().run("cpu", "vgg16", 16, 1, 1.0).not_run(key("cpu", "vgg16", 16, 2), "no time");
    assert_eq!(about("result", &two.build()), ["1 of 2 jobs have a result; 1 was not run."]);
    let stopped = Outcome::Interrupted { message: "SIGINT".to_owned() };
    let three = StudyBuilder::new()
        .failure(key("cpu", "vgg16", 16, 1), failed())
        .failure(key("cpu", "vgg16", 16, 2), stopped)
        .not_run(key("cpu", "vgg16", 16, 3), "no time")
        .not_run(key("cpu", "vgg16", 16, 4), "no time");
    let text = "0 of 4 jobs have a result; 1 failed, 1 was interrupted, 2 were not run.";
    assert_eq!(about("result", &three.build()), [text]);
}

/// Three rows with one disturbed run each; two rows are too few.
#[test]
fn reports_that_the_runs_left_out_are_significantly_slower() {
    let rows = |rates: &[(u32, f64)]| {
        let study = rates.iter().fold(StudyBuilder::new(), |builder, (batch, rate)| {
            builder.run("cpu", "vgg16", *batch, 1, 10.0).run("cpu", "vgg16", *batch, 2, 10.0).run_with(
                key("cpu", "vgg16", *batch, 3),
                *rate,
                |record| record.observed.host_busy_s = Some(1e6),
            )
        });
        about("marks leave out were", &study.build())
    };
    assert_eq!(
        rows(&[(1, 8.0), (2, 8.5), (3, 7.5)]),
        [
            "The runs that marks leave out were 20.1 % slower than the others of their rows (geometric mean over 3 rows, \
          95 % interval of the ratio 0.684 to 0.933; threshold 2 %). Leaving them out raises their throughput by 7.8 %."
        ]
    );
    assert_eq!(rows(&[(1, 8.0), (2, 8.5)]), [""; 0], "too few rows");
    assert_eq!(rows(&[(1, 8.0), (2, 12.0), (3, 10.0)]), [""; 0], "slower in one row, faster in another");
    assert_eq!(rows(&[(1, 9.89), (2, 9.9), (3, 9.91)]), [""; 0], "by one per cent");
}

#[test]
fn each_further_row_of_a_config_is_reported_with_its_differences_from_the_first() {
    let on = |threads: u32| {
        move |record: &mut Record| {
            record.measurement.as_mut().unwrap().effective.settings.set("threads", threads);
        }
    };
    let run = |builder: StudyBuilder, repeat, threads| {
        builder.run_with(key("cpu", "vgg16", 16, repeat), 1.0, on(threads))
    };
    let study = [1, 2, 3].into_iter().fold(StudyBuilder::new(), |builder, n| run(builder, n, n)).build();
    assert_eq!(
        about("not pooled", &study),
        [
            "Runs of cpu_vgg16_fp32_bs16 are not pooled: row 2 of 3 differs from row 1 in threads 1 / 2.",
            "Runs of cpu_vgg16_fp32_bs16 are not pooled: row 3 of 3 differs from row 1 in threads 1 / 3.",
        ]
    );
}

/// A mark reports the difference if envs are compared; otherwise the finding `MixedSettings` does.
#[test]
fn undeclared_settings_that_differ_are_reported_once() {
    let on = |threads: u32| {
        move |record: &mut Record| {
            record.measurement.as_mut().unwrap().effective.settings.set("threads", threads);
        }
    };
    let by_batch = StudyBuilder::new()
        .run_with(key("a", "vgg16", 16, 1), 1.0, on(2))
        .run_with(key("b", "vgg16", 16, 1), 1.0, on(2))
        .run_with(key("a", "vgg16", 32, 1), 1.0, on(1));
    assert_eq!(
        about("threads", &by_batch.build()),
        ["The setting `threads` is not declared and has 2 values: 1 (a), 2 (a, b)."]
    );
    let by_env = StudyBuilder::new().run_with(key("a", "vgg16", 16, 1), 1.0, on(2)).run_with(
        key("b", "vgg16", 16, 1),
        1.0,
        on(1),
    );
    assert_eq!(
        about("threads", &by_env.build()),
        ["a and b have undeclared differences (settings-differ, 1 row): threads 2 / 1."]
    );
    let declared = |threads: u32| Key {
        params: [("threads".to_owned(), ParamValue::Int(threads.into()))].into(),
        ..key("a", "vgg16", 16, 1)
    };
    let declared =
        StudyBuilder::new().run_with(declared(2), 1.0, |_| {}).run_with(declared(1), 1.0, |_| {}).build();
    assert_eq!(about("threads", &declared), [""; 0]);
}

#[test]
fn marks_of_counted_runs_are_reported_together_or_run_by_run() {
    let on = |threads: u32| {
        move |record: &mut Record| {
            record.measurement.as_mut().unwrap().effective.settings.set("threads", threads);
        }
    };
    let run = |builder: StudyBuilder, (threads, repeat): (u32, u32)| {
        builder.run_with(key("cpu", "vgg16", 16, repeat), 1.0, on(threads))
    };
    let of = |threads: [u32; 2]| {
        let study = threads.into_iter().zip(1..).fold(StudyBuilder::new(), run).build();
        about("but counted", &study)
    };
    assert_eq!(
        of([4, 4]),
        ["2 runs marked but counted: oversubscribed: 4 compute threads on 2 usable processors."]
    );
    assert_eq!(
        of([4, 3]),
        [
            "2 runs marked oversubscribed but counted: cpu_vgg16_fp32_bs16_run1, 4 compute threads on 2 usable \
          processors; cpu_vgg16_fp32_bs16_run2, 3 compute threads on 2 usable processors."
        ]
    );
    assert_eq!(of([2, 2]), [""; 0]);
}

#[test]
fn unconfirmed_parameters_are_listed() {
    let own = |model: &str, repeat| Key {
        params: [("lr".to_owned(), ParamValue::Int(1))].into(),
        worker: WorkerTemplate::Command(["train.py".into()].into()),
        ..key("cpu", model, 16, repeat)
    };
    let study = StudyBuilder::new()
        .run_with(own("a", 1), 1.0, |_| {})
        .run_with(own("a", 2), 1.0, |_| {})
        .run_with(own("b", 1), 1.0, |_| {})
        .build();
    assert_eq!(
        about("Not confirmed", &study),
        ["Not confirmed: `lr` is declared, but the record has no effective value for it (2 rows)."]
    );
}

#[test]
fn a_network_that_is_not_described_has_no_flops() {
    let study = StudyBuilder::new().run("cpu", "lenet", 16, 1, 1.0).build();
    let found = about("FLOP/s", &study);
    assert!(
        found.len() == 1 && found[0].contains("lenet") && found[0].contains("without FLOP/s"),
        "{found:?}"
    );
}

#[test]
fn reported_flops_that_differ_get_a_probable_cause() {
    for (share, cause) in [
        (Some(1.0 / 6.0), "a sixth suggests the MACs of the forward pass alone"),
        (Some(0.34), "a third suggests the forward pass alone"),
        (Some(0.5), "half suggests MACs, and one MAC is two FLOPs"),
        (Some(2.0), "one of them counts another network or other operations"),
        (Some(1.04), ""),
        (None, ""),
    ] {
        let of_network = architecture::network("resnet18", 224, 1000).unwrap().training_flops() as f64;
        let study = StudyBuilder::new()
            .run_with(key("cpu", "resnet18", 16, 1), 1.0, |record| {
                let details = &mut record.measurement.as_mut().unwrap().details;
                details.flops_per_sample = share.map(|share| share * of_network);
            })
            .build();
        let found = about("the worker counts", &study);
        assert_eq!(found.len(), usize::from(!cause.is_empty()), "{share:?}: {found:?}");
        assert!(found.iter().all(|text| text.contains(cause)), "{share:?}: {found:?}");
    }
}

/// The findings about a run of a network without a description, after `change`.
fn findings_after(change: impl Fn(&mut crate::protocol::Details)) -> Vec<String> {
    let study = StudyBuilder::new()
        .run_with(key("cpu", "lenet", 16, 1), 1.0, |record| {
            change(&mut record.measurement.as_mut().unwrap().details)
        })
        .build();
    analyse(&study).findings.iter().map(|finding| finding.text.clone()).collect()
}

#[test]
fn counted_flops_are_compared_and_uncounted_operators_are_listed() {
    let counted = |details: &mut crate::protocol::Details| {
        details.counted_flops_per_sample = Some(2e9);
        details.uncounted_operators = vec!["mine::attend".into(), "mine::fused".into()];
    };
    let found = findings_after(counted);
    let lacking = "The FLOPs of cpu_lenet_fp32_bs16 lack those of 2 operators without a formula (`mine::attend` and `mine::fused`)";
    assert!(found.iter().any(|text| text.starts_with(lacking)), "{found:?}");
    let found = findings_after(|details| {
        counted(details);
        details.flops_per_sample = Some(2.5e9);
    });
    let compared =
        "counted 2.000 GFLOP in an iteration, and the worker's declaration has 2.500 (-20 %; threshold 1 %)";
    assert!(found.iter().any(|text| text.contains(compared)), "{found:?}");
    assert!(!found.iter().any(|text| text.contains("lack those of")), "they are not used: {found:?}");
}

#[test]
fn evaluation_within_the_window_and_an_unconfirmed_batch_are_reported() {
    let found = findings_after(|details| details.evaluation_share = Some(0.0612));
    let share = "called its network without gradients during 6.1 % of its window";
    assert!(found.iter().any(|text| text.contains(share)), "{found:?}");
    let found = findings_after(|details| details.repeated = Some(vec!["batch".into()]));
    let batch = "Not confirmed: the worker repeats `batch`";
    assert!(found.iter().any(|text| text.starts_with(batch) && text.ends_with("(1 row).")), "{found:?}");
    let found = findings_after(|details| details.repeated = Some(vec!["strict".into()]));
    assert!(!found.iter().any(|text| text.contains("`batch`")), "{found:?}");
}

/// Promise 7: sequences and tokens are different units, even if everything else is equal.
#[test]
fn samples_of_different_units_are_neither_pooled_nor_compared() {
    let with = |units: [Option<&str>; 2]| {
        units.into_iter().zip(1..).fold(StudyBuilder::new(), |study, (unit, repeat)| {
            study.run_with(key("cpu", "resnet18", 16, repeat), 1.0, |record| {
                let unit = unit.map(|unit| unit.to_owned().try_into().unwrap());
                record.measurement.as_mut().unwrap().unit = unit;
            })
        })
    };
    let rows = |study: &crate::analysis::Study| analyse(study).rows.len();
    let same = with([Some("images"), None]).build();
    assert_eq!(
        (rows(&same), about("Samples are of", &same).len()),
        (1, 0),
        "the shipped worker's are images"
    );
    let mixed = with([Some("tokens"), Some("sequences")]).build();
    assert_eq!(rows(&mixed), 2);
    assert_eq!(
        about("Samples are of", &mixed),
        ["Samples are of 2 kinds: sequences (cpu_resnet18_fp32_bs16 (2 of 2)); tokens \
          (cpu_resnet18_fp32_bs16 (1 of 2)). Throughputs of different units are not comparable."]
    );
    assert_eq!(about("differs from row 1 in unit of samples tokens / sequences", &mixed).len(), 1);
}

/// Runs that were too short are reported apart from runs without recorded load.
#[test]
fn unknown_load_is_reported_with_its_reason() {
    let lasting = |seconds: f64, is_counted: bool| {
        let change = move |record: &mut Record| {
            record.ended_at = record.started_at + TimeDelta::milliseconds((1000.0 * seconds) as i64);
            record.process.as_mut().unwrap().wall_s = Some(seconds);
            record.observed.host_busy_s = is_counted.then_some(1.0);
        };
        let study = StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .run_with(key("cpu", "resnet18", 16, 1), 10.0, change)
            .build();
        let found = texts(&study).into_iter().filter(|text| text.contains("only overlap"));
        found.map(|text| text.split_once(", so ").unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    let short = "1 run took less than one second, too short to judge the host's load";
    assert_eq!(lasting(0.99, true), [short]);
    assert_eq!(lasting(0.99, false), [short]);
    assert_eq!(lasting(1.0, false), ["The host's load during 1 run is not known"]);
    assert_eq!(lasting(1.0, true), [""; 0]);
}

#[test]
fn findings_appear_past_their_thresholds() {
    let with = |change: fn(&mut Record)| {
        let study = StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .run_with(key("cpu", "resnet18", 16, 1), 10.0, change)
            .build();
        texts(&study)
    };
    let wait = |share: f64| {
        let study = StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .run_with(key("cpu", "resnet18", 16, 1), 10.0, |record| {
                record.measurement.as_mut().unwrap().details.data_wait_s = Some(16.0 * share);
            })
            .build();
        texts(&study).len()
    };
    assert_eq!((wait(0.09), wait(0.11)), (0, 1));
    let spread = |width: f64| {
        let builder = StudyBuilder::new().peaks(measured_peaks(250e9, 20e9));
        texts(&builder.runs("cpu", "resnet18", 16, &[10.0 - width, 10.0, 10.0 + width]).build()).len()
    };
    assert_eq!((spread(0.85), spread(0.88)), (0, 1));
    assert_eq!(
        with(|record| record.measurement.as_mut().unwrap().details.unreadable_images = Some(0)),
        [""; 0]
    );
    assert_eq!(
        with(|record| record.measurement.as_mut().unwrap().details.unreadable_images = Some(3)),
        [
            "Up to 3 images could not be decoded and were left out (in cpu_resnet18_fp32_bs16_run1; threshold 0)."
        ]
    );
    assert_eq!(
        with(|record| record.measurement.as_mut().unwrap().effective.settings.set("threads", 1)),
        [
            "The peaks `measured/bench-1-cpu` were measured with 2 threads, the runs used 1 (1 row compared with \
          them)."
        ]
    );
}

#[test]
fn peaks_of_a_twin_device_or_of_other_threads_are_reported() {
    let gpu = |uuid: Option<&str>| {
        let mut peaks = measured_peaks(250e9, 20e9);
        (peaks.name, peaks.backend) = ("measured/gpu".into(), "cuda".into());
        peaks.origin = Origin::Measured {
            host: HOST.into(),
            device: Device::Cuda(0),
            uuid: Some("GPU-0".into()),
            threads: None,
            quick: false,
        };
        let key = Key { device: Device::Cuda(1), ..key("gpu", "resnet18", 16, 1) };
        let study = StudyBuilder::new().peaks(peaks).run_with(key, 10.0, |record| {
            record.measurement.as_mut().unwrap().details.device_uuid = uuid.map(str::to_owned);
        });
        about("were measured on", &study.build())
    };
    assert_eq!(
        gpu(Some("GPU-1")),
        [
            "The peaks `measured/gpu` were measured on GPU-0, and the runs were on GPU-1, another device of the same \
             name (1 row compared with them)."
        ]
    );
    assert_eq!(gpu(Some("GPU-0")), [""; 0]);
    assert!(gpu(None)[0].contains("the worker does not report which device of that name it used"));

    let threads = |usable: u32| {
        let peaks = measured_peaks(250e9, 20e9);
        let key = key("cpu", "resnet18", 16, 1);
        let study = StudyBuilder::new().peaks(peaks).run_with(key, 10.0, |record| {
            record.measurement.as_mut().unwrap().effective.settings.retain(|name, _| name != "threads");
            record.provenance.host.cpu.usable = usable;
        });
        about("threads", &study.build())
    };
    assert_eq!(threads(2), [""; 0]);
    assert_eq!(
        threads(16),
        [
            "The peaks `measured/bench-1-cpu` were measured with 2 threads, and the worker does not report how many \
             of 16 the runs used (1 row compared with them)."
        ]
    );
}

/// A convention that leaves out work must not make the executed FLOPs look too many.
#[test]
fn executed_flops_are_compared_with_the_needed_ones() {
    let study = |convention| {
        let profiled = key("cpu", "resnet18", 16, 1).profiled(Kind::Ncu, Profile::default());
        let study = StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .run("cpu", "resnet18", 16, 1, 10.0)
            .run_with(profiled, 0.5, |record| {
                let needed = architecture::network("resnet18", 224, 1000).unwrap().training_flops();
                let names = ["fadd", "fmul", "ffma", "hadd", "hmul", "hfma", "dadd", "dmul", "dfma"];
                let name = |name| format!("sm__sass_thread_inst_executed_op_{name}_pred_on.sum");
                let mut metrics: BTreeMap<String, u64> = names.map(|it| (name(it), 0)).into();
                metrics.insert(name("fadd"), 160 * needed);
                metrics.insert("sm__ops_path_tensor_src_fp16.sum".into(), 0);
                metrics.insert("dram__bytes.sum".into(), 160 * 1_000_000_000);
                let counters = NcuCounters { kernels: 2, metrics, ..NcuCounters::default() };
                record.counters = Some(Counters::Ncu(counters.into()));
            })
            .build();
        crate::analysis::Study { convention, ..study }
    };
    for convention in [FlopsConvention::LayerByLayer, FlopsConvention::Seed1, FlopsConvention::Seed2] {
        assert_eq!(about("the device executed", &study(convention)), [""; 0], "{convention:?}");
        let classes = analyse(&study(convention)).classes[0].why().text;
        let says =
            classes == format!("the FLOPs are counted by `{}`, which leaves out work", convention.as_str());
        assert_eq!(says, convention.leaves_out_work(), "{classes}");
    }
}

/// A mistake in the seed reports: they used peaks of other hardware.
#[test]
fn peaks_of_another_device_are_refused_and_reported() {
    let mut study = StudyBuilder::new()
        .peaks(measured_peaks(250e9, 20e9))
        .run_with(key("cpu", "resnet18", 16, 1), 10.0, |record| {
            record.measurement.as_mut().unwrap().details.device_name = Some("Other CPU".to_owned());
        })
        .build();
    study.cells[0].peaks = Some("measured/bench-1-cpu".to_owned());
    let analysis = analyse(&study);
    assert!(analysis.rooflines.is_empty());
    assert_eq!(analysis.rows[0].share_of_peak(), None);
    let texts = texts(&study);
    assert!(
        texts[0].contains("`Test CPU @ 2.00 GHz` (cpu)") && texts[0].contains("`Other CPU` (cpu)"),
        "{texts:?}"
    );
}

#[test]
fn gaps_and_doubts_of_measured_peaks_are_reported() {
    let mut peaks = measured_peaks(250e9, 20e9);
    peaks.warnings = vec!["the measured bandwidth is low".to_owned()];
    let fp32 = key("cpu", "resnet18", 16, 1);
    let bf16 = Key { precision: Precision::Bf16, ..fp32.clone() };
    peaks.left_out = vec![LeftOut { precision: Precision::Bf16, reason: "it is emulated: why".to_owned() }];
    let doubted = StudyBuilder::new().peaks(peaks.clone()).run_with(fp32, 10.0, |_| ()).build();
    assert_eq!(
        texts(&doubted),
        [
            "The peaks `measured/bench-1-cpu` are doubtful: the measured bandwidth is low (1 row compared with \
          them)."
        ]
    );
    peaks.warnings.clear();
    for (confidence, words) in [
        (Confidence::Low, Some("are of low confidence (1 row compared with them).")),
        (Confidence::Estimate, Some("are an estimate, computed from clocks (1 row compared with them).")),
        (Confidence::Medium, None),
    ] {
        let peaks = Peaks { confidence, ..peaks.clone() };
        let study = StudyBuilder::new().peaks(peaks).run("cpu", "resnet18", 16, 1, 10.0).build();
        let expected = words.map(|words| format!("The peaks `measured/bench-1-cpu` {words}"));
        assert_eq!(texts(&study), Vec::from_iter(expected));
    }
    let left_out = StudyBuilder::new().peaks(peaks).run_with(bf16, 10.0, |_| ()).build();
    assert_eq!(
        texts(&left_out),
        [
            "The peaks `measured/bench-1-cpu` have no figure for bf16 (it is emulated: why) (1 row missing from \
          the roofline)."
        ]
    );
}

/// Four blocks of three rows; the throughputs of the third block are multiplied by `factor`.
fn with_shifted_block(factor: f64) -> crate::analysis::Study {
    let scatter = [[1.002, 0.999, 1.0], [0.998, 1.001, 1.003], [1.0, 1.003, 0.998], [1.001, 0.998, 1.0]];
    let block = |builder: StudyBuilder, (scatter, repeat): ([f64; 3], u32)| {
        let [one, two, three] = scatter.map(|by| 10.0 * by * if repeat == 3 { factor } else { 1.0 });
        builder.block(repeat, &[("alexnet", one), ("resnet18", two), ("vgg16", three)])
    };
    scatter.into_iter().zip(1..).fold(StudyBuilder::new(), block).build()
}

#[test]
fn a_slower_or_faster_block_is_reported_with_its_time() {
    let found = |factor| about("the block of", &with_shifted_block(factor));
    insta::assert_snapshot!([found(0.96), found(1.03), found(0.995)].concat().join("\n"));
}
