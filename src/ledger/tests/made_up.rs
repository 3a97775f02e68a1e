//! Summaries: one line per config.

use super::{Rule, assert_found, audited, found};

/// A header, and lines of two machines.
const HEADER: &str =
    "env,host,model,precision,batch,runs,images_per_sec_mean,images_per_sec_std,attained_gflops\n";

/// A ledger of summaries.
fn ledger(lines: &[&str]) -> String {
    format!("{HEADER}{}\n", lines.join("\n"))
}

/// Lines that are all right: 6 × the MACs of a network, as many scripts count.
const SOUND: [&str; 4] = [
    "a,north,resnet18,fp32,16,3,100.00,1.00,1088.44",
    "a,north,resnet18,fp32,32,3,150.00,1.00,1632.67",
    "b,south,resnet18,fp32,16,3,400.00,2.00,4353.77",
    "b,south,alexnet,fp32,16,3,1000.0,9.0,4285.1",
];

#[test]
fn a_sound_ledger_has_no_objection() {
    assert_found(&ledger(&SOUND), &[]);
    let notes = audited(&ledger(&SOUND)).notes;
    assert!(notes[0].contains("6 × the MACs of the forward pass: 4 of 4 lines agree"), "{notes:?}");
}

/// The fixture has the kinds of mistakes that reports of students had, with other numbers.
#[test]
fn finds_the_mistakes_of_the_fixture() {
    use Rule::{Cliff, Flops, Intensity, IterationCount, Merged, Runs, Spread, SpreadOfOne};
    let csv = include_str!("../../../tests/fixtures/ledger.csv");
    assert_found(
        csv,
        &[
            (Merged, 2),
            (Merged, 3),
            (Merged, 8),
            (Merged, 9),
            (IterationCount, 11),
            (Flops, 15),
            (Intensity, 5),
            (SpreadOfOne, 14),
            (Runs, 3),
            (Runs, 14),
            (Spread, 4),
            (Cliff, 13),
        ],
    );
}

/// The most precise intensities leave a range of bandwidths, and a coarse one may agree only with its end:
/// 4582.8 ÷ 1502.63 is 3.0498.
#[test]
fn an_intensity_that_agrees_with_any_bandwidth_of_the_others_is_sound() {
    let with = |intensity: &str| {
        let mut text = "host,model,batch,runs,images_per_s,attained_gflops,ai\n".to_owned();
        let lines = [("73106.6", "48.7"), ("21590.2", "14.4"), ("12863.2", "8.6"), ("4582.8", intensity)];
        for (batch, (attained, intensity)) in (1..).zip(lines) {
            text += &format!("h,own{batch},{batch},4,100.0,{attained},{intensity}\n");
        }
        text
    };
    assert_found(&with("3.0"), &[]);
    assert_found(&with("2.9"), &[(Rule::Intensity, 5)]);
}

#[test]
fn attained_flops_that_do_not_follow_are_an_error() {
    let with = |line| ledger(&[&SOUND[..], &[line]].concat());
    assert_found(&with("a,north,alexnet,fp32,16,3,1000.0,9.0,4285.1"), &[]);
    // 0.4 % off, within the tolerance, and 0.7 % off.
    assert_found(&with("a,north,alexnet,fp32,16,3,1000.0,9.0,4302.2"), &[]);
    assert_found(&with("a,north,alexnet,fp32,16,3,1000.0,9.0,4315.1"), &[(Rule::Flops, 6)]);
    // What was rounded to two digits can be 4 % off.
    assert_found(&with("a,north,alexnet,fp32,16,3,1.1,0.0,4.6"), &[]);
    // 40 of 100 iterations.
    assert_found(&with("a,north,alexnet,fp32,16,3,1000.0,9.0,1714.04"), &[(Rule::IterationCount, 6)]);
    // The FLOPs of another network.
    let other = audited(&with("a,north,alexnet,fp32,16,3,1000.0,9.0,10884.4")).objections;
    assert!(other[0].cause.contains("those of resnet18"), "{other:?}");
    // The value of another line.
    let copied = audited(&with("a,north,alexnet,fp32,16,3,1000.0,9.0,1632.67")).objections;
    assert!(copied[0].cause.contains("that of the other line"), "{copied:?}");
    assert_eq!(copied[0].lines[1].line, Some(3));
}

