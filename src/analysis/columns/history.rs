//! The columns of `history.csv`.

use crate::analysis::column::{Column, Columns, of};
use crate::analysis::history::Point;
use crate::analysis::source::Source;
use crate::analysis::versus::ConfigComparison;

const FIRST: &str = "no version before has the config on this machine";
const NO_RATIO: &str = "there is no ratio";

type Of<'a> = Column<&'a Point>;

/// Every column of a history.
pub(in crate::analysis) fn history_columns<'a>() -> Columns<&'a Point> {
    let config = of(Source::Matrix, [Of::known("config", "The config.", |it| it.config.clone())]);
    let seen = of(
        Source::Orchestrate,
        [
            Of::known(
                "host",
                "The host's name, with its machine's id if several machines have that name.",
                |it| it.host.clone(),
            ),
            Of::known("version", "The commit, or the beginning of a hash.", |it| it.version.clone()),
            Of::known("since", "The start of its first run that counts, RFC 3339, UTC.", |it| it.since),
        ],
    );
    let parts = [config, seen, of(Source::Computed, computed())];
    Columns::plain(parts.into_iter().flatten().collect())
}

fn computed<'a>() -> Vec<Of<'a>> {
    let comparison = |it: &&Point| -> Option<ConfigComparison> { it.result.as_ref().ok().copied() };
    vec![
        Of::known("n", "Runs that count.", |it| it.runs.n),
        Of::known("geometric_mean_samples_per_s", "Their geometric mean.", |it| it.runs.per_s),
        Of::maybe("before", "The version that it is compared with.", FIRST, |it| it.before.clone()),
        Of::maybe("ratio", "The ratio of throughputs, `version` ÷ `before`.", NO_RATIO, move |it| {
            Some(comparison(it)?.ratio)
        }),
        Of::maybe("ratio_low", "The lower end of its interval at 95 %.", NO_RATIO, move |it| {
            Some(comparison(it)?.interval.low)
        }),
        Of::maybe("ratio_high", "The upper end of that interval.", NO_RATIO, move |it| {
            Some(comparison(it)?.interval.high)
        }),
        Of::maybe("compared_by", "How many blocks or runs were compared.", NO_RATIO, move |it| {
            Some(comparison(it)?.pairing_text())
        }),
        Of::maybe("verdict", "`faster`, `slower`, `same` or `cannot tell`.", NO_RATIO, move |it| {
            Some(comparison(it)?.verdict.as_str())
        }),
        Of::maybe("reason", "Why there is no ratio.", "there is one", |it| it.result.as_ref().err().cloned()),
    ]
}
