//! The columns of `axes.csv`, and of the tables behind its forest plots.

use crate::analysis::axes::Effect;
use crate::analysis::column::{Column, Columns, list, of};
use crate::analysis::compare::Verdict;
use crate::analysis::source::Source;
use crate::stats::Interval;

const NO_MEAN: &str = "no config has a ratio, or they share too few blocks";
const NO_RATIO: &str = "no config has a ratio";

type Of<'a> = Column<&'a Effect>;

/// Which value is compared with which.
fn axis<'a>() -> [Of<'a>; 3] {
    [
        Of::known("axis", "The axis: `env`, `precision`, or a parameter.", |it| it.axis.clone()),
        Of::known("reference", "The value that is compared with.", |it| it.reference.clone()),
        Of::known("value", "The value that is compared.", |it| it.value.clone()),
    ]
}

/// The columns that the lines of a plot have in front of those of a comparison.
pub(in crate::analysis) fn axis_columns<'a>() -> Columns<&'a Effect> {
    Columns::plain(of(Source::Matrix, axis()))
}

/// Every column of `axes.csv`.
pub(in crate::analysis) fn effect_columns<'a>() -> Columns<&'a Effect> {
    let columns = of(Source::Matrix, axis()).into_iter();
    Columns::plain(columns.chain(of(Source::Computed, ratios().into_iter().chain(verdicts()))).collect())
}

fn ratios<'a>() -> Vec<Of<'a>> {
    let interval = |it: &&Effect| -> Option<Interval> { Some(it.ratio()?.1) };
    vec![
        Of::known("configs", "Configs that have a ratio.", |it| it.comparisons().count()),
        Of::known("configs_apart", "Configs of either side that have none.", |it| {
            it.versus.lines.len() - it.comparisons().count()
        }),
        Of::maybe(
            "ratio",
            "The geometric mean of the ratios of throughputs, `value` ÷ `reference`; of one config, its ratio.",
            NO_MEAN,
            |it| Some(it.ratio()?.0),
        ),
        Of::maybe("ratio_low", "The lower end of its interval at 95 %.", NO_MEAN, move |it| {
            Some(interval(it)?.low)
        }),
        Of::maybe("ratio_high", "The upper end of it.", NO_MEAN, move |it| Some(interval(it)?.high)),
        Of::maybe("least_ratio", "The least ratio of a config.", NO_RATIO, |it| Some(it.range()?[0])),
        Of::maybe("greatest_ratio", "The greatest ratio of a config.", NO_RATIO, |it| Some(it.range()?[1])),
        Of::known(
            "configs_disagree",
            "Whether the configs do not have one ratio, so that `ratio` is none of them.",
            |it| it.disagreement.is_some(),
        ),
        Of::maybe(
            "depends_on",
            "What explains the differences of configs that disagree: `env`, `model`, `precision`, `batch`, or a parameter.",
            "they agree, or nothing explains it",
            |it| Some(it.disagreement.as_ref()?.by.as_ref()?.0.clone()),
        ),
    ]
}

fn verdicts<'a>() -> Vec<Of<'a>> {
    let count = |name, meaning, verdict| Of::known(name, meaning, move |it: &&Effect| it.count(verdict));
    vec![
        count("configs_faster", "Configs that are faster with `value`, as `compare` says.", Verdict::Faster),
        count("configs_slower", "Configs that are slower.", Verdict::Slower),
        count("configs_same", "Configs that are the same.", Verdict::Same),
        count("configs_cannot_tell", "Configs whose verdict is `cannot tell`.", Verdict::CannotTell),
        Of::known("other_differences", "What else differs between the sides.", |it| {
            list(it.other_differences())
        }),
    ]
}
