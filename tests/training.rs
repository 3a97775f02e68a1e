//! The shipped worker, driven by `orchestrate`: from a made data set to a report.
#![cfg(feature = "torch")]
#![expect(clippy::disallowed_methods, reason = "tests write matrices")]

use std::fs;

use super::harness::Project;

const MATRIX: &str = "\
name: tiny
models: [resnet18, mobilenet_v2]
batches: [4]
repeats: 2
params: { warmup: 1, iters: 2, input_size: 64, classes: 4, loader_workers: 1, augment: false, channels_last: true }
axes:
  data: [{ synthetic: true }, { folder: images }]
envs:
  cpu: { device: cpu }
";

#[test]
fn a_matrix_trains_and_two_runs_of_a_config_give_the_same_losses() {
    let project = Project::new();
    fs::write(project.path("tiny.yaml"), MATRIX).unwrap();
    let made = ["dataset", "make", "images", "--classes", "4", "--images-per-class", "4", "--size", "64x48"];
    project.orchestrate(&made).code(0);
    project.orchestrate(&["run", "tiny.yaml"]).code(0);
    let records = project.records();
    assert_eq!(records.len(), 8);
    for record in &records {
        let measurement = record.measurement.as_ref().unwrap();
        assert_eq!(measurement.samples, 8);
        assert!(measurement.synchronized);
        assert_eq!(measurement.mismatches(&record.key), []);
        let parameters = measurement.details.parameters.unwrap();
        let network = orchestrate::architecture::network(&record.key.model, 64, 4).unwrap();
        assert_eq!(parameters, network.parameters());
        assert!(measurement.details.last_loss.unwrap().is_finite());
        let twin = records
            .iter()
            .find(|other| other.key.config() == record.key.config() && other.id != record.id)
            .unwrap();
        let losses = |record: &orchestrate::record::Record| {
            let details = &record.measurement.as_ref().unwrap().details;
            (details.first_loss, details.last_loss)
        };
        assert_eq!(losses(record), losses(twin), "{}", record.label);
    }
    project.orchestrate(&["run", "tiny.yaml"]).code(0);
    assert_eq!(project.records(), records, "a finished job never runs again");
}

#[test]
fn what_the_worker_cannot_do_is_said_and_the_rest_runs() {
    let project = Project::new();
    let matrix = MATRIX
        .replace("batches: [4]", "batches: [4]\nprecisions: [fp32, tf32]")
        .replace("  data: [{ synthetic: true }, { folder: images }]", "  nvtx: [false]")
        .replace("repeats: 2", "repeats: 1");
    fs::write(project.path("tiny.yaml"), matrix).unwrap();
    let ended = project.orchestrate(&["run", "tiny.yaml"]);
    let kinds: Vec<String> = project
        .records()
        .iter()
        .map(|record| format!("{} {}", record.key.precision, record.outcome.kind()))
        .collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "fp32 succeeded").count(), 2, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "tf32 unsupported").count(), 2, "{kinds:?}");
    // What this host cannot do is not here, which is no failure.
    ended.code(0);
}
