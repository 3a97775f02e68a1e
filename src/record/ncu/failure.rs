//! Why the output of Nsight Compute cannot be used, and what to do about it.

use super::NcuOutput;
use super::log::Log;
use super::table::TableError;
use crate::metric::{Capability, Translation, UnknownMetric, translate};
use crate::record::ReportedExit;
use crate::record::said::last_line;

/// Why the output of Nsight Compute cannot be used. The message says what happened, [`NcuFailure::remedy`] what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NcuFailure {
    /// `ERR_NVGPUCTRPERM`.
    #[error("this user is not allowed to read the GPU's performance counters (ERR_NVGPUCTRPERM)")]
    Permission,
    /// `LibraryNotLoaded`.
    #[error("Nsight Compute could not load its driver library (LibraryNotLoaded)")]
    LibraryNotLoaded,
    /// Another profiler uses the counters.
    #[error("another program is using the GPU's performance counters")]
    CountersInUse,
    /// It does not know the GPU, or cannot profile it in this system.
    #[error("Nsight Compute cannot profile this GPU: {0}")]
    UnsupportedDevice(String),
    /// The driver is too old or too new for it.
    #[error("the GPU's driver is incompatible with this Nsight Compute: {0}")]
    IncompatibleDriver(String),
    /// The GPU does not have these metrics.
    #[error("Nsight Compute does not know {} on this GPU", quoted(.0))]
    UnknownMetrics(Vec<UnknownMetric>),
    /// The profiled program failed.
    #[error("the program failed under Nsight Compute{}{}", code_suffix(.code), stderr_suffix(.stderr))]
    Application {
        /// The program's exit code, if it was logged.
        code: Option<i32>,
        /// The last line of the program's stderr.
        stderr: Option<String>,
    },
    /// Any other error.
    #[error("Nsight Compute failed: {0}")]
    Other(String),
    /// Nsight Compute or the program was killed.
    #[error("the profiled program was killed before Nsight Compute could finish{}", signal_suffix(.signal))]
    Killed {
        /// The signal, if it was observed.
        signal: Option<i32>,
    },
    /// It exited with 0 but had nothing to profile.
    #[error("Nsight Compute exited normally but profiled no kernels")]
    NoKernels,
    /// It failed without an error message.
    #[error("Nsight Compute failed with exit code {0} and no error message")]
    Exited(i32),
    /// It wrote no table.
    #[error("Nsight Compute wrote no table")]
    NoTable,
    /// The table has fewer kernels than the log announced.
    #[error("the table has {found} kernels, but {announced} were profiled")]
    KernelsMissing {
        /// Kernels in the table.
        found: usize,
        /// Kernels that the log announced.
        announced: usize,
    },
    /// The table cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl NcuFailure {
    /// What to do about it, in a sentence or two.
    pub fn remedy(&self) -> String {
        match self {
            NcuFailure::Permission => PERMISSION.to_owned(),
            NcuFailure::LibraryNotLoaded => "a sandbox such as gVisor cannot profile: use your own machine; \
                elsewhere, install a newer Nsight Compute, because this one might not know the chip or the driver"
                .to_owned(),
            NcuFailure::CountersInUse => "stop other profilers of this GPU; `dcgmi profile --pause` makes DCGM \
                release the counters"
                .to_owned(),
            NcuFailure::UnsupportedDevice(_) => "install a newer Nsight Compute (`ncu --list-chips` lists the chips \
                it supports, Volta and newer); under WSL2 the driver must be 545 or newer"
                .to_owned(),
            NcuFailure::IncompatibleDriver(_) => "update the GPU's driver, or install the Nsight Compute of the CUDA \
                version that `nvidia-smi` shows"
                .to_owned(),
            NcuFailure::UnknownMetrics(metrics) => unknown_remedy(metrics),
            NcuFailure::Application { .. } => "run `command.sh` without the profiler first; a program needs more \
                memory under the profiler, so a smaller batch may help"
                .to_owned(),
            NcuFailure::Killed { .. } => "profiling repeats every kernel several times: raise `limits.timeout`, or \
                profile fewer iterations"
                .to_owned(),
            NcuFailure::NoKernels => "the program ran no kernels in the profiled range: check that it runs on the GPU \
                and that its measured iterations are in the NVTX range `orchestrate`"
                .to_owned(),
            NcuFailure::Other(error) => other_remedy(error).to_owned(),
            NcuFailure::Exited(_) | NcuFailure::NoTable => {
                BY_HAND.to_owned()
            }
            NcuFailure::Table(TableError::Row { .. } | TableError::Value { .. } | TableError::Notation(_)) => {
                "this version of Nsight Compute prints an unknown format, or another program writes to its \
                 file: look at `ncu.csv` of the attempt, or use another version"
                    .to_owned()
            }
            NcuFailure::KernelsMissing { .. } | NcuFailure::Table(TableError::Torn { .. }) => "the file was truncated or changed (is the \
                disk full?): run the job again"
                .to_owned(),
        }
    }

    /// The failure that the log, the program's stderr and the exit reveal, if any.
    pub(super) fn of(
        log: &Log,
        output: &NcuOutput<'_>,
        capability: Option<Capability>,
    ) -> Option<NcuFailure> {
        of_errors(log, output, capability).or_else(|| {
            let signal = match output.exit {
                Some(ReportedExit::Signal(signal)) => Some(signal),
                Some(ReportedExit::Code(code)) if code != 0 => return Some(NcuFailure::Exited(code)),
                _ => None,
            };
            if signal.is_some() || log.lost_process().is_some() {
                return Some(NcuFailure::Killed { signal });
            }
            log.no_kernels.then_some(NcuFailure::NoKernels)
        })
    }
}

