//! Applies every rule to some ledgers, and sorts the objections.

use serde::Serialize;

use super::entry::Entry;
use super::objection::Objection;
use super::rules;
use super::severity::Severity;
use super::sheet::Sheet;
use crate::analysis::peaks::Catalogue;

/// The result of an audit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audited {
    /// The number of audited lines.
    pub lines: usize,
    /// The number of rows: lines of one config on one machine form one row.
    pub rows: usize,
    /// Errors first, each in the order of the lines.
    pub objections: Vec<Objection>,
    /// Assumptions of the audit, and things that it could not check, as sentences.
    pub notes: Vec<String>,
}

impl Audited {
    /// The number of objections of this severity.
    pub fn number(&self, severity: Severity) -> usize {
        self.objections.iter().filter(|it| it.severity == severity).count()
    }
}

/// Audits `entries`, the lines of all files. Devices are compared with peaks of `catalogue` for exactly their name.
pub fn audit(entries: &[Entry], catalogue: &Catalogue) -> Audited {
    let sheet = Sheet::new(entries, catalogue);
    let mut notes = Vec::new();
    let mut objections = rules::objections(&sheet, &mut notes);
    let file = |objection: &Objection| sheet.files().iter().position(|file| *file == objection.lines[0].file);
    objections.sort_by_cached_key(|it| (it.severity, file(it), it.lines[0].line, it.rule));
    Audited { lines: entries.len(), rows: sheet.rows.len(), objections, notes }
}
