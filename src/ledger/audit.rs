//! Asks every rule about some ledgers, and sorts what they object to.

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
    /// How many lines were looked at.
    pub lines: usize,
    /// How many rows they make: lines of one config on one machine are one.
    pub rows: usize,
    /// Errors first, each in the order of the lines.
    pub objections: Vec<Objection>,
    /// What the audit took for granted, and what it could not check, in sentences.
    pub notes: Vec<String>,
}

impl Audited {
    /// How many objections are of this severity.
    pub fn number(&self, severity: Severity) -> usize {
        self.objections.iter().filter(|it| it.severity == severity).count()
    }
}

/// Audits `entries`, the lines of all files. Devices are compared with the peaks of `catalogue` that are for exactly
/// them.
pub fn audit(entries: &[Entry], catalogue: &Catalogue) -> Audited {
    let sheet = Sheet::new(entries, catalogue);
    let mut notes = Vec::new();
    let mut objections = rules::objections(&sheet, &mut notes);
    let file = |objection: &Objection| sheet.files().iter().position(|file| *file == objection.lines[0].file);
    objections.sort_by_cached_key(|it| (it.severity, file(it), it.lines[0].line, it.rule));
    Audited { lines: entries.len(), rows: sheet.rows.len(), objections, notes }
}
