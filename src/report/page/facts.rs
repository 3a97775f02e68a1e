//! Names with values: the overview, the hosts, the envs and the provenance of a report.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::analysis::group::Row;
use crate::analysis::tally::Tally;
use crate::analysis::{Analysis, Study};
use crate::job::{PARAMETERS, WorkerTemplate};
use crate::record::{HostFacts, Machine, Record};
use crate::text::{count_text, duration_in_units, first_few, gibibytes};

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

/// The effect of `--include-marked`.
fn included(analysis: &Analysis<'_>) -> String {
    let n: usize = analysis.rows.iter().map(Row::included).sum();
    format!("{n} in the statistics despite their marks (--include-marked)")
}

/// Each machine with its facts, which are those of all its jobs. Where they differ, each value has its number of jobs.
pub(super) fn hosts(records: &[&Record]) -> Vec<Section> {
    let mut machines: Vec<(Machine<'_>, Vec<&HostFacts>)> = Vec::new();
    for record in records {
        let host = &*record.provenance.host;
        match machines.iter_mut().position(|(machine, _)| machine.admits(host)) {
            Some(known) => machines[known].1.push(host),
            None => machines.push((Machine::of(host), vec![host])),
        }
    }
    let names: Vec<String> = machines.iter().map(|(machine, _)| machine_name(machine)).collect();
    let section = |(index, (machine, hosts)): (usize, &(Machine<'_>, Vec<&HostFacts>))| {
        let is_one_of_many = names.iter().filter(|name| **name == names[index]).count() > 1;
        let id = machine.id_text().filter(|_| is_one_of_many);
        let id = id.map(|id| format!(" (machine {id})")).unwrap_or_default();
        Section { name: format!("{}{id}", names[index]), facts: facts_of_all(hosts) }
    };
    let mut sections: Vec<Section> = machines.iter().enumerate().map(section).collect();
    sections.sort_by(|left, right| left.name.cmp(&right.name));
    sections
}

/// The names of a machine: those of its containers, if several.
fn machine_name(machine: &Machine<'_>) -> String {
    let names: Vec<String> = machine.names().into_iter().map(str::to_owned).collect();
    first_few(&names)
}

/// The values of a fact, each with its number of jobs.
type Values = Vec<(Option<String>, usize)>;

fn facts_of_all(hosts: &[&HostFacts]) -> Vec<Fact> {
    let mut found: Vec<(&'static str, Values)> = Vec::new();
    for host in hosts {
        for (index, (name, value)) in host_facts(host).into_iter().enumerate() {
            if found.len() == index {
                found.push((name, Vec::new()));
            }
            let values = &mut found[index].1;
            match values.iter_mut().find(|(known, _)| *known == value) {
                Some((_, n)) => *n += 1,
                None => values.push((value, 1)),
            }
        }
    }
    found.into_iter().filter_map(|(name, values)| maybe_fact(name, values_text(values))).collect()
}

/// `mains`, `mains (3 jobs), battery (1 job)`; `None` if unknown.
fn values_text(values: Values) -> Option<String> {
    if let [(value, _)] = &values[..] {
        return value.clone();
    }
    let text = |(value, n): (Option<String>, usize)| {
        format!("{} ({})", value.as_deref().unwrap_or("not reported"), count_text(n, "job"))
    };
    Some(values.into_iter().map(text).collect::<Vec<_>>().join(", "))
}

fn host_facts(host: &HostFacts) -> [(&'static str, Option<String>); 10] {
    let version = host.os.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let kernel = host.os.kernel.as_deref().map(|kernel| format!(", kernel {kernel}")).unwrap_or_default();
    [
        ("System", Some(format!("{}{version}{kernel}, {}", host.os.name, host.os.architecture))),
        ("Processor", host.cpu.model.clone()),
        ("Processors", Some(format!("{} usable of {}", host.cpu.usable, host.cpu.logical))),
        ("Memory", host.memory_bytes.map(gibibytes)),
        ("GPU", gpu_names(host)),
        ("NVIDIA driver", host.nvidia_driver.clone()),
        ("Virtualisation", host.virtualisation.clone()),
        ("Container", host.container.clone()),
        ("Governor", host.governor.clone()),
        ("Power", host.power_source.clone()),
    ]
}

/// The models of all GPUs; `None` if there are none.
fn gpu_names(host: &HostFacts) -> Option<String> {
    let names: Vec<&str> = host.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The settings and circumstances of each env. If its rows differ, each value has its number of rows.
pub(super) fn envs(analysis: &Analysis<'_>) -> Vec<Section> {
    let mut found: BTreeMap<&str, BTreeMap<String, BTreeMap<String, usize>>> = BTreeMap::new();
    for row in &analysis.rows {
        let facts = found.entry(&row.config.env).or_default();
        for (name, value) in env_facts(row, &analysis.varying) {
            *facts.entry(name).or_default().entry(value).or_default() += 1;
        }
    }
    found
        .into_iter()
        .map(|(name, facts)| Section {
            name: name.to_owned(),
            facts: facts
                .into_iter()
                .map(|(name, values)| {
                    let rows = |n: &usize| count_text(*n, "row");
                    fact(&name, labelled(values.iter().map(|(value, n)| (value.as_str(), rows(n)))))
                })
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
    facts.extend(circumstances.libraries());
    facts.retain(|(name, _)| !varying.contains(name));
    facts
}

/// The only value, or several, each with a label: `2.8.0 (3 rows), 2.11.0 (1 row)`.
fn labelled<'a>(values: impl Iterator<Item = (&'a str, String)>) -> String {
    let values: Vec<(&str, String)> = values.collect();
    match &values[..] {
        [(value, _)] => (*value).to_owned(),
        values => values.iter().map(|(value, of)| format!("{value} ({of})")).collect::<Vec<_>>().join(", "),
    }
}

/// The provenance of the numbers. If records differ, each value names its envs.
pub(super) fn provenance(study: &Study, records: &[&Record]) -> Vec<Fact> {
    let unique = |value: &dyn Fn(&Record) -> Option<String>| -> Option<String> {
        let mut values: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for record in records {
            if let Some(value) = value(record) {
                values.entry(value).or_default().insert(record.key.env.as_str());
            }
        }
        let envs = |envs: &BTreeSet<&str>| envs.iter().copied().collect::<Vec<_>>().join(", ");
        (!values.is_empty()).then(|| labelled(values.iter().map(|(value, of)| (value.as_str(), envs(of)))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::record::testing;
    use crate::record::{GitFacts, MachineIds, Outcome};

    fn record(change: impl FnOnce(&mut HostFacts)) -> Record {
        let mut record = testing::record(1, Outcome::Succeeded);
        let host = HostFacts { hostname: "book".into(), ..HostFacts::default() };
        record.provenance.host = host.into();
        change(&mut record.provenance.host);
        record
    }

    fn machines(records: &[Record]) -> Vec<(String, String)> {
        let sections = hosts(&records.iter().collect::<Vec<_>>());
        let line = |section: Section| {
            let power = section.facts.into_iter().find(|fact| fact.name == "Power");
            (section.name, power.map_or_else(String::new, |fact| fact.value))
        };
        sections.into_iter().map(line).collect()
    }

    /// A regression test: the first record alone decided that all were on mains.
    #[test]
    fn the_facts_of_a_host_are_those_of_all_its_jobs() {
        let on = |source: &'static str| record(move |host| host.power_source = Some(source.into()));
        let mut records = vec![on("mains"), on("battery"), on("mains")];
        let name = || "book".to_owned();
        assert_eq!(machines(&records), [(name(), "mains (2 jobs), battery (1 job)".to_owned())]);
        records.push(record(|_| {}));
        assert_eq!(machines(&records)[0].1, "mains (2 jobs), battery (1 job), not reported (1 job)");
        assert_eq!(machines(&records[..1]), [(name(), "mains".to_owned())]);
        assert_eq!(machines(&records[3..]), [(name(), String::new())]);
    }

    #[test]
    fn different_values_are_labelled() {
        let mut records = [record(|_| {}), record(|_| {}), record(|_| {})];
        for (record, (env, revision)) in records.iter_mut().zip([("b", "abc"), ("a", "abc"), ("c", "def")]) {
            record.key.env = env.parse().unwrap();
            record.provenance.git = Some(GitFacts { revision: revision.into(), dirty: env == "c" }.into());
        }
        let study = StudyBuilder::new().build();
        let git = |records: &[Record]| {
            let facts = provenance(&study, &records.iter().collect::<Vec<_>>());
            facts.into_iter().find(|fact| fact.name == "Git").map(|fact| fact.value)
        };
        assert_eq!(git(&records).unwrap(), "abc (a, b), def, with uncommitted changes (c)");
        assert_eq!(git(&records[..2]).unwrap(), "abc");
        records.iter_mut().for_each(|record| record.provenance.git = None);
        assert_eq!(git(&records), None);
    }

    /// "2.11.0 / 2.8.0; 4" would be ambiguous.
    #[test]
    fn rows_of_an_env_that_differ_are_counted() {
        let with = |version: &'static str| {
            move |record: &mut Record| {
                let details = &mut record.measurement.as_mut().unwrap().details;
                details.versions = [("torch".to_owned(), version.to_owned())].into();
            }
        };
        let study = StudyBuilder::new()
            .run_with(key("cpu", "resnet18", 16, 1), 10.0, with("2.11.0"))
            .run_with(key("cpu", "resnet18", 16, 2), 10.0, with("2.8.0"))
            .run_with(key("cpu", "resnet18", 32, 1), 10.0, with("2.8.0"))
            .build();
        let sections = envs(&analyse(&study));
        let version = sections[0].facts.iter().find(|fact| fact.name == "PyTorch").unwrap();
        assert_eq!(version.value, "2.11.0 (1 row), 2.8.0 (2 rows)");
        let device = sections[0].facts.iter().find(|fact| fact.name == "backend").unwrap();
        assert_eq!(device.value, "cpu");
    }

    #[test]
    fn machines_of_one_name_and_names_of_one_machine() {
        let id = |id: &'static str| {
            record(move |host| {
                host.machine = Some(MachineIds { hardware: Some(id.repeat(32)), system: None });
            })
        };
        let names =
            |records: &[Record]| machines(records).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(
            names(&[id("b"), id("a"), id("b")]),
            ["book (machine aaaaaaaa)", "book (machine bbbbbbbb)"]
        );
        let container = |name: &'static str| {
            record(move |host| (host.hostname, host.boot_id) = (name.into(), Some("b".into())))
        };
        assert_eq!(names(&[container("c0ffee"), container("decade")]), ["c0ffee, decade"]);
    }
}
