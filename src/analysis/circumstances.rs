//! The circumstances that runs must share to be pooled.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::ComparedFacts;
use super::libraries::{self, libraries};
use crate::job::{Parameter, Splits, parameter};
use crate::protocol::{Effective, Measurement, SampleUnit, Setting, Settings};
use crate::record::{HostFacts, Influence, Provenance, Record, WorkerFacts, influence_on, looks_secret};

/// Observations of a run that make it incomparable with others if they differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Circumstances {
    /// The machine, its processor and its GPU, with their settings.
    compared: ComparedFacts,
    /// `mains` or `battery`, if the host reports it.
    pub power_source: Option<String>,
    /// The worker's environment, without variables that only contain paths.
    pub environment: BTreeMap<String, String>,
    /// The device's name.
    pub device_name: Option<String>,
    /// The device's UUID.
    pub device_uuid: Option<String>,
    /// The unit of the samples.
    pub unit: SampleUnit,
    /// The effective settings of the worker, without those that cannot distinguish runs of one config.
    pub effective: Effective,
    /// The hash of the worker's bytes.
    pub worker_sha256: Option<String>,
    /// The hashes of the other programs in its command and of its bundled libraries, by file name.
    pub worker_files: BTreeMap<String, String>,
    /// The versions of its libraries.
    pub versions: BTreeMap<String, String>,
}

impl Circumstances {
    /// The circumstances of the run with this `record` and `measurement`.
    pub(super) fn of(record: &Record, measurement: &Measurement) -> Self {
        let details = &measurement.details;
        Circumstances {
            compared: ComparedFacts::of(record, measurement),
            power_source: record.provenance.host.power_source.clone(),
            environment: influential_environment(record, measurement)
                .map(|(name, value)| (name.clone(), value.to_owned()))
                .collect(),
            device_name: details.device_name.clone(),
            device_uuid: details.device_uuid.clone(),
            unit: measurement.unit(&record.key),
            effective: Effective {
                settings: distinguishing_settings(record, measurement).collect(),
                ..without_settings(&measurement.effective)
            },
            worker_sha256: record.provenance.worker.sha256.clone(),
            worker_files: worker_files(&record.provenance.worker)
                .into_iter()
                .map(|(name, hash)| (name.clone(), hash.clone()))
                .collect(),
            versions: details.versions.clone(),
        }
    }

    /// The name of the host.
    pub fn host(&self) -> &str {
        &self.compared.host().hostname
    }

    /// The version of PyTorch, under any of its names.
    pub fn pytorch(&self) -> Option<&String> {
        libraries::pytorch(&self.versions)
    }

    /// The versions of the worker's libraries, in a uniform notation and under uniform names.
    pub fn libraries(&self) -> BTreeMap<String, String> {
        libraries(&self.versions)
    }

    /// How many processors the runs were allowed to use.
    pub fn usable_processors(&self) -> u32 {
        self.compared.host().cpu.usable
    }

    /// Whether they are the circumstances of the run with this `record` and `measurement`. Most runs share those of the
    /// previous run, so this avoids copies.
    pub(super) fn are_of(&self, record: &Record, measurement: &Measurement) -> bool {
        self.compared.host().is_machine_of(&record.provenance.host)
            && self.are_of_any_machine(record, measurement)
    }

    /// The same, apart from the machine.
    pub(super) fn are_of_any_machine(&self, record: &Record, measurement: &Measurement) -> bool {
        // Exhaustive, so that a new circumstance is compared here too.
        let Circumstances {
            compared,
            power_source,
            environment,
            device_name,
            device_uuid,
            unit,
            effective,
            worker_sha256,
            worker_files: files,
            versions,
        } = self;
        let Provenance { host: found, worker, .. } = &*record.provenance;
        let details = &measurement.details;
        (power_source, worker_sha256) == (&found.power_source, &worker.sha256)
            && (device_name, device_uuid) == (&details.device_name, &details.device_uuid)
            && compared.are_of(record, measurement)
            && *versions == details.versions
            && *unit == measurement.unit(&record.key)
            && environment
                .iter()
                .map(|(name, value)| (name, value.as_str()))
                .eq(influential_environment(record, measurement))
            && files.iter().eq(worker_files(worker))
            && without_settings(effective) == without_settings(&measurement.effective)
            && effective.settings.iter().eq(distinguishing_settings(record, measurement))
    }

