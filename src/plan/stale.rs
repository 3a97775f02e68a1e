//! Staleness: whether the worker, host or environment of a done job has changed since it ran.
//!
//! A job's key does not contain the worker's bytes, libtorch, the device or the variables of its worker. If one of them
//! has changed since its record, the job is still done, but *stale*: its result might be different now. The user
//! decides whether to repeat it or to [accept](Acceptance) the change.
//!
//! Only facts that are known on both sides are compared. A record of an older version, an unreadable worker or a GPU
//! with an unknown UUID does not make a job stale. For a record from another host, only the variables are compared,
//! since the other facts describe that host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::PlannedEnv;
use super::change::Change;
use super::variables::variable_changes;
use crate::job::{Device, JobId, Key};
use crate::protocol::Mismatch;
use crate::record::{GpuFacts, HostFacts, LibraryFacts, Record, WorkerFacts};

/// The version of `accepted.json`.
///
/// Changelog: 1, the first; 2, sealed.
pub const ACCEPTANCE_SCHEMA: u32 = 2;

/// The present workers, GPUs and environment of jobs, as far as known. By default they are unknown, so no job is stale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Present {
    /// The worker of each job to compare. Most jobs share one.
    pub workers: BTreeMap<JobId, Arc<WorkerFacts>>,
    /// The NVIDIA GPUs of `cuda:0`, `cuda:1`, …; empty if unknown.
    pub gpus: Vec<GpuFacts>,
    /// Our own environment, of which workers inherit a part.
    pub environment: Option<BTreeMap<String, String>>,
    /// Whether Slurm's programs are installed, so that jobs can be handed to it.
    pub slurm: bool,
    /// Whether `ssh` is installed, so that jobs can be handed to other hosts.
    pub ssh: bool,
}

/// `accepted.json`: the user keeps a stale job's record despite these changes. It is stored beside the record, which is
/// never edited, and is valid only for that record and those changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// [`ACCEPTANCE_SCHEMA`], or an older one if an older version wrote it.
    pub schema: u32,
    /// The attempt whose record is kept.
    pub attempt: u32,
    /// When the user accepted them.
    pub accepted_at: DateTime<Utc>,
    /// The accepted changes.
    pub changes: Vec<Change>,
}

impl Acceptance {
    /// Whether it covers all of `changes` since `record`.
    pub fn covers(&self, record: &Record, changes: &[Change]) -> bool {
        self.attempt == record.attempt && changes.iter().all(|change| self.changes.contains(change))
    }
}

/// The changes since the run of `record`, on `host` with what is `present`. `env` is the job's env as it is declared
/// now. If `record` is from another host, only declared variables are compared, since the declarations apply to any
/// host.
pub fn changes(record: &Record, env: &PlannedEnv, host: &HostFacts, present: &Present) -> Vec<Change> {
    let is_here = record.provenance.host.is_machine_of(host);
    let mut found = variable_changes(record, env, present.environment.as_ref().filter(|_| is_here));
    if !is_here {
        return found;
    }
    if let Some(worker) =
        present.workers.get(&record.id).filter(|worker| missing_script(record, worker).is_none())
    {
        found.extend(worker_changes(&record.provenance.worker, worker));
    }
    let then = &record.provenance.host;
    found.extend(change("processor", then.cpu.model.as_ref(), host.cpu.model.as_ref()));
    found.extend(device_change(record, present));
    if matches!(record.key.device, Device::Cuda(_)) {
        found.extend(change("driver", then.nvidia_driver.as_ref(), host.nvidia_driver.as_ref()));
    }
    found
}

/// The parameters that `key` declares at their default, which does not change the job, and for which the worker of
/// `record` reported another value.
pub(super) fn redeclared(record: &Record, key: &Key) -> Vec<Change> {
    let measured = record.measurement.as_ref().filter(|_| record.key.params != key.params);
    let mismatches = measured.map(|measured| measured.mismatches(key)).unwrap_or_default();
    let change = |it: Mismatch| Change { what: it.setting, from: it.effective, to: it.requested };
    mismatches.into_iter().map(change).collect()
}

