//! What verbs print on standard output: text, JSON, tables.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::failure::disk_remedy;
use super::{Exit, Failure};
use crate::files::write_atomic;

/// Prints `text`, which ends its lines itself. A reader that has gone away (`| head`) has seen enough: that is no
/// error.
///
/// # Errors
/// Standard output cannot be written to, such as a file on a full disk.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Prints `text` as a line, or as several; see [`print`].
///
/// # Errors
/// As [`print`].
pub(super) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Prints `bytes` as they are; see [`print`].
///
/// # Errors
/// As [`print`].
pub(super) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints `value` as indented JSON.
///
/// # Errors
/// As [`print`].
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)?;
    print(&format!("{text}\n"))
}

/// A directory that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the directory {}", path.display())]
struct MakeError {
    path: PathBuf,
    source: io::Error,
}

/// Writes `files`, by name, into `directory`, which `--out` named and which is made if it is not there; each as a whole.
///
/// # Errors
/// The directory cannot be made, or a file not be written: which, why, and what to do.
pub(super) fn write_files<N: AsRef<Path>>(directory: &Path, files: &[(N, String)]) -> Result<(), Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the command line makes the directory it was told to write to"
    )]
    std::fs::create_dir_all(directory).map_err(|source| {
        let hint = unwritable_hint(&source);
        Failure::new(Exit::Unexpected, MakeError { path: directory.to_owned(), source }).hint(hint)
    })?;
    for (name, text) in files {
        write_atomic(&directory.join(name), text.as_bytes()).map_err(|error| {
            let hint = unwritable_hint(&error.source);
            Failure::new(Exit::Unexpected, error).hint(hint)
        })?;
    }
    Ok(())
}

fn unwritable_hint(source: &io::Error) -> String {
    let elsewhere = "`--out DIR` names another directory";
    // What helps with a read-only disk is to write elsewhere.
    let remedy = disk_remedy(source).filter(|_| source.kind() != io::ErrorKind::ReadOnlyFilesystem);
    remedy.map_or_else(|| elsewhere.to_owned(), |remedy| format!("{remedy}, or write elsewhere: {elsewhere}"))
}

/// Says something beside the result, on standard error, unless `quiet`.
pub(super) fn hint(quiet: bool, text: &str) {
    if !quiet {
        // Nobody reads any more: then nobody needs the hint.
        let _ = writeln!(io::stderr(), "hint: {text}");
    }
}

/// Says something beside the result, on standard error.
pub(super) fn say(text: &str) {
    // Nobody reads any more: then nobody needs to know.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Warns, on standard error.
pub(super) fn warn(text: &str) {
    say(&format!("warning: {text}"));
}

/// The narrowest terminal into which tables are fitted.
const LEAST_WIDTH: u16 = 80;

/// How tables look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// With lines, and no wider than the terminal.
    Lines,
    /// In plain columns, as wide as they are: for pipes and files.
    Plain,
}

impl Layout {
    /// [`Layout::Lines`] if standard output is a terminal.
    pub(super) fn of_stdout() -> Layout {
        if io::stdout().is_terminal() { Layout::Lines } else { Layout::Plain }
    }
}

/// An empty table under `header`.
pub(super) fn table(header: Vec<String>, layout: Layout) -> Table {
    let mut table = Table::new();
    // On a narrow terminal, and on one that does not tell its width, lines that the terminal breaks are easier to read
    // than columns one letter wide.
    let fits = layout == Layout::Lines && table.width().is_some_and(|width| width >= LEAST_WIDTH);
    let arrangement = if fits { ContentArrangement::Dynamic } else { ContentArrangement::Disabled };
    let style = if layout == Layout::Lines { presets::UTF8_FULL_CONDENSED } else { presets::NOTHING };
    table.load_style(style).set_content_arrangement(arrangement).set_header(header);
    table
}

/// The table's text, without blanks at the ends of its lines.
pub(super) fn table_text(table: &Table) -> String {
    format!("{}\n", table.trim_fmt())
}

/// `512 B`, `1.5 KiB`, `2.4 GiB`.
pub(super) fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// The closest of `names` to `word`, the closest first, at most three; none that is far off.
pub(super) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(word, name), name))
        .filter(|(score, _)| *score >= 0.5)
        .collect();
    scored.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(right.1)));
    scored.dedup_by(|left, right| left.1 == right.1);
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_nearest_first_and_far_ones_not_at_all() {
        let names = ["quickstart", "mac", "cuda", "quickstart2"];
        assert_eq!(nearest("quikstart", names), ["quickstart", "quickstart2"]);
        assert_eq!(nearest("zzz", names), Vec::<&str>::new());
        assert_eq!(nearest("cuda", ["cuda", "cuda"]), ["cuda"]);
    }

    #[test]
    fn sizes() {
        let sizes = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (u64::MAX, "16777216.0 TiB")];
        for (bytes, text) in sizes {
            assert_eq!(size_text(bytes), text);
        }
    }
}
