//! The keys of a matrix file and the ranges of its numbers, for the reader and for the JSON Schema.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::stats::Course;

/// A key and its description.
pub(super) struct KeyDoc {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
}

const fn key(name: &'static str, help: &'static str) -> KeyDoc {
    KeyDoc { name, help }
}

/// Keys of a matrix, for all envs, or of one env.
pub(super) const OVERRIDES: &[KeyDoc] = &[
    key("models", "The networks to train."),
    key("batches", "Samples per iteration."),
    key("precisions", "The precisions of a training step; `[fp32]` if absent."),
    key("repeats", "How often each config runs: a number, or a rule; 5 if absent."),
    key("params", "Parameters of the worker, the same for all configs."),
    key("axes", "Further axes: parameters of the worker with lists of values."),
    key("zip", "Groups of axes that vary together instead of being multiplied."),
    key("limits", "Limits of a job, and the conditions of its start."),
    key("profile", "Profilers that run every config once, in separate jobs."),
    key("worker", "The worker program, if it is not the shipped one."),
];

/// Keys of a matrix in addition to [`OVERRIDES`].
pub(super) const MATRIX: &[KeyDoc] = &[
    key("name", "The matrix's name, also that of the saved plan and of the report's directory."),
    key("description", "A sentence that describes the matrix."),
    key("envs", "The environments, by name."),
    key("exclude", "Configs to leave out of the product."),
    key("include", "Configs to add to the product."),
    key("order", "The order of jobs; `interleaved` if absent."),
    key("order_seed", "The seed of the order; 0 if absent."),
    key("max_jobs", "The maximum number of jobs, before `exclude`; 100000 if absent."),
    key(
        "thresholds",
        "Thresholds of marks and findings that differ from the defaults. Changing them repeats no job.",
    ),
];

/// Keys of an env in addition to [`OVERRIDES`].
pub(super) const ENV: &[KeyDoc] = &[
    key("device", "The device of the worker: `cpu`, `mps`, `cuda` or `cuda:<index>`."),
    key("host", "The host it belongs to; on other hosts its jobs are `not here`."),
    key("os", "The operating system it belongs to."),
    key("where", "Where its jobs run: `local` (the default), `slurm`, or `ssh` with a host."),
    key(
        "share",
        "Whether other jobs may run on this host at the same time: `nothing` (the default) or `device`.",
    ),
    key("peaks", "The name of the device's file in `peaks/`, without `.yaml`."),
    key("usd_per_hour", "The price of the machine in US dollars per hour."),
    key(
        "cloud",
        "The place of the machine in the cloud, for records of machines that do not report it themselves.",
    ),
    key("variables", "Environment variables added to the worker's."),
    key(
        "pass",
        "Variables of orchestrate's own environment that are passed on to the worker: names, or prefixes such \
            as `WANDB_*`.",
    ),
    key(
        "secret",
        "Environment variables whose values are never written. One without a value in `variables` is taken from \
            orchestrate's own environment.",
    ),
    key("not_secret", "Variables that look like secrets, but whose values are not secret."),
];

/// Keys of `repeats`.
pub(super) const REPEAT_RULE: &[KeyDoc] = &[
    key("min", "The fewest repeats; 3 with `until`, 5 without, if absent."),
    key("max", "The most repeats; only with `until`."),
    key(
        "until",
        "Repeats are added until the interval of the throughput at 95 % is that narrow to each side, such as `2%`.",
    ),
    key(
        "replace_marked",
        "How often a run that its marks leave out is repeated at the end; not at all if absent.",
    ),
];

/// Keys of `limits`.
pub(super) const LIMITS: &[KeyDoc] = &[
    key("timeout", "The time limit of a job; `30m` if absent."),
    key("retries", "Further attempts after a failure; 1 if absent."),
    key("grace", "The time between SIGINT and SIGKILL; `10s` if absent."),
    key("cool_down", "The pause between two jobs; none if absent."),
    key(
        "quiet",
        "The number of processors that other processes may keep busy when a job starts, or `true` for the \
            threshold of the mark `contended`; jobs do not wait if absent or `false`.",
    ),
    key(
        "max_temperature",
        "The highest temperature of the device when a job starts, in °C; jobs do not wait if absent or `false`.",
    ),
    key(
        "gate_timeout",
        "How long a job waits at most for `quiet` and `max_temperature` before it starts anyway; `5m` if absent.",
    ),
    key(
        "output",
        "The size of a worker's standard output, and of its standard error, beyond which its middle is cut out; \
            `64MiB` if absent.",
    ),
];

