//! Reads `telemetry.csv`, the readings of sensors while a job ran.

use std::path::Path;

use crate::files::{FILE_LIMIT, read_regular};
use crate::protocol::Measurement;
use crate::record::{Telemetry, parse_samples};

/// The summary of the samples in the file at `path`, over the window of `measurement` if there is one. `None` without
/// samples, or if a worker has replaced the file.
pub fn load_telemetry(path: &Path, measurement: Option<&Measurement>) -> Option<Telemetry> {
    let bytes = read_regular(path, FILE_LIMIT).ok()?;
    Telemetry::of(&parse_samples(&String::from_utf8_lossy(&bytes)), measurement.and_then(Measurement::window))
}
