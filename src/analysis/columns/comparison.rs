//! The columns of `comparison.csv`.

use crate::analysis::column::{Column, Columns, of};
use crate::analysis::compare::WouldDecide;
use crate::analysis::source::Source;
use crate::analysis::versus::{ConfigComparison, Line, OfSide};

type Of = Column<Line>;

const NOT_COMPARED: &str = "the config is not compared";
const NO_RATIO: &str = "there is no ratio";

/// Every column of a comparison.
pub(in crate::analysis) fn comparison_columns() -> Columns<Line> {
    let mut columns = side_columns();
    columns.extend(ratio_columns());
    columns.extend(verdict_columns());
    Columns::plain(of(Source::Computed, columns))
}

fn side(line: &Line, place: usize) -> Option<OfSide> {
    Some(line.sides?[place])
}

fn comparison(line: &Line) -> Option<ConfigComparison> {
    line.result.as_ref().ok().copied()
}

fn would(line: &Line) -> Option<WouldDecide> {
    comparison(line)?.would_decide
}

fn side_columns() -> Vec<Of> {
    vec![
        Of::known("config", "The config, without what differs between the sides.", |line| {
            line.config.clone()
        }),
        Of::maybe("from_n", "The runs of the first side that count.", NOT_COMPARED, |line| {
            Some(side(line, 0)?.n)
        }),
        Of::maybe("to_n", "The runs of the second side that count.", NOT_COMPARED, |line| {
            Some(side(line, 1)?.n)
        }),
        Of::maybe(
            "from_samples_per_s",
            "The geometric mean of the throughputs of the first side.",
            NOT_COMPARED,
            |line| Some(side(line, 0)?.per_s),
        ),
        Of::maybe(
            "to_samples_per_s",
            "The geometric mean of the throughputs of the second side.",
            NOT_COMPARED,
            |line| Some(side(line, 1)?.per_s),
        ),
    ]
}

fn ratio_columns() -> Vec<Of> {
    vec![
        Of::maybe(
            "ratio",
            "The ratio of throughputs, second side ÷ first. If runs are paired by block, of those in blocks that hold \
             both sides.",
            NO_RATIO,
            |line| Some(comparison(line)?.ratio),
        ),
        Of::maybe("ratio_low", "The lower end of its interval at 95 %.", NO_RATIO, |line| {
            Some(comparison(line)?.interval.low)
        }),
        Of::maybe("ratio_high", "The upper end of that interval.", NO_RATIO, |line| {
            Some(comparison(line)?.interval.high)
        }),
        Of::maybe(
            "compared_by",
            "`5 blocks` if runs are paired by so many blocks, or `5 and 5 runs` if they are not paired.",
            NO_RATIO,
            |line| Some(comparison(line)?.pairing_text()),
        ),
    ]
}

fn verdict_columns() -> Vec<Of> {
    vec![
        Of::maybe(
            "p_equal",
            "The p-value of *there is no difference*, corrected by Holm for the length of the table.",
            NO_RATIO,
            |line| Some(comparison(line)?.p_equal),
        ),
        Of::maybe(
            "p_beyond_margin",
            "The p-value of *the difference reaches the margin*, corrected in the same way.",
            NO_RATIO,
            |line| Some(comparison(line)?.p_beyond),
        ),
        Of::maybe("verdict", "`faster`, `slower`, `same` or `cannot tell`.", NO_RATIO, |line| {
            Some(comparison(line)?.verdict.as_str())
        }),
        Of::maybe(
            "repeats_to_decide",
            "How many repeats of each side would decide in four of five cases, if the ratio and the scatter are as \
             seen.",
            "the config is decided, or no number of repeats would decide it",
            |line| Some(would(line)?.repeats),
        ),
        Of::maybe("would_be", "The verdict that so many repeats would give.", "the one before is", |line| {
            Some(would(line)?.verdict.as_str())
        }),
        Of::maybe("reason", "Why the config has no ratio.", "it has one", |line| {
            line.result.as_ref().err().cloned()
        }),
    ]
}
