//! Parses the output of Nsight Compute: [`parse_ncu`] returns counters, or the reason why there are none.

use std::collections::BTreeSet;
use std::io::{BufRead, Read};

use super::counters::NcuCounters;
use super::failure::NcuFailure;
use super::log::Log;
use super::output::NcuOutput;
use super::select::Selection;
use super::table::{Kernels, TableError, TableReader};
use crate::metric::Meaning;
use crate::record::ReportedExit;
use crate::record::said::plain;

/// The longest line that is read: a row of all metrics has some tens of kilobytes.
const LONGEST_LINE: u64 = 16 << 20;

/// Parses the counts of Nsight Compute line by line: `csv`, the file of `--log-file`, can be larger than memory.
///
/// Keeps the metrics in `selection` and all others that have a [`Meaning`]. Metrics in `selection` that the table lacks
/// become `not_measured`.
///
/// # Errors
/// [`NcuFailure`]: why no counts can be used. An exit with 0 but without kernels is a failure, as is a file that was
/// visibly cut off. If it is unknown whether the file was cut off, the counters are `unproven`.
pub fn parse_ncu(
    csv: impl BufRead,
    output: &NcuOutput<'_>,
    selection: &Selection,
) -> Result<NcuCounters, NcuFailure> {
    let asked: BTreeSet<&str> = selection.metrics.iter().map(String::as_str).collect();
    let wanted = |name: &str| asked.contains(name) || Meaning::of(name).is_some();
    let File { log, table, has_message, length } = read(csv, wanted);
    let log = log.and(Log::of(output.log));
    // The profiler's own messages explain a failure better than the table that it left behind.
    let capability =
        table.iter().flatten().flat_map(|kernels| &kernels.all).find_map(|kernel| kernel.capability);
    if let Some(failure) = NcuFailure::of(&log, output, capability) {
        return Err(failure);
    }
    let Kernels { all: kernels, has_gaps } = table?.ok_or(NcuFailure::NoTable)?;
    if kernels.len() < log.announced {
        return Err(NcuFailure::KernelsMissing { found: kernels.len(), announced: log.announced });
    }
    if kernels.is_empty() {
        return Err(NcuFailure::NoKernels);
    }
    // A table that was cut at the end of a row looks like a shorter one, even if the profiler exited with 0.
    let has_end = has_message || (output.exit == Some(ReportedExit::Code(0)) && length % BLOCK != 0);
    let unproven = log.announced == 0 && (has_gaps || !has_end);
    let warnings = log.warnings.iter().map(|warning| plain(warning)).collect();
    Ok(NcuCounters { warnings, ..NcuCounters::of(&kernels, selection, unproven) })
}

/// The content of the file of `--log-file`.
struct File {
    log: Log,
    /// The kernels of all tables; `None` if there is no table.
    table: Result<Option<Kernels>, TableError>,
    /// Whether a message of Nsight Compute follows the table, so that the end of the table is not missing.
    has_message: bool,
    /// Its length in bytes.
    length: u64,
}

/// The smallest unit in which file systems allocate, in bytes.
///
/// Nsight Compute 2025.3.1 prints `Disconnected` before it writes the table, and no message after it. It exits with 0
/// even if the disk becomes full: on a file system in memory of 100 KiB, it left exactly 102,400 bytes. So a table is
/// considered complete only if it ends within a block, and if `/usr/bin/time` has reported that exit. That report is
/// written into the same directory after the table.
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
    File { log, table: table.finish(is_whole), has_message, length }
}
