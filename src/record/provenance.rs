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
    /// The kind of container: `docker`, `podman`, `kubernetes`, `lxc`, `apptainer`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The GPUs: NVIDIA's in the driver's order, which need not be CUDA's, or the Apple chip's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuFacts>,
    /// The newest CUDA that the NVIDIA driver can serve, such as `12.4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_driver: Option<String>,
    /// Bytes of swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_total_bytes: Option<u64>,
    /// Bytes of swap that were in use before the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_used_bytes: Option<u64>,
    /// When the kernel backs memory with huge pages by itself: `always`, `madvise`, `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_huge_pages: Option<String>,
    /// What the kernel reads the time from: `tsc`, `kvm-clock`, `hpet`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// Those words of the kernel's command line that change how fast it runs programs: `mitigations=off`, ….
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_options: Vec<String>,
}

/// A GPU. What the driver does not tell is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFacts {
    /// Its model.
    pub name: String,
    /// What tells it from every other GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Bytes of its own memory; absent for a GPU that shares the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// CUDA's compute capability, such as `8.9`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Cores, as Apple counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// The power that the driver lets it draw, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<f64>,
    /// Whether the driver stays loaded while nobody uses the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence_mode: Option<bool>,
    /// Whether its memory corrects errors, which costs bandwidth on some models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
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
    /// Physical cores of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Whether cores run several threads at once (SMT, Hyper-Threading).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// NUMA nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_nodes: Option<u32>,
    /// The microcode's revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Whether clocks may rise above the nominal one (turbo, boost).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
    /// What sets the clocks: `intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_driver: Option<String>,
    /// The lowest clock that the hardware offers, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_mhz: Option<f64>,
    /// The highest clock that the hardware offers, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mhz: Option<f64>,
    /// The highest clock that the system lets the processor use, in MHz.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What `orchestrate` wrote before it looked for GPUs, containers and clocks.
    const FIRST: &str = r#"{
        "hostname": "bench-1", "os": {"name": "linux", "version": null, "kernel": "6.8.0", "architecture": "x86_64"},
        "cpu": {"model": "Test CPU", "logical": 4, "usable": 2}, "memory_bytes": 8000000000, "devices": ["cpu"],
        "nvidia_driver": null, "virtualisation": "container+kvm", "governor": null, "power_source": null,
        "boot_id": "b"
    }"#;

    #[test]
    fn hosts_of_older_records_stay_readable() {
        let host: HostFacts = serde_json::from_str(FIRST).unwrap();
        assert_eq!((host.hostname.as_str(), host.cpu.usable, host.cpu.cores), ("bench-1", 2, None));
        assert_eq!((host.gpus.len(), host.container), (0, None));
    }

    #[test]
    fn what_a_host_does_not_tell_adds_nothing_to_a_record() {
        let first: serde_json::Value = serde_json::from_str(FIRST).unwrap();
        let host: HostFacts = serde_json::from_str(FIRST).unwrap();
        assert_eq!(serde_json::to_value(&host).unwrap(), first);
        let gpu = GpuFacts { name: "Test GPU".into(), power_limit_w: Some(72.0), ..GpuFacts::default() };
        assert_eq!(serde_json::to_string(&gpu).unwrap(), r#"{"name":"Test GPU","power_limit_w":72.0}"#);
    }
}