    /// Each field as a name and a text, to report differences.
    fn facts(&self) -> Vec<(String, String)> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| NOT_REPORTED.to_owned());
        let mut facts = vec![
            ("device".to_owned(), text(&self.device_name)),
            ("device UUID".to_owned(), text(&self.device_uuid)),
            ("unit of samples".to_owned(), self.unit.to_string()),
            ("worker".to_owned(), text(&self.worker_sha256).chars().take(12).collect()),
            (
                "tf32".to_owned(),
                self.effective.tf32.map_or(NOT_REPORTED.to_owned(), |value| value.to_string()),
            ),
        ];
        facts.push(("power source".to_owned(), text(&self.power_source)));
        facts.extend(self.compared.facts().map(|(name, value)| (name.to_owned(), value)));
        facts.extend(self.environment.iter().map(|(name, value)| (format!("${name}"), value.clone())));
        let settings = self.effective.settings.iter();
        facts.extend(settings.map(|(name, setting)| (name.to_owned(), setting.to_string())));
        let short = |hash: &String| hash.chars().take(12).collect::<String>();
        facts.extend(self.worker_files.iter().map(|(name, hash)| (name.clone(), short(hash))));
        facts.extend(self.libraries());
        facts
    }

    /// Whether the two are equal except for the source of the images and how they were loaded.
    pub(super) fn differ_at_most_in_data(&self, other: &Circumstances) -> bool {
        let is_rest = |name: &str| parameter(name).is_some_and(|known| !known.is_loading());
        let rest = |of: &Circumstances| of.with_settings(is_rest);
        rest(self) == rest(other)
    }

    /// The same, with only those settings whose names `keeps` accepts.
    ///
    /// Different configs are compared only by the parameters of the shipped worker. Other reported settings might
    /// depend on the batch, or repeat the data folder.
    fn with_settings(&self, keeps: impl Fn(&str) -> bool) -> Circumstances {
        let mut rest = self.clone();
        rest.effective.settings.retain(|name, _| keeps(name));
        rest
    }

    /// The same without the settings that differ in every profiled job: fewer iterations, in a profiled range.
    pub(super) fn without_profiling(&self) -> Circumstances {
        let splits = |parameter: Parameter| parameter.declaration().splits == Splits::AllRuns;
        self.with_settings(|name| parameter(name).is_none_or(splits))
    }

    /// The same without the batch: equal for two that differ at most in it.
    pub(super) fn of_any_batch(&self) -> Circumstances {
        let mut rest = self.with_settings(|name| parameter(name).is_some());
        rest.effective.batch = 0;
        rest
    }

    /// The differences between `self` and `other` as `name a / b`, in this order. A secret is named without its values.
    pub fn differences(&self, other: &Circumstances) -> Vec<String> {
        let mut ours: BTreeMap<_, _> = self.facts().into_iter().collect();
        let mut theirs: BTreeMap<_, _> = other.facts().into_iter().collect();
        let (here, there) = (self.compared.host(), other.compared.host());
        if !here.is_machine_of(there) {
            ours.extend(machine_facts(here));
            theirs.extend(machine_facts(there));
        }
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let value = |facts: &BTreeMap<String, String>, name: &String| {
            let absent = if name.starts_with('$') { "not set" } else { NOT_REPORTED };
            facts.get(name).cloned().unwrap_or_else(|| absent.to_owned())
        };
        names
            .into_iter()
            .filter(|name| value(&ours, name) != value(&theirs, name))
            .map(|name| match name.strip_prefix('$') {
                Some(variable) if looks_secret(variable) => name.clone(),
                _ => {
                    let [this, that] = cut([&value(&ours, name), &value(&theirs, name)]);
                    format!("{name} {this} / {that}")
                }
            })
            .collect()
    }
}

/// The value of a fact that neither the worker nor the system reports.
const NOT_REPORTED: &str = "not reported";

/// The facts that identify a machine.
fn machine_facts(host: &HostFacts) -> [(String, String); 2] {
    let id = host.machine_text().unwrap_or(NOT_REPORTED);
    [("host".to_owned(), host.hostname.clone()), ("machine".to_owned(), id.to_owned())]
}

