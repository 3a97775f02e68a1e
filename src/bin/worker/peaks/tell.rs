//! How far the measuring is.

/// Says on standard error how far the measuring is.
pub(super) fn tell(line: &str) {
    eprintln!("{line}");
}
