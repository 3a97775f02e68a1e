//! Tests of the pairing of configs, and of sides that are refused.

use chrono::TimeDelta;

use super::*;
use crate::analysis::compare::{Pairing, Verdict};
use crate::analysis::fixture::{StudyBuilder, key};
use crate::analysis::{Study, judge};
use crate::job::{Key, ParamValue, WorkerTemplate};
use crate::stats::Interval;

/// A run of `key` in the block of its repeat. Blocks start a day apart; the runs of a block, five minutes.
fn in_block(builder: StudyBuilder, key: Key, per_s: f64, place: i64) -> StudyBuilder {
    let repeat = i64::from(key.repeat);
    builder.run_with(key, per_s, |record| {
        let wall = record.ended_at - record.started_at;
        record.started_at =
            chrono::DateTime::UNIX_EPOCH + TimeDelta::hours(repeat * 24) + TimeDelta::minutes(5 * place);
        record.ended_at = record.started_at + wall;
    })
}

/// Two envs with two batches and five repeats, in blocks that differ by up to 20 %. The second env is `factor` times as
/// fast.
fn two_envs(factor: f64) -> Study {
    let mut builder = StudyBuilder::new();
    for (repeat, slow) in (1..).zip([1.0, 1.2, 0.8, 1.1, 0.9]) {
        for (place, (env, batch, base)) in
            [("a", 4, 10.0), ("b", 8, 20.0), ("b", 4, 10.0), ("a", 8, 20.0)].into_iter().enumerate()
        {
            let noise = 1.0 + 0.002 * f64::from((repeat * 7 + place as u32 * 3) % 5);
            let speed = if env == "b" { factor } else { 1.0 };
            let key = key(env, "resnet18", batch, repeat);
            builder = in_block(builder, key, base * slow * noise * speed, place as i64);
        }
    }
    builder.build()
}

fn with<T>(study: &Study, sides: [&str; 2], test: impl FnOnce(Result<Versus, Refused>) -> T) -> T {
    let judged = judge(study);
    let side = |name: &str| Side {
        name: name.to_owned(),
        rows: judged.rows.iter().filter(|row| row.config.env == name).collect(),
    };
    test(versus(&side(sides[0]), &side(sides[1]), Settings::default()))
}

#[test]
fn compares_envs_config_by_config_within_blocks() {
    with(&two_envs(0.9), ["a", "b"], |found| {
        let found = found.unwrap();
        assert_eq!(
            found.lines.iter().map(|line| line.config.as_str()).collect::<Vec<_>>(),
            ["resnet18 fp32 bs4", "resnet18 fp32 bs8"]
        );
        for line in &found.lines {
            let comparison = line.result.as_ref().unwrap();
            assert_eq!((comparison.pairing, comparison.verdict), (Pairing::ByBlock(5), Verdict::Slower));
            assert!((comparison.ratio - 0.9).abs() < 0.01, "{comparison:?}");
            assert_eq!(line.sides.unwrap().map(|side| side.n), [5, 5]);
        }
        assert_eq!(found.differences, [Difference { text: "env a / b".to_owned(), configs: 2 }]);
    });
    with(&two_envs(1.0), ["a", "b"], |found| {
        let lines = found.unwrap().lines;
        assert!(lines.iter().all(|line| line.result.as_ref().unwrap().verdict == Verdict::Same));
    });
}

#[test]
fn swapped_sides_swap_the_ratio() {
    let ratio = |sides| {
        with(&two_envs(0.9), sides, |found| found.unwrap().lines[0].result.as_ref().unwrap().ratio.ln())
    };
    assert!((ratio(["a", "b"]) + ratio(["b", "a"])).abs() < 1e-12);
}

fn parameter(key: Key, name: &str, value: ParamValue) -> Key {
    Key { params: [(name.to_owned(), value)].into(), ..key }
}

#[test]
fn terms_with_one_value_per_side_differ_and_varying_terms_are_matched() {
    let mut builder = StudyBuilder::new();
    for repeat in 1..=3 {
        for deterministic in [false, true] {
            for (env, channels_last) in [("a", false), ("b", true)] {
                let mut key = key(env, "resnet18", 4, repeat);
                key.params = [
                    ("channels_last".to_owned(), ParamValue::Bool(channels_last)),
                    ("deterministic".to_owned(), ParamValue::Bool(deterministic)),
                ]
                .into();
                builder = builder.run_with(key, 10.0 + f64::from(repeat), |_| {});
            }
        }
    }
    with(&builder.build(), ["a", "b"], |found| {
        let found = found.unwrap();
        let names: Vec<&str> = found.lines.iter().map(|line| line.config.as_str()).collect();
        assert_eq!(names, ["resnet18 fp32 bs4 deterministic=false", "resnet18 fp32 bs4 deterministic=true"]);
        let texts: Vec<&str> = found.differences.iter().map(|difference| difference.text.as_str()).collect();
        assert_eq!(texts, ["channels_last false / true", "env a / b"]);
    });
}

