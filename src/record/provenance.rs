//! The provenance of a record: machine, worker, matrix, environment. Plain data, gathered by [`crate::run`].

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::cloud::{CloudFacts, CloudSource};
use super::gpus::{GpuFacts, VisibleGpus};
use super::password::contains_password;
use super::secret::{SET, looks_secret};
use super::slurm::SlurmFacts;
use crate::clean::deserialize_clean;
use crate::job::Name;
use crate::shared::Shared;

/// The machine, worker, matrix and environment of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// `orchestrate`'s own version.
    #[serde(deserialize_with = "deserialize_clean")]
    pub orchestrate: String,
    /// The machine.
    #[serde(deserialize_with = "deserialize_clean")]
    pub host: Shared<HostFacts>,
    /// The program that trained.
    #[serde(deserialize_with = "deserialize_clean")]
    pub worker: Shared<WorkerFacts>,
    /// The matrix file at the time of planning.
    pub matrix: Shared<MatrixFacts>,
    /// The git checkout that contains the matrix file, if any.
    #[serde(default, deserialize_with = "deserialize_clean", skip_serializing_if = "Option::is_none")]
    pub git: Option<Shared<GitFacts>>,
    /// The place in the cloud, from the machine's metadata service, otherwise as the env declares it.
    #[serde(default, deserialize_with = "deserialize_clean", skip_serializing_if = "Option::is_none")]
    pub cloud: Option<Shared<CloudFacts>>,
    /// The source of that place. Absent in older records, where it is the matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_source: Option<CloudSource>,
    /// The task of Slurm that it belonged to. Absent outside of Slurm, and in older records.
    #[serde(default, deserialize_with = "deserialize_clean", skip_serializing_if = "Option::is_none")]
    pub slurm: Option<SlurmFacts>,
    /// The argv of the whole process chain, unchanged: it repeats the job. Empty in the records of an inventory
    /// ([`Pool`](super::Pool)).
    pub command: Vec<String>,
    /// The child's complete environment. The values of secret variables are [`SET`].
    pub environment: Shared<BTreeMap<String, String>>,
    /// The names of the environment variables that the env declares (`variables`). The others are passed through, or
    /// set for every worker. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variables: Option<Shared<BTreeSet<String>>>,
    /// The places where locks had no effect: `store`, `host`. Empty if they worked, and in older records.
    #[serde(default, deserialize_with = "deserialize_clean", skip_serializing_if = "BTreeSet::is_empty")]
    pub useless_locks: BTreeSet<String>,
    /// The names of the variables whose values are secret. Absent in older records, which have the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<BTreeSet<String>>,
    /// The processes excluded by the locks that keep measurements apart. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<LockReach>,
}

/// The processes that the locks of a host exclude, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockReach {
    /// All processes on the host.
    Host,
    /// Only processes in this container.
    Container,
    /// Only processes of this service, or of this user's sessions: they have a private `/tmp`.
    Service,
    /// Only processes of this user.
    User,
}

impl Provenance {
    /// The environment, with [`SET`] for the value of every secret, even if an older version wrote it.
    pub fn shown_environment(&self) -> impl Iterator<Item = (&String, &str)> {
        self.environment.iter().map(|(name, value)| (name, if self.is_secret(name) { SET } else { value }))
    }

    /// Whether the value of the variable `name` is secret. In older records, that follows only from its name, or from a
    /// password in its value.
    pub fn is_secret(&self, name: &str) -> bool {
        let is_named = self.secret.as_ref().map_or_else(|| looks_secret(name), |names| names.contains(name));
        let value = || self.environment.get(name).filter(|_| !self.shows_declared_value(name));
        is_named || value().is_some_and(|value| contains_password(name, value))
    }

    /// Whether the value of the secret variable `name` can be read here, because an older version wrote it.
    pub fn shows_secret(&self, name: &str) -> bool {
        self.is_secret(name) && self.environment.get(name).is_some_and(|value| value != SET)
    }

