//! The shipped worker applies its parameters: another value changes the training.
#![cfg(feature = "torch")]
#![expect(clippy::disallowed_methods, reason = "tests run the worker and read its output")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use orchestrate::job::{DataSource, Need, PARAMETERS, ParamValue, Parameter, ParameterType, Reported};
use orchestrate::protocol::{Measurement, Report};

use super::harness::Project;

type Settings = BTreeMap<Parameter, ParamValue>;

const LOADER: &str = "src/bin/worker/data/loader.rs";
const POOL: &str = "src/bin/worker/data/pool.rs";
const MODEL: &str = "src/bin/worker/model/mod.rs";
const NORMALISE: &str = "src/bin/worker/batches/normalise.rs";
const SETTINGS: &str = "src/bin/worker/settings.rs";
const SHIM: &str = "src/bin/worker/shim/mod.rs";

/// The evidence that a value other than that of [`base`] has an effect.
enum Shown {
    /// This value changes the losses, with all settings of [`beside`] in which the worker gets the parameter.
    InLosses(ParamValue),
    /// The losses can be the same. This file has this test, which shows the effect of the parameter.
    InTest(ParamValue, &'static str, &'static str),
    /// The worker refuses it without CUDA.
    OnCuda,
}

/// The evidence for `parameter`.
fn shown(parameter: Parameter) -> Shown {
    let whole = |number| Shown::InLosses(ParamValue::Int(number));
    let (on, number) = (ParamValue::Bool(true), ParamValue::Int);
    match parameter {
        Parameter::Warmup => whole(1),
        Parameter::Iters => whole(4),
        Parameter::Data => Shown::InLosses(images()),
        // Batches do not depend on the threads.
        Parameter::LoaderWorkers => {
            Shown::InTest(number(2), LOADER, "pixels_depend_on_the_seed_but_not_on_the_number_of_threads")
        }
        Parameter::PrefetchFactor => Shown::InTest(number(3), POOL, "no_more_is_made_ahead_than_allowed"),
        Parameter::Augment => Shown::InLosses(ParamValue::Bool(false)),
        // Only an image that cannot be decoded shows the effect.
        Parameter::Strict => {
            Shown::InTest(on, LOADER, "strictly_an_image_that_cannot_be_decoded_is_an_error_with_its_name")
        }
        // The sums may be the same to the last bit.
        Parameter::ChannelsLast => Shown::InTest(on, MODEL, "feature_maps_have_the_requested_layout"),
        Parameter::GradAccumSteps => whole(3),
        Parameter::Optimizer => Shown::InLosses(ParamValue::Text("adamw".to_owned())),
        Parameter::PinMemory
        | Parameter::CopyStream
        | Parameter::Nvtx
        | Parameter::CudnnBenchmark
        | Parameter::CudaGraph => Shown::OnCuda,
        // The numbers are the same to the last bit.
        Parameter::Uint8Images => Shown::InTest(on, NORMALISE, "every_byte_becomes_the_number_of_the_loader"),
        Parameter::Deterministic => Shown::InTest(on, SHIM, "flags_read_back_as_set"),
        Parameter::Threads => {
            Shown::InTest(number(2), SETTINGS, "libtorch_has_the_number_of_threads_that_was_set")
        }
        Parameter::Seed => whole(1),
        Parameter::InputSize => whole(64),
        Parameter::Classes => whole(5),
    }
}

fn images() -> ParamValue {
    ParamValue::Data(DataSource::Folder("images".to_owned()))
}

/// A short training with the same losses each time.
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

/// The settings that select different code of the worker: none, another word, images. They are not listed by hand: a
/// parameter that only one code path applies must not count as applied by all.
fn beside() -> Vec<Settings> {
    let other = |parameter: Parameter| match parameter.kind() {
        ParameterType::Word(words) => words.iter().map(|word| ParamValue::Text((*word).to_owned())).collect(),
        ParameterType::Data => vec![images()],
        ParameterType::Bool | ParameterType::Int { .. } | ParameterType::Number { .. } => Vec::new(),
    };
    let all = PARAMETERS.iter().flat_map(|one| other(*one).into_iter().map(|value| (*one, value)));
    let others = all.filter(|(parameter, value)| parameter.default_value().as_ref() != Some(value));
    std::iter::once(Settings::new()).chain(others.map(|other| Settings::from([other]))).collect()
}

/// The value of `parameter` under `settings`; `None` if the worker chooses.
fn value(settings: &Settings, parameter: Parameter) -> Option<ParamValue> {
    settings.get(&parameter).cloned().or(parameter.default_value())
}

/// A project with images for [`images`].
fn project() -> Project {
    let project = Project::new();
    let made = ["dataset", "make", "images", "--classes", "4", "--images-per-class", "4", "--size", "64x48"];
    project.orchestrate(&made).code(0);
    project
}

/// Trains with `settings` in `project`, and compares the report with them. Returns the losses of the iterations.
fn train(project: &Project, settings: &Settings) -> Vec<String> {
    measure(project, settings).1
}