#[test]
fn configs_without_a_counterpart_get_a_reason() {
    let study = StudyBuilder::new()
        .runs("a", "resnet18", 4, &[10.0, 10.1, 10.2])
        .runs("a", "resnet18", 8, &[10.0, 10.1, 10.2])
        .runs("a", "vgg16", 4, &[1.0, 1.1, 1.2])
        .runs("b", "resnet18", 4, &[10.0, 10.1, 10.2])
        .runs("b", "resnet18", 16, &[10.0, 10.1, 10.2])
        .not_run(key("b", "vgg16", 4, 1), "it never ran")
        .build();
    with(&study, ["a", "b"], |found| {
        let found = found.unwrap();
        let results: Vec<(&str, Result<(), &str>)> = found
            .lines
            .iter()
            .map(|line| (line.config.as_str(), line.result.as_ref().map(|_| ()).map_err(String::as_str)))
            .collect();
        assert_eq!(
            results,
            [
                ("resnet18 fp32 bs4", Ok(())),
                ("resnet18 fp32 bs8", Err("only the first side has it")),
                ("vgg16 fp32 bs4", Err("no run counts on the second side: it never ran")),
                ("resnet18 fp32 bs16", Err("only the second side has it")),
            ]
        );
        assert!(found.lines[1..].iter().all(|line| line.is_unknown));
    });
}

#[test]
fn refuses_different_networks_and_shared_runs() {
    let study = StudyBuilder::new()
        .runs("a", "resnet18", 4, &[10.0, 10.1, 10.2])
        .runs("b", "vgg16", 4, &[10.0, 10.1, 10.2])
        .build();
    with(&study, ["a", "b"], |found| {
        assert_eq!(found.unwrap_err().to_string(), "the sides train different networks: resnet18 and vgg16");
    });
    with(&study, ["a", "a"], |found| {
        let message = found.unwrap_err().to_string();
        assert_eq!(message, "both sides have the same runs, such as a_resnet18_fp32_bs4_run1");
    });
}

#[test]
fn configs_with_different_samples_are_not_compared() {
    let sized = |env: &str, repeat: u32, size: i64| {
        parameter(key(env, "resnet18", 4, repeat), "input_size", ParamValue::Int(size))
    };
    let mut builder = StudyBuilder::new();
    for repeat in 1..=3 {
        let rate = 10.0 + f64::from(repeat);
        builder = builder.run_with(sized("a", repeat, 224), rate, |_| {});
        builder = builder.run_with(sized("b", repeat, 112), rate, |_| {});
        builder = builder.run_with(sized("c", repeat, 224), rate, |record| {
            record.measurement.as_mut().unwrap().unit = Some(serde_json::from_str("\"crops\"").unwrap());
        });
    }
    let study = builder.build();
    let why = |sides| with(&study, sides, |found| found.unwrap().lines[0].result.clone().unwrap_err());
    assert!(why(["a", "b"]).starts_with("a sample takes 10.6"), "{}", why(["a", "b"]));
    assert_eq!(why(["a", "c"]), "the samples differ: images and crops");
}

#[test]
fn rows_are_paired_by_machine() {
    let mut builder = StudyBuilder::new();
    for (host, factor) in [("one", 1.0), ("two", 3.0)] {
        for env in ["a", "b"] {
            for repeat in 1..=3 {
                let rate = factor * (10.0 + f64::from(repeat));
                builder = builder.run_with(key(env, "resnet18", 4, repeat), rate, |record| {
                    record.provenance.host.hostname = host.into();
                });
            }
        }
    }
    let study = builder.build();
    with(&study, ["a", "b"], |found| {
        let found = found.unwrap();
        let names: Vec<&str> = found.lines.iter().map(|line| line.config.as_str()).collect();
        assert_eq!(names, ["resnet18 fp32 bs4 on one", "resnet18 fp32 bs4 on two"]);
        assert!(found.lines.iter().all(|line| (line.result.as_ref().unwrap().ratio - 1.0).abs() < 1e-12));
    });
}

/// Three runs of `env` on each of `hosts`.
fn on_hosts(mut builder: StudyBuilder, env: &str, hosts: &[&str]) -> StudyBuilder {
    for (first, host) in (1..).step_by(3).zip(hosts) {
        for repeat in first..first + 3 {
            let rate = 10.0 + 0.1 * f64::from(repeat);
            builder = builder.run_with(key(env, "resnet18", 4, repeat), rate, |record| {
                record.provenance.host.hostname = (*host).to_owned();
            });
        }
    }
    builder
}

#[test]
fn reasons_say_whether_any_machine_ran_both_sides() {
    let results = |hosts: [&[&str]; 2]| -> Vec<(String, Result<(), String>)> {
        let builder = on_hosts(StudyBuilder::new(), "a", hosts[0]);
        with(&on_hosts(builder, "b", hosts[1]).build(), ["a", "b"], |found| {
            let lines = found.unwrap().lines.into_iter();
            lines.map(|line| (line.config, line.result.map(|_| ()))).collect()
        })
    };
    let line = |host: &str, result: Result<(), &str>| {
        (format!("resnet18 fp32 bs4 on {host}"), result.map_err(str::to_owned))
    };
    let reason = "no machine has runs of both sides";
    assert_eq!(
        results([&["one", "two"], &["three"]]),
        [line("one", Err(reason)), line("two", Err(reason)), line("three", Err(reason))]
    );
    assert_eq!(
        results([&["one", "two"], &["two", "three"]]),
        [
            line("two", Ok(())),
            line("one", Err("only the first side has it on this machine")),
            line("three", Err("only the second side has it on this machine")),
        ]
    );
}

