//! For an external worker, the tables contain declared and reported settings, and no defaults of the shipped worker.

use std::collections::BTreeMap;

use super::{measure, rows};
use crate::harness::{Project, own_worker};

/// A project whose worker ran `resnet18` and reported `settings`, with its tables and with measured peaks.
fn aggregated(settings: &str, more: &str) -> Project {
    let project = Project::new().and_yaml(&own_worker(settings, &["{size}"], more, ""));
    measure(&project, &["--quick"]).code(0);
    project.orchestrate(&["run", "m.yaml"]).code(0);
    project.orchestrate(&["report", "m.yaml", "--include-marked"]).code(0);
    project
}

fn only(project: &Project, file: &str) -> BTreeMap<String, String> {
    let mut rows = rows(project, file);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

const FLOPS: [&str; 6] = [
    "parameters",
    "forward_gmac_per_sample",
    "training_gflop_per_sample",
    "attained_gflop_per_s",
    "percent_of_peak",
    "median_samples_per_s",
];

#[test]
fn a_network_with_an_unknown_image_size_has_no_flops() {
    let project = aggregated("", "repeats: 1\nparams: { size: 32 }");
    let summary = only(&project, "summary.csv");
    assert_eq!(FLOPS.map(|name| summary[name] == "NA"), [true, true, true, true, true, false], "{summary:?}");
    assert_eq!(only(&project, "metrics.csv")["attained_gflop_per_s"], "NA");
    assert_eq!(rows(&project, "roofline_points.csv").len(), 0);
    let page = std::fs::read_to_string(project.path("report/m/report.md")).unwrap();
    let reason = "`input_size` and `classes` of `resnet18` are unknown: declare them under `params`, or let the worker \
                report them under `effective` (1 row without FLOP/s).";
    assert_eq!(page.matches(reason).count(), 1, "{page}");
    assert!(!page.contains("224 × 224"), "{page}");
}

#[test]
fn a_declared_or_reported_image_size_gives_flops() {
    let gflop = |settings: &str, params: &str| {
        let project = aggregated(settings, &format!("repeats: 1\nparams: {{ size: 32, {params} }}"));
        let summary = only(&project, "summary.csv");
        assert!(FLOPS.iter().all(|name| summary[*name] != "NA"), "{summary:?}");
        assert!(!rows(&project, "roofline_points.csv").is_empty());
        summary["training_gflop_per_sample"].parse::<f64>().unwrap()
    };
    let of = |size, classes| {
        let network = orchestrate::architecture::network("resnet18", size, classes).unwrap();
        network.training_flops() as f64 / 1e9
    };
    assert_eq!(gflop("\"input_size\": 32, \"classes\": 10", ""), of(32, 10));
    assert_eq!(gflop("", "input_size: 64, classes: 10"), of(64, 10));
    assert_eq!(gflop("\"classes\": 10.0", "input_size: 224"), of(224, 10));
    assert_eq!(
        gflop("", "input_size: 224, classes: 1000"),
        of(224, 1000),
        "the defaults of the shipped worker"
    );
}

/// The size of the images is unknown, so the description of `resnet18` is not used.
#[test]
fn counts_of_a_worker_give_flops_but_no_modelled_bytes() {
    let details = r#", variables: { DETAILS: '"flops_per_sample": 2.5e9, "parameters": 61706' }"#;
    let yaml = own_worker("", &["{size}"], "repeats: 1\nparams: { size: 32 }", details);
    let project = Project::new().and_yaml(&yaml);
    measure(&project, &["--quick"]).code(0);
    project.orchestrate(&["run", "m.yaml"]).code(0);
    project.orchestrate(&["report", "m.yaml", "--include-marked"]).code(0);
    let summary = only(&project, "summary.csv");
    let names = ["parameters", "forward_gmac_per_sample", "training_gflop_per_sample", "flops_source"];
    assert_eq!(names.map(|name| summary[name].as_str()), ["61706", "NA", "2.5", "reported"], "{summary:?}");
    let number = |name: &str| summary[name].parse::<f64>().unwrap();
    let attained = 2.5 * number("median_samples_per_s");
    assert!((number("attained_gflop_per_s") / attained - 1.0).abs() < 1e-9, "{summary:?}");
    assert!(number("percent_of_peak") > 0.0);
    let points = rows(&project, "roofline_points.csv");
    assert_eq!(points.iter().map(|point| point["bytes_source"].as_str()).collect::<Vec<_>>(), ["estimated"]);
    let page = std::fs::read_to_string(project.path("report/m/report.md")).unwrap();
    assert!(page.contains("| resnet18, as its worker counts | 61,706 | NA | 2.500 | NA |"), "{page}");

    let other = project.orchestrate(&["report", "m.yaml", "--include-marked", "--flops-convention", "seed1"]);
    other.code(0);
    assert_eq!(only(&project, "summary.csv")["training_gflop_per_sample"], "NA");
    let page = std::fs::read_to_string(project.path("report/m/report.md")).unwrap();
    assert!(page.contains("`--flops-convention` cannot change them"), "{page}");
}

/// The worker's unit of samples is the unit of its throughput everywhere.
#[test]
fn a_worker_names_its_samples_and_reports_custom_metrics() {
    let more = r#", variables: { MORE: '"unit": "sequences", "metrics": {
        "tokens": { "value": 8192, "per_second": true }, "perplexity": { "value": 12.5 } }' }"#;
    let project =
        Project::new().and_yaml(&own_worker("", &["{size}"], "repeats: 2\naxes: { size: [32] }", more));
    project.orchestrate(&["run", "m.yaml"]).code(0).says("80.00 sequences/s");
    for (arguments, words) in [
        (&["status", "m.yaml", "--include-marked"][..], "sequences/s"),
        (&["report", "m.yaml", "--include-marked"], "sequences/s"),
        (&["show", "cpu_resnet18_fp32_bs4_run1"], "16384 tokens/s"),
    ] {
        let shown = project.orchestrate(arguments).code(0);
        assert!(shown.stdout.contains(words), "{words}: {shown:?}");
    }
    let summary = only(&project, "summary.csv");
    let names = [
        "unit",
        "param_size",
        "metric_tokens_per_s_n",
        "metric_tokens_per_s_median",
        "metric_tokens_per_s_unit",
        "metric_perplexity_max",
        "metric_perplexity_unit",
    ];
    let found = names.map(|name| summary[name].as_str());
    assert_eq!(found, ["sequences", "32", "2", "16384", "tokens/s", "12.5", "NA"], "{summary:?}");
    let metrics = rows(&project, "metrics.csv");
    assert!(metrics.iter().all(|row| row["metric_tokens_per_s"] == "16384" && row["part"] == "1 of 1"));
    let page = std::fs::read_to_string(project.path("report/m/report.md")).unwrap();
    assert!(page.contains("| tokens | tokens/s | 2 | 16384 | 16384 | 16384 |"), "{page}");
    assert!(page.contains("sequences per second over the whole") && !page.contains("images/s"), "{page}");
}

