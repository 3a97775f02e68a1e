//! The table of facts is complete, and each line matches the behaviour.

use std::collections::{BTreeMap, BTreeSet};

use super::fact::Effect;
use super::table::facts;
use crate::analysis::analyse;
use crate::analysis::fixture::{StudyBuilder, key};
use crate::job::{Device, Key};
use crate::record::{
    CgroupLimits, CloudFacts, CloudSource, CpuFacts, GitFacts, GpuFacts, GpuInstance, HostFacts,
    LibraryFacts, LockReach, MachineIds, MatrixFacts, OsFacts, Provenance, Record, SlurmFacts, VisibleGpu,
    VisibleGpus, WorkerFacts,
};
use crate::shared::Shared;

/// The places of all fields of a type. It does not compile while one is missing.
macro_rules! places {
    ($type:ident, $at:literal, $($field:ident),*) => {{
        let _ = |all: $type| { let $type { $($field: _),* } = all; };
        [$(concat!($at, stringify!($field))),*].map(str::to_owned).to_vec()
    }};
}

/// Every leaf field of a provenance. A new one must be added here and to the table.
fn fields() -> BTreeSet<String> {
    let all: Vec<String> = [
        places!(
            Provenance,
            "",
            orchestrate,
            host,
            worker,
            matrix,
            git,
            cloud,
            cloud_source,
            slurm,
            command,
            environment,
            variables,
            useless_locks,
            secret,
            locks
        ),
        places!(
            HostFacts,
            "host.",
            hostname,
            os,
            cpu,
            memory_bytes,
            devices,
            nvidia_driver,
            virtualisation,
            governor,
            power_source,
            boot_id,
            machine,
            container,
            gpus,
            cuda_visible_devices,
            cuda_driver,
            swap_total_bytes,
            swap_used_bytes,
            transparent_huge_pages,
            clock_source,
            kernel_options,
            cgroup
        ),
        places!(MachineIds, "host.machine.", hardware, system),
        places!(CgroupLimits, "host.cgroup.", memory_bytes, memory_high_bytes, cpus, processors),
        places!(OsFacts, "host.os.", name, version, kernel, architecture),
        places!(
            CpuFacts,
            "host.cpu.",
            model,
            logical,
            usable,
            allowed,
            cores,
            smt,
            numa_nodes,
            microcode,
            turbo,
            frequency_driver,
            min_mhz,
            max_mhz,
            cap_mhz
        ),
        places!(
            GpuFacts,
            "host.gpus.",
            name,
            uuid,
            memory_bytes,
            compute_capability,
            cores,
            power_limit_w,
            persistence_mode,
            ecc,
            index,
            problem,
            instances
        ),
        places!(GpuInstance, "host.gpus.instances.", uuid, memory_bytes),
        places!(VisibleGpus, "host.cuda_visible_devices.", variable, entries),
        places!(VisibleGpu, "host.cuda_visible_devices.entries.", entry, gpu, instance),
        places!(WorkerFacts, "worker.", path, sha256, others, libraries),
        places!(LibraryFacts, "worker.libraries.", path, version, sha256, size_bytes, modified_at),
        places!(MatrixFacts, "matrix.", name, path, sha256),
        places!(GitFacts, "git.", revision, dirty),
        places!(CloudFacts, "cloud.", provider, region, zone, instance),
        places!(SlurmFacts, "slurm.", cluster, partition, node, task, restarts),
    ]
    .concat();
    let holds_others = |place: &String| all.iter().any(|other| other.starts_with(&format!("{place}.")));
    all.iter().filter(|place| !holds_others(place)).cloned().collect()
}

#[test]
fn every_field_of_a_provenance_has_one_line_in_the_table() {
    let lines: Vec<String> = facts().map(|fact| fact.place.to_owned()).collect();
    let unique: BTreeSet<String> = lines.iter().cloned().collect();
    assert_eq!(lines.len(), unique.len(), "a line occurs twice");
    assert_eq!(unique, fields());
}

