//! Marked runs: left out of the statistics, shown, and kept on request.
#![expect(clippy::disallowed_methods, reason = "tests change what programs leave behind")]

use std::fs;
use std::path::PathBuf;

use orchestrate::files::to_sealed_json;
use orchestrate::protocol::ITERATIONS_HEADER;
use orchestrate::record::{FileDigest, ProcessStats, Record};

use super::rows;
use crate::harness::{Matrix, Project};

/// A project with three runs of one config, edited to be undisturbed even if this machine was busy.
fn three_runs() -> Project {
    let project = Project::with(Matrix::new("m").repeats(3));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    change(&project, |record| {
        record.observed = orchestrate::record::Observed::default();
        record.process = None;
    });
    project
}

/// Changes every record in the store.
fn change(project: &Project, change: impl Fn(&mut Record)) {
    for dir in project.store().job_dirs().unwrap() {
        let mut record = dir.load_record().unwrap().unwrap();
        change(&mut record);
        fs::write(dir.record(), to_sealed_json(&record)).unwrap();
    }
}

/// Replaces `iterations.csv` of a repeat, as if its worker had written it. Returns the path.
fn write_iterations(project: &Project, repeat: u32, text: &str) -> PathBuf {
    let dirs = project.store().job_dirs().unwrap();
    let of = |record: &Record| record.key.repeat == repeat;
    let dir = dirs.iter().find(|dir| dir.load_record().unwrap().as_ref().is_some_and(of)).unwrap();
    let path = dir.attempt(1).iterations();
    fs::write(&path, text).unwrap();
    let mut record = dir.load_record().unwrap().unwrap();
    record.evidence.as_mut().unwrap().note("iterations.csv".into(), FileDigest::of(text.as_bytes()));
    fs::write(dir.record(), to_sealed_json(&record)).unwrap();
    path
}

fn column(project: &Project, file: &str, name: &str) -> Vec<String> {
    rows(project, file).iter().map(|row| row[name].clone()).collect()
}

#[test]
fn marked_runs_are_left_out_unless_requested() {
    let project = three_runs();
    change(&project, |record| {
        if record.key.repeat == 2 {
            record.process = Some(ProcessStats { wall_s: Some(10.0), ..ProcessStats::default() });
            record.observed.host_steal_s = Some(1e6);
        }
    });
    let ended = project.orchestrate(&["aggregate"]).code(0);
    assert!(ended.stdout.contains("contended, 1 of 3 left out"), "{}", ended.stdout);
    assert_eq!(column(&project, "metrics.csv", "in_statistics"), ["true", "false", "true"]);
    assert_eq!(column(&project, "summary.csv", "n"), ["2"]);

    let ended = project.orchestrate(&["aggregate", "--include-marked"]).code(0);
    assert!(ended.stdout.contains("contended, 1 of 3 included"), "{}", ended.stdout);
    assert!(ended.stdout.contains("these statistics include marked runs"), "{}", ended.stdout);
    assert_eq!(column(&project, "metrics.csv", "in_statistics"), ["true"; 3]);
    assert_eq!(column(&project, "metrics.csv", "marks"), ["none", "contended", "none"]);
    assert_eq!(column(&project, "summary.csv", "n"), ["3"]);
    assert_eq!(column(&project, "summary.csv", "included_marked"), ["1"]);

    project.orchestrate(&["report", "--include-marked"]).code(0);
    let page = fs::read_to_string(project.path("report/m/report.md")).unwrap();
    for text in [
        "| contended (1 of 3 included) |",
        "1 in the statistics despite their marks (--include-marked) |",
        "orchestrate report m --include-marked",
    ] {
        assert!(page.contains(text), "no {text:?} in {page}");
    }

    let status = |flags: &[&str]| project.orchestrate(&[&["status", "m"], flags].concat()).code(0).stdout;
    assert!(status(&[]).contains("1 contended left out"), "{}", status(&[]));
    let included = status(&["--include-marked"]);
    assert!(included.contains("1 contended included"), "{included}");
    assert!(included.contains("these statistics include marked runs"), "{included}");
}

/// A changed threshold applies to existing runs: nothing runs again, and the report names the change.
#[test]
fn a_threshold_changed_in_the_matrix_applies_without_new_runs() {
    let project = three_runs();
    change(&project, |record| {
        let measured = record.measurement.as_mut().unwrap();
        measured.elapsed_s = 1.0 + 0.2 * f64::from(record.key.repeat);
    });
    project.orchestrate(&["aggregate"]).code(0);
    assert_eq!(column(&project, "summary.csv", "marks"), ["high-variation"]);
    let matrix = project.path("m.yaml");
    let text = fs::read_to_string(&matrix).unwrap();
    fs::write(&matrix, format!("{text}thresholds: {{ high_variation: 0.5 }}\n")).unwrap();
    project.orchestrate(&["aggregate", "m.yaml"]).code(0);
    assert_eq!(column(&project, "summary.csv", "marks"), ["none"]);

    // `run` saves the plan with the new threshold, but has nothing to run.
    project.orchestrate(&["run", "m.yaml"]).code(0);
    assert!(project.store().job_dirs().unwrap().iter().all(|dir| !dir.attempt(2).iterations().exists()));
    project.orchestrate(&["report"]).code(0);
    let page = fs::read_to_string(project.path("report/m/report.md")).unwrap();
    assert!(page.contains("| Changed thresholds | high_variation 50 % (default 5 %) |"), "{page}");
    assert!(!page.contains("high-variation"), "{page}");
}

#[test]
fn incomplete_iterations_are_ignored_with_a_warning() {
    let project = three_runs();
    change(&project, |record| {
        let measured = record.measurement.as_mut().unwrap();
        measured.samples = 12 * u64::from(measured.effective.batch);
        measured.effective.settings.set("iters", 12);
    });
    let mut text = format!("{}\n0,9.0,0,6.9,host\n", ITERATIONS_HEADER.join(","));
    text.extend((1..12).map(|iteration| format!("{iteration},1.0,0,6.9,host\n")));
    write_iterations(&project, 1, &text);
    let torn = write_iterations(&project, 2, &text[..text.len() - 3]);
    let ended = project.orchestrate(&["aggregate"]).code(0);
    let said = ended.stderr.lines().filter(|line| line.contains("is ignored")).count();
    assert_eq!(said, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(&torn.display().to_string()), "{}", ended.stderr);
    assert_eq!(column(&project, "metrics.csv", "marks"), ["slow-first", "none", "none"]);
    assert_eq!(column(&project, "metrics.csv", "in_statistics"), ["true"; 3]);
    let silent = project.orchestrate(&["aggregate", "-q"]).code(0);
    assert_eq!(silent.stderr, "");
}