    /// Whether the matrix declares the value of the variable `name`, and the value is not secret.
    fn shows_declared_value(&self, name: &str) -> bool {
        let is_declared = self.variables.as_ref().is_some_and(|names| names.contains(name));
        is_declared && self.secret.as_ref().is_some_and(|names| !names.contains(name))
    }
}

/// Facts about the machine before a job runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// The host's name.
    pub hostname: String,
    /// The operating system.
    pub os: OsFacts,
    /// The processor.
    pub cpu: CpuFacts,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// The devices that jobs can have: always `cpu`; `mps` on Apple Silicon; `cuda` and one `cuda:<i>` per NVIDIA GPU
    /// that `orchestrate` may see and that answers.
    pub devices: Vec<String>,
    /// The NVIDIA driver's version.
    pub nvidia_driver: Option<String>,
    /// The virtual machine, container or compatibility layer, if one was detected: `wsl2`, `gvisor`, `kvm`, …
    pub virtualisation: Option<String>,
    /// The processor's frequency governor.
    pub governor: Option<String>,
    /// `mains` or `battery`.
    pub power_source: Option<String>,
    /// Identifies the boot. Times since boot are comparable only within one boot.
    pub boot_id: Option<String>,
    /// Distinguishes this machine from others of the same name. Absent in older records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineIds>,
    /// The kind of container: `docker`, `podman`, `kubernetes`, `lxc`, `apptainer`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// NVIDIA GPUs in the driver's order, or the GPU of the Apple chip. [`HostFacts::gpu`] returns that of a job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuFacts>,
    /// The part of `gpus` that `CUDA_VISIBLE_DEVICES` shows. Absent if it is not set, and in older records: then
    /// `cuda:I` is the I-th of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_visible_devices: Option<VisibleGpus>,
    /// The newest CUDA version that the NVIDIA driver supports, such as `12.4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_driver: Option<String>,
    /// Bytes of swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_total_bytes: Option<u64>,
    /// Bytes of swap that were in use before the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_used_bytes: Option<u64>,
    /// The mode of transparent huge pages: `always`, `madvise`, `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_huge_pages: Option<String>,
    /// The kernel's clock source: `tsc`, `kvm-clock`, `hpet`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// The options on the kernel's command line that affect performance: `mitigations=off`, ….
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_options: Vec<String>,
    /// The limits of the control group in which workers run, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupLimits>,
}

impl HostFacts {
    /// The number of processors that a job may run on but can never use, because its control group has a quota. Other
    /// processes can use them without slowing the job down. 0 if these processors were not counted, as in older
    /// records.
    pub fn room_beside(&self) -> f64 {
        let quota = self.cgroup.and_then(|limits| limits.cpus);
        let room = |(allowed, quota): (u32, f64)| (f64::from(allowed) - quota).max(0.0);
        self.cpu.allowed.zip(quota).map_or(0.0, room)
    }

    /// Bytes of memory that a worker can use: the host's, or less if the control group has a limit.
    pub fn usable_memory_bytes(&self) -> Option<u64> {
        let limit = self.cgroup.and_then(|limits| limits.memory_bytes);
        [self.memory_bytes, limit].into_iter().flatten().min()
    }
}

/// Ids that distinguish machines. Each is a hash, so that no file contains the id itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineIds {
    /// The id of the hardware, the virtual machine or the cloud's instance. Readable in containers, but not by every
    /// user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// The id of the installed system. Absent in containers, where it belongs to the image, or to the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

/// The limits of a control group (Linux), each the tightest of the group and its ancestors. Absent ones are not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupLimits {
    /// Bytes of memory beyond which its processes are killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Bytes of memory beyond which its processes are slowed down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_high_bytes: Option<u64>,
    /// The quota of processor time per time, in processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// The number of processors it may use, if fewer than the host has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<u32>,
}

