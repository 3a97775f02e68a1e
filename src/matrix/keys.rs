//! The keys of a matrix file and the ranges of its numbers: what the reader accepts and the JSON Schema describes.

use std::ops::RangeInclusive;

/// A key and what it means, in a sentence.
pub(super) struct KeyDoc {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
}

const fn key(name: &'static str, help: &'static str) -> KeyDoc {
    KeyDoc { name, help }
}

/// Keys that stand in a matrix for all envs, or in an env for itself.
pub(super) const OVERRIDES: &[KeyDoc] = &[
    key("models", "The networks to train."),
    key("batches", "Images an iteration."),
    key("precisions", "The arithmetic of a training step; `[fp32]` if absent."),
    key("repeats", "How often each config runs; 5 if absent."),
    key("params", "Parameters of the worker, the same for all configs."),
    key("axes", "Further axes: parameters of the worker with the values they take."),
    key("zip", "Groups of axes that move together instead of being multiplied."),
    key("limits", "What a job may take, and what happens around it."),
    key("profile", "Profilers that look into every config once, in jobs of their own."),
    key("worker", "The program that trains, if it is not the shipped one."),
];

/// Keys of a matrix beside [`OVERRIDES`].
pub(super) const MATRIX: &[KeyDoc] = &[
    key("name", "The matrix's name; names the saved plan and the report's directory."),
    key("description", "What the matrix is about, in a sentence."),
    key("envs", "The environments by name."),
    key("exclude", "Configs to leave out of the product."),
    key("include", "Configs to add to the product."),
    key("order", "The order of jobs; `interleaved` if absent."),
    key("order_seed", "Seeds the order; 0 if absent."),
    key("thresholds", "Thresholds of marks and findings that differ from their defaults. No job runs again."),
];

/// Keys of an env beside [`OVERRIDES`].
pub(super) const ENV: &[KeyDoc] = &[
    key("device", "Where the worker computes: `cpu`, `mps`, `cuda` or `cuda:<index>`."),
    key("host", "The host it belongs to; on others its jobs are `not here`."),
    key("os", "The operating system it belongs to."),
    key("share", "What a job keeps for itself: `nothing` is shared with others, or all but its `device` is."),
    key("peaks", "Name of the device's file in `peaks/`, without `.yaml`."),
    key("usd_per_hour", "What an hour of the machine costs, in US dollars."),
    key("cloud", "Where in the cloud the machine is."),
    key("variables", "Environment variables added to the worker's."),
];

/// Keys of `limits`.
pub(super) const LIMITS: &[KeyDoc] = &[
    key("timeout", "The longest a job may run; `30m` if absent."),
    key("retries", "Further attempts after a failure; 1 if absent."),
    key("grace", "Time between the gentle signal and SIGKILL; `10s` if absent."),
    key("cool_down", "Pause between the end of one job and the start of the next; none if absent."),
    key(
        "quiet",
        "The processors that others may keep busy when a job starts, or `true` for what a run may see without being \
         marked; jobs do not wait if absent or `false`.",
    ),
    key(
        "max_temperature",
        "The degrees Celsius that the device may have when a job starts; jobs do not wait if absent or `false`.",
    ),
    key(
        "gate_timeout",
        "The longest that a job waits for `quiet` and `max_temperature` before it starts all the same; `5m` if absent.",
    ),
];

/// Keys of `profile`.
pub(super) const PROFILE: &[KeyDoc] = &[
    key(
        "ncu",
        "NVIDIA's Nsight Compute: operations and bytes by kernel; `{}`, or `false` for an env without it.",
    ),
    key("perf", "`perf stat`: events that the processor counts; `{}`, or `false` for an env without it."),
];

/// Keys of `profile: { ncu: … }`.
pub(super) const NCU: &[KeyDoc] = &[
    key("iters", "Measured iterations under the profiler; 1 if absent; made up to whole optimizer steps."),
    key("metrics", "Names of the metrics to count; those that the tables need if absent."),
];

/// Keys of `profile: { perf: … }`.
pub(super) const PERF: &[KeyDoc] = &[
    key("iters", "Measured iterations under the profiler; those of the timing jobs if absent."),
    key("events", "Names of the events to count; those that the tables need if absent."),
];

/// Keys of `worker`.
pub(super) const WORKER: &[KeyDoc] = &[
    key("command", "The program and its arguments, with placeholders such as `{model}` and `{batch}`."),
    key("result", "How the worker hands over its result: `json`."),
];

/// Keys of `cloud`.
pub(super) const CLOUD: &[KeyDoc] = &[
    key("provider", "Who owns the machine: `gcp`, `aws`, or another."),
    key("region", "The region."),
    key("zone", "The zone."),
    key("instance", "The machine type."),
];

/// Keys of an entry of `exclude` beside parameters' names.
pub(super) const EXCLUDE: &[KeyDoc] = &[
    key("env", "The env's name."),
    key("model", "The network."),
    key("batch", "Images an iteration."),
    key("precision", "The arithmetic."),
];

/// Keys of an entry of `include` beside parameters' names.
pub(super) const INCLUDE: &[KeyDoc] = &[
    key("env", "The env it is added to; may be absent if there is one env only."),
    key("model", "The network."),
    key("batch", "Images an iteration."),
    key("precision", "The arithmetic; may be absent if the env has one precision only."),
    key("repeats", "How often it runs; as often as the env's other configs if absent."),
];

/// The values that `order` takes.
pub(super) const ORDERS: &[&str] = &["interleaved", "sequential", "random"];

/// The values that `os` takes.
pub(super) const SYSTEMS: &[&str] = &["linux", "macos"];

/// The values that `share` takes.
pub(super) const SHARES: &[&str] = &["nothing", "device"];

/// Placeholders of a worker's command beside parameters' names.
pub(super) const PLACEHOLDERS: &[&str] = &["model", "batch", "precision", "device", "repeat", "label", "out"];

/// Variables that say which GPU a worker sees. Set to another one, sensors, locks and staleness would look at the wrong
/// device.
pub(super) const DEVICE_VARIABLES: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];

pub(super) const BATCH: RangeInclusive<i64> = 1..=1_000_000;
pub(super) const REPEATS: RangeInclusive<i64> = 1..=1_000;
pub(super) const RETRIES: RangeInclusive<i64> = 0..=100;
pub(super) const PROFILE_ITERS: RangeInclusive<i64> = 1..=1_000_000;
pub(super) const ORDER_SEED: RangeInclusive<i64> = 0..=i64::MAX;

/// Bounds of `quiet`: less than a thousandth of a processor is no less than none, which no machine is.
pub(super) const QUIET: RangeInclusive<f64> = 0.001..=10_000.0;

/// Bounds of `max_temperature`, in °C.
pub(super) const TEMPERATURE: RangeInclusive<f64> = 1.0..=150.0;

/// The most values of one list.
pub(super) const LONGEST_LIST: usize = 1_000;

/// The most jobs of a matrix: months of work, and little enough for a plan to be held in memory.
pub(super) const MOST_JOBS: u64 = 100_000;

/// The names of a table.
pub(super) fn names(keys: &'static [KeyDoc]) -> impl Iterator<Item = &'static str> + Clone {
    keys.iter().map(|key| key.name)
}
