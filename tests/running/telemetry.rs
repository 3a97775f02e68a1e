//! What sensors show beside a job.

use std::fs;

use orchestrate::job::Job;
use orchestrate::record::{Record, parse_samples};

use crate::harness::{Matrix, Project};

/// The samples that the job's first attempt left.
fn samples(project: &Project, record: &Record) -> Vec<orchestrate::record::Sample> {
    let dir = project.store().job_dir(&Job::new(record.key.clone())).attempt(1);
    parse_samples(&fs::read_to_string(dir.telemetry()).unwrap())
}

#[test]
fn a_run_leaves_its_samples_and_their_sum() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let record = project.record();
    let samples = samples(&project, &record);
    let telemetry = record.observed.telemetry.unwrap();
    // One just before the start, one right after the end, and perhaps some between.
    assert!(samples.len() >= 2, "{samples:?}");
    assert_eq!(telemetry.samples as usize, samples.len());
    assert!(!telemetry.of_window, "the fake worker does not say when its window was");
    let started = record.started_at.timestamp_millis() as f64 / 1e3;
    assert!((samples[0].unix_s - started).abs() < 60.0, "{} {started}", samples[0].unix_s);
    assert_eq!(telemetry.gpu, None, "a job on the processor");
    if cfg!(target_os = "linux") {
        assert!(telemetry.memory_available_bytes.is_some_and(|bytes| bytes.min > 0.0));
    }
    let shown = project.orchestrate(&["show", "cpu_m_fp32_bs4_run1"]).code(0);
    assert!(shown.stdout.contains("\ntelemetry of attempt 1\n"), "{shown:?}");
    project.orchestrate(&["aggregate", "t"]).code(0);
    let metrics = fs::read_to_string(project.path("report/t/metrics.csv")).unwrap();
    assert!(metrics.contains(",telemetry_samples,"), "{metrics}");
}

#[test]
fn an_adopted_attempt_keeps_what_was_sampled() {
    let project = Project::new();
    let matrix = Matrix::new("t").flag("--release", &project.release());
    let project = project.and(matrix);
    let running = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    running.kill();
    project.let_go();
    project.orchestrate(&["resume"]).code(0);
    let record = project.record();
    assert!(record.observed.adopted);
    let telemetry = record.observed.telemetry.clone().unwrap();
    assert_eq!(telemetry.samples as usize, samples(&project, &record).len());
    assert_eq!(telemetry.cpu_energy_j, None, "nobody saw the end of the window");
}