/// The operating system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OsFacts {
    /// `linux` or `macos`.
    pub name: String,
    /// The name of the distribution or release.
    pub version: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// `x86_64`, `aarch64`, …
    pub architecture: String,
}

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuFacts {
    /// The model's name.
    pub model: Option<String>,
    /// Logical processors of the host.
    pub logical: u32,
    /// Logical processors that this process may run on, or as many as its control group's quota allows if that is less.
    pub usable: u32,
    /// Logical processors that it may run on, whatever the quota: those over which busy seconds are summed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<u32>,
    /// Physical cores of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Whether cores run several threads concurrently (SMT, Hyper-Threading).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// NUMA nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_nodes: Option<u32>,
    /// The microcode's revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Whether turbo or boost clocks are enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
    /// The frequency driver: `intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_driver: Option<String>,
    /// The lowest clock of the hardware, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_mhz: Option<f64>,
    /// The highest clock of the hardware, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mhz: Option<f64>,
    /// The highest clock that the system allows, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_mhz: Option<f64>,
}

/// The program that trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerFacts {
    /// The program's absolute path.
    pub path: String,
    /// SHA-256 of its bytes; absent if it could not be read.
    pub sha256: Option<String>,
    /// SHA-256 of the other programs in its command, by file name: a script's interpreter, a second script. Absent in
    /// older records.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, String>,
    /// The shared libraries that it ships with, by file name: libtorch, but not the system's. Absent in older records
    /// and for scripts, which link no libraries themselves.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub libraries: BTreeMap<String, LibraryFacts>,
}

/// A shared library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LibraryFacts {
    /// Its path.
    pub path: String,
    /// The version according to a file beside it, if there is one: `2.11.0+cu130`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Its size. Size and modification time identify a file that was hashed before: hashing libtorch takes a second.
    pub size_bytes: u64,
    /// When it was last written.
    pub modified_at: DateTime<Utc>,
}

/// The matrix file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixFacts {
    /// Its name.
    pub name: Name,
    /// Its path, as given on the command line.
    #[serde(default)]
    pub path: String,
    /// SHA-256 of its bytes.
    #[serde(default)]
    pub sha256: String,
}

#[cfg(test)]
impl MatrixFacts {
    /// A matrix called `m`, for tests.
    pub(crate) fn example() -> MatrixFacts {
        MatrixFacts { name: "m".into(), path: "m.yaml".into(), sha256: String::new() }
    }
}

/// A git checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitFacts {
    /// The commit checked out.
    pub revision: String,
    /// Whether tracked files have uncommitted changes.
    pub dirty: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by a version that did not look for GPUs, containers and clocks yet.
    const OLDER: &str = r#"{
        "hostname": "bench-1", "os": {"name": "linux", "version": null, "kernel": "6.8.0", "architecture": "x86_64"},
        "cpu": {"model": "Test CPU", "logical": 4, "usable": 2}, "memory_bytes": 8000000000, "devices": ["cpu"],
        "nvidia_driver": null, "virtualisation": "container+kvm", "governor": null, "power_source": null,
        "boot_id": "b"
    }"#;

    #[test]
    fn hosts_of_older_records_stay_readable() {
        let host: HostFacts = serde_json::from_str(OLDER).unwrap();
        assert_eq!((host.hostname.as_str(), host.cpu.usable, host.cpu.cores), ("bench-1", 2, None));
        assert_eq!((host.gpus.len(), host.container), (0, None));
    }

    #[test]
    fn unknown_facts_are_left_out_of_a_record() {
        let older: serde_json::Value = serde_json::from_str(OLDER).unwrap();
        let host: HostFacts = serde_json::from_str(OLDER).unwrap();
        assert_eq!(serde_json::to_value(&host).unwrap(), older);
        let gpu = GpuFacts { name: "Test GPU".into(), power_limit_w: Some(72.0), ..GpuFacts::default() };
        assert_eq!(serde_json::to_string(&gpu).unwrap(), r#"{"name":"Test GPU","power_limit_w":72.0}"#);
    }
}
