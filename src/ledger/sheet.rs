//! The input of the rules: all lines, their rows, and the published peaks.

use super::entry::Entry;
use super::row::Row;
use crate::analysis::peaks::Catalogue;

/// The input of an audit.
pub(super) struct Sheet<'a> {
    /// All lines of all files.
    pub(super) entries: &'a [Entry],
    /// Their rows.
    pub(super) rows: Vec<Row<'a>>,
    /// Published and measured peaks.
    pub(super) catalogue: &'a Catalogue,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(entries: &'a [Entry], catalogue: &'a Catalogue) -> Sheet<'a> {
        Sheet { entries, rows: Row::of(entries), catalogue }
    }

    /// The files, without duplicates, in the order in which the user named them.
    pub(super) fn files(&self) -> Vec<&'a str> {
        let mut files: Vec<&str> = Vec::new();
        for entry in self.entries {
            if files.last() != Some(&entry.file.as_str()) && !files.contains(&entry.file.as_str()) {
                files.push(&entry.file);
            }
        }
        files
    }
}
