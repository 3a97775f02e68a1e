//! The measurement, as the protocol has it.

use std::fs;
use std::path::PathBuf;

use orchestrate::protocol::{MEASUREMENT_VARIABLE, OperatorProfile, OperatorSample, Phase};
use serde_json::{Value, json};

use crate::animal::Part;
use crate::engine::{Spent, Stretch};
use crate::flags::Flags;

/// Seconds of the host to launch a kernel.
const LAUNCH_S: f64 = 5e-6;

/// The share of its launch that a tiny kernel takes on an accelerator.
const TINY_SHARE: f64 = 0.2;

/// `measurement.json`.
pub(crate) fn measurement(
    flags: &Flags,
    window: &Stretch,
    profile: Option<&Stretch>,
    device_name: String,
    threads: usize,
) -> Value {
    let batch: u64 = flags.number("batch").unwrap_or(1);
    let samples = batch * u64::from(window.iterations);
    let mut details = json!({
        "device_name": device_name,
        "profiles": ["ops"],
        "data_wait_s": window.spent.get(&Part::Data).map_or(0.0, |spent| spent.seconds),
    });
    if window.flops() > 0.0 {
        details["flops_per_sample"] = json!(window.flops() / samples as f64);
    }
    let word = |name: &str, otherwise: &str| flags.text(name).unwrap_or(otherwise).to_owned();
    let mut measurement = json!({
        "schema": 1, "samples": samples, "elapsed_s": window.elapsed_s, "synchronized": true,
        "effective": {
            "device": word("device", "cpu"), "precision": word("precision", "fp32"), "batch": batch,
            "behave": word("behave", "gemm"), "threads": threads,
        },
        "details": details,
    });
    if let Some(profile) = profile {
        let on_accelerator = flags.text("device").is_some_and(|device| device != "cpu");
        let profile = operators(profile);
        measurement["ops"] = json!(if on_accelerator { on_its_kernels(profile) } else { profile });
    }
    measurement
}

fn operators(profile: &Stretch) -> OperatorProfile {
    let samples = profile.spent.iter().map(|(part, spent)| operator(*part, *spent));
    OperatorProfile {
        source: "zoo".to_owned(),
        iterations: profile.iterations,
        elapsed_s: profile.elapsed_s,
        device_busy_s: None,
        operators: samples.collect(),
        rest_s: 0.0,
        notes: Vec::new(),
    }
}

fn operator(part: Part, spent: Spent) -> OperatorSample {
    let phase = if part == Part::Data { Phase::Data } else { Phase::Forward };
    OperatorSample {
        name: part.name().to_owned(),
        phase: Some(phase),
        class: Some(part.class()),
        calls: spent.calls,
        host_s: spent.seconds,
        flops: Some(spent.flops),
        bytes: Some(spent.bytes),
        ..OperatorSample::default()
    }
}

/// The same work on an accelerator: the host launches kernels, and only their time is that of the work. Tiny ones are
/// done before the next one is launched.
fn on_its_kernels(profile: OperatorProfile) -> OperatorProfile {
    let launched = |operator: OperatorSample| {
        if operator.phase == Some(Phase::Data) {
            return operator;
        }
        let is_tiny = operator.name == Part::Tiny.name();
        let host_s = if is_tiny { operator.host_s } else { operator.calls as f64 * LAUNCH_S };
        let device_s = operator.host_s * if is_tiny { TINY_SHARE } else { 1.0 };
        OperatorSample { host_s, device_s: Some(device_s), kernels: Some(operator.calls), ..operator }
    };
    let operators: Vec<OperatorSample> = profile.operators.into_iter().map(launched).collect();
    let busy = operators.iter().filter_map(|operator| operator.device_s).sum();
    OperatorProfile { device_busy_s: Some(busy), operators, ..profile }
}

/// Writes `measurement` where it is expected, or prints it.
pub(crate) fn write(flags: &Flags, measurement: &Value) -> Result<(), String> {
    let named = std::env::var_os(MEASUREMENT_VARIABLE).map(PathBuf::from);
    match flags.text("out").map(PathBuf::from).or(named) {
        Some(path) => {
            fs::write(&path, measurement.to_string()).map_err(|error| format!("{}: {error}", path.display()))
        }
        None => {
            println!("{measurement:#}");
            Ok(())
        }
    }
}
