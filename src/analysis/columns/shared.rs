//! Columns that several files have.

use crate::analysis::column::{Column, Sourced, of};
use crate::analysis::group::{Row, params_text};
use crate::analysis::own::Own;
use crate::analysis::role::Role;
use crate::analysis::source::Source;
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
pub(in crate::analysis) fn config_columns<T: OfConfig>(own: &Own) -> Vec<Sourced<T>> {
    let mut columns = vec![
        Column::known("env", "The env.", |line: &T| line.key().env.clone()),
        Column::known("device", "The device that it declares.", |line: &T| line.key().device),
        Column::known("model", "The network.", |line: &T| line.key().model.clone()),
        Column::known("precision", "The declared precision.", |line: &T| line.key().precision),
        Column::known("batch", "Samples per iteration.", |line: &T| line.key().batch),
        Column::known(
            "params",
            "The parameters that are not at their default, and the worker's command; `defaults` if there are none.",
            |line: &T| {
                Some(params_text(line.key())).filter(|text| !text.is_empty()).unwrap_or("defaults".to_owned())
            },
        )
        .with_role(Role::Setting),
    ];
    columns.extend(parameter_columns(own));
    of(Source::Matrix, columns)
}

/// A column per parameter, with its declared value.
fn parameter_columns<T: OfConfig>(own: &Own) -> Vec<Column<T>> {
    let column = |name: &String| {
        let parameter = name.clone();
        Column::maybe(
            format!("param_{name}"),
            format!(
                "The declared value of the parameter {name}, one column for each that some config declares."
            ),
            "it was not declared",
            move |line: &T| line.key().param(&parameter),
        )
        .with_role(Role::Setting)
    };
    own.parameters.iter().map(column).collect()
}

/// Where the runs of a row ran.
pub(in crate::analysis) fn host_column<T: OfRow>() -> Sourced<T> {
    Column::maybe("host", "The host's name.", "the row has no result", |line: &T| {
        line.row().circumstances.as_ref().map(|found| found.host().to_owned())
    })
    .from(Source::Host)
}

/// Which of the rows of its config a row is.
pub(in crate::analysis) fn part_column<T: OfRow>() -> Sourced<T> {
    Column::known("part", PART, |line: &T| part_text(line.row()))
        .with_role(Role::Setting)
        .from(Source::Computed)
}

/// The meaning of the column `part`.
pub(super) const PART: &str = "The number of the row among those of its config, such as `1 of 2`.";

/// `1 of 2`.
pub(super) fn part_text(row: &Row<'_>) -> String {
    let (part, of) = row.part;
    format!("{part} of {of}")
}

/// What the samples of a row are.
pub(in crate::analysis) fn unit_column<T: OfRow>() -> Sourced<T> {
    Column::known("unit", UNIT, |line: &T| line.row().unit()).from(Source::Worker)
}

/// The meaning of the column `unit`.
pub(super) const UNIT: &str =
    "What a sample is, in the plural: `images`, `tokens`; `samples` if the worker does not say.";

/// The meaning of the column `flops_convention`.
pub(super) const CONVENTION: &str = "How these FLOPs are counted: `layer-by-layer`, `seed1` (twice the \
    forward pass), `seed2` (3 per MAC of it), or by the `worker`.";

/// The meaning of the column `peaks_confidence`.
pub(super) const CONFIDENCE: &str = "How reliable the peaks are: `high`, `medium`, `low` or `estimate`.";

/// The meaning of the column `peak_at_clock_gflop_per_s`.
pub(super) const PEAK_AT_CLOCK: &str =
    "`peak_gflop_per_s` at `clock_mhz` instead of the clock that the peak is for; the upper end of a range.";

/// Why there can be none.
pub(super) const NO_CLOCK: &str = "`clock_mhz` is, or the peaks file does not say the clock of its figure";
