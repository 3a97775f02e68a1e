//! The shipped worker, driven by `orchestrate`: from a generated data set to a report.
#![cfg(feature = "torch")]
#![expect(clippy::disallowed_methods, reason = "tests write matrices")]

use std::fs;

use orchestrate::job::{Precision, Reported, parameter};
use orchestrate::record::{Outcome, Record};

use super::harness::Project;

const MATRIX: &str = "\
name: tiny
models: [resnet18, mobilenet_v2]
batches: [4]
repeats: 2
params: { warmup: 1, iters: 2, threads: 1, input_size: 64, classes: 4, loader_workers: 1, augment: false, channels_last: true }
axes:
  data: [{ synthetic: true }, { folder: images }]
profile: { ops: false }
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
        assert_eq!(not_reported(record), [""; 0], "parameters that the worker gets and does not report");
        let repeated = measurement.details.repeated.as_ref().unwrap();
        assert_eq!(*repeated, declared_repeated(record), "repeated by the worker, and by the table");
        let libraries = &record.provenance.worker.libraries;
        assert!(libraries.keys().any(|name| name.starts_with("libtorch_cpu.")), "{libraries:?}");
        let parameters = measurement.details.parameters.unwrap();
        let network = orchestrate::architecture::network(&record.key.model, 64, 4).unwrap();
        assert_eq!(parameters, network.parameters());
        assert!(measurement.details.last_loss.unwrap().is_finite());
        let twin = records
            .iter()
            .find(|other| other.key.config() == record.key.config() && other.id != record.id)
            .unwrap();
        let losses = |record: &Record| {
            let details = &record.measurement.as_ref().unwrap().details;
            (details.first_loss, details.last_loss)
        };
        assert_eq!(losses(record), losses(twin), "{}", record.label);
    }
    project.orchestrate(&["run", "tiny.yaml"]).code(0);
    assert_eq!(project.records(), records, "a finished job never runs again");
}

#[test]
fn precision_and_optimizer_are_those_of_the_matrix() {
    let project = Project::new();
    let matrix = MATRIX
        .replace("models: [resnet18, mobilenet_v2]", "models: [resnet18]")
        .replace("batches: [4]", "batches: [4]\nprecisions: [fp32, bf16]")
        .replace("  data: [{ synthetic: true }, { folder: images }]", "  optimizer: [sgd, adamw]")
        .replace("repeats: 2", "repeats: 1")
        // oneDNN treats this processor as one without bf16.
        .replace("device: cpu", "device: cpu, variables: { ONEDNN_MAX_CPU_ISA: AVX2 }");
    fs::write(project.path("tiny.yaml"), matrix).unwrap();
    project.orchestrate(&["run", "tiny.yaml"]).code(0);
    let records = project.records();
    assert_eq!(records.len(), 4);
    let mut losses = Vec::new();
    for record in &records {
        let measurement = record.measurement.as_ref().unwrap();
        assert_eq!(measurement.mismatches(&record.key), []);
        let (effective, details) = (&measurement.effective, &measurement.details);
        let asked = record.key.param("optimizer").unwrap().to_string();
        assert_eq!(effective.settings.get("optimizer").unwrap().to_string(), asked);
        // Constants that are not set keep their values, even if new parameters can set them.
        let constants = match asked.as_str() {
            "sgd" => "fused SGD, learning rate 0.01, momentum 0.9, weight decay 0.0001",
            _ => "fused AdamW, learning rate 0.001, betas 0.9 and 0.999, epsilon 1e-8, weight decay 0.01",
        };
        assert_eq!(details.optimizer.as_deref(), Some(constants));
        let autocast = if record.key.precision == Precision::Fp32 { "off" } else { "bfloat16" };
        assert_eq!(details.autocast.as_deref(), Some(autocast));
        let products = details.bf16_products.as_deref();
        assert_eq!(products.is_some(), record.key.precision != Precision::Fp32, "{products:?}");
        if cfg!(target_arch = "x86_64") {
            assert!(products.is_none_or(|products| products == "single"), "{products:?}");
        }
        assert!(details.float32.values().all(|float32| float32 == "ieee"), "{:?}", details.float32);
        assert_eq!((details.optimizer_steps, details.first_non_finite_iteration), (Some(2), None));
        assert!(details.involuntary_switches.is_some());
        assert!(details.first_step_s.unwrap() > 0.0);
        assert!(details.peak_host_memory_bytes.unwrap() > 4 * network_bytes(record));
        losses.push(details.last_loss.unwrap());
        assert_eq!(clocks(&project, record), ["host", "host"]);
    }
    losses.sort_by(f64::total_cmp);
    losses.dedup();
    assert_eq!(losses.len(), 4, "each is a separate computation: {losses:?}");
}