#[test]
fn a_metric_that_cannot_be_a_column_fails_its_job_by_name() {
    let more = r#", variables: { MORE: '"metrics": { "Tokens/s": { "value": 1 } }' }"#;
    let project = Project::new().and_yaml(&own_worker("", &[], "repeats: 1", more));
    project
        .orchestrate(&["run", "m.yaml"])
        .code(10)
        .says("metrics: `Tokens/s` is not a name: expected at most 40");
}

#[test]
fn a_setting_not_declared_or_reported_is_unknown() {
    let project = aggregated("\"warmup\": 3", "repeats: 1\nparams: { size: 32, seed: 0, iters: 10 }");
    let metrics = only(&project, "metrics.csv");
    let of_interest =
        ["warmup", "iters", "seed", "optimizer", "classes", "input_size", "data", "augment", "threads"];
    assert_eq!(
        of_interest.map(|name| metrics[name].as_str()),
        ["3", "10", "0", "NA", "NA", "NA", "NA", "NA", "NA"]
    );
}

#[test]
fn each_part_of_a_split_config_has_its_own_flops() {
    let project =
        aggregated("\"input_size\": {repeat}00, \"classes\": 10", "repeats: 2\nparams: { size: 32 }");
    let gflops = |file| rows(&project, file).into_iter().map(|row| row["training_gflop_per_sample"].clone());
    let of = |size| {
        let network = orchestrate::architecture::network("resnet18", size, 10).unwrap();
        (network.training_flops() as f64 / 1e9).to_string()
    };
    let expected = [of(100), of(200)];
    assert_eq!(gflops("summary.csv").collect::<Vec<_>>(), expected);
    assert_eq!(gflops("metrics.csv").collect::<Vec<_>>(), expected);
}
