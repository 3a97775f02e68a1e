//! The circumstances that runs must share before they are pooled.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::{Effective, Measurement};
use crate::record::{Record, WorkerFacts};

/// What was observed and makes runs incomparable if it differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Circumstances {
    /// The host's name.
    pub host: String,
    /// The processor's model.
    pub cpu: Option<String>,
    /// Logical processors that the run could use.
    pub usable_processors: u32,
    /// `mains` or `battery`, where the host says.
    pub power_source: Option<String>,
    /// The rule by which the processor chose its clock.
    pub governor: Option<String>,
    /// The worker's environment, without what only says where things are.
    pub environment: BTreeMap<String, String>,
    /// The device's own name.
    pub device_name: Option<String>,
    /// The device's UUID.
    pub device_uuid: Option<String>,
    /// The driver.
    pub nvidia_driver: Option<String>,
    /// What the worker really did.
    pub settings: Effective,
    /// The worker's bytes.
    pub worker_sha256: Option<String>,
    /// The bytes of the other programs that its command names, and of the libraries that it brings along, by file name.
    pub worker_files: BTreeMap<String, String>,
    /// Versions of its libraries.
    pub versions: BTreeMap<String, String>,
}

impl Circumstances {
    /// The circumstances of the run that left `record` with `measurement`.
    pub(super) fn of(record: &Record, measurement: &Measurement) -> Self {
        let details = &measurement.details;
        Circumstances {
            host: record.provenance.host.hostname.clone(),
            cpu: record.provenance.host.cpu.model.clone(),
            usable_processors: record.provenance.host.cpu.usable,
            power_source: record.provenance.host.power_source.clone(),
            governor: record.provenance.host.governor.clone(),
            environment: telling(&record.provenance.environment),
            device_name: details.device_name.clone(),
            device_uuid: details.device_uuid.clone(),
            nvidia_driver: record.provenance.host.nvidia_driver.clone(),
            settings: measurement.effective.clone(),
            worker_sha256: record.provenance.worker.sha256.clone(),
            worker_files: worker_files(&record.provenance.worker),
            versions: details.versions.clone(),
        }
    }

    /// Each field as a name and a text, for saying in what two differ.
    fn facts(&self) -> Vec<(String, String)> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let mut facts = vec![
            ("host".to_owned(), self.host.clone()),
            ("device".to_owned(), text(&self.device_name)),
            ("device UUID".to_owned(), text(&self.device_uuid)),
            ("driver".to_owned(), text(&self.nvidia_driver)),
            ("worker".to_owned(), text(&self.worker_sha256).chars().take(12).collect()),
            ("tf32".to_owned(), self.settings.tf32.map_or("unknown".to_owned(), |value| value.to_string())),
        ];
        facts.extend([
            ("processor".to_owned(), text(&self.cpu)),
            ("usable processors".to_owned(), self.usable_processors.to_string()),
            ("power source".to_owned(), text(&self.power_source)),
            ("governor".to_owned(), text(&self.governor)),
        ]);
        facts.extend(self.environment.iter().map(|(name, value)| (format!("${name}"), value.clone())));
        let settings = self.settings.parameters();
        facts.extend(settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())));
        let short = |hash: &String| hash.chars().take(12).collect::<String>();
        facts.extend(self.worker_files.iter().map(|(name, hash)| (name.clone(), short(hash))));
        facts.extend(self.versions.clone());
        facts
    }

    /// Whether the two are the same but for where the images came from and how they were loaded.
    pub(super) fn differ_at_most_in_data(&self, other: &Circumstances) -> bool {
        let without_loading = |circumstances: &Circumstances| {
            let mut rest = circumstances.clone();
            rest.settings = Effective {
                data: None,
                loader_workers: None,
                prefetch_factor: None,
                pin_memory: None,
                augment: None,
                strict: None,
                ..rest.settings
            };
            rest
        };
        without_loading(self) == without_loading(other)
    }

    /// The same but for what a profiled job does otherwise by its nature: fewer iterations, with a range around them.
    pub(super) fn without_profiling(&self) -> Circumstances {
        let mut rest = self.clone();
        rest.settings = Effective { iters: None, nvtx: None, ..rest.settings };
        rest
    }

    /// Whether the two are the same but for how many images an iteration took.
    pub(super) fn differ_at_most_in_batch(&self, other: &Circumstances) -> bool {
        let settings = Effective { batch: other.settings.batch, ..self.settings.clone() };
        Circumstances { settings, ..self.clone() } == *other
    }

    /// In what `self` and `other` differ, as `name a / b`, the first of them first.
    pub fn differences(&self, other: &Circumstances) -> Vec<String> {
        let ours: BTreeMap<_, _> = self.facts().into_iter().collect();
        let theirs: BTreeMap<_, _> = other.facts().into_iter().collect();
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let value = |facts: &BTreeMap<String, String>, name: &String| {
            facts.get(name).cloned().unwrap_or_else(|| "unknown".to_owned())
        };
        names
            .into_iter()
            .filter(|name| ours.get(*name) != theirs.get(*name))
            .map(|name| format!("{name} {} / {}", value(&ours, name), value(&theirs, name)))
            .collect()
    }
}

/// SHA-256 by file name.
fn worker_files(worker: &WorkerFacts) -> BTreeMap<String, String> {
    let libraries = worker.libraries.iter().map(|(name, library)| (name.clone(), library.sha256.clone()));
    worker.others.clone().into_iter().chain(libraries).collect()
}

/// Variables that say where things are, who runs them and in which time zone: they differ from run to run, and change
/// nothing that is measured.
const PLACES: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "VIRTUAL_ENV", "PWD"];

/// The variables that may change what is measured.
fn telling(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_place = |name: &str| PLACES.contains(&name) || name.starts_with("ORCHESTRATE_");
    environment.iter().filter(|(name, _)| !is_place(name)).map(|(k, v)| (k.clone(), v.clone())).collect()
}
