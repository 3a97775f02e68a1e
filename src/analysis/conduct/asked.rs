//! The requested settings, compared with the effective ones that the worker reports.

use super::{Attempted, Remark, Texts, Weight, remark};
use crate::analysis::unconfirmed::unconfirmed_text;
use crate::job::Key;
use crate::protocol::{Measurement, Mismatch};

/// The remarks about settings that differ from the requested ones, and about those that the worker does not confirm.
pub(super) fn remarks(attempted: &Attempted<'_>, measurement: &Measurement) -> Vec<Remark> {
    let key = &attempted.record.key;
    let mismatches = measurement.mismatches(key);
    let mismatches = mismatches.iter().map(|it| match attempted.assumed.contains(&it.setting.as_str()) {
        true => fixed(it),
        false => mismatched(key, it),
    });
    mismatches.chain(measurement.unconfirmed(key).into_iter().map(unconfirmed)).collect()
}

/// The remark about a setting that the worker chooses itself, whatever a matrix declares.
fn fixed(Mismatch { setting, effective, .. }: &Mismatch) -> Remark {
    remark(
        Weight::Doubtful,
        Texts {
            about: &format!("effective.{setting}"),
            what: &format!("`{setting}` is {effective}, and the command does not contain `{{{setting}}}`"),
            change: &format!(
                "put `{{{setting}}}` into the command and obey it, or declare {effective} in every matrix, as \
                 `--{setting} {effective}` does here"
            ),
            loss: "in a matrix with another value, the job fails as `setting_mismatch`",
        },
    )
}

fn mismatched(key: &Key, Mismatch { setting, requested, effective }: &Mismatch) -> Remark {
    let change = match key.worker.is_shipped() || key.worker.asks_for(setting) {
        true => format!("make the worker use the value of `{{{setting}}}`"),
        false => format!("put `{{{setting}}}` into the command and obey it, or declare {effective}"),
    };
    remark(
        Weight::Wrong,
        Texts {
            about: &format!("effective.{setting}"),
            what: &format!("`{setting}` is {effective}, but {requested} was asked for"),
            change: &change,
            loss: "the job fails as `setting_mismatch`, and has no result",
        },
    )
}

fn unconfirmed(name: String) -> Remark {
    remark(
        Weight::Doubtful,
        Texts {
            about: &format!("effective.{name}"),
            what: &unconfirmed_text(std::slice::from_ref(&name)),
            change: "report it under `effective`, read back from what was really done",
            loss: "the job counts, but a report lists the setting as not confirmed",
        },
    )
}