/// The file name of the script that ran, if it is not found `now`. Then another program of the command is the first
/// one, and its bytes are not those of the script.
fn missing_script<'a>(record: &'a Record, now: &WorkerFacts) -> Option<&'a str> {
    let then = file_name(&record.provenance.worker.path);
    let is_here = file_name(&now.path) == then || now.others.contains_key(then);
    (!record.key.worker.is_shipped() && !is_here).then_some(then)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The scripts that ran and are not found on `host` now. Whether they have changed is unknown.
pub fn missing_scripts<'a>(
    records: impl Iterator<Item = &'a Record>,
    host: &HostFacts,
    present: &Present,
) -> BTreeSet<&'a str> {
    let ours = records.filter(|record| record.provenance.host.is_machine_of(host));
    ours.filter_map(|record| missing_script(record, present.workers.get(&record.id)?)).collect()
}

/// The change from `from` to `to`, if both are known and they differ.
fn change(what: &str, from: Option<&String>, to: Option<&String>) -> Option<Change> {
    let (from, to) = (from?, to?);
    (from != to).then(|| Change { what: what.to_owned(), from: from.clone(), to: to.clone() })
}

/// The differences between the worker `then` and `now`, where both are known.
pub fn worker_changes(then: &WorkerFacts, now: &WorkerFacts) -> Vec<Change> {
    // Earlier versions did not hash a script that a placeholder names, and took its interpreter for the worker.
    let is_other = file_name(&then.path) != file_name(&now.path);
    let own = now.others.get(file_name(&then.path)).filter(|_| is_other).or(now.sha256.as_ref());
    let mut found: Vec<Change> = change("worker", then.sha256.as_ref(), own).into_iter().collect();
    for (name, hash) in &then.others {
        found.extend(change(name, Some(hash), now.others.get(name)));
    }
    for (name, library) in &then.libraries {
        let current = now.libraries.get(name).filter(|current| current.sha256 != library.sha256);
        found.extend(change(name, Some(&identity(library)), current.map(identity).as_ref()));
    }
    found
}

/// The identity of a library: its version, if known, and the hash of its bytes.
fn identity(library: &LibraryFacts) -> String {
    match &library.version {
        Some(version) => format!("{version} {}", library.sha256),
        None => library.sha256.clone(),
    }
}

/// The change if another GPU has replaced the job's. A part of a GPU (MIG) has another kind of UUID and is not
/// compared.
fn device_change(record: &Record, present: &Present) -> Option<Change> {
    let gpu = present.gpus.get(gpu_index(&record.key)?)?;
    let details = &record.measurement.as_ref()?.details;
    let then = details.device_uuid.as_ref().filter(|uuid| uuid.starts_with("GPU-"))?;
    let now = gpu.uuid.as_ref().filter(|uuid| *uuid != then)?;
    let named = |name: &str, uuid: &String| format!("{name} {uuid}").trim_start().to_owned();
    let from = named(details.device_name.as_deref().unwrap_or_default(), then);
    Some(Change { what: "device".to_owned(), from, to: named(&gpu.name, now) })
}