/// Parameters that the worker gets but does not report, so that their effect is not checked.
fn not_reported(record: &Record) -> Vec<String> {
    let settings = &record.measurement.as_ref().unwrap().effective.settings;
    let passed = record.key.passed().into_iter().map(|(name, _)| name);
    passed.filter(|name| settings.get(name).is_none()).collect()
}

/// The parameters that the worker gets and that the table declares as repeated.
fn declared_repeated(record: &Record) -> Vec<&'static str> {
    let passed = record.key.passed().into_iter().filter_map(|(name, _)| parameter(&name));
    let repeated = passed.filter(|parameter| parameter.declaration().reported == Reported::Repeated);
    repeated.map(|parameter| parameter.name()).collect()
}

fn network_bytes(record: &Record) -> u64 {
    4 * orchestrate::architecture::network(&record.key.model, 64, 4).unwrap().parameters()
}

/// The last column of the attempt's `iterations.csv`.
fn clocks(project: &Project, record: &Record) -> Vec<String> {
    let job = orchestrate::job::Job::new(record.key.clone());
    let path = format!("runs/{}/attempts/01/iterations.csv", job.dir_name());
    let text = fs::read_to_string(project.path(&path)).unwrap();
    text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().to_owned()).collect()
}

/// Needs more than any address space, so that every kernel refuses it.
#[test]
fn out_of_memory_is_reported_with_the_needed_bytes() {
    let project = Project::new();
    let matrix = "name: huge\nmodels: [resnet18]\nbatches: [1000000]\nrepeats: 1\n\
                  params: { input_size: 4096 }\nenvs: { cpu: { device: cpu } }\n";
    fs::write(project.path("huge.yaml"), matrix).unwrap();
    project.orchestrate(&["run", "huge.yaml"]).code(10);
    let [record] = &project.records()[..] else { panic!("one job, one record") };
    let Outcome::OutOfMemory { message, needed_bytes, .. } = &record.outcome else {
        panic!("{:?}", record.outcome)
    };
    assert_eq!(*needed_bytes, Some(1_000_000 * 3 * 4096 * 4096 * 4));
    assert!(message.contains("GiB were needed"), "{message}");
}

#[test]
fn flags_that_contradict_each_other_are_named() {
    let project = Project::new();
    let matrix = MATRIX
        .replace("models: [resnet18, mobilenet_v2]", "models: [resnet18]")
        .replace("repeats: 2", "repeats: 1")
        .replace(
            "  data: [{ synthetic: true }, { folder: images }]",
            "  deterministic: [true]\n  cudnn_benchmark: [true]",
        );
    fs::write(project.path("tiny.yaml"), matrix).unwrap();
    project.orchestrate(&["run", "tiny.yaml"]).code(10);
    let Outcome::Exited { code: 2, message: Some(message) } = &project.records()[0].outcome else {
        panic!("{:?}", project.records())
    };
    assert!(message.contains("'--deterministic' cannot be used with '--cudnn-benchmark'"), "{message}");
}

#[test]
fn unsupported_jobs_are_reported_and_the_rest_runs() {
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
    // Jobs that this host cannot run are not here, which is not a failure.
    ended.code(0);
}
