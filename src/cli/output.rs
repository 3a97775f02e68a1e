//! The output of verbs: text, JSON, tables, hints and warnings.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use comfy_table::{LineStyle, Table, TableStyle};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use super::failure::disk_remedy;
use super::narrow::{GAP, fitted};
use super::wrap::{wrapped, wrapped_whole};
use super::{Exit, Failure};
use crate::clean::printable;
use crate::files::write_atomic;

/// Prints `text`, without adding a newline. On a terminal, long lines wrap at words. A closed pipe (`| head`) is not
/// an error.
///
/// Control characters are removed. Records contain none, but a path or a matrix can contain anything.
///
/// # Errors
/// Standard output cannot be written, for example to a full disk.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(fitting(text, width_of(&Table::new())).as_bytes())
}

/// Prints `text` as [`print`] does, but never wraps a line: for commands and scripts to copy, logs, CSV.
///
/// # Errors
/// As [`print`].
pub(super) fn print_whole(text: &str) -> Result<(), Failure> {
    print_bytes(printable(text).as_bytes())
}

/// `text` without control characters, wrapped for a terminal of `width`. `None` means that it is not for a terminal.
pub(super) fn fitting(text: &str, width: Option<u16>) -> String {
    let text = printable(text);
    width.map_or_else(|| text.to_string(), |width| wrapped(&text, width.into()))
}

/// The line `text` of a run, wrapped at words for a terminal of `width`, although it contains several blanks in a row
/// that align it with other lines. `None` means that it is not for a terminal.
pub(super) fn narrated(text: &str, width: Option<u16>) -> String {
    let text = printable(text);
    width.map_or_else(|| text.to_string(), |width| wrapped_whole(&text, width.into()))
}

/// Prints `text` and a newline; see [`print`].
///
/// # Errors
/// As [`print`].
pub(super) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Standard output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
struct PrintError(#[source] io::Error);

/// Prints `bytes` unchanged: the output of a worker, or escape sequences. A closed pipe is not an error.
///
/// # Errors
/// As [`print`].
pub(super) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(unprintable(error)),
        Ok(()) => Ok(()),
    }
}

/// Whether standard output has no reader: the other end of the pipe was closed, or the terminal is gone.
pub(super) fn is_reader_gone() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
    // An output that cannot be polled has a reader.
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|found| found > 0)
        && polled[0].revents().is_some_and(|events| events.intersects(gone))
}

/// Standard output cannot be written because of `error`.
pub(super) fn unprintable(error: io::Error) -> Failure {
    let remedy = disk_remedy(&error).map_or_else(String::new, |remedy| format!("{remedy}, or "));
    Failure::new(Exit::Unexpected, PrintError(error)).hint(format!("{remedy}send the output elsewhere"))
}

/// Prints the output of `write` in pieces, so that a long text is never in memory as a whole; see [`print`].
///
/// # Errors
/// As [`print`].
pub(super) fn print_written(
    write: impl FnOnce(&mut Printable<BufWriter<io::StdoutLock<'_>>>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = Printable(BufWriter::with_capacity(PRINTED_AT_ONCE, io::stdout().lock()));
    let written = write(&mut out).and_then(|()| out.flush());
    // After an error, the rest of the buffer is not written either.
    drop(out.0.into_parts());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(unprintable(error)),
        Ok(()) => Ok(()),
    }
}

/// The size of the buffer in bytes.
const PRINTED_AT_ONCE: usize = 1 << 16;