#[test]
fn every_line_has_a_reason_and_every_reported_fact_a_name() {
    for fact in facts() {
        assert!(fact.why.ends_with('.') && fact.why.chars().count() <= 100, "{}", fact.place);
        let is_reported = fact.effects.contains(&Effect::Reported);
        assert!(!is_reported || (fact.read.is_some() && !fact.name.is_empty()), "{}", fact.place);
    }
    let names: Vec<&str> = facts().filter(|fact| fact.read.is_some()).map(|fact| fact.name).collect();
    assert_eq!(names.len(), BTreeSet::from_iter(&names).len(), "two facts have one name");
}

/// A run without unknown facts.
fn know_all(record: &mut Record) {
    let is_cuda = matches!(record.key.device, Device::Cuda(_));
    record.measurement.as_mut().unwrap().details.device_uuid = is_cuda.then(|| "GPU-1".to_owned());
    let provenance = &mut *record.provenance;
    know_host(&mut provenance.host);
    provenance.git = Some(GitFacts { revision: "a".into(), dirty: false }.into());
    let place = || Some("a".to_owned());
    provenance.cloud =
        Some(CloudFacts { provider: place(), region: place(), zone: place(), instance: place() }.into());
    provenance.cloud_source = Some(CloudSource::Metadata);
    provenance.slurm = Some(SlurmFacts {
        cluster: place(),
        partition: place(),
        node: place(),
        task: "1_1".into(),
        restarts: None,
    });
    provenance.environment.insert("OMP_NUM_THREADS".into(), "2".into());
    provenance.variables = Some(Shared::default());
    provenance.secret = Some(BTreeSet::new());
    provenance.locks = Some(LockReach::Host);
    provenance.worker.others.insert("python3".into(), "ab".repeat(32));
    let library = LibraryFacts {
        path: "/a".into(),
        version: None,
        sha256: "ab".repeat(32),
        size_bytes: 1,
        modified_at: Default::default(),
    };
    provenance.worker.libraries.insert("libtorch.so".into(), library);
}

fn know_host(host: &mut HostFacts) {
    host.machine = Some(MachineIds { hardware: Some("a".into()), system: Some("a".into()) });
    host.boot_id = Some("a".into());
    host.cgroup = Some(CgroupLimits::default());
    let part = GpuInstance { uuid: "MIG-1".into(), memory_bytes: Some(1 << 30) };
    host.gpus = vec![GpuFacts {
        name: "G".into(),
        uuid: Some("GPU-1".into()),
        instances: Some(vec![part]),
        ..GpuFacts::default()
    }];
    let entry = VisibleGpu { entry: "0".into(), gpu: Some(0), instance: None };
    host.cuda_visible_devices = Some(VisibleGpus { variable: "0".into(), entries: vec![entry] });
}

type Change = fn(&mut Provenance);

fn gpu(provenance: &mut Provenance) -> &mut GpuFacts {
    &mut provenance.host.gpus[0]
}

fn part(provenance: &mut Provenance) -> &mut GpuInstance {
    &mut gpu(provenance).instances.as_mut().unwrap()[0]
}

fn visible(provenance: &mut Provenance) -> &mut VisibleGpus {
    provenance.host.cuda_visible_devices.as_mut().unwrap()
}

fn library(provenance: &mut Provenance) -> &mut LibraryFacts {
    provenance.worker.libraries.get_mut("libtorch.so").unwrap()
}

fn cgroup(provenance: &mut Provenance) -> &mut CgroupLimits {
    provenance.host.cgroup.as_mut().unwrap()
}

fn machine(provenance: &mut Provenance) -> &mut MachineIds {
    provenance.host.machine.as_mut().unwrap()
}