/// Keys of `profile`.
pub(super) const PROFILE: &[KeyDoc] = &[
    key(
        "ncu",
        "NVIDIA Nsight Compute, which counts operations and bytes per kernel: `{}`, or `false` for an env without it.",
    ),
    key("perf", "`perf stat`, which counts events of the processor: `{}`, or `false` for an env without it."),
    key(
        "ops",
        "The worker itself, which reports the time of each operator: `{}`, or `false` for an env without it. If \
            absent, it is on for every worker that supports it.",
    ),
];

/// Keys of `profile: { ncu: … }`.
pub(super) const NCU: &[KeyDoc] = &[
    key("iters", "Measured iterations under the profiler, rounded up to whole optimizer steps; 1 if absent."),
    key("metrics", "Names of the metrics to count; those for the tables if absent."),
];

/// Keys of `profile: { perf: … }`.
pub(super) const PERF: &[KeyDoc] = &[
    key("iters", "Measured iterations under the profiler; those of the timing jobs if absent."),
    key("events", "Names of the events to count; those for the tables if absent."),
];

/// Keys of `profile: { ops: … }`.
pub(super) const OPS: &[KeyDoc] = &[key(
    "iters",
    "Iterations to profile after the window, rounded up to whole optimizer steps; 3 if absent.",
)];

/// Keys of `worker`.
pub(super) const WORKER: &[KeyDoc] = &[
    key("command", "The program and its arguments, with placeholders such as `{model}` and `{batch}`."),
    key("result", "The format of the worker's result: `json`."),
];

/// Keys of `cloud`.
pub(super) const CLOUD: &[KeyDoc] = &[
    key("provider", "The provider: `gcp`, `aws`, `azure` or another."),
    key("region", "The region."),
    key("zone", "The zone."),
    key("instance", "The machine type."),
];

/// Keys of `where`.
pub(super) const WHERE: &[KeyDoc] = &[
    key("slurm", "Jobs run as tasks of Slurm. These keys are the request to it; all are optional."),
    key(
        "ssh",
        "Jobs run on a host that `ssh` reaches. These keys describe the host; only `host` is required.",
    ),
];

/// Keys of `where: { slurm: … }`.
pub(super) const SLURM: &[KeyDoc] = &[
    key("partition", "The partition; that of Slurm's configuration if absent."),
    key("account", "The account that is charged; your default one if absent."),
    key("qos", "The quality of service; that of Slurm's configuration if absent."),
    key("gres", "The generic resources of a task, such as `gpu:1`; none if absent."),
    key("constraint", "The features that a node must have, such as `a100`; any node if absent."),
    key("exclusive", "Whether a task has its node to itself; `true` if absent."),
    key(
        "time",
        "Slurm's time limit of a task: at least `1m`, and no shorter than `timeout`; that of the partition if absent.",
    ),
    key("pack", "The number of jobs that a task runs one after another; 1 if absent."),
    key("throttle", "The maximum number of tasks at a time; no limit if absent."),
    key("retries", "How often a task that Slurm lost is submitted again; 3 if absent."),
    key("setup", "Lines of shell that a task starts with, such as `module load cuda/12`."),
    key("options", "Further options of `sbatch`, each with its value, such as `--mem=0`."),
    key("container", "The image of an Apptainer container in which tasks run; none if absent."),
];

/// Keys of `where: { ssh: … }`.
pub(super) const SSH: &[KeyDoc] = &[
    key("host", "The host, as `ssh` knows it: an alias of `~/.ssh/config`, a name, or `user@name`."),
    key("directory", "The directory of the project there; `orchestrate/<matrix>` in the home if absent."),
    key("setup", "Lines of shell before anything starts there, such as `. venv/bin/activate`."),
    key(
        "files",
        "Files and directories of the project that are copied there, besides those of the worker's command.",
    ),
    key("program", "The `orchestrate` that is installed there; if absent, this one is copied."),
    key("retries", "How often jobs that the host lost are handed over again; 3 if absent."),
];

