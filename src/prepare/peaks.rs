//! The files below `peaks/`, and the measurement of a device's ceilings by the shipped worker.
//!
//! This file only reads the text of a peaks file. `analysis` parses it.
#![expect(clippy::disallowed_methods, reason = "peaks are files, and a worker measures them")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::event::Waiting;
use crate::host::{probe_counters, probe_environment, shipped_worker};
use crate::job::Device;
use crate::lock::{LockDir, LockError};
use crate::protocol::{MEASUREMENT_SCHEMA, MeasuredPeaks, WorkerExit};
use crate::record::{CudaEntries, HostCounters, inherited};

/// The subdirectory of `peaks/` with measured peaks.
pub const MEASURED: &str = "measured";

/// The text of a file below `peaks/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeaksText {
    /// The file.
    pub path: PathBuf,
    /// Its name without `.yaml`, with the prefix `measured/` if it is in that directory.
    pub name: String,
    /// Whether it is in `measured/`.
    pub is_measured: bool,
    /// Its content.
    pub text: String,
}

/// A peaks directory or file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct LoadPeaksError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// All `*.yaml` in `directory` and its `measured/`, by name. Empty if the directory does not exist.
///
/// # Errors
/// [`LoadPeaksError`].
pub fn load_peaks(directory: &Path) -> Result<Vec<PeaksText>, LoadPeaksError> {
    let mut found = load_directory(directory, false)?;
    found.extend(load_directory(&directory.join(MEASURED), true)?);
    Ok(found)
}

fn load_directory(directory: &Path, is_measured: bool) -> Result<Vec<PeaksText>, LoadPeaksError> {
    let wrong = |path: &Path, source| LoadPeaksError { path: path.to_owned(), source };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|source| wrong(directory, source))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| wrong(directory, source))?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "yaml") || stem.starts_with('.') {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|source| wrong(&path, source))?;
        let name = if is_measured { format!("{MEASURED}/{stem}") } else { stem };
        found.push(PeaksText { path, name, is_measured, text });
    }
    found.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(found)
}

/// Peaks could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The worker is missing.
    #[error("there is no worker at {}", .0.display())]
    NoWorker(PathBuf),
    /// The host could not be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The worker could not be run.
    #[error("cannot run {}", path.display())]
    Run {
        /// The worker.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The worker cannot measure this device.
    #[error("the worker cannot measure {0}; its message is above")]
    Unsupported(Device),
    /// The worker failed.
    #[error("{} failed ({status}); its message is above", path.display())]
    Failed {
        /// The worker.
        path: PathBuf,
        /// How it ended.
        status: String,
    },
    /// The output of the worker is not the ceilings of the device.
    #[error("{} printed no peaks: {message}", path.display())]
    Output {
        /// The worker.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// The request for a measurement.
#[derive(Clone, Debug)]
pub struct Measurement<'a> {
    /// The device.
    pub device: Device,
    /// The worker; the shipped one if not given.
    pub worker: Option<&'a Path>,
    /// Flags for the worker.
    pub flags: &'a [String],
    /// Whether to hide the worker's progress from our standard error.
    pub quiet: bool,
    /// The GPUs of the host by device.
    pub gpus: &'a CudaEntries,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The output of the worker.
    pub peaks: MeasuredPeaks,
    /// The mean number of processors that other processes kept busy meanwhile. Absent if the system does not report it.
    pub foreign_cores: Option<f64>,
    /// The mean number of processors that the hypervisor gave to other guests meanwhile.
    pub stolen_cores: Option<f64>,
}

impl Measurement<'_> {
    /// The worker that will measure.
    pub fn worker(&self) -> PathBuf {
        self.worker
            .map_or_else(shipped_worker, |path| std::path::absolute(path).unwrap_or_else(|_| path.into()))
    }
}

