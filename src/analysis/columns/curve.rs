//! The columns of the table behind each figure of batch scaling.

use super::shared::{OfRow, config_columns, host_column, part_column, unit_column};
use crate::analysis::column::{Column, Columns, Sourced, of};
use crate::analysis::group::Row;
use crate::analysis::own::Own;
use crate::analysis::scaling::Step;
use crate::analysis::source::Source;

/// A row on its curve.
pub(in crate::analysis) struct CurveLine<'a> {
    /// The row.
    pub(in crate::analysis) row: &'a Row<'a>,
    /// Its place on the curve.
    pub(in crate::analysis) step: Step,
    /// Whether it is the knee.
    pub(in crate::analysis) is_knee: bool,
}

type Of<'a> = Column<CurveLine<'a>>;

impl OfRow for CurveLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

/// Every column of a row on its curve.
pub(in crate::analysis) fn curve_columns<'a>(own: &Own) -> Columns<CurveLine<'a>> {
    let mut columns: Vec<Sourced<CurveLine<'a>>> = config_columns(own);
    columns.extend([part_column(), unit_column(), host_column()]);
    columns.extend(of(Source::Computed, steps()));
    Columns::plain(columns)
}

fn steps<'a>() -> [Of<'a>; 5] {
    [
        Of::maybe(
            "geometric_mean_samples_per_s",
            "The throughput of the row.",
            "no run of the row counts",
            |line| line.row.samples_per_s(),
        ),
        Of::known("gain_ratio", "That throughput ÷ the one of the least batch of the curve.", |line| {
            line.step.gain
        }),
        Of::known(
            "efficiency_percent",
            "`gain_ratio` ÷ the ratio of the batches: 100 if twice the batch takes no more time.",
            |line| 100.0 * line.step.efficiency,
        ),
        Of::maybe(
            "growth_percent",
            "What a doubling of the batch added to the throughput since the batch before.",
            "it is the least batch of the curve",
            |line| Some(100.0 * line.step.growth?),
        ),
        Of::known(
            "is_knee",
            "`true` of the least batch after which every step grows by less than 10 % per doubling.",
            |line| line.is_knee,
        ),
    ]
}
