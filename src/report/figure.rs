//! The declaration of a figure: its texts, its columns, and the function that draws it.

use crate::analysis::Analysis;
use crate::analysis::table::{CsvTable, Keys, Section};

/// The declaration of a figure.
#[derive(Debug)]
pub struct Figure {
    /// The beginning of the names of its files, and the name of its source file.
    pub name: &'static str,
    /// The heading of its section.
    pub heading: &'static str,
    /// Its subject, to complete "one per …".
    pub one_per: &'static str,
    /// The condition for drawing it: "It needs …." Markdown.
    pub needs: &'static str,
    /// The instructions for reading it: paragraphs and lists in Markdown.
    pub explanation: &'static str,
    /// The columns of the table beside it.
    pub columns: fn() -> Vec<Section>,
    /// Its keys.
    pub keys: Keys,
    pub(super) draw: fn(&Analysis<'_>) -> Vec<Drawing>,
}

/// A figure, drawn.
pub(super) struct Drawing {
    /// Its subject, such as an env; unique among the drawings of a figure.
    pub(super) of: String,
    /// Its title.
    pub(super) title: String,
    /// The drawing.
    pub(super) svg: String,
    /// The numbers in it.
    pub(super) numbers: CsvTable,
}

/// The end of the name of the `number`-th of several drawings. Names of envs and parameters have no `+`, so none
/// of them can be mistaken for it.
pub(super) fn further(number: usize) -> String {
    if number > 1 { format!("+{number}") } else { String::new() }
}

impl Figure {
    /// The name of the files of `drawing`, without extension.
    pub(super) fn file_name(&self, drawing: &Drawing) -> String {
        format!("{}_{}", self.name, drawing.of)
    }

    /// Whether a file called `name` is one that this figure writes.
    pub fn owns(&self, name: &str) -> bool {
        name.strip_prefix(self.name).is_some_and(|rest| rest.starts_with('_'))
    }
}

/// A figure with its drawings.
pub(super) type Drawn = (&'static Figure, Vec<Drawing>);
