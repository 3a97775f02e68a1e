//! Names with values: the overview, the hosts, the envs and the provenance of a report.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::analysis::group::Row;
use crate::analysis::tally::Tally;
use crate::analysis::{Analysis, Study};
use crate::job::{PARAMETERS, WorkerTemplate};
use crate::record::{HostFacts, Record};
use crate::text::{duration_in_units, gibibytes};

/// A name and its value.
#[derive(Debug, Serialize)]
pub(super) struct Fact {
    name: String,
    value: String,
}

/// Facts under a heading.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    name: String,
    facts: Vec<Fact>,
}

pub(super) fn fact(name: &str, value: impl Into<String>) -> Fact {
    Fact { name: name.to_owned(), value: value.into() }
}

fn maybe_fact(name: &str, value: Option<String>) -> Option<Fact> {
    value.map(|value| fact(name, value))
}

pub(super) fn overview(study: &Study, analysis: &Analysis<'_>, records: &[&Record]) -> Vec<Fact> {
    let tally = Tally::of(&analysis.runs);
    let jobs = [vec![format!("{} with a result", tally.done)], tally.undone()].concat().join(", ");
    let wall: f64 = records.iter().map(|record| record.wall_s()).sum();
    let started = records.iter().map(|record| record.started_at).min();
    let ended = records.iter().map(|record| record.ended_at).max();
    let span = started.zip(ended).map(|(from, to)| {
        format!("{} to {} UTC", from.format("%Y-%m-%d %H:%M:%S"), to.format("%Y-%m-%d %H:%M:%S"))
    });
    [
        Some(fact("Matrix", format!("{} ({})", study.matrix.name, study.matrix.path))),
        Some(fact("Jobs", format!("{} planned: {jobs}", analysis.runs.len()))),
        maybe_fact("Measured", span),
        Some(fact("Time in jobs", duration_in_units(wall))),
        study.include_marked.then(|| fact("Marked runs", included(analysis))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What `--include-marked` changed.
fn included(analysis: &Analysis<'_>) -> String {
    let n: usize = analysis.rows.iter().map(Row::included).sum();
    format!("{n} in the statistics despite their marks (--include-marked)")
}

pub(super) fn hosts(records: &[&Record]) -> Vec<Section> {
    let mut found: BTreeMap<String, Vec<Fact>> = BTreeMap::new();
    for record in records {
        let host = &record.provenance.host;
        found.entry(host.hostname.clone()).or_insert_with(|| host_facts(host));
    }
    found.into_iter().map(|(name, facts)| Section { name, facts }).collect()
}

fn host_facts(host: &HostFacts) -> Vec<Fact> {
    let system = [Some(host.os.name.as_str()), host.os.version.as_deref(), host.os.kernel.as_deref()];
    let system: Vec<&str> = system.into_iter().flatten().chain([host.os.architecture.as_str()]).collect();
    [
        Some(fact("System", system.join(", "))),
        maybe_fact("Processor", host.cpu.model.clone()),
        Some(fact("Processors", format!("{} usable of {}", host.cpu.usable, host.cpu.logical))),
        maybe_fact("Memory", host.memory_bytes.map(gibibytes)),
        maybe_fact("GPU", gpu_names(host)),
        maybe_fact("NVIDIA driver", host.nvidia_driver.clone()),
        maybe_fact("Virtualisation", host.virtualisation.clone()),
        maybe_fact("Container", host.container.clone()),
        maybe_fact("Governor", host.governor.clone()),
        maybe_fact("Power", host.power_source.clone()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The models of all GPUs; `None` if there are none.
fn gpu_names(host: &HostFacts) -> Option<String> {
    let names: Vec<&str> = host.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The settings and circumstances of each env. If its rows differ, all values are listed.
pub(super) fn envs(analysis: &Analysis<'_>) -> Vec<Section> {
    let mut found: BTreeMap<&str, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for row in &analysis.rows {
        let facts = found.entry(&row.config.env).or_default();
        for (name, value) in env_facts(row, &analysis.varying) {
            facts.entry(name).or_default().insert(value);
        }
    }
    found
        .into_iter()
        .map(|(name, facts)| Section {
            name: name.to_owned(),
            facts: facts
                .into_iter()
                .map(|(name, values)| fact(&name, values.into_iter().collect::<Vec<_>>().join(" / ")))
                .collect(),
        })
        .collect()
}

fn env_facts(row: &Row<'_>, varying: &[String]) -> Vec<(String, String)> {
    let mut facts = vec![("backend".to_owned(), row.config.device.to_string())];
    for (name, value) in row.config.params.iter() {
        if !varying.iter().any(|other| other == name) {
            facts.push((name.to_owned(), value.to_string()));
        }
    }
    if let WorkerTemplate::Command(argv) = &row.config.worker {
        facts.push(("worker command".to_owned(), argv.join(" ")));
    }
    let Some(circumstances) = &row.circumstances else { return facts };
    let effective = &circumstances.effective;
    facts.push(("host".to_owned(), circumstances.host().to_owned()));
    facts.extend(circumstances.device_name.clone().map(|name| ("device".to_owned(), name)));
    facts.extend(circumstances.device_uuid.clone().map(|uuid| ("device UUID".to_owned(), uuid)));
    let threads = effective.settings.get("threads");
    facts.extend(threads.map(|threads| ("threads".to_owned(), threads.to_string())));
    facts.extend(effective.tf32.map(|tf32| ("TF32 (effective)".to_owned(), tf32.to_string())));
    facts.extend(
        circumstances
            .worker_sha256
            .as_ref()
            .map(|hash| ("worker SHA-256".to_owned(), hash.chars().take(12).collect())),
    );
    facts.extend(circumstances.versions.clone());
    facts.retain(|(name, _)| !varying.contains(name));
    facts
}

pub(super) fn provenance(study: &Study, records: &[&Record]) -> Vec<Fact> {
    let unique = |value: &dyn Fn(&Record) -> Option<String>| -> Option<String> {
        let values: BTreeSet<String> = records.iter().filter_map(|record| value(record)).collect();
        (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(" / "))
    };
    let git = |record: &Record| {
        let git = record.provenance.git.as_ref()?;
        Some(format!("{}{}", git.revision, if git.dirty { ", with uncommitted changes" } else { "" }))
    };
    let settings: Vec<&str> = PARAMETERS.iter().map(|parameter| parameter.name()).collect();
    [
        Some(fact("Matrix SHA-256 (planned)", study.matrix.sha256.clone())),
        maybe_fact(
            "Matrix SHA-256 (in the records)",
            unique(&|record| Some(record.provenance.matrix.sha256.clone())),
        ),
        maybe_fact("Git", unique(&git)),
        maybe_fact("orchestrate", unique(&|record| Some(record.provenance.orchestrate.clone()))),
        maybe_fact("Worker SHA-256", unique(&|record| record.provenance.worker.sha256.clone())),
        maybe_fact("Optimizer", unique(&|record| record.measurement.as_ref()?.details.optimizer.clone())),
        Some(fact("Settings in metrics.csv", settings.join(", "))),
        maybe_fact("Changed thresholds", study.thresholds.changed_text()),
    ]
    .into_iter()
    .flatten()
    .collect()
}
