//! The GPUs of a host, as its driver reports them, and those that `CUDA_VISIBLE_DEVICES` shows.

use serde::{Deserialize, Serialize};

/// A GPU. Absent values were not reported by the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFacts {
    /// Its model.
    pub name: String,
    /// Its UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Bytes of its memory; absent if it shares the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// CUDA's compute capability, such as `8.9`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// GPU cores (Apple).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// The power limit, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<f64>,
    /// Whether the driver stays loaded while the GPU is unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence_mode: Option<bool>,
    /// Whether ECC is on, which costs bandwidth on some models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// Its number among all GPUs of the driver, if that differs from its position: this process cannot use one before
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Why it does not answer its driver. It keeps its position, so that the positions of later GPUs do not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The parts that it is divided into; absent unless it is in MIG mode. A worker uses one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<Vec<GpuInstance>>,
}

/// A part of a GPU in MIG mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuInstance {
    /// Its UUID: `MIG-…`.
    pub uuid: String,
    /// Bytes of its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// The GPUs of a host that `CUDA_VISIBLE_DEVICES` in `orchestrate`'s own environment shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VisibleGpus {
    /// The variable's value.
    pub variable: String,
    /// Its entries up to the first one that is no GPU: `cuda:0`, `cuda:1`, ….
    pub entries: Vec<VisibleGpu>,
}

/// An entry of `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VisibleGpu {
    /// The entry as CUDA reads it: `3`, the beginning of a UUID, `MIG-…`.
    pub entry: String,
    /// The position of its GPU in [`super::HostFacts::gpus`]; absent if the driver does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<usize>,
    /// The UUID of the part that it names, if the GPU is in MIG mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}