/// Keys of an entry of `exclude` in addition to names of parameters.
pub(super) const EXCLUDE: &[KeyDoc] = &[
    key("env", "The env's name."),
    key("model", "The network."),
    key("batch", "Samples per iteration."),
    key("precision", "The precision."),
];

/// Keys of an entry of `include` in addition to names of parameters.
pub(super) const INCLUDE: &[KeyDoc] = &[
    key("env", "The env it is added to; optional if there is only one."),
    key("model", "The network."),
    key("batch", "Samples per iteration."),
    key("precision", "The precision; optional if the env has only one."),
    key("repeats", "How often it runs; as the env's other configs if absent."),
];

/// The values of `order`.
pub(super) const ORDERS: &[&str] = &["interleaved", "sequential", "random"];

/// The values of `os`.
pub(super) const SYSTEMS: &[&str] = &["linux", "macos"];

/// The values of `share`.
pub(super) const SHARES: &[&str] = &["nothing", "device"];

/// The words that `where` can be.
pub(super) const EXECUTORS: &[&str] = &["local", "slurm", "ssh"];

/// Placeholders of a worker's command in addition to names of parameters.
pub(super) const PLACEHOLDERS: &[&str] = &["model", "batch", "precision", "device", "repeat", "label", "out"];

/// Variables that choose the GPU of a worker. If an env changed them, sensors, locks and staleness would use the wrong
/// device.
pub(super) const DEVICE_VARIABLES: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];

/// Variables with the output paths of a worker. An env cannot change them.
pub(super) const OUTPUT_VARIABLES: [&str; 2] = ["ORCHESTRATE_MEASUREMENT", "ORCHESTRATE_ITERATIONS"];

/// The variable that asks a worker to profile operators. An env cannot set it: timing jobs would profile too.
pub(super) const OPERATORS_VARIABLE: &str = "ORCHESTRATE_OPERATORS";

/// Variables that orchestrate sets and an env can change, but not hide.
pub(super) const SETTING_VARIABLES: [&str; 3] = ["LC_ALL", "OMP_NUM_THREADS", "MKL_NUM_THREADS"];

pub(super) const BATCH: RangeInclusive<i64> = 1..=1_000_000;
pub(super) const REPEATS: RangeInclusive<i64> = 1..=1_000;
/// Bounds of `max`. Fewer repeats are never enough for `until`.
pub(super) const MAX_REPEATS: RangeInclusive<i64> = Course::LEAST as i64..=1_000;
pub(super) const REPLACEMENTS: RangeInclusive<i64> = 0..=10;

/// Bounds of `until`, in percent.
pub(super) const UNTIL: RangeInclusive<f64> = 0.1..=50.0;

/// Bounds of `max_jobs`. A plan is kept in memory, with some kilobytes per job.
pub(super) const MAX_JOBS: RangeInclusive<i64> = 1..=10_000_000;

/// Bounds of `output`, in bytes.
pub(super) const OUTPUT: RangeInclusive<u64> = 1 << 16..=1 << 40;

pub(super) const RETRIES: RangeInclusive<i64> = 0..=100;
pub(super) const PROFILE_ITERS: RangeInclusive<i64> = 1..=1_000_000;
pub(super) const ORDER_SEED: RangeInclusive<i64> = 0..=i64::MAX;

/// Bounds of `pack`.
pub(super) const PACK: RangeInclusive<i64> = 1..=10_000;

/// Bounds of `throttle`.
pub(super) const THROTTLE: RangeInclusive<i64> = 1..=100_000;

/// The shortest time limit that Slurm can keep.
pub(super) const SHORTEST_TASK: Duration = Duration::from_secs(60);

/// Bounds of `quiet`. No machine is quieter than a thousandth of a processor.
pub(super) const QUIET: RangeInclusive<f64> = 0.001..=10_000.0;

/// Bounds of `max_temperature`, in °C.
pub(super) const TEMPERATURE: RangeInclusive<f64> = 1.0..=150.0;

/// The maximum number of values in a list.
pub(super) const LONGEST_LIST: usize = 1_000;

/// The default of `max_jobs`: months of work.
pub(super) const DEFAULT_MAX_JOBS: u64 = 100_000;

/// The names of a table.
pub(super) fn names(keys: &'static [KeyDoc]) -> impl Iterator<Item = &'static str> + Clone {
    keys.iter().map(|key| key.name)
}
