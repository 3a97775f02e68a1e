//! `calibrate`, as a user sees it, with a worker that makes up its durations.
#![expect(clippy::disallowed_methods, reason = "tests write scripts")]

use std::fs;

use crate::harness::{Matrix, Project, Running, write_program};

/// A worker with the flags of the shipped one. Its iterations scatter by up to 2 %, depending on the label of the run.
const WORKER: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in
    --batch-size) batch=$2 ;;
    --iters) iters=$2 ;;
    --warmup-iters) warmup=$2 ;;
    --label) label=$2 ;;
    esac
    shift
done
by=$(printf '%s' "$label" | cksum | cut -c1-3)
seconds=$(awk "BEGIN { print $iters * 2e-7 * (1 + $by / 50000) }")
printf '{"schema":1,"samples":%s,"elapsed_s":%s,"synchronized":true,"effective":{' $((iters * batch)) "$seconds" \
    > "$ORCHESTRATE_MEASUREMENT"
printf '"device":"cpu","precision":"fp32","batch":%s,"iters":%s,"warmup":%s,"input_size":64,"classes":10}}' \
    "$batch" "$iters" "$warmup" >> "$ORCHESTRATE_MEASUREMENT"
"#;

#[test]
fn the_noise_of_a_machine_is_printed_and_used_by_plans_and_reports() {
    let project = Project::with(Matrix::new("m").repeats(5));
    write_program(&project.path("worker"), WORKER);
    let orchestrate = |words: &[&str]| {
        let mut command = project.command(words);
        command.env("ORCHESTRATE_WORKER", project.path("worker"));
        Running::start(command).wait()
    };
    let mut text = orchestrate(&["calibrate", "--minutes", "1"]).stdout;
    // On a busy machine, marked runs must be repeated.
    for _ in 0..20 {
        if text.contains(" 0 left out") {
            break;
        }
        orchestrate(&["resume", "calibration-cpu", "--rerun-marked"]);
        text = orchestrate(&["calibrate", "--minutes", "1"]).stdout;
    }
    for words in
        ["calibration-cpu: cpu of ", " pairs of equal runs, 0 left out", "within a block", " repeats"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let again = orchestrate(&["calibrate", "--minutes", "1", "--json"]).code(0);
    let noise: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    let within = noise["within"].as_f64().unwrap();
    assert!((0.0005..0.02).contains(&within), "{noise}");
    assert!(noise["pairs"].as_u64().unwrap() >= 10, "{noise}");

    let planned = project.orchestrate(&["plan", "m.yaml"]).code(0).stdout;
    assert!(planned.contains("at the noise of cpu on "), "{planned}");
    assert!(planned.contains("5 repeats resolve "), "{planned}");
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let reported = project.orchestrate(&["report", "m", "--include-marked", "--tables"]).code(0).stdout;
    assert!(reported.contains("- At the noise of cpu on "), "{reported}");
    let page = fs::read_to_string(project.path("report/m/report.md")).unwrap();
    assert!(page.contains("At the noise of cpu on "), "{page}");
}

#[test]
fn a_device_that_is_not_here_is_refused() {
    let project = Project::new();
    project.orchestrate(&["calibrate", "--device", "tpu"]).code(2);
    project.orchestrate(&["calibrate", "--minutes", "0"]).code(2);
    project
        .orchestrate(&["calibrate", "--device", "cuda:7"])
        .code(1)
        .says("this host has no device `cuda:7`");
}