/// Another value of every fact about the host.
const OF_HOST: &[(&str, Change)] = &[
    ("host.hostname", |it| it.host.hostname = "b".into()),
    ("host.machine.hardware", |it| machine(it).hardware = Some("b".into())),
    ("host.machine.system", |it| machine(it).system = Some("b".into())),
    ("host.boot_id", |it| it.host.boot_id = Some("b".into())),
    ("host.os.name", |it| it.host.os.name = "b".into()),
    ("host.os.version", |it| it.host.os.version = Some("b".into())),
    ("host.os.kernel", |it| it.host.os.kernel = Some("b".into())),
    ("host.os.architecture", |it| it.host.os.architecture = "b".into()),
    ("host.memory_bytes", |it| it.host.memory_bytes = Some(1 << 30)),
    ("host.devices", |it| it.host.devices.push("cuda:1".into())),
    ("host.nvidia_driver", |it| it.host.nvidia_driver = Some("b".into())),
    ("host.cuda_driver", |it| it.host.cuda_driver = Some("b".into())),
    ("host.virtualisation", |it| it.host.virtualisation = Some("b".into())),
    ("host.governor", |it| it.host.governor = Some("b".into())),
    ("host.power_source", |it| it.host.power_source = Some("battery".into())),
    ("host.container", |it| it.host.container = Some("b".into())),
    ("host.swap_total_bytes", |it| it.host.swap_total_bytes = Some(1 << 30)),
    ("host.swap_used_bytes", |it| it.host.swap_used_bytes = Some(1 << 30)),
    ("host.transparent_huge_pages", |it| it.host.transparent_huge_pages = Some("b".into())),
    ("host.clock_source", |it| it.host.clock_source = Some("b".into())),
    ("host.kernel_options", |it| it.host.kernel_options.push("b".into())),
    ("host.cgroup.memory_bytes", |it| cgroup(it).memory_bytes = Some(1 << 30)),
    ("host.cgroup.memory_high_bytes", |it| cgroup(it).memory_high_bytes = Some(1 << 30)),
    ("host.cgroup.cpus", |it| cgroup(it).cpus = Some(1.5)),
    ("host.cgroup.processors", |it| cgroup(it).processors = Some(1)),
    ("host.cpu.model", |it| it.host.cpu.model = Some("b".into())),
    ("host.cpu.logical", |it| it.host.cpu.logical = 16),
    ("host.cpu.usable", |it| it.host.cpu.usable = 1),
    ("host.cpu.allowed", |it| it.host.cpu.allowed = Some(7)),
    ("host.cpu.cores", |it| it.host.cpu.cores = Some(1)),
    ("host.cpu.smt", |it| it.host.cpu.smt = Some(true)),
    ("host.cpu.numa_nodes", |it| it.host.cpu.numa_nodes = Some(2)),
    ("host.cpu.microcode", |it| it.host.cpu.microcode = Some("b".into())),
    ("host.cpu.turbo", |it| it.host.cpu.turbo = Some(false)),
    ("host.cpu.frequency_driver", |it| it.host.cpu.frequency_driver = Some("b".into())),
    ("host.cpu.min_mhz", |it| it.host.cpu.min_mhz = Some(400.0)),
    ("host.cpu.max_mhz", |it| it.host.cpu.max_mhz = Some(4000.0)),
    ("host.cpu.cap_mhz", |it| it.host.cpu.cap_mhz = Some(2000.0)),
    ("host.gpus.name", |it| gpu(it).name = "b".into()),
    ("host.gpus.uuid", |it| gpu(it).uuid = Some("GPU-2".into())),
    ("host.gpus.memory_bytes", |it| gpu(it).memory_bytes = Some(1 << 30)),
    ("host.gpus.compute_capability", |it| gpu(it).compute_capability = Some("8.9".into())),
    ("host.gpus.cores", |it| gpu(it).cores = Some(40)),
    ("host.gpus.power_limit_w", |it| gpu(it).power_limit_w = Some(300.0)),
    ("host.gpus.persistence_mode", |it| gpu(it).persistence_mode = Some(true)),
    ("host.gpus.ecc", |it| gpu(it).ecc = Some(true)),
    ("host.gpus.index", |it| gpu(it).index = Some(1)),
    ("host.gpus.problem", |it| gpu(it).problem = Some("b".into())),
    ("host.gpus.instances.uuid", |it| part(it).uuid = "MIG-2".into()),
    ("host.gpus.instances.memory_bytes", |it| part(it).memory_bytes = Some(2 << 30)),
    ("host.cuda_visible_devices.variable", |it| visible(it).variable = "GPU-1".into()),
    ("host.cuda_visible_devices.entries.entry", |it| visible(it).entries[0].entry = "GPU-1".into()),
    ("host.cuda_visible_devices.entries.gpu", |it| visible(it).entries[0].gpu = None),
    ("host.cuda_visible_devices.entries.instance", |it| {
        visible(it).entries[0].instance = Some("MIG-1".into());
    }),
];

