//! The declaration of each mark matches its effect.

use super::*;

/// Examples of every mark. A match, so that a new mark needs an example.
fn examples(name: MarkName) -> Vec<Mark> {
    match name {
        MarkName::Contended => vec![Mark::Contended { by: "other processes were busy".into() }],
        MarkName::Unsettled => vec![Mark::Unsettled { by: "others kept 1.20 processors busy".into() }],
        MarkName::Throttled => vec![Mark::Throttled { by: "it was hot".into() }],
        MarkName::QuotaThrottled => {
            vec![Mark::QuotaThrottled { held: 3.217, quota: Some(1.5), threshold: 0.05 }]
        }
        MarkName::Suspended => vec![Mark::Suspended { by: "the host slept for 12.0 s".into() }],
        MarkName::Spilled => {
            vec![Mark::Spilled { batch: 128, cliff: 21.4, cores: 1.03, system_share: 0.628, threshold: 4.0 }]
        }
        MarkName::Swapped => vec![Mark::Swapped { out_bytes: 17 << 20, in_bytes: 0, threshold: 16.0 }],
        MarkName::Unsynchronised => vec![Mark::Unsynchronised],
        MarkName::PowerCapped => vec![Mark::PowerCapped { samples: 12, of: 40, threshold: 0.05 }],
        MarkName::Oversubscribed => vec![Mark::Oversubscribed { threads: 3, usable: 2 }],
        MarkName::OnBattery => vec![Mark::OnBattery],
        MarkName::Diverged => vec![Mark::Diverged { iteration: 7 }],
        MarkName::Trend => vec![
            Mark::Trend { change: 0.142, interval: (0.091, 0.18), n: 100, threshold: 0.1 },
            Mark::Trend { change: -1.64, interval: (-1.8, -1.5), n: 100, threshold: 0.075 },
        ],
        MarkName::Periodic => vec![Mark::Periodic { every: 4, ratio: 0.25, n: 100, threshold: 1.2 }],
        MarkName::Bimodal => vec![Mark::Bimodal { ratio: 1.53, numbers: (70, 30), threshold: 1.2 }],
        MarkName::SlowFirst => vec![Mark::SlowFirst { ratio: 2.5, threshold: 1.5 }],
        MarkName::Stalls => {
            vec![Mark::Stalls { stalled: 3, n: 50, ratio: 3.04, cost: 0.107, threshold: 0.05 }]
        }
        MarkName::LevelShift => {
            vec![Mark::LevelShift { places: (26, 50), n: 50, ratio: 1.15, cost: 0.07, threshold: 0.05 }]
        }
        MarkName::Autocorrelated => {
            vec![Mark::Autocorrelated { correlation: 0.68, rows: 12, too_narrow: 2.44, n: 5, threshold: 1.2 }]
        }
        MarkName::ClockChanged => vec![Mark::ClockChanged { by: "it varied".into() }],
        MarkName::HighVariation => {
            vec![Mark::HighVariation { cv: 0.123, at_least: 0.079, n: 5, threshold: 0.05 }]
        }
        MarkName::SettingsDiffer => {
            vec![Mark::SettingsDiffer { env: "gpu".into(), differences: vec!["tf32 false / true".into()] }]
        }
    }
}

fn every_mark() -> Vec<Mark> {
    MarkName::all().flat_map(examples).collect()
}

/// A sentence contains the number and the threshold.
#[test]
fn marks_read_as_sentences() {
    let marks = every_mark();
    let texts: Vec<String> = marks.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"));
    for (mark, text) in marks.iter().zip(&texts) {
        let sentence = text.strip_prefix(&format!("{}: ", mark.name())).unwrap_or_default();
        assert!(sentence.len() > 8, "{} has no sentence", mark.name());
    }
}

/// A decrease of more than the median: from 10 s to 1 s, iterations did not become 164 % shorter.
#[test]
fn a_trend_names_the_base_of_its_percentage() {
    let falling: Vec<f64> = (0..12).map(|i| 10.0 - 9.0 * f64::from(i) / 11.0).collect();
    let study = StudyBuilder::new().run("cpu", "resnet18", 16, 1, 10.0);
    let study = study.seconds(crate::protocol::IterationClock::Host, &falling).build();
    let analysis = analyse(&study);
    let text = analysis.runs[0].marks.iter().map(ToString::to_string).find(|text| text.starts_with("trend"));
    let text = text.expect("it is a trend");
    assert!(text.contains("became shorter over the window, by 164 % of their median"), "{text}");
}

