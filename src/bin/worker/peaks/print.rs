//! Progress messages.

/// Prints a line on standard error.
pub(super) fn print_progress(line: &str) {
    eprintln!("{line}");
}
