//! The shipped worker obeys its parameters: another value is another training.
#![cfg(feature = "torch")]
#![expect(clippy::disallowed_methods, reason = "tests run the worker and read what it leaves behind")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use orchestrate::job::{DataSource, PARAMETERS, ParamValue, Parameter};
use orchestrate::protocol::{Measurement, Report};

use super::harness::Project;

type Settings = BTreeMap<Parameter, ParamValue>;

/// Where a value other than that of [`base`] shows.
enum Shown {
    /// This value makes other losses, beside each of these values of other parameters.
    InLosses(ParamValue, Vec<Settings>),
    /// Not in the losses of a run on the processor.
    Elsewhere,
}

/// Where `parameter` shows. One that means something else for each value of another parameter is tried beside each.
fn shown(parameter: Parameter) -> Shown {
    let whole = |number| Shown::InLosses(ParamValue::Int(number), vec![Settings::new()]);
    match parameter {
        Parameter::Warmup => whole(1),
        Parameter::Iters => whole(4),
        Parameter::Data => Shown::InLosses(images(), vec![Settings::new()]),
        // Batches are the same whatever the threads: the tests of `data::loader`.
        Parameter::LoaderWorkers | Parameter::PrefetchFactor => Shown::Elsewhere,
        Parameter::Augment => {
            Shown::InLosses(ParamValue::Bool(false), vec![Settings::from([(Parameter::Data, images())])])
        }
        // Only an image that cannot be decoded shows it: the tests of `data::loader`.
        Parameter::Strict => Shown::Elsewhere,
        // The sums may be the same to the last bit; the layout of the feature maps is read back.
        Parameter::ChannelsLast => Shown::Elsewhere,
        Parameter::GradAccumSteps => whole(3),
        Parameter::Optimizer => Shown::InLosses(ParamValue::Text("adamw".to_owned()), vec![Settings::new()]),
        // They need CUDA.
        Parameter::PinMemory | Parameter::Nvtx | Parameter::CudnnBenchmark => Shown::Elsewhere,
        // libtorch's own state, which is read back.
        Parameter::Deterministic | Parameter::Threads => Shown::Elsewhere,
        Parameter::Seed => whole(1),
        Parameter::InputSize => whole(64),
        Parameter::Classes => whole(5),
    }
}

fn images() -> ParamValue {
    ParamValue::Data(DataSource::Folder("images".to_owned()))
}

/// A training that takes a moment, and the same losses each time.
fn base() -> Settings {
    let number = |(parameter, number)| (parameter, ParamValue::Int(number));
    [
        (Parameter::Warmup, 0),
        (Parameter::Iters, 3),
        (Parameter::InputSize, 32),
        (Parameter::Classes, 4),
        (Parameter::Threads, 1),
        (Parameter::LoaderWorkers, 1),
    ]
    .map(number)
    .into()
}

/// Trains with `settings` in `project`: the losses of the iterations, and the measurement.
fn train(project: &Project, settings: &Settings) -> (Vec<String>, Measurement) {
    let value = |parameter: Parameter| settings.get(&parameter).cloned().or(parameter.default_value());
    let told = PARAMETERS.iter().filter(|parameter| parameter.is_told(value));
    let words = told.filter_map(|parameter| Some(parameter.words(&value(*parameter)?))).flatten();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
    worker.args(["--arch", "mobilenet_v3_small", "--batch-size", "2", "--backend", "cpu"]).args(words);
    worker.args(["--out", "measurement.json", "--iterations-out", "iterations.csv"]);
    let ended = worker.current_dir(project.path("")).output().unwrap();
    assert!(ended.status.success(), "{worker:?}: {}", String::from_utf8_lossy(&ended.stderr));
    let read = |name: &str| fs::read_to_string(project.path(name)).unwrap();
    let losses = read("iterations.csv");
    let losses = losses.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().to_owned()).collect();
    match Report::parse(&read("measurement.json")) {
        Ok(Report::Measured(measurement)) => (losses, *measurement),
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_value_is_another_training() {
    let project = Project::new();
    let made = ["dataset", "make", "images", "--classes", "4", "--images-per-class", "4", "--size", "64x48"];
    project.orchestrate(&made).code(0);
    let (plain, _) = train(&project, &base());
    assert_eq!(train(&project, &base()).0, plain, "the same training twice");
    for &parameter in PARAMETERS {
        let name = parameter.name();
        let Shown::InLosses(value, beside) = shown(parameter) else { continue };
        for others in beside {
            let settings: Settings = base().into_iter().chain(others.clone()).collect();
            let (losses, _) = train(&project, &settings);
            let mut changed = settings;
            changed.insert(parameter, value.clone());
            let (other_losses, measurement) = train(&project, &changed);
            assert_ne!(other_losses, losses, "`{name}` changes nothing beside {others:?}");
            let reported = measurement.effective.settings.get(name).unwrap();
            assert!(reported.agrees_with(&value), "`{name}` is {value:?}, reported as {reported}");
        }
    }
}
