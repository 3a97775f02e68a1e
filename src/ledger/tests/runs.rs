//! Ledgers with one line per run, or per iteration.

use super::{Rule, assert_found, audited, read};
use crate::analysis::peaks::Catalogue;
use crate::ledger::audit;

/// The columns that the driver of the seed reports writes, as far as they are read.
const HEADER: &str = "timestamp,hostname,arch,backend,batch_size,warmup_iters,measured_iters,precision,elapsed_sec,images_per_sec,\
     images_processed,label,grad_accum_steps\n";

/// A run of `iterations` × 16 images that ends at `end`.
fn run(end: u32, iterations: u32, seconds: f64, label: &str) -> String {
    let images = 16 * iterations;
    let rate = f64::from(images) / seconds;
    format!("{end},north,resnet18,cpu,16,10,{iterations},fp32,{seconds},{rate},{images},{label},1\n")
}

/// Asserts the objections to `lines`, ignoring unread cells.
#[track_caller]
fn assert_runs(lines: &str, expected: &[(Rule, u64)]) {
    let ledger = read("l.csv", &format!("{HEADER}{lines}"), &[]).unwrap();
    let audited = audit(&ledger.entries, &Catalogue::default());
    let found: Vec<(Rule, u64)> =
        audited.objections.iter().map(|it| (it.rule, it.lines[0].line.unwrap())).collect();
    assert_eq!(found, expected, "{:#?}", audited.objections);
}

#[test]
fn runs_one_after_another_are_sound() {
    let lines =
        [run(1000, 100, 20.0, "r_run1"), run(1030, 100, 20.2, "r_run2"), run(1060, 100, 19.9, "r_run3")];
    assert_runs(&lines.concat(), &[]);
}

#[test]
fn profiled_runs_and_other_windows_stand_out() {
    let timings =
        [run(1000, 100, 20.0, "r_run1"), run(1030, 100, 20.2, "r_run2"), run(1060, 100, 19.9, "r_run3")]
            .concat();
    assert_runs(&(timings.clone() + &run(1090, 100, 20.0, "r_prof")), &[(Rule::Profiled, 5)]);
    assert_runs(&(timings.clone() + &run(1090, 30, 6.1, "r_run4")), &[(Rule::UnequalWindows, 5)]);
    // A profile is something else than a profit.
    assert_runs(&(timings + &run(1090, 100, 20.0, "profit_run4")), &[]);
}

#[test]
fn runs_that_overlap_are_named_together() {
    let lines = [run(1000, 100, 20.0, "r1"), run(1010, 100, 20.0, "r2"), run(1060, 100, 20.0, "r3")].concat();
    assert_runs(&lines, &[(Rule::Overlap, 2)]);
    // A second may be rounding, and another host is another machine.
    let near = [run(1000, 100, 20.0, "r1"), run(1019, 100, 20.0, "r2")].concat();
    assert_runs(&near, &[]);
    let elsewhere = run(1000, 100, 20.0, "r1") + &run(1010, 100, 20.0, "r2").replace("north", "south");
    assert_runs(&elsewhere, &[]);
}

#[test]
fn a_rate_is_samples_by_seconds() {
    let line = |rate: f64, images: u32| {
        format!("1000,north,resnet18,cpu,16,10,100,fp32,20.0,{rate},{images},r1,1\n")
    };
    assert_runs(&line(80.0, 1600), &[]);
    assert_runs(&line(80.3, 1600), &[]);
    assert_runs(&line(86.17, 1600), &[(Rule::MeanOfRates, 2)]);
    assert_runs(&line(73.1, 1600), &[(Rule::Rate, 2)]);
    assert_runs(&line(240.0, 1600), &[(Rule::IterationCount, 2)]);
    assert_runs(&line(24.0, 480), &[(Rule::IterationCount, 2)]);
    // The last batch may be smaller.
    assert_runs(&line(79.8, 1596), &[]);
    // Accumulated batches count as often as they are.
    assert_runs(&line(320.0, 6400).replace("r1,1", "r1,4"), &[]);
}

#[test]
fn a_mean_of_iterations_is_not_the_mean_of_their_rates() {
    let with = |rate: &str| format!("model,batch,avg_time_ms,avg_throughput\nresnet18,128,182.00,{rate}\n");
    assert_found(&with("703.30"), &[]);
    assert_found(&with("751.93"), &[(Rule::MeanOfRates, 2)]);
    // The mean of several runs' rates may exceed the rate of their mean seconds.
    let runs =
        "model,batch,runs,mean_iteration_s,images_per_s,images_per_sec_std\nvgg11,10,5,1.000,10.15,1.20\n";
    assert!(super::found(runs).iter().all(|(rule, _)| *rule != Rule::MeanOfRates));
}

/// Iterations of 16 samples that take these milliseconds, each with the time stamp at its end.
fn iterations(milliseconds: &[u32], pause: f64) -> String {
    let mut end = 1000.0;
    let mut text = "model,batch_size,iter_idx,iter_time_ms,timestamp\n".to_owned();
    for (index, time) in milliseconds.iter().enumerate() {
        end += f64::from(*time) / 1000.0 + pause;
        text += &format!("resnet18,16,{index},{time}.00,{end:.4}\n");
    }
    text
}

#[test]
fn iterations_that_take_different_times_have_another_mean_rate() {
    assert_found(&iterations(&[100, 101, 99, 100], 0.0), &[]);
    assert_found(&iterations(&[100, 40, 100, 40], 0.0), &[(Rule::UnevenRates, 2)]);
    // Time that passes between iterations belongs to the training.
    assert_found(&iterations(&[100, 100, 100, 100], 0.004), &[]);
    assert_found(&iterations(&[100, 100, 100, 100], 0.04), &[(Rule::LeftOut, 2)]);
}

/// A summary of 280 samples/s of iterations that make 228.57.
#[test]
fn a_summary_that_states_the_mean_of_rates_is_found_by_its_iterations() {
    let windows = read("i.csv", &iterations(&[100, 40, 100, 40], 0.0), &[]).unwrap();
    let audited = |rate: &str| {
        let summary = format!("model,batch,avg_time_ms,throughput\nResNet18,16,70.00,{rate}\n");
        let summary = read("s.csv", &summary, &[]).unwrap();
        let entries = [summary.entries, windows.entries.clone()].concat();
        let rules = audit(&entries, &Catalogue::default()).objections;
        rules.into_iter().map(|it| it.rule).collect::<Vec<_>>()
    };
    assert_eq!(audited("280.00"), [Rule::MeanOfRates, Rule::UnevenRates]);
    assert_eq!(audited("228.57"), [Rule::UnevenRates]);
}

#[test]
fn a_sentence_can_be_recomputed() {
    let objection = audited(&iterations(&[100, 40, 100, 40], 0.0)).objections.remove(0);
    assert_eq!(
        objection.sentence,
        "the mean of 4 rates is 280 samples/s, but 4 × 16 samples ÷ 0.28 s are 228.571: 18.4 % less"
    );
}
