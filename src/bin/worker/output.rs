//! The worker's output: `measurement.json`, `iterations.csv`, progress lines.

#![expect(clippy::disallowed_methods, reason = "a worker writes its results")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orchestrate::protocol::{Failure, ITERATIONS_HEADER, IterationClock, Progress, WireMeasurement};

use super::failure::WorkerError;

/// The shortest time between two progress lines of the same phase.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Reports progress on standard output, at most a few times per second.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    last: Option<Instant>,
}

impl Reporter {
    /// Reports `progress`. Skips it if the last report was a moment ago, unless its phase ends.
    pub(crate) fn report(&mut self, progress: Progress) {
        let ends = match progress {
            Progress::Preparing => true,
            Progress::Warmup { done, of } | Progress::Measure { done, of } => done == of,
        };
        let now = Instant::now();
        if !ends && self.last.is_some_and(|last| now - last < PROGRESS_INTERVAL) {
            return;
        }
        self.last = Some(now);
        let mut out = io::stdout().lock();
        // Measuring continues if standard output is closed.
        let _ = writeln!(out, "{}", progress.line()).and_then(|()| out.flush());
    }
}

/// One measured iteration. Its seconds come from the clock that an [`IterationClock`] names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Iteration {
    /// From its start to the next one's.
    pub(crate) elapsed_s: f64,
    /// Seconds in which the training thread waited for data, by the host's clock.
    pub(crate) data_wait_s: f64,
    /// Its loss.
    pub(crate) loss: f64,
}

/// Writes the measurement to `out`, or to standard output without one.
///
/// # Errors
/// [`WorkerError::Write`].
pub(crate) fn write_measurement(
    out: Option<&Path>,
    measurement: &WireMeasurement,
) -> Result<(), WorkerError> {
    let text = serde_json::to_string_pretty(measurement)
        .expect("a measurement has string keys and no failing serializer");
    match out {
        Some(path) => write_whole(path, text.as_bytes()),
        None => writeln!(io::stdout(), "{text}")
            .map_err(|source| WorkerError::Write { path: PathBuf::from("standard output"), source }),
    }
}

/// Writes why there is no measurement. If that fails too, standard error and the exit code still show the failure.
pub(crate) fn write_failure(out: Option<&Path>, failure: Failure) {
    let Some(path) = out else { return };
    if let Err(error) = write_measurement(Some(path), &WireMeasurement::failed(failure)) {
        eprintln!("warning: {}", super::failure::one_line(&error));
    }
}

/// Checks that `path` can be written, as far as possible without writing: a misspelt directory must not be found after
/// the measurement.
///
/// # Errors
/// [`WorkerError::Usage`].
pub(crate) fn check_destination(path: &Path) -> Result<(), WorkerError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wrong = if path.is_dir() {
        "it is a directory"
    } else if !parent.is_dir() {
        "its directory does not exist"
    } else {
        return Ok(());
    };
    Err(WorkerError::Usage(format!("cannot write {}: {wrong}", path.display())))
}

/// Writes `iterations.csv`, whose seconds come from `clock`.
///
/// # Errors
/// [`WorkerError::Write`].
pub(crate) fn write_iterations(
    path: &Path,
    iterations: &[Iteration],
    clock: IterationClock,
) -> Result<(), WorkerError> {
    let mut text = ITERATIONS_HEADER.join(",");
    text.push('\n');
    for (index, Iteration { elapsed_s, data_wait_s, loss }) in iterations.iter().enumerate() {
        text.push_str(&format!("{index},{elapsed_s:.9},{data_wait_s:.9},{loss},{}\n", clock.as_str()));
    }
    write_whole(path, text.as_bytes())
}

/// Writes a file completely or not at all: writes a temporary file beside it, syncs it, and renames it.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WorkerError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let write = || -> io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| {
        // A part of a file is of no use. If it cannot be removed, that changes nothing.
        let _ = fs::remove_file(&beside);
        WorkerError::Write { path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_iterations_are_written_under_the_protocols_header() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("iterations.csv");
        let iterations = [
            Iteration { elapsed_s: 0.25, data_wait_s: 0.0, loss: 6.9 },
            Iteration { elapsed_s: 0.125, data_wait_s: 0.0625, loss: f64::NAN },
        ];
        write_iterations(&path, &iterations, IterationClock::DeviceEvents).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "iteration,elapsed_s,data_wait_s,loss,clock\n0,0.250000000,0.000000000,6.9,device_events\n\
             1,0.125000000,0.062500000,NaN,device_events\n"
        );
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_misspelt_directory_is_found_before_training() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |path: &Path| check_destination(path).err().map(|error| error.to_string());
        assert_eq!(refused(&directory.path().join("measurement.json")), None);
        assert_eq!(refused(Path::new("measurement.json")), None);
        let missing = refused(Path::new("no/such/measurement.json")).unwrap();
        assert_eq!(missing, "cannot write no/such/measurement.json: its directory does not exist");
        assert!(refused(directory.path()).unwrap().ends_with("it is a directory"));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let path = Path::new("no/such/directory/measurement.json");
        let error = write_whole(path, b"{}").unwrap_err();
        assert!(error.to_string().contains("no/such/directory/measurement.json"));
    }
}
