//! `worker selftest` on the processor: it prints one JSON object, whose summary must follow from its checks.
#![cfg(feature = "torch")]
#![expect(clippy::disallowed_methods, reason = "tests drive programs")]

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::readme::pages::page;

/// Runs the self-test, and returns its exit code and its report.
fn run(words: &str) -> (i32, Value) {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
    worker.args(["selftest", "--device", "cpu"]).args(words.split_whitespace());
    let ended = worker.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let report = serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (ended.status.code().unwrap(), report)
}

fn checks(report: &Value) -> &[Value] {
    report["checks"].as_array().unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// Whether a comparison is true, by the numbers in it.
fn holds(comparison: &Value) -> bool {
    let number = |key: &str| comparison[key].as_f64();
    let found = number("found").unwrap_or(f64::NAN);
    if let Some(within) = number("within") {
        (found - number("expected").unwrap()).abs() <= within
    } else if let Some(least) = number("at_least") {
        found >= least
    } else if let Some(most) = number("at_most") {
        found <= most
    } else {
        comparison["found"] == comparison["expected"]
    }
}

/// Checks that the summary of a report follows from its checks.
fn assert_sound(code: i32, report: &Value) {
    let outcomes = ["passed", "failed", "unsupported", "not_run"];
    let mut counts = [0; 4];
    for check in checks(report) {
        let outcome = text(check, "outcome");
        counts[outcomes.iter().position(|known| *known == outcome).unwrap()] += 1;
        let compared = check["compared"].as_array().map_or(&[][..], Vec::as_slice);
        for comparison in compared {
            assert_eq!(comparison["holds"], holds(comparison), "{comparison}");
        }
        match outcome {
            "passed" => assert!(!compared.is_empty() && compared.iter().all(holds), "{check}"),
            "failed" => assert!(check["reason"].is_string() || !compared.iter().all(holds), "{check}"),
            _ => assert!(!text(check, "reason").is_empty() && compared.is_empty(), "{check}"),
        }
        assert!(!text(check, "shows").is_empty() && check["elapsed_s"].as_f64().unwrap() >= 0.0, "{check}");
    }
    for (outcome, count) in outcomes.iter().zip(counts) {
        assert_eq!(report["counts"][outcome], count, "{outcome}");
    }
    let [_, failed, _, not_run] = counts;
    let expected = match (failed, not_run) {
        (1.., _) => ("failed", 70),
        (_, 1..) => ("incomplete", 75),
        _ => ("passed", 0),
    };
    assert_eq!((text(report, "verdict"), code), expected);
}

/// The number of checks beginning with `name` that ended with `outcome`.
fn count(report: &Value, name: &str, outcome: &str) -> usize {
    let is_meant =
        |check: &&Value| text(check, "name").starts_with(name) && text(check, "outcome") == outcome;
    checks(report).iter().filter(is_meant).count()
}

/// The time limit suffices for some of the training on any machine.
#[test]
fn the_processor_passes_all_checks() {
    let (code, report) = run("--seconds 20 --threads 1");
    assert_sound(code, &report);
    assert_eq!((&report["schema"], text(&report, "device")), (&1.into(), "cpu"));
    assert_eq!((&report["threads"], &report["limit_s"]), (&1.into(), &20.into()));
    assert!(text(&report["versions"], "libtorch").starts_with("2.11.0"), "{report}");
    for name in ["first kernels", "flags", "out of memory"] {
        assert_eq!(count(&report, name, "passed"), 1, "{name}: {report:#}");
    }
    for name in ["pinned memory", "peak memory", "profiler marks"] {
        assert_eq!(count(&report, name, "unsupported"), 1, "{name}: {report:#}");
    }
    assert_eq!(count(&report, "training", "failed"), 0, "{report:#}");
    let ways = count(&report, "training", "passed")
        + count(&report, "training", "unsupported")
        + count(&report, "training", "not_run");
    assert_eq!(ways, 16, "four precisions, two layouts, two optimizers");
}

#[test]
fn checks_without_time_are_listed() {
    let (code, report) = run("--seconds 0");
    assert_sound(code, &report);
    assert_eq!((text(&report, "verdict"), code), ("incomplete", 75));
    assert!(checks(&report).iter().all(|check| text(check, "outcome") == "not_run"), "{report:#}");
}

/// `training …` covers all checks of training.
#[test]
fn the_manual_explains_exactly_the_checks() {
    let (_, report) = run("--seconds 0");
    let family =
        |name: &str| if name.starts_with("training ") { "training …".to_owned() } else { name.to_owned() };
    let found: BTreeSet<String> = checks(&report).iter().map(|check| family(text(check, "name"))).collect();
    let manual = page("docs/first-run-on-a-gpu.md").text;
    let (_, section) = manual.split_once("\n## The checks\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let explained: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(found, explained);
}

#[test]
fn an_absent_device_is_unsupported() {
    let ended =
        Command::new(env!("CARGO_BIN_EXE_worker")).args(["selftest", "--device", "tpu"]).output().unwrap();
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(69), 0));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("`tpu`"));
}