#[test]
fn versus_by_name_uses_names_in_reasons() {
    let study = StudyBuilder::new()
        .runs("a", "resnet18", 4, &[10.0, 10.1, 10.2])
        .not_run(key("b", "resnet18", 4, 1), "it never ran")
        .build();
    let judged = judge(&study);
    let [from, to] = ["a", "b"].map(|name| Side {
        name: format!("env={name}"),
        rows: judged.rows.iter().filter(|row| row.config.env == name).collect(),
    });
    let why = |found: Result<Versus, Refused>| found.unwrap().lines.remove(0).result.unwrap_err();
    let settings = Settings::default();
    assert_eq!(why(versus_by_name(&from, &to, settings)), "no run counts with env=b: it never ran");
    assert_eq!(why(versus(&from, &to, settings)), "no run counts on the second side: it never ran");
}

#[test]
fn two_rows_of_one_machine_are_ambiguous() {
    let mut builder = StudyBuilder::new().runs("b", "resnet18", 4, &[10.0, 10.1, 10.2]);
    for (governor, repeats) in [("performance", 1..=3), ("powersave", 4..=6)] {
        for repeat in repeats {
            builder = builder.run_with(key("a", "resnet18", 4, repeat), 10.0, |record| {
                record.provenance.host.governor = Some(governor.into());
            });
        }
    }
    let study = builder.build();
    let why = with(&study, ["a", "b"], |found| found.unwrap().lines[0].result.clone().unwrap_err());
    assert!(why.starts_with("its runs on the first side are 2 rows, which differ in governor"), "{why}");
}

#[test]
fn of_era_selects_the_rows_before_and_after_a_change_of_the_worker() {
    let mut builder = StudyBuilder::new();
    for (worker, repeats) in [("old", 1..=3), ("newer", 4..=6), ("newest", 7..=9)] {
        for repeat in repeats {
            builder = builder.run_with(key("a", "resnet18", 4, repeat), 10.0, |record| {
                record.provenance.worker.sha256 = Some(worker.into());
            });
        }
    }
    let study = builder.runs("a", "vgg16", 4, &[1.0, 1.0, 1.0]).build();
    let judged = judge(&study);
    let rows: Vec<&Row<'_>> = judged.rows.iter().collect();
    let of = |era| -> Vec<(String, String)> {
        let name = |row: &&Row<'_>| {
            let worker = row.runs[0].cell.record().unwrap().provenance.worker.sha256.clone().unwrap();
            (row.config.model.to_string(), worker[..5].to_owned())
        };
        of_era(&rows, era).iter().map(name).collect()
    };
    assert_eq!(
        of(Era::After),
        [("resnet18".to_owned(), "newes".to_owned()), ("vgg16".to_owned(), "ababa".to_owned())]
    );
    assert_eq!(of(Era::Before), [("resnet18".to_owned(), "newer".to_owned())]);
}

#[test]
fn custom_workers_are_compared_with_the_shipped_one() {
    let mut builder = StudyBuilder::new();
    for repeat in 1..=3 {
        let rate = 10.0 + f64::from(repeat);
        let own = Key {
            worker: WorkerTemplate::Command(["train.py".into()].into()),
            ..key("b", "resnet18", 4, repeat)
        };
        builder =
            builder.run_with(key("a", "resnet18", 4, repeat), rate, |_| {}).run_with(own, rate, |record| {
                record.measurement.as_mut().unwrap().unit = Some(SampleUnit::IMAGES);
            });
    }
    with(&builder.build(), ["a", "b"], |found| {
        let found = found.unwrap();
        assert!(found.lines[0].result.is_ok(), "{:?}", found.lines);
        assert!(found.differences.iter().any(|difference| difference.text == "worker shipped / train.py"));
    });
}

/// Otherwise a reader would judge by the printed interval differently from the program.
#[test]
fn an_end_beside_1_is_not_printed_as_1() {
    let interval = |low, high| Interval { low, high, coverage: 0.95 };
    assert_eq!(ratio_texts(1.31, interval(1.27, 1.35)), ["1.310", "1.270", "1.350"]);
    assert_eq!(ratio_texts(1.031, interval(1.0004, 1.062)), ["1.0310", "1.0004", "1.0620"]);
    assert_eq!(ratio_texts(0.97, interval(0.94, 0.999_96)), ["0.97000", "0.94000", "0.99996"]);
    assert_eq!(ratio_texts(3.2, interval(0.9, 11.0)), ["3.2", "0.9", "11.0"]);
    assert_eq!(ratio_texts(1.0, interval(1.0, 1.0)), ["1.000", "1.000", "1.000"]);
}