/// Another value of every other fact.
const OF_REST: &[(&str, Change)] = &[
    ("orchestrate", |it| it.orchestrate = "b".into()),
    ("worker.path", |it| it.worker.path = "/b".into()),
    ("worker.sha256", |it| it.worker.sha256 = Some("b".into())),
    ("worker.others", |it| drop(it.worker.others.insert("python3".into(), "b".into()))),
    ("worker.libraries.path", |it| library(it).path = "/b".into()),
    ("worker.libraries.version", |it| library(it).version = Some("b".into())),
    ("worker.libraries.sha256", |it| library(it).sha256 = "b".into()),
    ("worker.libraries.size_bytes", |it| library(it).size_bytes = 2),
    ("worker.libraries.modified_at", |it| {
        library(it).modified_at += chrono::TimeDelta::days(1);
    }),
    ("matrix.name", |it| it.matrix.name = "b".into()),
    ("matrix.path", |it| it.matrix.path = "/b".into()),
    ("matrix.sha256", |it| it.matrix.sha256 = "b".into()),
    ("git.revision", |it| it.git.as_mut().unwrap().revision = "b".into()),
    ("git.dirty", |it| it.git.as_mut().unwrap().dirty = true),
    ("cloud.provider", |it| it.cloud.as_mut().unwrap().provider = Some("b".into())),
    ("cloud.region", |it| it.cloud.as_mut().unwrap().region = Some("b".into())),
    ("cloud.zone", |it| it.cloud.as_mut().unwrap().zone = Some("b".into())),
    ("cloud.instance", |it| it.cloud.as_mut().unwrap().instance = Some("b".into())),
    ("cloud_source", |it| it.cloud_source = Some(CloudSource::Matrix)),
    ("slurm.cluster", |it| it.slurm.as_mut().unwrap().cluster = Some("b".into())),
    ("slurm.partition", |it| it.slurm.as_mut().unwrap().partition = Some("b".into())),
    ("slurm.node", |it| it.slurm.as_mut().unwrap().node = Some("b".into())),
    ("slurm.task", |it| it.slurm.as_mut().unwrap().task = "2_2".into()),
    ("slurm.restarts", |it| it.slurm.as_mut().unwrap().restarts = Some(1)),
    ("command", |it| it.command.push("b".into())),
    ("environment", |it| drop(it.environment.insert("OMP_NUM_THREADS".into(), "1".into()))),
    ("variables", |it| it.variables = Some(Shared::new(["B".to_owned()].into()))),
    ("useless_locks", |it| it.useless_locks = ["store".to_owned()].into()),
    ("secret", |it| it.secret = Some(["B".to_owned()].into())),
    ("locks", |it| it.locks = Some(LockReach::Container)),
];

