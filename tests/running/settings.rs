//! Every declared parameter that a worker reports is compared with the reported value, for external workers too.

use orchestrate::record::Outcome;
use serde_json::{Value, json};

use crate::harness::{Project, own_worker};

/// The outcome of the only job of a matrix with `params`, whose worker reports `settings`.
fn outcome(settings: &str, words: &[&str], params: &str) -> Outcome {
    let params = format!("repeats: 1\nparams: {{ {params} }}");
    let project = Project::new().and_yaml(&own_worker(settings, words, &params, ""));
    project.orchestrate(&["run", "m.yaml"]);
    project.record().outcome
}

fn sentence(settings: &str, words: &[&str], params: &str) -> String {
    outcome(settings, words, params).to_string()
}

#[test]
fn a_declared_parameter_that_is_ignored_fails_the_job() {
    let settings = "\"compile\": true, \"size\": 9999";
    assert_eq!(
        sentence(settings, &["{compile}", "{size}"], "compile: false, size: 32"),
        "did not run as requested: compile true instead of false, size 9999 instead of 32"
    );
}

#[test]
fn a_parameter_of_the_shipped_worker_is_compared_at_its_default_too() {
    let mismatch = "did not run as requested: warmup 3 instead of 10";
    assert_eq!(sentence("\"warmup\": 3", &["{warmup}"], ""), mismatch, "the command contains the default");
    assert_eq!(sentence("\"warmup\": 3", &[], "warmup: 10"), mismatch, "the matrix declares the default");
    assert_eq!(outcome("\"warmup\": 3", &[], ""), Outcome::Succeeded, "it is in neither");
}

/// A worker that repeats its command line reports texts, so a text can equal a number or a switch. Otherwise, values of
/// different types differ.
#[test]
fn numbers_are_compared_by_value_and_texts_exactly() {
    let cases = [
        ("32", "32.0", true),
        ("32", "\"32\"", true),
        ("32", "33", false),
        ("0.1", "0.1", true),
        ("0.1", "\"1e-1\"", true),
        ("0.1", "0.10000000149011612", false),
        ("9007199254740993", "9007199254740992", false),
        ("\"32\"", "32", true),
        ("\"1.10\"", "\"1.10\"", true),
        ("\"1.10\"", "\"1.1\"", false),
        ("true", "true", true),
        ("true", "\"true\"", true),
        ("true", "\"True\"", false),
        ("true", "1", false),
        ("flash", "\"flash\"", true),
        ("flash", "\"math\"", false),
        ("\"[1, 2]\"", "[1,2.0]", true),
        ("\"[1, 2]\"", "[2, 1]", false),
    ];
    for (requested, reported, agrees) in cases {
        let outcome = outcome(&format!("\"x\": {reported}"), &["{x}"], &format!("x: {requested}"));
        assert_eq!(outcome == Outcome::Succeeded, agrees, "{requested} and {reported}: {outcome}");
        assert!(agrees || outcome.kind() == "setting_mismatch", "{outcome}");
    }
}

#[test]
fn the_record_keeps_the_reported_settings() {
    let said =
        "\"own\": { \"a\": [1, 2.5, null] }, \"text\": \"é\", \"size\": 32.0, \"none\": null, \"rate\": 0.1";
    let matrix = own_worker(said, &["{size}"], "repeats: 1\nparams: { size: 32 }", "");
    let project = Project::new().and_yaml(&matrix);
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let dirs = project.store().job_dirs().unwrap();
    let record: Value = serde_json::from_slice(&std::fs::read(dirs[0].record()).unwrap()).unwrap();
    let expected: Value = serde_json::from_str(&format!(
        "{{ \"device\": \"cpu\", \"precision\": \"fp32\", \"batch\": 4, {said} }}"
    ))
    .unwrap();
    assert_eq!(record["measurement"]["effective"], expected);
    let shown = project.orchestrate(&["show", "cpu_resnet18_fp32_bs4_run1", "--all"]).code(0).stdout;
    assert!(shown.contains("effective size ") && shown.contains("effective own a "), "{shown}");
}

#[test]
fn an_unconfirmed_parameter_is_reported_once() {
    let words = ["{compile}", "{size}", "{mode}"];
    let params = "repeats: 3\nparams: { compile: true, size: 32, mode: fast }";
    let project = Project::new().and_yaml(&own_worker("\"mode\": \"fast\"", &words, params, ""));
    let reason = "`compile` and `size` are declared, but the record has no effective value for them";
    let run = project.orchestrate(&["run", "m.yaml"]).code(0);
    assert_eq!(run.stderr.matches(reason).count(), 1, "{run:?}");
    assert!(run.stderr.contains(&format!("not confirmed: {reason}: 3 jobs")), "{run:?}");
    let status = project.orchestrate(&["status"]).code(0);
    assert_eq!(status.stdout.matches(&format!("not confirmed: {reason}: 3 jobs")).count(), 1, "{status:?}");
    let status = project.orchestrate(&["status", "--json"]).json();
    assert_eq!(status["unconfirmed"], json!([{ "parameters": ["compile", "size"], "jobs": 3 }]));
    for verb in ["show", "explain"] {
        let page = project.orchestrate(&[verb, "cpu_resnet18_fp32_bs4_run2"]).code(0).stdout;
        assert_eq!(page.matches(reason).count(), 1, "{page}");
    }
    project.orchestrate(&["report"]).code(0);
    let page = std::fs::read_to_string(project.path("report/m/report.md")).unwrap();
    assert_eq!(page.matches(&format!("- Not confirmed: {reason} (1 row).")).count(), 1, "{page}");
}

#[test]
fn a_confirmed_parameter_is_not_reported() {
    let matrix = own_worker("\"size\": {size}", &[], "repeats: 1\nparams: { size: 32, iters: 10 }", "");
    let project = Project::new().and_yaml(&matrix);
    // Iterations follow from the samples.
    for verb in [&["run", "m.yaml"][..], &["status"], &["explain", "cpu_resnet18_fp32_bs4_run1"]] {
        let ended = project.orchestrate(verb).code(0);
        assert!(!format!("{ended:?}").contains("confirmed"), "{ended:?}");
    }
}

/// A setting that the worker chose splits rows, whether or not it was requested.
#[test]
fn runs_with_different_reported_settings_are_never_pooled() {
    let rows = |settings: &str| {
        let project = Project::new().and_yaml(&own_worker(settings, &[], "repeats: 3", ""));
        project.orchestrate(&["run", "m.yaml"]).code(0);
        let status = project.orchestrate(&["status", "--json"]).json();
        status["configs"][0]["throughput"].as_array().unwrap().len()
    };
    assert_eq!(rows("\"algorithm\": {repeat}"), 3);
    assert_eq!(rows("\"algorithm\": 1"), 1);
    assert_eq!(
        rows("\"repeat\": {repeat}, \"log\": \"/logs/{label}\", \"file\": \"{out}\""),
        1,
        "only names of the run"
    );
}
