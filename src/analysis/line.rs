//! A table of words, and a row of it in the making.

use std::fmt::Display;

use super::group::params_text;
use crate::job::Key;

/// What stands where a value is not known.
pub const NOT_KNOWN: &str = "NA";

/// A table of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub header: Vec<String>,
    /// Each as long as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The table as CSV.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for record in std::iter::once(&self.header).chain(&self.rows) {
            writer
                .write_record(record)
                .expect("every row is as long as the header, and memory takes all bytes");
        }
        let bytes = writer.into_inner().expect("memory takes all bytes");
        String::from_utf8(bytes).expect("words are UTF-8 and so is what csv puts between them")
    }

    /// A table without rows whose columns are those of `line`.
    pub(super) fn like(line: Line) -> Self {
        Table { header: line.0.into_iter().map(|(name, _)| name).collect(), rows: Vec::new() }
    }

    /// Adds a row; the first gives a table without columns its own.
    pub(super) fn push(&mut self, line: Line) {
        if self.header.is_empty() {
            self.header = line.0.iter().map(|(name, _)| name.clone()).collect();
        }
        self.rows.push(line.0.into_iter().map(|(_, value)| value).collect());
    }
}

/// One row in the making: names and values together, so that they cannot get out of step.
#[derive(Default)]
pub(super) struct Line(Vec<(String, String)>);

impl Line {
    pub(super) fn word(&mut self, name: &str, value: impl Display) {
        let value = value.to_string();
        self.0.push((name.to_owned(), if value.is_empty() { NOT_KNOWN.to_owned() } else { value }));
    }

    pub(super) fn maybe(&mut self, name: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.word(name, value),
            None => self.word(name, NOT_KNOWN),
        }
    }

    pub(super) fn yes(&mut self, name: &str, value: bool) {
        self.word(name, if value { "yes" } else { "no" });
    }

    pub(super) fn config(&mut self, key: Option<&Key>) {
        self.maybe("env", key.map(|key| &key.env));
        self.maybe("device", key.map(|key| key.device));
        self.maybe("model", key.map(|key| &key.model));
        self.maybe("precision", key.map(|key| key.precision));
        self.maybe("batch", key.map(|key| key.batch));
        let params = key.map(params_text);
        self.maybe("params", params.map(|text| if text.is_empty() { "defaults".to_owned() } else { text }));
    }
}
