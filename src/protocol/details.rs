//! `details` in `measurement.json`: facts that a worker can report in addition to the measurement itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::iteration_clock::IterationClock;

/// Optional parts of a measurement. Sizes are in bytes, durations in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Details {
    /// Seconds of the window in which training waited for images, or decoded them itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_wait_s: Option<f64>,
    /// Seconds of the window in which the host copied batches to the device: staged them and issued their copies.
    /// If a copy waits for the device, the wait counts too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_s: Option<f64>,
    /// Seconds from the start of the process, by the kernel's clock, to the start of the first training step.
    /// Libraries, network and data are loaded then, and the first batch is ready.
    #[serde(alias = "startup_s", skip_serializing_if = "Option::is_none")]
    pub first_step_s: Option<f64>,
    /// Seconds since the Unix epoch at the window's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_started_at: Option<f64>,
    /// How often threads of the process that trains were taken off a processor within the window: `ru_nivcsw` of
    /// `getrusage`. Of several processes, the sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// Loss of the first iteration, be it warm-up or measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_loss: Option<f64>,
    /// Loss of the last measured iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_loss: Option<f64>,
    /// The first measured iteration, counted from 0, whose loss is infinite or not a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_non_finite_iteration: Option<u64>,
    /// Optimizer steps within the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_steps: Option<u64>,
    /// The factor of the loss at the window's end, with fp16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
    /// The clock that timed single iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_clock: Option<IterationClock>,
    /// The type in which automatic mixed precision computed, as libtorch reported it during the last forward pass:
    /// `float16`, `bfloat16` or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autocast: Option<String>,
    /// The library that multiplied bf16 in linear layers and convolutions on the processor: `onednn`, `libtorch` with
    /// its kernels, or `single`: in single precision, where the products are exact. Absent without bf16 on the
    /// processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bf16_products: Option<String>,
    /// The formats in which libtorch may compute single precision (`ieee`, `tf32`, `bf16`), by library and operation:
    /// `cuda_matmul`, `cuda_conv`, `onednn_matmul`, `onednn_conv`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub float32: BTreeMap<String, String>,
    /// Trainable parameters of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// FLOPs of one sample's training step as the worker counts them, 2 per MAC: the forward pass, and the gradients of
    /// inputs and weights. The optimizer is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops_per_sample: Option<f64>,
    /// The same, counted by the worker's library while one iteration ran, 2 per MAC, without recomputation.
    /// `flops_per_sample` wins over it, and the two are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_flops_per_sample: Option<f64>,
    /// Operators of that iteration whose FLOPs are unknown, so that they are missing from the count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncounted_operators: Vec<String>,
    /// The share of the window, 0 to 1, in which the trained network was called without gradients, as in evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_share: Option<f64>,
    /// Peak memory of the device's allocator within the window: tensors, and what it kept in reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_device_memory_bytes: Option<u64>,
    /// Peak memory of tensors within the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_device_allocated_bytes: Option<u64>,
    /// Peak memory of the process on the host since its start (resident set).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_host_memory_bytes: Option<u64>,
    /// Images found in the folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset_images: Option<u64>,
    /// Images that could not be decoded and were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable_images: Option<u64>,
    /// The device's name: the processor's or GPU's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The device's UUID, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_uuid: Option<String>,
    /// The compute capability of a CUDA device: `9.0`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Optimizer, learning rate and the like, as one phrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<String>,
    /// Parameters under `effective` whose values the worker repeats from its flags, because it cannot read
    /// them back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Vec<String>>,
    /// What the worker can profile on request: `ops`. A worker without it is not requested to, unless the matrix
    /// declares it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// The measurements of each process, if several trained together. Empty if it was one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Rank>,
    /// The one of `ranks` that took longest: its seconds are those of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest_rank: Option<u32>,
    /// Versions of libraries by name: `libtorch`, `cudnn`, …
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
}

impl Details {
    /// Whether the worker repeats its parameter `name` from its flags, because it cannot read it back.
    pub fn repeats(&self, name: &str) -> bool {
        self.repeated.iter().flatten().any(|repeated| repeated == name)
    }
}

/// One of several processes that trained together. Sizes are in bytes, durations in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// Samples that it trained on within the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The length of its window. All begin together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// Seconds of its window in which it waited for data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_wait_s: Option<f64>,
    /// The host that it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The name of its device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The UUID of its device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_uuid: Option<String>,
    /// Peak memory of its device's allocator within the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_device_memory_bytes: Option<u64>,
    /// Its peak memory on the host since its start (resident set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_host_memory_bytes: Option<u64>,
}