/// Marks without a threshold: a run that has the mark, and one that barely does not. A match, so that a new mark needs
/// a threshold with a case in `boundaries`, or a case here.
fn cases(name: MarkName) -> Option<[Vec<&'static str>; 2]> {
    let threads = |threads: u32| {
        one(|record| record.measurement.as_mut().unwrap().effective.settings.set("threads", threads))
    };
    let power = |source: &str| one(|record| record.provenance.host.power_source = Some(source.to_owned()));
    let loss =
        |first| one(|record| record.measurement.as_mut().unwrap().details.first_non_finite_iteration = first);
    match name {
        MarkName::Unsettled => {
            let gate = |gave_up: Option<&str>| {
                let gave_up = gave_up.map(str::to_owned);
                one(|record| record.observed.gate = Some(Gate { waited_s: 3.0, gave_up }))
            };
            Some([gate(Some("it was hot")), gate(None)])
        }
        MarkName::Unsynchronised => {
            let of = |is| one(|record| record.measurement.as_mut().unwrap().synchronized = is);
            Some([of(false), of(true)])
        }
        MarkName::Oversubscribed => Some([threads(3), threads(2)]),
        MarkName::OnBattery => Some([power("battery"), power("mains")]),
        MarkName::Diverged => Some([loss(Some(0)), loss(None)]),
        MarkName::SettingsDiffer => {
            let beside = |tf32| {
                let study = StudyBuilder::new()
                    .run_with(key("a", "resnet18", 16, 1), 10.0, |record| {
                        record.measurement.as_mut().unwrap().effective.tf32 = Some(true);
                    })
                    .run_with(key("b", "resnet18", 16, 1), 10.0, |record| {
                        record.measurement.as_mut().unwrap().effective.tf32 = Some(tf32);
                    })
                    .build();
                analyse(&study).rows[0].doubts.iter().map(Mark::name).collect()
            };
            Some([beside(false), beside(true)])
        }
        MarkName::Contended
        | MarkName::Throttled
        | MarkName::QuotaThrottled
        | MarkName::Suspended
        | MarkName::Spilled
        | MarkName::Swapped
        | MarkName::PowerCapped
        | MarkName::Trend
        | MarkName::Periodic
        | MarkName::Bimodal
        | MarkName::SlowFirst
        | MarkName::Stalls
        | MarkName::LevelShift
        | MarkName::Autocorrelated
        | MarkName::ClockChanged
        | MarkName::HighVariation => None,
    }
}

#[test]
fn every_mark_has_a_threshold_or_a_case() {
    for name in MarkName::all() {
        let has_threshold = !name.declaration().thresholds.is_empty();
        let text = name.as_str();
        match cases(name) {
            None => assert!(has_threshold, "{text} has neither a threshold nor a case"),
            Some([with, without]) => {
                assert_eq!((with, without), (vec![text], vec![]), "{text}");
                assert!(!has_threshold, "{text} has thresholds, which have separate cases");
            }
        }
    }
}

#[test]
fn the_declaration_decides_which_runs_count() {
    for mark in every_mark() {
        let (leaves_out, voids) = match MarkName::from(&mark).declaration().effect {
            Effect::Kept(_) => (false, false),
            Effect::LeftOut(_) => (true, false),
            Effect::Voids(_) => (true, true),
        };
        assert_eq!((mark.disqualifies(), mark.voids()), (leaves_out, voids), "{}", mark.name());
    }
}

/// Marks of rows and comparisons leave no run out, since no single run is to blame.
#[test]
fn only_marks_of_runs_leave_runs_out() {
    for mark in every_mark() {
        let is_about_a_run = MarkName::from(&mark).declaration().scope == Scope::Run;
        assert!(is_about_a_run || !mark.disqualifies(), "{}", mark.name());
    }
}