#[test]
fn undescribed_networks_are_compared_among_their_lines() {
    let line = |batch: u32, rate: f64, flops: f64| {
        format!("a,north,my_net,fp32,{batch},3,{rate:.2},1.00,{:.2}", rate * flops)
    };
    let lines = [line(4, 100.0, 3.0), line(8, 150.0, 3.0), line(16, 180.0, 3.0), line(32, 190.0, 3.1)];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_found(&ledger(&lines), &[(Rule::Flops, 5)]);
    assert_found(&ledger(&lines[..3]), &[]);
    // Of two that differ, either can be right.
    assert_found(&ledger(&lines[2..]), &[]);
}

#[test]
fn a_mean_over_machines_is_reproduced_from_their_lines() {
    let merged = [
        "a,north,resnet18,fp32,16,3,100.00,1.00,3004.10",
        "b,south,resnet18,fp32,16,5,381.61,2.00,3004.10",
        "a,north,resnet18,fp32,32,3,150.00,1.00,1632.67",
        "a,north,alexnet,fp32,16,3,1000.0,9.0,4285.1",
        "b,south,alexnet,fp32,16,3,1000.0,9.0,4285.1",
    ];
    let objections = audited(&ledger(&merged)).objections;
    assert_eq!(found(&ledger(&merged))[..2], [(Rule::Merged, vec![2, 3]), (Rule::Merged, vec![3, 2])]);
    assert!(
        objections[0].cause.contains("(3 × 100.00 + 5 × 381.61) ÷ 8 × 10.8845 GFLOP are 3004"),
        "{objections:?}"
    );
    // The same value with other runs is not that mean.
    let other = ledger(&merged).replace(",5,381.61", ",3,381.61");
    assert!(found(&other).iter().all(|(rule, _)| *rule != Rule::Merged), "{:?}", found(&other));
}

#[test]
fn a_line_for_all_machines_is_merged() {
    let lines = [
        "a,north,resnet18,fp32,16,3,100.00,1.00,NA",
        "b,south,resnet18,fp32,16,3,400.00,1.00,NA",
        "all,both,resnet18,fp32,16,6,250.00,9.00,NA",
    ];
    assert!(found(&ledger(&lines)).contains(&(Rule::Merged, vec![4, 2, 3])));
    // With the runs of one machine, it is a third machine whose rate happens to be in between.
    let third = [lines[0], lines[1], "c,west,resnet18,fp32,16,3,250.00,1.00,NA"];
    assert_found(&ledger(&third), &[]);
}

#[test]
fn the_number_of_runs_is_that_of_most_rows() {
    let with = |runs| {
        ledger(&[&SOUND[..], &[&format!("b,south,alexnet,fp32,32,{runs},1200.0,9.0,5142.1")]].concat())
    };
    assert_found(&with(3), &[]);
    for (runs, cause) in [(2, "left out"), (4, "1 × 3 + 1 runs"), (6, "2 × 3 runs"), (5, "another config")]
    {
        assert_found(&with(runs), &[(Rule::Runs, 6)]);
        let objection = audited(&with(runs)).objections.remove(0);
        assert!(objection.cause.contains(cause), "{objection:?}");
    }
    // Without a majority, the intended number is unknown.
    assert_found(&ledger(&[SOUND[0], "b,south,alexnet,fp32,32,5,1200.0,9.0,5142.1"]), &[]);
}

#[test]
fn spreads_are_neither_large_nor_absent_nor_of_one_run() {
    let with =
        |runs: u32, sd: &str| ledger(&[&format!("a,north,resnet18,fp32,16,{runs},100.00,{sd},1088.44")]);
    for (runs, sd, expected) in [
        (3, "1.00", None),
        // A deviation of 8 % from three runs can be chance; from ten, it cannot.
        (3, "8.00", None),
        (10, "8.00", Some(Rule::Spread)),
        (3, "12.00", Some(Rule::Spread)),
        (2, "12.00", None),
        (3, "0.00", Some(Rule::NoSpread)),
        // Whole numbers would not show it.
        (3, "0", None),
        (1, "0.00", Some(Rule::SpreadOfOne)),
        (1, "1.00", Some(Rule::SpreadOfOne)),
        (1, "NA", None),
    ] {
        let expected: Vec<(Rule, u64)> = expected.map(|rule| (rule, 2)).into_iter().collect();
        assert_found(&with(runs, sd), &expected);
    }
}

