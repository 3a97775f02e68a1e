//! Reads `telemetry.csv`, the readings of sensors while a job ran.

use std::path::Path;

use super::evidence::EvidenceReader;
use crate::files::FILE_LIMIT;
use crate::protocol::Measurement;
use crate::record::{Telemetry, parse_samples};

/// The summary of the samples in the file at `path`, over the window of `measurement` if there is one. `None` without
/// samples, or if a worker has replaced the file.
pub fn load_telemetry(path: &Path, measurement: Option<&Measurement>) -> Option<Telemetry> {
    read_telemetry(&mut EvidenceReader::default(), path, measurement.and_then(Measurement::window))
}

/// As [`load_telemetry`], over a `window` in seconds since the Unix epoch, with a note of what the file holds in
/// `files`.
pub(super) fn read_telemetry(
    files: &mut EvidenceReader,
    path: &Path,
    window: Option<(f64, f64)>,
) -> Option<Telemetry> {
    let bytes = files.read(path, FILE_LIMIT).ok()?;
    Telemetry::of(&parse_samples(&String::from_utf8_lossy(&bytes)), window)
}
