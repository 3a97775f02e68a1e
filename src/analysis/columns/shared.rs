//! Columns that several files have.

use crate::analysis::column::Column;
use crate::analysis::group::{Row, params_text};
use crate::job::Key;

/// A line that is about one config.
pub(in crate::analysis) trait OfConfig {
    /// The key of the config, or of one of its jobs.
    fn key(&self) -> &Key;
}

/// A line that is about one row.
pub(in crate::analysis) trait OfRow {
    /// The row.
    fn row(&self) -> &Row<'_>;
}

impl<T: OfRow> OfConfig for T {
    fn key(&self) -> &Key {
        &self.row().config
    }
}

impl OfRow for &Row<'_> {
    fn row(&self) -> &Row<'_> {
        self
    }
}

/// Which config a line is about.
pub(in crate::analysis) fn config_columns<T: OfConfig>() -> Vec<Column<T>> {
    vec![
        Column::known("env", "The env.", |line: &T| line.key().env.clone()),
        Column::known("device", "The device that it declares.", |line: &T| line.key().device),
        Column::known("model", "The network.", |line: &T| line.key().model.clone()),
        Column::known("precision", "The declared precision.", |line: &T| line.key().precision),
        Column::known("batch", "Images per iteration.", |line: &T| line.key().batch),
        Column::known(
            "params",
            "The parameters that are not at their default, and the worker's command; `defaults` if there are none.",
            |line: &T| {
                Some(params_text(line.key())).filter(|text| !text.is_empty()).unwrap_or("defaults".to_owned())
            },
        ),
    ]
}

/// Where the runs of a row ran.
pub(in crate::analysis) fn host_column<T: OfRow>() -> Column<T> {
    Column::maybe("host", "The host's name.", "the row has no result", |line: &T| {
        line.row().circumstances.as_ref().map(|found| found.host.clone())
    })
}

/// Which of the rows of its config a row is.
pub(in crate::analysis) fn part_column<T: OfRow>() -> Column<T> {
    Column::known("part", "The number of the row among those of its config, such as `1 of 2`.", |line: &T| {
        let (part, of) = line.row().part;
        format!("{part} of {of}")
    })
}