const BY_HAND: &str = "run `command.sh` by hand to see what `ncu` prints";

/// What to do about an error of Nsight Compute without a specific kind.
fn other_remedy(error: &str) -> &'static str {
    let error = error.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if has(&["lock file", "nsight-compute-lock"]) {
        "another user's Nsight Compute left its lock file: have that user or root delete `nsight-compute-lock` in the \
         temporary directory, or set TMPDIR in `variables` to your own directory"
    } else if has(&["mig", "clock"]) {
        "on a part of a GPU (MIG), clocks cannot be controlled and not all counters exist: profile on a whole GPU"
    } else if has(&["bad allocation", "bad_alloc", "out of memory", "failed to allocate"]) {
        "Nsight Compute keeps the device's memory to replay a kernel: profile a smaller batch, or give the host more \
         memory"
    } else if has(&["unknown error on device", "unknown error"]) {
        "the GPU failed: `dmesg` and `nvidia-smi -q` show its errors, and a reset or a reboot may clear them"
    } else {
        BY_HAND
    }
}

const PERMISSION: &str = "allow all users to read the counters: put `options nvidia \
    NVreg_RestrictProfilingToAdminUsers=0` into a file in /etc/modprobe.d, then reload the driver or reboot; or run as \
    root or with CAP_SYS_ADMIN (`sudo -E env \"PATH=$PATH\" …`, because sudo resets PATH). In a rented container, only \
    the provider can change this";

/// Interprets the errors in the log. The most specific kind of error decides, otherwise the first error: the others are
/// its consequences. So a failure is the program's own only if Nsight Compute reports no earlier error.
fn of_errors(log: &Log, output: &NcuOutput<'_>, capability: Option<Capability>) -> Option<NcuFailure> {
    let error = |words: &[&str]| {
        let has = |error: &&String| words.iter().any(|word| error.contains(word));
        log.errors.iter().find(has).cloned()
    };
    if error(&["ERR_NVGPUCTRPERM"]).is_some() {
        return Some(NcuFailure::Permission);
    }
    if error(&["LibraryNotLoaded"]).is_some() {
        return Some(NcuFailure::LibraryNotLoaded);
    }
    if error(&["driver resource was unavailable", "ResourceUnavailable", "DCGM"]).is_some() {
        return Some(NcuFailure::CountersInUse);
    }
    if let Some(error) = error(&["river is not compatible", "river version", "InsufficientDriver"]) {
        return Some(NcuFailure::IncompatibleDriver(error));
    }
    if let Some(error) =
        error(&["is not supported on", "Unsupported GPU", "nsupported chip", "UnsupportedGpu"])
    {
        return Some(NcuFailure::UnsupportedDevice(error));
    }
    let unknown = unknown_metrics(&log.errors, capability);
    if !unknown.is_empty() {
        return Some(NcuFailure::UnknownMetrics(unknown));
    }
    let first = log.errors.first();
    if let Some(error) = first.filter(|error| error.contains("application returned an error code")) {
        let code = error.split(['(', ')']).nth(1).and_then(|code| code.parse().ok());
        return Some(NcuFailure::Application { code, stderr: last_line(output.program_stderr) });
    }
    first.map(|error| NcuFailure::Other(error.clone()))
}

/// The metrics that Nsight Compute did not find.
fn unknown_metrics(errors: &[String], capability: Option<Capability>) -> Vec<UnknownMetric> {
    let metric = |error: &String| {
        let (_, named) = error.split_once("Failed to find metric ")?;
        let name = metric_name(named);
        Some(UnknownMetric { translation: translate(&name, capability), name, no_sum: false })
    };
    errors.iter().filter_map(metric).collect()
}

/// The name in `regex:^flop_count_sp\\.(sum|min|…)$`, or a plain name.
fn metric_name(named: &str) -> String {
    let named = named.trim().trim_matches(['"', '\'']);
    let pattern = named.strip_prefix("regex:").unwrap_or(named);
    let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
    let name = pattern.split_once("\\.(").map_or(pattern, |(name, _)| name);
    name.replace("\\.", ".")
}

fn unknown_remedy(metrics: &[UnknownMetric]) -> String {
    let translated = |metric: &UnknownMetric| {
        let Translation { metrics, note } = metric.translation.clone()?;
        let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
        Some(format!("for `{}` ask for `{}`{note}", metric.name, metrics.join(",")))
    };
    let known: Vec<String> = metrics.iter().filter_map(translated).collect();
    if known.is_empty() {
        return "`ncu --query-metrics` lists the metrics of this GPU".to_owned();
    }
    format!("these names are from nvprof or another GPU: {}", known.join("; "))
}

fn quoted(metrics: &[UnknownMetric]) -> String {
    let names: Vec<String> = metrics.iter().map(|metric| format!("`{}`", metric.name)).collect();
    format!("{} {}", if names.len() == 1 { "the metric" } else { "the metrics" }, names.join(", "))
}

fn code_suffix(code: &Option<i32>) -> String {
    code.map(|code| format!(" with exit code {code}")).unwrap_or_default()
}

fn signal_suffix(signal: &Option<i32>) -> String {
    signal.map(|signal| format!(" (signal {signal})")).unwrap_or_default()
}

fn stderr_suffix(stderr: &Option<String>) -> String {
    stderr.as_ref().map(|line| format!(": {line}")).unwrap_or_default()
}
