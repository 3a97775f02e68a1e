//! What was asked for, compared with what the worker says that it did.

use super::{Attempted, Remark, Weight, remark};
use crate::analysis::unconfirmed::unconfirmed_text;
use crate::job::Key;
use crate::protocol::{Measurement, Mismatch};

/// The remarks about settings that are not as asked, and about those that nobody confirms.
pub(super) fn remarks(attempted: &Attempted<'_>, measurement: &Measurement) -> Vec<Remark> {
    let key = &attempted.record.key;
    let mismatches = measurement.mismatches(key);
    let mismatches = mismatches.iter().map(|it| match attempted.assumed.contains(&it.setting.as_str()) {
        true => fixed(it),
        false => mismatched(key, it),
    });
    mismatches.chain(measurement.unconfirmed(key).into_iter().map(unconfirmed)).collect()
}

/// A setting that the worker chooses itself, whatever a matrix says.
fn fixed(Mismatch { setting, effective, .. }: &Mismatch) -> Remark {
    remark(
        Weight::Doubtful,
        [
            &format!("effective.{setting}"),
            &format!("`{setting}` is {effective}, and the command does not hold `{{{setting}}}`"),
            &format!(
                "put `{{{setting}}}` into the command and obey it, or declare {effective} in every matrix, as \
                 `--{setting} {effective}` does here"
            ),
            "in a matrix with another value, the job fails as `setting_mismatch`",
        ],
    )
}

fn mismatched(key: &Key, Mismatch { setting, requested, effective }: &Mismatch) -> Remark {
    let change = match key.worker.is_shipped() || key.worker.asks_for(setting) {
        true => format!("make the worker do what `{{{setting}}}` tells it"),
        false => format!("put `{{{setting}}}` into the command and obey it, or declare {effective}"),
    };
    remark(
        Weight::Wrong,
        [
            &format!("effective.{setting}"),
            &format!("`{setting}` is {effective}, but {requested} was asked for"),
            &change,
            "the job fails as `setting_mismatch`, and has no result",
        ],
    )
}

fn unconfirmed(name: String) -> Remark {
    remark(
        Weight::Doubtful,
        [
            &format!("effective.{name}"),
            &unconfirmed_text(std::slice::from_ref(&name)),
            "report it under `effective`, read back from what was really done",
            "the job counts, but a report says that nobody knows whether the worker obeyed",
        ],
    )
}
