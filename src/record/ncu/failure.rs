//! Why a run under Nsight Compute gave nothing that may be used, and what helps.

use super::NcuOutput;
use super::log::Log;
use super::table::TableError;
use crate::metric::{Capability, Translation, UnknownMetric, translate};
use crate::record::ReportedExit;

/// Why a run under Nsight Compute gave nothing that may be used. The message says what happened, [`NcuFailure::remedy`]
/// what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NcuFailure {
    /// `ERR_NVGPUCTRPERM`.
    #[error("this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)")]
    Permission,
    /// `LibraryNotLoaded`.
    #[error("Nsight Compute could not load its part of the driver (LibraryNotLoaded)")]
    LibraryNotLoaded,
    /// Another profiler holds the counters.
    #[error("another program holds the GPU's performance counters")]
    CountersInUse,
    /// It does not know the GPU, or cannot profile it where it runs.
    #[error("Nsight Compute cannot profile this GPU: {0}")]
    UnsupportedDevice(String),
    /// The driver is too old or too new for it.
    #[error("the GPU's driver does not go with this Nsight Compute: {0}")]
    IncompatibleDriver(String),
    /// Metrics that this GPU does not have.
    #[error("Nsight Compute knows no metric {} on this GPU", quoted(.0))]
    UnknownMetrics(Vec<UnknownMetric>),
    /// The program failed under it.
    #[error("the program failed under Nsight Compute{}{}", code_words(.code), said(.stderr))]
    Application {
        /// The program's exit code, where it was told.
        code: Option<i32>,
        /// The last line of the program's stderr.
        stderr: Option<String>,
    },
    /// An error that we have no word for.
    #[error("Nsight Compute says: {0}")]
    Other(String),
    /// It was killed, or the program was.
    #[error("the profiled program was killed before Nsight Compute could finish{}", signal_words(.signal))]
    Killed {
        /// The signal, where it was seen.
        signal: Option<i32>,
    },
    /// It ended well and had nothing to profile.
    #[error("Nsight Compute profiled no kernel, although it ended without an error")]
    NoKernels,
    /// It failed without a word.
    #[error("Nsight Compute failed with exit code {0} and says not why")]
    Exited(i32),
    /// It wrote no table.
    #[error("Nsight Compute wrote no table")]
    NoTable,
    /// Fewer kernels are in the table than the log announces.
    #[error("the table has {found} kernels, but {announced} were profiled")]
    KernelsMissing {
        /// Kernels in the table.
        found: usize,
        /// Kernels that the log announces.
        announced: usize,
    },
    /// The table cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl NcuFailure {
    /// What helps, in a sentence or two.
    pub fn remedy(&self) -> String {
        match self {
            NcuFailure::Permission => PERMISSION.to_owned(),
            NcuFailure::LibraryNotLoaded => "in a sandbox such as gVisor nothing helps: profile on a machine of your \
                own; elsewhere install a newer Nsight Compute, for this one may not know the chip or the driver"
                .to_owned(),
            NcuFailure::CountersInUse => "stop what else profiles this GPU; DCGM lets go of the counters with \
                `dcgmi profile --pause`"
                .to_owned(),
            NcuFailure::UnsupportedDevice(_) => "install a newer Nsight Compute (`ncu --list-chips` shows what it \
                knows; it knows chips from Volta on); under WSL2 the driver must be 545 or newer"
                .to_owned(),
            NcuFailure::IncompatibleDriver(_) => "update the GPU's driver, or install the Nsight Compute of the CUDA \
                version that `nvidia-smi` shows"
                .to_owned(),
            NcuFailure::UnknownMetrics(metrics) => unknown_remedy(metrics),
            NcuFailure::Application { .. } => "run the command in `command.sh` without the profiler first; under it a \
                program needs more memory, so a smaller batch may help"
                .to_owned(),
            NcuFailure::Killed { .. } => "profiling repeats every kernel several times: raise `limits.timeout`, or \
                profile fewer iterations"
                .to_owned(),
            NcuFailure::NoKernels => "the program ran no kernel within the range that was profiled: check that it runs \
                on the GPU, and that it has its measured iterations in the NVTX range `orchestrate`"
                .to_owned(),
            NcuFailure::Other(_) | NcuFailure::Exited(_) | NcuFailure::NoTable => "run the command in `command.sh` by \
                hand and see what `ncu` says"
                .to_owned(),
            NcuFailure::KernelsMissing { .. } | NcuFailure::Table(_) => "the file was cut or changed (is the disk \
                full?): run the job again"
                .to_owned(),
        }
    }

    /// The failure that the log, the program's stderr and the exit tell of, if they do.
    pub(super) fn of(
        log: &Log<'_>,
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

const PERMISSION: &str = "let everybody read the counters: `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in a \
    file of /etc/modprobe.d, then reload the driver or restart; or run as root or with CAP_SYS_ADMIN \
    (`sudo -E env \"PATH=$PATH\" …`, for sudo drops the PATH). In a rented container nothing inside it helps: ask \
    its provider";

/// What errors mean, the more telling first. The first that occurs counts: what follows is its consequence.
fn of_errors(log: &Log<'_>, output: &NcuOutput<'_>, capability: Option<Capability>) -> Option<NcuFailure> {
    let error = |words: &[&str]| {
        let has = |error: &&&str| words.iter().any(|word| error.contains(word));
        log.errors.iter().find(has).map(|error| (*error).to_owned())
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
    if let Some(error) = error(&["application returned an error code"]) {
        let code = error.split(['(', ')']).nth(1).and_then(|code| code.parse().ok());
        return Some(NcuFailure::Application { code, stderr: last_line(output.program_stderr) });
    }
    log.errors.first().map(|error| NcuFailure::Other((*error).to_owned()))
}

/// The metrics that it failed to find.
fn unknown_metrics(errors: &[&str], capability: Option<Capability>) -> Vec<UnknownMetric> {
    let metric = |error: &&str| {
        let (_, named) = error.split_once("Failed to find metric ")?;
        let name = metric_name(named);
        Some(UnknownMetric { translation: translate(&name, capability), name, no_sum: false })
    };
    errors.iter().filter_map(metric).collect()
}

/// The name in `regex:^flop_count_sp\\.(sum|min|…)$`, or as it stands.
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
        return "`ncu --query-metrics` lists what this GPU has".to_owned();
    }
    format!("these are names of nvprof or of another GPU: {}", known.join("; "))
}

fn quoted(metrics: &[UnknownMetric]) -> String {
    let names: Vec<String> = metrics.iter().map(|metric| format!("`{}`", metric.name)).collect();
    names.join(", ")
}

fn code_words(code: &Option<i32>) -> String {
    code.map(|code| format!(" with exit code {code}")).unwrap_or_default()
}

fn signal_words(signal: &Option<i32>) -> String {
    signal.map(|signal| format!(" (signal {signal})")).unwrap_or_default()
}

fn said(stderr: &Option<String>) -> String {
    stderr.as_ref().map(|line| format!(": {line}")).unwrap_or_default()
}

fn last_line(text: &str) -> Option<String> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}