#[test]
fn a_cliff_is_a_fall_to_less_than_half_at_the_next_batch() {
    let with = |rate: &str| {
        format!(
            "model,batch,images_per_s\nresnet18,16,100.0\nresnet18,64,{rate}\nresnet18,32,110.0\nvgg11,64,9.0\n"
        )
    };
    assert_found(&with("55.1"), &[]);
    assert_found(&with("54.9"), &[(Rule::Cliff, 3)]);
    // Another precision is another series.
    let csv = "model,precision,batch,images_per_s\nresnet18,amp,16,100.0\nresnet18,fp32,32,40.0\n";
    assert_found(csv, &[]);
}

/// Intensities of attained ÷ 50 GB/s.
const POINTS: [&str; 4] = ["100.0,2.000", "200.0,4.000", "300.0,6.000", "400.0,8.000"];

#[test]
fn an_intensity_that_is_not_like_the_others_is_an_error() {
    let with = |points: &[&str]| format!("attained_gflops,ai\n{}\n", points.join("\n"));
    assert_found(&with(&POINTS), &[]);
    assert_found(&with(&[&POINTS[..], &["500.0,10.2"]].concat()), &[(Rule::Intensity, 6)]);
    // Half a digit and 0.1 % are allowed, and a coarse number allows much.
    assert_found(&with(&[&POINTS[..], &["500.0,10.01"]].concat()), &[]);
    assert_found(&with(&[&POINTS[..], &["24.0,0.5"]].concat()), &[]);
    // Counted intensities have no common bandwidth.
    assert_found(&with(&["100.0,2.000", "200.0,3.000", "300.0,6.500", "400.0,9.000"]), &[]);
    // Two that agree are too few, and so are three of seven.
    assert_found(&with(&["100.0,2.000", "200.0,4.000", "300.0,7.000"]), &[]);
    let notes = audited(&with(&POINTS)).notes;
    assert!(notes.iter().any(|note| note.contains("÷ 50 GB/s") && note.contains("4 of 4")), "{notes:?}");
}

#[test]
fn finds_points_above_a_roof_and_exactly_on_the_memory_roof() {
    let with = |line: &str| {
        format!("model,precision,attained_gflops,ai,peak_gflops,peak_gbps\nmy_net,fp32,{line}\n")
    };
    assert_found(&with("900.0,20.00,1000,100"), &[]);
    assert_found(&with("1040.0,20.00,1000,100"), &[]);
    assert_found(&with("1060.0,20.00,1000,100"), &[(Rule::AboveRoof, 2)]);
    assert_found(&with("500.0,4.00,1000,100"), &[(Rule::AboveRoof, 2)]);
    assert_found(&with("400.0,4.00,1000,100.0"), &[(Rule::OnRoof, 2)]);
    assert_found(&with("390.0,4.00,1000,100.0"), &[]);
    // An intensity of one digit agrees with many roofs.
    assert_found(&with("400.0,4,1000,100.0"), &[]);
}

#[test]
fn the_roof_of_a_device_is_that_of_exactly_its_name() {
    let with = |device: &str, rate: u32| {
        format!("gpu_name,model,precision,images_per_s\n{device},resnet50,fp32,{rate}\n")
    };
    // 24.3 GFLOP per sample: 2000 are 48.6 TFLOP/s, more than the laptop's card can do.
    assert_found(&with("NVIDIA GeForce RTX 4090", 2000), &[]);
    assert_found(&with("NVIDIA GeForce RTX 4090 Laptop GPU", 2000), &[(Rule::AboveRoof, 2)]);
    assert_found(&with("NVIDIA GeForce RTX 4090 Laptop GPU", 500), &[]);
    assert_found(&with("an unknown card", 90_000), &[]);
}

#[test]
fn peaks_are_those_of_the_device() {
    let with = |device: &str, precision: &str, peaks: &str| {
        format!("gpu_name,precision,peak_tflops,peak_gbps\n{device},{precision},{peaks}\n")
    };
    let [desktop, laptop] = ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 Laptop GPU"];
    assert_found(&with(desktop, "fp32", "82.6,1008"), &[]);
    assert_found(&with(laptop, "fp32", "35,576"), &[]);
    assert_found(&with(laptop, "fp32", "82.6,576"), &[(Rule::OtherPeaks, 2)]);
    assert_found(&with(desktop, "fp32", "80,230"), &[(Rule::OtherPeaks, 2)]);
    let cause = |csv: &str| audited(csv).objections.remove(0).cause;
    assert!(cause(&with(laptop, "fp32", "82.6,576")).contains("RTX 4090 (desktop)"));
    assert!(cause(&with(desktop, "amp", "330.4,1008")).contains("sparse"));
    assert!(cause(&with(desktop, "fp32", "165.2,1008")).contains("another precision"));
}
