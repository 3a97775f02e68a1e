//! Progress messages.

/// Reports progress on standard error.
pub(super) fn tell(line: &str) {
    eprintln!("{line}");
}
