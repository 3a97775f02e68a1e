//! Two sides of rows: which configs they share, what differs between them, and which cannot be compared. The verb
//! `compare` calls it; what is faster is decided by [`super::compare`].
//!
//! A side is some rows of a study: those of an env, of a value of an axis, of a worker. What has one value on each
//! side, and another one on the other, is what the sides differ in; it is listed and no more asked for. Everything else
//! that is declared has to be equal, so that each config meets the one that differs in nothing but the side.
//!
//! | file | what is in it |
//! |---|---|
//! | `terms` | what is declared about a config, and what of it the sides differ in |
//! | `meet` | the row on the other side, or why there is none |
//! | `apart` | why there is none, in words |
//! | `differences` | what differs between the sides, most common first |
//! | `era` | the rows before and after the last change of the worker |
//! | `line` | a config as every output shows it |

mod apart;
mod differences;
mod era;
mod line;
mod meet;
mod terms;

#[cfg(test)]
mod tests;

pub use apart::Apart;
pub use differences::Difference;
pub use era::{Era, is_same_worker, of_era};
pub use line::{Line, OfSide, Told, ratio_texts};
pub(super) use meet::comparable;

use std::collections::HashSet;

use super::blocks::blocks;
use super::compare::{Comparison, Rate, Settings, Sides, compare};
use super::group::{Row, unit};
use crate::job::Key;
use crate::protocol::SampleUnit;
use crate::record::Record;
use terms::Terms;

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct Side<'r, 'a> {
    /// Its name: what the user typed, or a value of an axis such as `env=gpu`.
    pub name: String,
    /// Its rows.
    pub rows: Vec<&'r Row<'a>>,
}

/// Two sides, compared.
#[derive(Clone, Debug)]
pub struct Versus {
    /// The names of the sides: the one that is compared with, and the one that is compared.
    pub names: [String; 2],
    /// What differs between them beside the throughput.
    pub differences: Vec<Difference>,
    /// Every config of either side: first those that were compared, in the order of the first side.
    pub lines: Vec<Line>,
    /// What the samples are.
    pub unit: SampleUnit,
    /// The comparison of the first lines.
    pub comparison: Comparison,
    /// What each of these is on the first side.
    pub keys: Vec<Key>,
}

/// Two sides that must not be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Every config would be another network.
    #[error("the sides train different networks: {from} and {to}")]
    Networks {
        /// The network of the first side.
        from: String,
        /// That of the second.
        to: String,
    },
    /// A run is on both sides.
    #[error("both sides have the same runs, such as {label}")]
    SameRuns {
        /// The label of such a run.
        label: String,
    },
}

/// Compares `to` with `from`, two sides that a user typed.
///
/// # Errors
/// The sides train different networks throughout, or have runs in common.
pub fn versus(from: &Side<'_, '_>, to: &Side<'_, '_>, settings: Settings) -> Result<Versus, Refused> {
    compared(from, to, settings, Apart::of_typed_sides)
}

/// Compares two sides that nobody typed: reasons call them by their names.
///
/// # Errors
/// As of [`versus`].
pub(super) fn versus_by_name(
    from: &Side<'_, '_>,
    to: &Side<'_, '_>,
    settings: Settings,
) -> Result<Versus, Refused> {
    let names = [from.name.clone(), to.name.clone()];
    compared(from, to, settings, |apart| apart.of_named_sides(&names))
}

/// The comparison. `reason` puts into words why a config is not compared.
fn compared(
    from: &Side<'_, '_>,
    to: &Side<'_, '_>,
    settings: Settings,
    reason: impl Fn(&Apart) -> String,
) -> Result<Versus, Refused> {
    refuse_same_runs(from, to)?;
    let terms = Terms::of(&from.rows, &to.rows);
    if let Some((_, from, to)) = terms.differing.iter().find(|(name, ..)| name == terms::MODEL) {
        return Err(Refused::Networks { from: from.clone(), to: to.clone() });
    }
    let (pairs, apart) = meet::meet(&terms, &from.rows, &to.rows);
    let rows: Vec<[&Row<'_>; 2]> = pairs.iter().map(|pair| [pair.from, pair.to]).collect();
    let comparison = compare(&rates(&rows), settings);
    let met = pairs.iter().enumerate().map(|(index, pair)| Line::compared(pair, &comparison, index));
    let alone = apart.into_iter().map(|(config, why)| Line::apart(config, why.is_unknown(), reason(&why)));
    let lines = met.chain(alone).collect();
    Ok(Versus {
        names: [from.name.clone(), to.name.clone()],
        differences: differences::differences(&terms, &pairs),
        lines,
        keys: rows.iter().map(|[from, _]| from.config.clone()).collect(),
        unit: unit(rows.into_iter().flatten()),
        comparison,
    })
}

fn refuse_same_runs(from: &Side<'_, '_>, to: &Side<'_, '_>) -> Result<(), Refused> {
    let identity = |record: &Record| (record.id, record.attempt, record.started_at);
    let ours: HashSet<_> = from.rows.iter().flat_map(|row| records(row)).map(identity).collect();
    match to.rows.iter().flat_map(|row| records(row)).find(|record| ours.contains(&identity(record))) {
        Some(record) => Err(Refused::SameRuns { label: record.label.clone() }),
        None => Ok(()),
    }
}

/// The records of the runs of `row` that count.
fn records<'r>(row: &'r Row<'_>) -> impl Iterator<Item = &'r Record> {
    row.runs.iter().filter(|run| run.counts()).filter_map(|run| Some(run.cell.success()?.0))
}

/// The throughputs of each pair of rows, with the blocks that all of them make together.
pub(super) fn rates(pairs: &[[&Row<'_>; 2]]) -> Vec<Sides> {
    let all: Vec<&Record> = pairs.iter().flatten().flat_map(|row| records(row)).collect();
    let mut blocks = blocks(&all).into_iter();
    let mut side = |row: &Row<'_>| -> Vec<Rate> {
        let counting = row.runs.iter().filter(|run| run.counts());
        counting
            .filter_map(|run| run.samples_per_s())
            .map(|per_s| Rate { per_s, block: blocks.next() })
            .collect()
    };
    pairs.iter().map(|[from, to]| Sides { from: side(from), to: side(to) }).collect()
}
