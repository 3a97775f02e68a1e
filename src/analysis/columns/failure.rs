//! The columns of `failures.csv`.

use super::shared::{OfConfig, config_columns};
use crate::analysis::Cell;
use crate::analysis::column::{Column, Columns, of};
use crate::analysis::own::Own;
use crate::analysis::source::Source;
use crate::job::Key;
use crate::record::Record;

const NO_RECORD: &str = "no attempt left a record";

/// A line of `failures.csv`: a job whose last attempt failed.
pub(in crate::analysis) struct FailureLine<'a>(pub(in crate::analysis) &'a Cell);

type Of<'a> = Column<FailureLine<'a>>;

impl OfConfig for FailureLine<'_> {
    fn key(&self) -> &Key {
        self.0.job.key()
    }
}

/// Every column of `failures.csv`.
pub(in crate::analysis) fn failure_columns<'a>(own: &Own) -> Columns<FailureLine<'a>> {
    let mut columns = of(
        Source::Matrix,
        [
            Of::known("job", "The name of its directory.", |line| line.0.job.dir_name()),
            Of::known("kind", "`timing`, `ncu` or `perf`.", |line| line.key().kind),
        ],
    );
    columns.extend(config_columns(own));
    let repeat = Of::known("repeat", "The number of the repeat, from 1.", |line| line.key().repeat);
    columns.push(repeat.from(Source::Matrix));
    columns.extend(of(Source::Orchestrate, attempt()));
    Columns::plain(columns)
}

fn attempt<'a>() -> [Of<'a>; 6] {
    [
        Of::maybe("outcome", "The [outcome](../troubleshooting.md#outcomes).", NO_RECORD, |line| {
            line.0.record().map(|record| record.outcome.kind())
        }),
        Of::maybe("reason", "The outcome as a sentence.", NO_RECORD, |line| line.0.reason()),
        Of::maybe("attempts", "Attempts so far.", NO_RECORD, |line| {
            line.0.record().map(|record| record.attempt)
        }),
        Of::maybe("started_at", "The start of the last one, RFC 3339, UTC.", NO_RECORD, |line| {
            line.0.record().map(|record| record.started_at)
        }),
        Of::maybe("wall_s", "Seconds from its start to its end.", NO_RECORD, |line| {
            line.0.record().map(Record::wall_s)
        }),
        Of::maybe("host", "The host's name.", NO_RECORD, |line| {
            line.0.record().map(|record| &record.provenance.host.hostname)
        }),
    ]
}
