//! The peaks files of a directory, as a catalogue.

use std::path::Path;

use super::output::say;
use super::{Exit, Failure, Global};
use crate::analysis::peaks::{Catalogue, Peaks, PeaksError, parse, parse_measured};
use crate::prepare::peaks::load_peaks;

/// The default directory of peaks.
pub(super) const PEAKS_DIR: &str = "peaks";

/// All peaks below `directory`, which must exist unless it is the default. An unusable file causes only a warning,
/// because it might be for a device that the report does not contain.
///
/// # Errors
/// It does not exist, or cannot be read.
pub(super) fn load_catalogue(directory: &Path, global: &Global) -> Result<Catalogue, Failure> {
    if directory != Path::new(PEAKS_DIR) && !directory.is_dir() {
        let why = format!("`--peaks-dir {}`: there is no such directory", directory.display());
        return Err(
            Failure::new(Exit::Usage, why).hint("without `--peaks-dir`, peaks are looked for in `peaks`")
        );
    }
    peaks_so_far(directory, global)
}

/// All peaks below `directory`, as [`load_catalogue`]; none if it does not exist yet.
///
/// # Errors
/// It cannot be read.
pub(super) fn peaks_so_far(directory: &Path, global: &Global) -> Result<Catalogue, Failure> {
    let mut all = Vec::new();
    for file in load_peaks(directory)? {
        match parse_peaks(&file.name, &file.text, file.is_measured) {
            Ok(peaks) => all.push(peaks),
            Err(error) if !global.quiet => {
                let why =
                    std::error::Error::source(&error).map_or(String::new(), |source| format!(": {source}"));
                say(&format!("warning: {} is ignored: {error}{why}", file.path.display()));
            }
            Err(_) => {}
        }
    }
    Ok(Catalogue::new(all))
}

fn parse_peaks(name: &str, text: &str, is_measured: bool) -> Result<Peaks, PeaksError> {
    if is_measured { parse_measured(name, text) } else { parse(name, text) }
}
