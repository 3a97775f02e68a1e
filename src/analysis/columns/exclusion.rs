//! The columns of `exclusions.csv`.

use super::shared::{OfRow, config_columns, host_column, part_column, unit_column};
use crate::analysis::audit::{Audited, Throughput};
use crate::analysis::column::{Column, Columns, Sourced, list, of};
use crate::analysis::group::Row;
use crate::analysis::own::Own;
use crate::analysis::source::Source;

const NONE_WITHOUT: &str = "no run without such a mark has a throughput";
const NONE_WITH: &str = "no run has a throughput";
const NONE_EXCLUDED: &str = "no run with such a mark has a throughput";
const NOT_BOTH: &str = "no such run, or no other run, has a throughput";

type Of<'a> = Column<Audited<'a>>;

impl OfRow for Audited<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

/// Every column of `exclusions.csv`.
pub(in crate::analysis) fn exclusion_columns<'a>(own: &Own) -> Columns<Audited<'a>> {
    let mut columns: Vec<Sourced<Audited<'a>>> = config_columns(own);
    columns.extend([host_column(), part_column(), unit_column()]);
    columns.extend(of(Source::Computed, computed()));
    Columns::plain(columns)
}

fn computed<'a>() -> Vec<Of<'a>> {
    let mut columns: Vec<Of<'a>> = numbers().into();
    columns.extend(throughput("without", "the runs without such a mark", NONE_WITHOUT, |line| line.without));
    columns.extend(throughput("with", "all runs and replaced ones", NONE_WITH, |line| line.with));
    let marked = "the runs with such a mark and replaced ones";
    columns.extend(throughput("left_out", marked, NONE_EXCLUDED, |line| line.excluded));
    columns.extend([
        Of::maybe(
            "ratio",
            "`without_geometric_mean_samples_per_s` ÷ `with_geometric_mean_samples_per_s`.",
            NONE_WITHOUT,
            Audited::ratio,
        ),
        Of::maybe(
            "left_out_ratio",
            "`left_out_geometric_mean_samples_per_s` ÷ `without_geometric_mean_samples_per_s`.",
            NOT_BOTH,
            Audited::excluded_ratio,
        ),
    ]);
    columns
}

/// How many runs marks leave out, and which marks.
fn numbers<'a>() -> [Of<'a>; 5] {
    [
        Of::known("runs", "Runs of the row with a result.", |line| line.row.runs.len()),
        Of::known(
            "left_out",
            "Those with a [mark](../marks.md) that leaves a run out, also if `--include-marked` includes them.",
            |line| line.left_out,
        ),
        Of::known(
            "replaced",
            "Earlier results of its jobs with such a mark that a re-run replaced. They count with those left out.",
            |line| line.replaced,
        ),
        Of::known(
            "left_out_by",
            "How many each mark leaves out. A run with two marks is counted twice.",
            |line| list(line.by_mark.iter().map(|(name, n)| format!("{n} × {name}"))),
        ),
        Of::known(
            "left_out_without_throughput",
            "Those of them whose window was not synchronised, so that they have no throughput.",
            Audited::without_throughput,
        ),
    ]
}

/// The number and the throughput of some runs of the row.
fn throughput<'a>(
    name: &'static str,
    whose: &'static str,
    absent: &'static str,
    of: fn(&Audited<'_>) -> Throughput,
) -> [Of<'a>; 2] {
    [
        Of::known(format!("{name}_n"), format!("How many of {whose} have a throughput."), move |line| {
            of(line).n
        }),
        Of::maybe(
            format!("{name}_geometric_mean_samples_per_s"),
            format!("The geometric mean of {whose}."),
            absent,
            move |line| of(line).mean,
        ),
    ]
}