/// Lets the worker measure while no job runs on the host. Its standard error goes to ours. `waiting` is called if
/// another process has to finish first.
///
/// # Errors
/// [`MeasureError`].
pub fn measure_peaks(
    wanted: &Measurement<'_>,
    waiting: &mut dyn FnMut(&Waiting),
) -> Result<Measured, MeasureError> {
    let path = wanted.worker();
    if !path.is_file() {
        return Err(MeasureError::NoWorker(path));
    }
    let run = |source| MeasureError::Run { path: path.clone(), source };
    let lock = LockDir::of_this_host()?.hold_host("peaks measure", waiting)?;
    let mut arguments = vec!["peaks".to_owned(), "--device".to_owned(), wanted.device.backend().to_owned()];
    arguments.extend(wanted.flags.iter().cloned());
    let environment = environment(wanted.gpus.of(wanted.device), &probe_environment());
    let mut command = duct::cmd(&path, arguments).full_env(environment).stdout_capture().unchecked();
    if wanted.quiet {
        command = command.stderr_capture();
    }
    // The worker holds the lock too, as its standard input. If we are killed, the host stays locked until it ends.
    command = match lock.handle().map_err(run)? {
        Some(handle) => command.stdin_file(handle),
        None => command.stdin_null(),
    };
    let before = Usage::probe();
    let output = command.run().map_err(run)?;
    let (foreign_cores, stolen_cores) = Usage::probe().others_since(&before);
    if !output.status.success() {
        // Show the captured output to the user.
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    match output.status.code().map(WorkerExit::of) {
        Some(WorkerExit::Done) => {}
        Some(WorkerExit::Unsupported) => return Err(MeasureError::Unsupported(wanted.device)),
        Some(WorkerExit::Failed | WorkerExit::Usage | WorkerExit::OutOfMemory) | None => {
            return Err(MeasureError::Failed { path, status: output.status.to_string() });
        }
    }
    let measured = parse(&output.stdout, wanted.device);
    let measured = measured.map_err(|message| MeasureError::Output { path, message })?;
    // The worker sees its one CUDA device as device 0.
    let peaks = MeasuredPeaks { device: wanted.device, ..measured };
    Ok(Measured { peaks, foreign_cores, stolen_cores })
}

/// Processor time used so far, by the whole host and by the processes that we have waited for.
struct Usage {
    now: Instant,
    host: HostCounters,
    children_s: Option<f64>,
}

impl Usage {
    fn probe() -> Self {
        let children = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
        Usage {
            now: Instant::now(),
            host: probe_counters(),
            children_s: children.map(|usage| seconds(usage.user_time()) + seconds(usage.system_time())),
        }
    }

    /// The number of processors that other processes kept busy since `before`, and the number that the hypervisor gave
    /// to other guests.
    fn others_since(&self, before: &Usage) -> (Option<f64>, Option<f64>) {
        let wall_s = self.now.duration_since(before.now).as_secs_f64();
        let (busy_s, steal_s) = self.host.since(&before.host);
        let ours_s = self.children_s.zip(before.children_s).map(|(after, before)| after - before);
        let foreign_s = busy_s.zip(ours_s).map(|(busy, ours)| (busy - ours).max(0.0));
        let cores = |seconds: Option<f64>| seconds.filter(|_| wall_s > 0.0).map(|seconds| seconds / wall_s);
        (cores(foreign_s), cores(steal_s))
    }
}

/// The worker's environment. It is restricted like that of a job, so that a ceiling is measured with the same threads
/// and rounding as the jobs that are compared with it. `visible` is the worker's GPU, and `ambient` our own
/// environment.
fn environment(visible: String, ambient: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut variables = inherited(ambient, &BTreeSet::new());
    for (name, value) in
        [("LC_ALL", "C"), ("CUDA_VISIBLE_DEVICES", visible.as_str()), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]
    {
        variables.insert(name.to_owned(), value.to_owned());
    }
    variables
}

fn parse(stdout: &[u8], device: Device) -> Result<MeasuredPeaks, String> {
    let measured: MeasuredPeaks = serde_json::from_slice(stdout).map_err(|error| error.to_string())?;
    if measured.schema != MEASUREMENT_SCHEMA {
        return Err(format!("schema is {}: expected {MEASUREMENT_SCHEMA}", measured.schema));
    }
    if measured.device.backend() != device.backend() {
        return Err(format!("device is {}: expected {device}", measured.device));
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_and_kind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("peaks");
        assert_eq!(load_peaks(&path).unwrap(), []);
        fs::create_dir_all(path.join(MEASURED)).unwrap();
        for name in ["b.yaml", "a.yaml", "README.md", ".a.yaml.tmp", "measured/c.yaml"] {
            fs::write(path.join(name), name).unwrap();
        }
        let found = load_peaks(&path).unwrap();
        let names: Vec<_> = found.iter().map(|file| (file.name.as_str(), file.is_measured)).collect();
        assert_eq!(names, [("a", false), ("b", false), ("measured/c", true)]);
        assert_eq!(found[2].text, "measured/c.yaml");
    }

    #[test]
    fn the_worker_sees_only_its_device_and_no_variables_that_change_arithmetic() {
        let names = ["PATH", "HOME", "OMP_NUM_THREADS", "ONEDNN_DEFAULT_FPMATH_MODE", "CUDA_VISIBLE_DEVICES"];
        let ambient = names.map(|name| (name.to_owned(), "ours".to_owned())).into();
        let text = |device| {
            let pairs = environment(CudaEntries::default().of(device), &ambient);
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            text(Device::Cuda(3)),
            "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3 HOME=ours LC_ALL=C OMP_NUM_THREADS=ours PATH=ours"
        );
        assert!(text(Device::Cpu).contains("CUDA_VISIBLE_DEVICES= "), "the worker of a CPU sees no GPU");
    }

    #[test]
    fn the_load_of_other_processes_is_that_of_the_host_minus_ours() {
        let start = Instant::now();
        let usage = |seconds: f64, busy_s, steal_s, children_s| Usage {
            now: start + std::time::Duration::from_secs_f64(seconds),
            host: HostCounters { busy_s, steal_s, ..HostCounters::default() },
            children_s: Some(children_s),
        };
        let before = usage(0.0, Some(100.0), Some(1.0), 5.0);
        let after = usage(10.0, Some(125.0), Some(2.0), 25.0);
        assert_eq!(after.others_since(&before), (Some(0.5), Some(0.1)));
        // The clocks differ in resolution, so a small negative difference counts as 0.
        assert_eq!(usage(10.0, Some(119.9), None, 25.0).others_since(&before), (Some(0.0), None));
        assert_eq!(usage(10.0, None, None, 25.0).others_since(&before), (None, None));
        assert!(Usage::probe().children_s.is_some());
    }

    #[test]
    fn output_that_is_not_peaks_is_refused() {
        let text = r#"{"schema":1,"device":"cpu","device_name":"x","gemm":[],"stream":[]}"#;
        assert!(parse(text.as_bytes(), Device::Cpu).is_ok());
        let wrong = |text: &str, device| parse(text.as_bytes(), device).unwrap_err();
        assert_eq!(wrong(text, Device::Mps), "device is cpu: expected mps");
        assert_eq!(wrong(&text.replace(":1", ":2"), Device::Cpu), "schema is 2: expected 1");
        assert!(wrong("cpu: fast", Device::Cpu).contains("expected value"));
    }
}