fn gpu_index(key: &Key) -> Option<usize> {
    match key.device {
        Device::Cuda(index) => usize::try_from(index).ok(),
        Device::Cpu | Device::Mps => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::WorkerTemplate;
    use crate::plan::changes_text;
    use crate::protocol::{Details, Measurement};
    use crate::record::testing::record_of;
    use crate::record::{CpuFacts, Outcome};
    use crate::shared::Shared;

    const UUID: &str = "GPU-00112233-4455-6677-8899-aabbccddeeff";

    fn host() -> HostFacts {
        HostFacts {
            hostname: "box".into(),
            cpu: CpuFacts { model: Some("Xeon A".into()), logical: 2, usable: 2, ..CpuFacts::default() },
            nvidia_driver: Some("570.1".into()),
            ..HostFacts::default()
        }
    }

    fn library(version: Option<&str>, sha256: &str) -> LibraryFacts {
        LibraryFacts {
            path: "/lib".into(),
            version: version.map(str::to_owned),
            sha256: sha256.into(),
            size_bytes: 1,
            modified_at: DateTime::UNIX_EPOCH,
        }
    }

    fn worker() -> WorkerFacts {
        WorkerFacts {
            path: "/worker".into(),
            sha256: Some("aa".repeat(32)),
            others: [("python3".to_owned(), "bb".repeat(32))].into(),
            libraries: [("libtorch_cpu.so".to_owned(), library(Some("2.11.0"), &"cc".repeat(32)))].into(),
        }
    }

    fn present(record: &Record) -> Present {
        let gpu = GpuFacts { name: "H200".into(), uuid: Some(UUID.into()), ..GpuFacts::default() };
        Present { workers: [(record.id, Arc::new(worker()))].into(), gpus: vec![gpu], ..Present::default() }
    }

    fn record(device: Device) -> Record {
        let effective = format!(r#"{{"device":"{}","precision":"fp32","batch":4}}"#, device.backend());
        let mut record = record_of(Key { device, ..Key::example() }, Outcome::Succeeded);
        record.measurement = Some(Measurement {
            samples: 4,
            elapsed_s: 1.0,
            synchronized: true,
            effective: serde_json::from_str(&effective).unwrap(),
            unit: None,
            metrics: Default::default(),
            ops: None,
            details: Details {
                device_name: Some("H200".into()),
                device_uuid: Some(UUID.into()),
                ..Details::default()
            }
            .into(),
        });
        record.provenance.host = host().into();
        record.provenance.worker = worker().into();
        record
    }

    type Alter = fn(&mut HostFacts, &mut WorkerFacts, &mut Vec<GpuFacts>);

    /// The text of the changes if `alter` happens between a run on `device` and now.
    fn text(device: Device, alter: Alter) -> String {
        let record = record(device);
        let (mut host, mut now) = (host(), present(&record));
        let mut worker = worker();
        alter(&mut host, &mut worker, &mut now.gpus);
        now.workers.insert(record.id, Arc::new(worker));
        changes_text(&changes(&record, &PlannedEnv::example(), &host, &now))
    }

    #[test]
    fn each_change_has_its_old_and_new_value() {
        let alterations: [(Alter, &str); 7] = [
            (|_, _, _| {}, ""),
            (|_, worker, _| worker.sha256 = Some("dd".repeat(32)), "worker aaaaaaaaaaaa → dddddddddddd"),
            (
                |_, worker, _| drop(worker.others.insert("python3".into(), "dd".repeat(32))),
                "python3 bbbbbbbbbbbb → dddddddddddd",
            ),
            (
                |_, worker, _| {
                    let newer = library(Some("2.12.0"), &"dd".repeat(32));
                    worker.libraries.insert("libtorch_cpu.so".into(), newer);
                },
                "libtorch_cpu.so 2.11.0 cccccccccccc → 2.12.0 dddddddddddd",
            ),
            (|host, _, _| host.cpu.model = Some("Xeon B".into()), "processor Xeon A → Xeon B"),
            (|host, _, _| host.nvidia_driver = Some("580.2".into()), "driver 570.1 → 580.2"),
            (
                |_, _, gpus| gpus[0].uuid = Some("GPU-ff".into()),
                "device H200 GPU-00112233-4455-6677-8899-aabbccddeeff → H200 GPU-ff",
            ),
        ];
        for (alter, expected) in alterations {
            assert_eq!(text(Device::Cuda(0), alter), expected);
        }
        // A job on the processor does not depend on the driver or a GPU.
        for (alter, _) in &alterations[5..] {
            assert_eq!(text(Device::Cpu, *alter), "");
        }
        let both = text(Device::Cpu, |host, worker, _| {
            host.cpu.model = Some("Xeon B".into());
            worker.sha256 = Some("dd".repeat(32));
        });
        assert_eq!(both, "worker aaaaaaaaaaaa → dddddddddddd; processor Xeon A → Xeon B");
    }

    /// Earlier versions took the interpreter for the worker.
    #[test]
    fn a_script_that_an_earlier_version_did_not_hash_is_not_compared() {
        let text = |interpreter: &str| {
            let mut record = record(Device::Cpu);
            record.key.worker = WorkerTemplate::Command(["python3".into(), "{script}".into()].into());
            let hash = "bb".repeat(32);
            let old =
                WorkerFacts { path: "/bin/python3".into(), sha256: Some(hash), ..WorkerFacts::default() };
            record.provenance.worker = old.into();
            let mut now = present(&record);
            let worker = WorkerFacts {
                path: "/home/a.py".into(),
                sha256: Some("dd".repeat(32)),
                others: [("python3".to_owned(), interpreter.repeat(32))].into(),
                ..WorkerFacts::default()
            };
            now.workers.insert(record.id, Arc::new(worker));
            assert!(missing_scripts([&record].into_iter(), &host(), &now).is_empty());
            changes_text(&changes(&record, &PlannedEnv::example(), &host(), &now))
        };
        assert_eq!(text("bb"), "");
        assert_eq!(text("cc"), "worker bbbbbbbbbbbb → cccccccccccc");
    }

    #[test]
    fn facts_known_on_one_side_only_are_not_changes() {
        let unknown: [Alter; 6] = [
            |_, worker, _| *worker = WorkerFacts::default(),
            |_, worker, _| worker.libraries.clear(),
            |host, _, _| host.cpu.model = None,
            |host, _, _| host.nvidia_driver = None,
            |_, _, gpus| gpus[0].uuid = None,
            |_, _, gpus| gpus.clear(),
        ];
        for (index, alter) in unknown.into_iter().enumerate() {
            assert_eq!(text(Device::Cuda(0), alter), "", "{index}");
        }
        let none = PlannedEnv::example();
        assert_eq!(changes(&record(Device::Cpu), &none, &host(), &Present::default()), []);
        // The other side can lack facts too: a record of an older version.
        let mut older = record(Device::Cuda(0));
        let now = present(&older);
        older.provenance.worker = WorkerFacts { sha256: worker().sha256, ..WorkerFacts::default() }.into();
        older.provenance.host = HostFacts { hostname: "box".into(), ..HostFacts::default() }.into();
        older.measurement.as_mut().unwrap().details = Details::default().into();
        assert_eq!(changes(&older, &none, &host(), &now), []);
    }

    #[test]
    fn only_variables_are_compared_with_a_record_of_another_host() {
        let record = record(Device::Cpu);
        let elsewhere = HostFacts { hostname: "other".into(), cpu: CpuFacts::default(), ..host() };
        let mut now = present(&record);
        let worker = WorkerFacts { sha256: Some("dd".repeat(32)), ..worker() };
        now.workers.insert(record.id, Arc::new(worker));
        let none = PlannedEnv::example();
        assert_eq!(changes(&record, &none, &elsewhere, &now), []);
        assert_eq!(changes(&record, &none, &host(), &now).len(), 1);
        let booted = |hostname: &str, boot: &str| HostFacts {
            hostname: hostname.into(),
            boot_id: Some(boot.into()),
            ..host()
        };
        let mut in_container = record.clone();
        in_container.provenance.host = booted("c0ffee", "b").into();
        assert_eq!(changes(&in_container, &none, &booted("decade", "b"), &now).len(), 1, "the same machine");
        assert_eq!(changes(&in_container, &none, &booted("decade", "c"), &now), []);
        let declared =
            PlannedEnv { variables: [("NAP".to_owned(), "1".to_owned())].into(), ..PlannedEnv::example() };
        assert_eq!(changes_text(&changes(&record, &declared, &elsewhere, &now)), "$NAP not set → 1");
        assert_eq!(changes(&record, &declared, &host(), &now).len(), 2);
    }

    /// The text of the changes for a worker on two threads. It ran with the environment `had`, of which `then` were
    /// declared; its env now declares `now`.
    fn variables_text(had: &[(&str, &str)], then: Option<&[&str]>, now: &[(&str, &str)]) -> String {
        let map = |variables: &[(&str, &str)]| -> BTreeMap<String, String> {
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut record = record(Device::Cpu);
        record.key.params.insert("threads".into(), crate::job::ParamValue::Int(2));
        record.provenance.environment = map(had).into();
        record.provenance.variables =
            then.map(|names| Shared::new(names.iter().map(|name| (*name).to_owned()).collect()));
        let mut env = PlannedEnv { variables: map(now), ..PlannedEnv::example() };
        env.forget_secrets();
        changes_text(&changes(&record, &env, &host(), &Present::default()))
    }

    #[test]
    fn variables_are_compared_if_their_old_value_is_known() {
        let had =
            [("PATH", "/bin"), ("OMP_NUM_THREADS", "2"), ("NAP", "1"), ("ORCHESTRATE_MEASUREMENT", "/x")];
        let declared: Option<&[&str]> = Some(&["NAP", "TOKEN"]);
        for (then, now, expected) in [
            (declared, vec![("NAP", "1")], ""),
            (None, vec![("NAP", "1")], ""),
            (declared, vec![("NAP", "2"), ("TOKEN", "t")], "$NAP 1 → 2"),
            (None, vec![("NAP", "1"), ("TOKEN", "t")], "$TOKEN not set → set"),
            (declared, vec![("NAP", "1"), ("PATH", "/bin"), ("OMP_NUM_THREADS", "2")], ""),
            (declared, vec![("NAP", "1"), ("OMP_NUM_THREADS", "3")], "$OMP_NUM_THREADS 2 → 3"),
            (declared, vec![("NAP", "1"), ("ORCHESTRATE_MEASUREMENT", "/y")], ""),
            (Some(&["NAP", "PATH"]), vec![], "$NAP 1 → not set; $PATH /bin → not declared"),
            (None, vec![], "$NAP 1 → not set"),
        ] {
            assert_eq!(variables_text(&had, then, &now), expected, "{then:?} {now:?}");
        }
        // The env declared what we now set ourselves.
        let had = [("OMP_NUM_THREADS", "8"), ("LC_ALL", "C")];
        assert_eq!(variables_text(&had, None, &[]), "$OMP_NUM_THREADS 8 → 2");
    }

    #[test]
    fn variables_of_the_shell_are_compared_if_they_affect_the_worker() {
        let text = |worker: WorkerTemplate, had: &[&str], now: &[&str]| {
            let map = |names: &[&str], value: &str| -> BTreeMap<String, String> {
                names.iter().map(|name| ((*name).to_owned(), value.to_owned())).collect()
            };
            let mut record = record(Device::Cpu);
            record.key.worker = worker;
            record.provenance.environment = map(had, "1").into();
            record.provenance.variables = Some(Shared::new(BTreeSet::new()));
            let present = Present { environment: Some(map(now, "2")), ..Present::default() };
            changes_text(&changes(&record, &PlannedEnv::example(), &host(), &present))
        };
        let python = WorkerTemplate::Command(vec!["python3".to_owned()].into());
        for name in [
            "PYTHONPATH",
            "JAX_ENABLE_X64",
            "XLA_FLAGS",
            "TORCHINDUCTOR_FREEZING",
            "TRITON_DEBUG",
            "NCCL_ALGO",
        ] {
            assert_eq!(text(WorkerTemplate::Shipped, &[name], &[name]), "", "{name}");
            assert_eq!(text(WorkerTemplate::Shipped, &[name], &[]), "", "{name} of a record of today");
            assert_eq!(text(python.clone(), &[name], &[name]), format!("${name} 1 → 2"));
        }
        for name in [
            "OMP_PROC_BIND",
            "PYTORCH_CUDA_ALLOC_CONF",
            "TORCH_CUDNN_V8_API_DISABLED",
            "CUDA_LAUNCH_BLOCKING",
        ] {
            assert_eq!(text(WorkerTemplate::Shipped, &[], &[name]), format!("${name} not set → 2"));
        }
    }

    #[test]
    fn an_acceptance_covers_only_its_changes_of_its_record() {
        let change = |to: &str| Change { what: "worker".into(), from: "a".into(), to: to.into() };
        let accepted = Acceptance {
            schema: ACCEPTANCE_SCHEMA,
            attempt: 1,
            accepted_at: DateTime::UNIX_EPOCH,
            changes: vec![change("b"), change("c")],
        };
        let kept = record(Device::Cpu);
        assert!(accepted.covers(&kept, &[change("b")]) && accepted.covers(&kept, &[]));
        assert!(!accepted.covers(&kept, &[change("b"), change("d")]));
        let repeated = Record { attempt: 2, ..kept };
        assert!(!accepted.covers(&repeated, &[change("b")]));
        let json = serde_json::to_string(&accepted).unwrap();
        assert_eq!(serde_json::from_str::<Acceptance>(&json).unwrap(), accepted);
    }
}