/// As [`train`], with the report.
fn measure(project: &Project, settings: &Settings) -> (Measurement, Vec<String>) {
    let value = |parameter| value(settings, parameter);
    let passed: Vec<Parameter> =
        PARAMETERS.iter().copied().filter(|parameter| parameter.has_effect(value)).collect();
    let words = passed.iter().filter_map(|parameter| Some(parameter.words(&value(*parameter)?))).flatten();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
    worker.args(["--arch", "mobilenet_v3_small", "--batch-size", "2", "--backend", "cpu"]).args(words);
    worker.args(["--out", "measurement.json", "--iterations-out", "iterations.csv"]);
    let ended = worker.current_dir(project.path("")).output().unwrap();
    assert!(ended.status.success(), "{worker:?}: {}", String::from_utf8_lossy(&ended.stderr));
    let read = |name: &str| fs::read_to_string(project.path(name)).unwrap();
    let measurement = match Report::parse(&read("measurement.json")) {
        Ok(Report::Measured(measurement)) => measurement,
        other => panic!("{other:?}"),
    };
    passed.iter().for_each(|parameter| check_report(&measurement, *parameter, value(*parameter)));
    let losses = read("iterations.csv");
    let losses = losses.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().to_owned());
    (*measurement, losses.collect())
}

/// Parameters that the table declares as read back are reported and not repeated, even if the worker chose them. All
/// others are repeated.
fn check_report(measurement: &Measurement, parameter: Parameter, asked: Option<ParamValue>) {
    let name = parameter.name();
    let is_repeated = measurement.details.repeated.as_ref().unwrap().iter().any(|repeated| repeated == name);
    let reported = measurement.effective.settings.get(name);
    match (parameter.declaration().reported, &asked) {
        (Reported::ReadBack, _) => {
            assert!(!is_repeated, "`{name}` is repeated from the flag; the table says that it is read back");
            assert!(reported.is_some(), "`{name}` is not reported; the table says that it is read back");
        }
        (Reported::Repeated, Some(_)) => {
            assert!(is_repeated, "`{name}` is read back; the table says that it is repeated from the flag");
        }
        // The choice of the worker is unknown.
        (Reported::Repeated, None) => assert_eq!(reported, None, "`{name}`"),
    }
    if let (Some(reported), Some(asked)) = (reported, asked) {
        assert!(reported.agrees_with(&asked), "`{name}` is {asked:?}, reported as {reported}");
    }
}

#[test]
fn another_value_changes_the_training() {
    let project = project();
    let plain = train(&project, &base());
    assert_eq!(train(&project, &base()), plain, "the same training twice");
    let mut untried: BTreeSet<&str> = PARAMETERS
        .iter()
        .filter(|parameter| matches!(shown(**parameter), Shown::InLosses(_)))
        .map(|parameter| parameter.name())
        .collect();
    for others in beside() {
        let settings: Settings = base().into_iter().chain(others.clone()).collect();
        let losses = train(&project, &settings);
        for &parameter in PARAMETERS {
            let has_effect = parameter.has_effect(|parameter| value(&settings, parameter));
            let Shown::InLosses(other) = shown(parameter) else { continue };
            if has_effect && !others.contains_key(&parameter) {
                let mut changed = settings.clone();
                changed.insert(parameter, other);
                let name = parameter.name();
                assert_ne!(train(&project, &changed), losses, "`{name}` changes nothing beside {others:?}");
                untried.remove(name);
            }
        }
    }
    assert!(untried.is_empty(), "no settings of `beside` let the worker get {untried:?}");
}

/// The reported choice of a worker is its effective one: if it is requested, the losses are the same.
#[test]
fn the_worker_reports_its_choices() {
    let project = project();
    let is_chosen = |parameter: &Parameter| parameter.default_value().is_none();
    for parameter in PARAMETERS.iter().copied().filter(is_chosen) {
        let name = parameter.name();
        for others in beside() {
            let mut settings: Settings = base().into_iter().chain(others.clone()).collect();
            settings.remove(&parameter);
            let (measurement, losses) = measure(&project, &settings);
            let Some(reported) = measurement.effective.settings.get(name) else { continue };
            let value = serde_json::from_value(serde_json::to_value(reported).unwrap()).unwrap();
            settings.insert(parameter, parameter.accept(value).unwrap());
            let again = train(&project, &settings);
            // Other losses may differ even with equal settings: the threads determine the rounding of sums.
            if let Shown::InLosses(_) = shown(parameter) {
                let report = format!("`{name}` is reported as {reported} beside {others:?}");
                assert_eq!(again, losses, "{report}, but the losses differ if that is requested");
            }
        }
    }
}

/// A reported parameter proves little if the worker repeats it from its flag.
#[test]
fn parameters_without_effect_on_losses_have_a_test_and_are_reported() {
    let mut settings = base();
    settings.insert(Parameter::Data, images());
    for &parameter in PARAMETERS {
        let name = parameter.name();
        match shown(parameter) {
            Shown::InLosses(_) => {}
            Shown::InTest(value, file, test) => {
                assert!(has_test(file, test), "`{name}`: {file} has no test `{test}`");
                let other = settings.insert(parameter, value.clone()).or(parameter.default_value());
                assert_ne!(other, Some(value), "`{name}`: another value");
            }
            Shown::OnCuda => assert!(parameter.needs(Need::Cuda), "`{name}` does not need CUDA"),
        }
    }
    let project = project();
    train(&project, &settings);
    settings.retain(|parameter, _| parameter.default_value().is_some());
    train(&project, &settings);
}

/// Whether `file` has a test called `test`.
fn has_test(file: &str, test: &str) -> bool {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.windows(2).any(|lines| lines[0] == "#[test]" && lines[1].starts_with(&format!("fn {test}(")))
}