/// A writer that passes its input through [`printable`]. Each piece must be valid UTF-8, like those of `write!` and
/// `serde_json`; invalid bytes are replaced.
#[derive(Debug)]
pub(super) struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.write_all(printable(&String::from_utf8_lossy(piece)).as_bytes())?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Prints `value` as indented JSON.
///
/// # Errors
/// As [`print`].
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print_written(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// A directory that cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the directory {}", path.display())]
struct MakeError {
    path: PathBuf,
    source: io::Error,
}

/// Writes `files`, by name, atomically into `directory`, which comes from `--out` and is created if needed.
///
/// # Errors
/// The directory cannot be created or a file cannot be written, with its path, the reason and a remedy.
pub(super) fn write_files<N: AsRef<Path>>(directory: &Path, files: &[(N, String)]) -> Result<(), Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the command line creates the directory that `--out` names"
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
    let elsewhere = "choose another directory with `--out DIR`";
    // On a read-only disk, the remedy is to write elsewhere.
    let remedy = disk_remedy(source).filter(|_| source.kind() != io::ErrorKind::ReadOnlyFilesystem);
    remedy.map_or_else(|| elsewhere.to_owned(), |remedy| format!("{remedy}, or {elsewhere}"))
}

/// Prints a hint on standard error, unless `quiet`.
pub(super) fn hint(quiet: bool, text: &str) {
    if !quiet {
        say(&format!("hint: {text}"));
    }
}

/// Prints a line on standard error.
pub(super) fn say(text: &str) {
    // A closed standard error is ignored.
    let _ = writeln!(io::stderr(), "{}", fitting(text, stderr_width()));
}

/// The width of the terminal if standard error is one.
pub(super) fn stderr_width() -> Option<u16> {
    width_of(Table::new().use_stderr())
}

/// Smaller widths count as unknown: a terminal without a size has 0 columns.
const NARROWEST: u16 = 20;

/// The width of the terminal that `table` is for.
fn width_of(table: &Table) -> Option<u16> {
    table.width().filter(|width| *width >= NARROWEST)
}

/// Prints a warning on standard error.
pub(super) fn warn(text: &str) {
    say(&format!("warning: {text}"));
}

/// The layout of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// With a line below the header, for a terminal of this width; of any width, if it is unknown.
    Lines(Option<u16>),
    /// Plain columns of any width, for pipes and files.
    Plain,
}

impl Layout {
    /// [`Layout::Lines`] if standard output is a terminal.
    pub(super) fn of_stdout() -> Layout {
        if io::stdout().is_terminal() { Layout::lines() } else { Layout::Plain }
    }

    /// [`Layout::Lines`], of any width if standard output is not a terminal.
    pub(super) fn lines() -> Layout {
        Layout::Lines(width_of(&Table::new()))
    }
}

/// The style of tables on a terminal, which leaves its width to the columns.
const RULED: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// An empty table under `header`.
pub(super) fn table(header: Vec<String>, layout: Layout) -> Table {
    let mut table = Table::new();
    table.force_no_tty().load_style(TableStyle::new()).set_header(header);
    if let Layout::Lines(width) = layout {
        table.load_style(RULED);
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, GAP));
        });
        width.map(|width| table.set_width(width));
    }
    table
}

/// The table's text, without trailing spaces. If the terminal is too narrow for the table, it is a list.
pub(super) fn table_text(table: &Table) -> String {
    let text = table.width().map_or_else(|| table.trim_fmt(), |width| fitted(table, width));
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn pieces_are_sanitised_like_whole_texts() {
        let mut out = Printable(Vec::new());
        let [red, wide, reversed] = ["\u{1b}[31mred\u{1b}[0m", "\u{9b}é漢", "\u{202e}x"];
        writeln!(out, "{red} {wide}\t{reversed}").unwrap();
        out.write_all(b"\xff").unwrap();
        assert_eq!(String::from_utf8(out.0).unwrap(), "red é漢\tx\n\u{fffd}");
    }

    #[test]
    fn json_in_pieces_stays_json() {
        let value = json!({ "a\u{85}": ["\u{1b}]0;title", "\"\\\n\u{202e}", 1.5, null], "é": {} });
        let mut out = Printable(Vec::new());
        serde_json::to_writer_pretty(&mut out, &value).unwrap();
        let read: Value = serde_json::from_slice(&out.0).unwrap();
        // Escaped letters are harmless, and the others are removed.
        assert_eq!(read, json!({ "a ": ["\u{1b}]0;title", "\"\\\n", 1.5, null], "é": {} }));
    }
}
