//! Everything observed about where a job ran and with what. Plain data: [`crate::run`] gathers it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// Where an attempt ran and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// `orchestrate`'s own version.
    pub orchestrate: String,
    /// The machine.
    pub host: HostFacts,
    /// The program that trained.
    pub worker: WorkerFacts,
    /// The matrix file as it was when planned.
    pub matrix: MatrixFacts,
    /// The git checkout the matrix file stands in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitFacts>,
    /// Where in the cloud, as the env declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud: Option<CloudFacts>,
    /// The argv of the whole process chain.
    pub command: Vec<String>,
    /// The child's environment, all of it.
    pub environment: BTreeMap<String, String>,
}

/// The machine, as far as it is known before a job runs.
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
    /// Names of the devices that are present: `cpu` always, `mps` on Apple Silicon, `cuda` and `cuda:<i>` per NVIDIA
    /// GPU.
    pub devices: Vec<String>,
    /// The NVIDIA driver's version.
    pub nvidia_driver: Option<String>,
    /// A virtual machine, container or compatibility layer, as far as it can be told: `wsl2`, `gvisor`, `kvm`, …
    pub virtualisation: Option<String>,
    /// The processor's frequency governor.
    pub governor: Option<String>,
    /// `mains` or `battery`.
    pub power_source: Option<String>,
    /// Identifies this boot; times since boot can be compared only within one.
    pub boot_id: Option<String>,
}

/// The operating system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OsFacts {
    /// `linux` or `macos`.
    pub name: String,
    /// The distribution's or release's own name.
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
    /// Logical processors that this process may run on.
    pub usable: u32,
}

/// The program that trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerFacts {
    /// The program's absolute path.
    pub path: String,
    /// SHA-256 of its bytes; absent if it could not be read.
    pub sha256: Option<String>,
    /// SHA-256 of the other programs that its command names, by file name: the interpreter of a script, a second script.
    /// Absent in records of older versions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, String>,
    /// The shared libraries that it brings along, by file name: libtorch, not those of the system. Absent in records of
    /// older versions, and of programs that do not name any themselves (scripts).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub libraries: BTreeMap<String, LibraryFacts>,
}

/// A shared library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LibraryFacts {
    /// Where it was found.
    pub path: String,
    /// The version that stands beside it, where one does: `2.11.0+cu130`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Its size. With the time below it tells a file that was hashed already: hashing libtorch takes a second.
    pub size_bytes: u64,
    /// When it was last written.
    pub modified_at: DateTime<Utc>,
}

/// The matrix file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MatrixFacts {
    /// Its name.
    pub name: String,
    /// Its path as given.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// A git checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitFacts {
    /// The commit checked out.
    pub revision: String,
    /// Whether tracked files differ from it.
    pub dirty: bool,
}

/// A place in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CloudFacts {
    /// `gcp`, `aws`, …
    pub provider: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The zone.
    pub zone: Option<String>,
    /// The machine type.
    pub instance: Option<String>,
}
