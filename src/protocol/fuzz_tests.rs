//! Fuzz tests: damaged output of a worker is refused without a panic.

use super::{Iterations, Progress, Report};
use crate::fuzz::{Form, Target, fuzz};
use crate::job::Key;
use crate::text::with_causes;

const MEASUREMENT: &str = r#"{ "schema": 1, "samples": 1600, "elapsed_s": 12.5, "synchronized": true,
    "effective": { "device": "cpu", "precision": "fp32", "batch": 16, "iters": 100, "warmup": 10, "tf32": false },
    "details": { "data_wait_s": 0.5, "window_started_at": 1700000000.5, "losses": [6.9, 6.8], "device_name": "CPU",
    "versions": { "libtorch": "2.11.0" }, "peak_device_bytes": 1024 } }"#;

const FAILURE: &str = r#"{ "schema": 1, "failure": { "kind": "out_of_memory", "message": "tried to allocate 20 GiB",
    "needed_bytes": 21474836480, "free_bytes": 1024 } }"#;

const WORDS: &[&str] =
    &["failure", "unsupported", "effective", "NaN", "Infinity", "iteration", "host", "device", "measure"];

#[test]
fn fuzz_measurement() {
    let key = Key::example();
    let seeds = [MEASUREMENT, FAILURE].map(Vec::from).to_vec();
    fuzz(Target { name: "measurement", form: Form::Tree, seeds, words: WORDS }, |bytes| match Report::parse(
        &String::from_utf8_lossy(bytes),
    ) {
        Ok(Report::Measured(measurement)) => {
            assert!(measurement.elapsed_s > 0.0 && measurement.samples_per_s().is_finite());
            let _ = measurement.window();
            format!("{:?} {:?}", measurement.mismatches(&key), measurement.unconfirmed(&key))
        }
        Ok(Report::Failed(failure)) => format!("{:?}", failure.kind),
        Err(error) => with_causes(&error),
    });
}

#[test]
fn fuzz_iterations() {
    let Ok(Report::Measured(measurement)) = Report::parse(MEASUREMENT) else { panic!("a valid measurement") };
    let header = super::ITERATIONS_HEADER.join(",");
    let seed = format!("{header}\n0,0.25,0,6.9,host\n1,0.25,0.125,nan,device\n2,0.5,0,,host\n");
    let target = Target { name: "iterations", form: Form::Text, seeds: vec![seed.into()], words: WORDS };
    fuzz(target, |bytes| match Iterations::parse(&String::from_utf8_lossy(bytes), &measurement) {
        Ok(_) => "read".to_owned(),
        Err(error) => with_causes(&error),
    });
}

#[test]
fn fuzz_progress() {
    let lines = [Progress::Preparing.line(), Progress::Measure { done: 1, of: 2 }.line()];
    let seeds = lines.map(String::into_bytes).to_vec();
    fuzz(Target { name: "progress", form: Form::Tree, seeds, words: WORDS }, |bytes| {
        format!("{:?}", Progress::parse(&String::from_utf8_lossy(bytes)))
    });
}
