//! Reads `telemetry.csv`, the sensor samples of a job.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::evidence::EvidenceReader;
use crate::files::{FILE_LIMIT, open_regular};
use crate::protocol::Measurement;
use crate::record::{Sample, Telemetry, parse_samples};

/// The summary of the samples in the file at `path`, over the window of `measurement` if there is one. `None` without
/// samples, or if a worker has replaced the file.
pub fn load_telemetry(path: &Path, measurement: Option<&Measurement>) -> Option<Telemetry> {
    read_telemetry(&mut EvidenceReader::default(), path, measurement.and_then(Measurement::window))
}

/// How far from the end [`last_samples`] begins to read: some twenty samples.
const LAST: u64 = 4096;

/// The last samples in the file at `path`, of a job that is still running. Empty if it cannot be read.
pub fn last_samples(path: &Path) -> Vec<Sample> {
    let read = || -> io::Result<String> {
        let mut file = BufReader::new(open_regular(path)?);
        let mut header = String::new();
        file.read_line(&mut header)?;
        let begin = header.len() as u64;
        let end = file.seek(SeekFrom::End(0))?;
        let from = end.saturating_sub(LAST).max(begin);
        file.seek(SeekFrom::Start(from))?;
        let mut rest = Vec::new();
        file.take(LAST).read_to_end(&mut rest)?;
        let rest = String::from_utf8_lossy(&rest);
        // The first line is incomplete.
        let whole = if from > begin { rest.split_once('\n').map_or("", |(_, whole)| whole) } else { &rest };
        Ok(header + whole)
    };
    read().map_or_else(|_| Vec::new(), |text| parse_samples(&text))
}

/// As [`load_telemetry`], over a `window` in seconds since the Unix epoch. Notes the digest of the file in `files`.
pub(super) fn read_telemetry(
    files: &mut EvidenceReader,
    path: &Path,
    window: Option<(f64, f64)>,
) -> Option<Telemetry> {
    let bytes = files.read(path, FILE_LIMIT).ok()?;
    Telemetry::of(&parse_samples(&String::from_utf8_lossy(&bytes)), window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_samples_are_those_of_the_end_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("telemetry.csv");
        let lines = |numbers: std::ops::Range<u32>| -> String {
            numbers.map(|second| format!("{second},{}\n", 10 * second)).collect()
        };
        let write = |text: String| crate::files::write_whole(&path, text.as_bytes()).unwrap();
        let seen = || -> Vec<f64> { last_samples(&path).iter().map(|sample| sample.unix_s).collect() };
        assert_eq!(seen(), [0.0; 0], "there is no file");
        write(format!("time_unix_s,cpu_busy_s\n{}", lines(1..3)));
        assert_eq!(seen(), [1.0, 2.0]);
        write(format!("time_unix_s,cpu_busy_s\n{}12", lines(1..100_000)));
        let seen = seen();
        assert_eq!(seen.last(), Some(&99_999.0), "the line that is being written is not whole");
        assert!(seen.len() > 100 && seen.is_sorted(), "{seen:?}");
    }
}
