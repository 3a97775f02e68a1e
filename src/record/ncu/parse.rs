//! Turns the output of Nsight Compute into counters, or into the reason why there are none.

use std::collections::BTreeSet;
use std::io::{BufRead, Read};

use super::counters::NcuCounters;
use super::failure::NcuFailure;
use super::log::Log;
use super::output::NcuOutput;
use super::select::Selection;
use super::table::{Table, TableError, TableReader};
use crate::metric::Meaning;
use crate::record::said::plain;

/// The longest line that is read: a row of all metrics has some tens of kilobytes.
const LONGEST_LINE: u64 = 16 << 20;

/// Parses what Nsight Compute counted, line by line: `csv`, the file of `--log-file`, can be larger than memory.
///
/// Keeps the metrics in `selection` and all others that have a [`Meaning`]. Metrics in `selection` that the table lacks
/// become `not_measured`.
///
/// # Errors
/// [`NcuFailure`]: why no counts can be used. If it exited with 0 but counted no kernels, that is a failure. So is a
/// file that was visibly cut. If that cannot be told, the counters are `unproven`.
pub fn parse_ncu(
    csv: impl BufRead,
    output: &NcuOutput<'_>,
    selection: &Selection,
) -> Result<NcuCounters, NcuFailure> {
    let asked: BTreeSet<&str> = selection.metrics.iter().map(String::as_str).collect();
    let File { log, table, has_end } = read(csv, |name| asked.contains(name) || Meaning::of(name).is_some());
    let log = log.and(Log::of(output.log));
    // The profiler's own messages explain a failure better than the table that it left behind.
    let capability =
        table.iter().flatten().flat_map(|table| &table.kernels).find_map(|kernel| kernel.capability);
    if let Some(failure) = NcuFailure::of(&log, output, capability) {
        return Err(failure);
    }
    let Table { kernels, has_gaps } = table?.ok_or(NcuFailure::NoTable)?;
    if kernels.len() < log.announced {
        return Err(NcuFailure::KernelsMissing { found: kernels.len(), announced: log.announced });
    }
    if kernels.is_empty() {
        return Err(NcuFailure::NoKernels);
    }
    // A table that was cut at the end of a row looks like a shorter one, even if the profiler exited with 0.
    let unproven = log.announced == 0 && (has_gaps || !has_end);
    let warnings = log.warnings.iter().map(|warning| plain(warning)).collect();
    Ok(NcuCounters { warnings, ..NcuCounters::of(&kernels, selection, unproven) })
}

/// What is in the file of `--log-file`.
struct File {
    log: Log,
    /// What all tables say; `None` if there is no table.
    table: Result<Option<Table>, TableError>,
    /// Whether none of the table's end can be missing: a message of Nsight Compute follows it, or it ends within a
    /// [`BLOCK`].
    has_end: bool,
}

/// The smallest unit in which file systems allocate, in bytes.
///
/// A write on a full disk succeeds as far as the last block goes, so what is cut there ends where a block does. Nsight
/// Compute 2025.3.1 does not notice: it exits with 0, and leaves exactly 102,400 bytes on a disk of 100 KiB. It says
/// `Disconnected` before it writes the table, with nothing behind it. So where the table ends is all that tells.
const BLOCK: u64 = 512;

fn read(mut csv: impl BufRead, wanted: impl Fn(&str) -> bool) -> File {
    let (mut log, mut table) = (Log::default(), TableReader::new(wanted));
    let (mut bytes, mut length, mut has_message) = (Vec::new(), 0, false);
    let is_whole = loop {
        bytes.clear();
        match (&mut csv).take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) => break true,
            Ok(read) => length += read as u64,
            Err(_) => break false,
        }
        let line = String::from_utf8_lossy(&bytes);
        log.read_line(&line);
        table.read_line(&line);
        if !line.trim().is_empty() {
            has_message = line.starts_with("==") && line.ends_with('\n');
        }
    };
    File { log, table: table.finish(is_whole), has_end: has_message || length % BLOCK != 0 }
}