/// The effect on two runs on `device` that differ only in the fact at `place`, and the text of the finding.
fn seen(device: Device, place: &str, change: Change) -> (Effect, String) {
    let of = |repeat| Key { device, ..key("e", "resnet18", 16, repeat) };
    let prepare = move |record: &mut Record, knows_only_system: bool| {
        know_all(record);
        if knows_only_system {
            record.provenance.host.boot_id = None;
            machine(&mut record.provenance).hardware = None;
        }
    };
    let is_system = place == "host.machine.system";
    let study = StudyBuilder::new()
        .run_with(of(1), 10.0, |record| prepare(record, is_system))
        .run_with(of(2), 10.0, |record| {
            prepare(record, is_system);
            change(&mut record.provenance);
        })
        .build();
    let analysis = analyse(&study);
    let texts: Vec<&str> = analysis.findings.iter().map(|finding| finding.text.as_str()).collect();
    let about = |words: &str| texts.iter().find(|text| text.contains(words)).map(|text| (*text).to_owned());
    match (analysis.rows.len(), about("Pooled runs differ in"), about("are not pooled")) {
        (1, None, None) => (Effect::Pools, String::new()),
        (1, Some(text), None) => (Effect::Reported, text),
        (2, None, Some(text)) => (Effect::Splits, text),
        other => panic!("{place} on {device}: {other:?}"),
    }
}

#[test]
fn each_fact_has_its_declared_effect_for_each_backend() {
    let changes: BTreeMap<&str, Change> = OF_HOST.iter().chain(OF_REST).copied().collect();
    assert_eq!(changes.len(), OF_HOST.len() + OF_REST.len(), "a fact is changed twice");
    assert_eq!(changes.keys().map(|place| (*place).to_owned()).collect::<BTreeSet<_>>(), fields());
    for fact in facts() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Mps] {
            let (effect, text) = seen(device, fact.place, changes[fact.place]);
            assert_eq!(effect, fact.effect(device), "{} on {device}: {text}", fact.place);
            let is_named = effect == Effect::Pools || text.contains(&format!(" {}", fact.name));
            assert!(is_named, "{} on {device}: {text}", fact.place);
        }
    }
}

/// Only the GPU that the worker reports is compared, at any position in the driver's list.
#[test]
fn only_the_gpu_of_the_job_is_compared() {
    let rows = |change: fn(&mut Vec<GpuFacts>)| {
        let of = |repeat| Key { device: Device::Cuda(0), ..key("e", "resnet18", 16, repeat) };
        let other =
            GpuFacts { uuid: Some("GPU-9".into()), power_limit_w: Some(450.0), ..GpuFacts::default() };
        let prepare = move |record: &mut Record, change: fn(&mut Vec<GpuFacts>)| {
            know_all(record);
            record.provenance.host.cuda_visible_devices = None;
            record.provenance.host.gpus.push(other.clone());
            change(&mut record.provenance.host.gpus);
        };
        let again = prepare.clone();
        let study = StudyBuilder::new()
            .run_with(of(1), 10.0, move |record| prepare(record, |_| {}))
            .run_with(of(2), 10.0, move |record| again(record, change))
            .build();
        analyse(&study).rows.len()
    };
    assert_eq!(rows(|gpus| gpus[1].power_limit_w = Some(300.0)), 1, "another GPU");
    assert_eq!(rows(|gpus| gpus.swap(0, 1)), 1, "the same GPU at another position");
    assert_eq!(rows(|gpus| gpus[0].power_limit_w = Some(300.0)), 2);
}

/// Two rows whose first runs were on different nodes are reported in one sentence.
#[test]
fn rows_that_pool_the_same_values_share_a_sentence() {
    let mut study = StudyBuilder::new();
    for (batch, repeat, node) in [(16, 1, "n1"), (16, 2, "n2"), (32, 1, "n2"), (32, 2, "n1")] {
        study = study.run_with(key("e", "resnet18", batch, repeat), 10.0, |record| {
            know_all(record);
            record.provenance.slurm.as_mut().unwrap().node = Some(node.to_owned());
        });
    }
    let study = study.build();
    let findings = analyse(&study).findings;
    let found: Vec<&str> = findings.iter().map(|finding| finding.text.as_str()).collect();
    let found: Vec<&&str> = found.iter().filter(|text| text.starts_with("Pooled runs differ")).collect();
    assert!(matches!(found[..], [text] if text.ends_with("node n1 / n2 (2 rows).")), "{found:?}");
}