/// The beginnings of long values, since workers can report whole lists. If the beginnings are equal, excerpts from
/// shortly before the first difference.
fn cut(values: [&str; 2]) -> [String; 2] {
    const LONGEST: usize = 120;
    const BEFORE: usize = 20;
    let [one, other] = values;
    let equal = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let from = if equal < LONGEST { 0 } else { equal - BEFORE };
    values.map(|value| {
        let start = if from > 0 { "… " } else { "" };
        let part: String = value.chars().skip(from).take(LONGEST).collect();
        let end = if value.chars().count() > from + LONGEST { " …" } else { "" };
        format!("{start}{part}{end}")
    })
}

/// The settings that distinguish runs of one config: all that the worker reports, requested or not.
///
/// Two kinds are left out. Declared parameters that an external worker confirms are equal in all runs, and older
/// records lack them. Values that name the run, such as a path with its label, differ in all runs.
fn distinguishing_settings<'a>(
    record: &'a Record,
    measurement: &'a Measurement,
) -> impl Iterator<Item = (&'a str, &'a Setting)> {
    let names_run =
        |name: &str, setting: &Setting| name == "repeat" || setting.to_string().contains(&record.label);
    measurement.effective.settings.iter().filter(move |(name, setting)| {
        parameter(name).is_some() || (!record.key.declares(name) && !names_run(name, setting))
    })
}

/// The effective settings of the worker, apart from those by name.
fn without_settings(effective: &Effective) -> Effective {
    let Effective { device, precision, batch, model, tf32, settings: _ } = effective;
    Effective {
        device: *device,
        precision: *precision,
        batch: *batch,
        model: model.clone(),
        tf32: *tf32,
        settings: Settings::default(),
    }
}

/// SHA-256 by file name.
fn worker_files(worker: &WorkerFacts) -> BTreeMap<&String, &String> {
    let libraries = worker.libraries.iter().map(|(name, library)| (name, &library.sha256));
    worker.others.iter().chain(libraries).collect()
}

/// The variables that can affect the measurement. Variables without influence on its worker count only if the matrix
/// declares them.
///
/// The variable that selects the GPU of a worker can name one GPU in several ways. It counts only if the worker does
/// not report the UUID, or had a part of a GPU.
fn influential_environment<'a>(
    record: &'a Record,
    measurement: &'a Measurement,
) -> impl Iterator<Item = (&'a String, &'a str)> {
    let provenance = &record.provenance;
    let is_declared =
        move |name: &String| provenance.variables.as_ref().is_some_and(|declared| declared.contains(name));
    let is_known_gpu = |name: &str, value: &str| {
        name == "CUDA_VISIBLE_DEVICES"
            && measurement.details.device_uuid.is_some()
            && !value.starts_with("MIG-")
    };
    let is_influential = move |name: &String, value: &str| {
        // Older versions passed PWD on.
        let does_nothing =
            influence_on(&record.key.worker, name) == Some(Influence::Nothing) || name == "PWD";
        (!does_nothing || is_declared(name))
            && !is_known_gpu(name, value)
            && !name.starts_with("ORCHESTRATE_")
    };
    provenance.shown_environment().filter(move |(name, value)| is_influential(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::job::Device;

    /// A processor has no driver. A GPU with an unknown driver does not differ from it in that.
    #[test]
    fn facts_that_neither_side_reports_do_not_differ() {
        let on_gpu = |record: &mut Record| record.key.device = Device::Cuda(0);
        let study = StudyBuilder::new()
            .run("cpu", "vgg16", 16, 1, 1.0)
            .run_with(key("gpu", "vgg16", 16, 1), 1.0, on_gpu)
            .build();
        let analysis = analyse(&study);
        let [one, other] = [0, 1].map(|row| analysis.rows[row].circumstances.as_ref().unwrap());
        let names =
            |of: &Circumstances| -> Vec<String> { of.facts().into_iter().map(|(name, _)| name).collect() };
        assert_ne!(names(one), names(other), "otherwise this test is void");
        assert_eq!(one.differences(other), Vec::<String>::new());
    }

    /// Two lists that differ in their last word read "a b c … / a b c …".
    #[test]
    fn long_values_are_cut_where_they_differ() {
        let list = |last: &str| format!("{}{last}", "word ".repeat(60));
        let [one, other] = cut([&list("one"), &list("other")]);
        assert!(one.starts_with("… ") && one.ends_with("word one") && other.ends_with("word other"), "{one}");
        let [one, other] = cut([&list("one"), "short"]);
        assert!(one.starts_with("word ") && one.ends_with(" …") && other == "short", "{one}");
        let [one, other] = cut([&list(""), &list("more")]);
        assert_ne!(one, other);
    }
}
