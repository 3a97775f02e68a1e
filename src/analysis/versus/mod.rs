//! The comparison of two sides of rows, for the verb `compare` and for the axes of a report: [`versus`] returns a
//! [`Versus`] with one [`Line`] per config. It pairs the configs; [`super::compare`] decides which side is faster.
//!
//! A side is some rows of a study, such as those of an env or of a worker. A term that has one value on one side and
//! another one on the other is a difference between the sides: it is listed, and ignored when configs are matched. All
//! other declared terms must be equal. With the sides `compile=false` and `compile=true`, the row
//! `resnet18 fp32 bs16 compile=false` is compared with `resnet18 fp32 bs16 compile=true`.
//!
//! | file | contents |
//! |---|---|
//! | `terms` | the declared terms of a config, and those in which the sides differ |
//! | `meet` | pairs each row with that of the other side |
//! | `apart` | the reasons why a config is not compared |
//! | `differences` | the differences between the sides, the most common first |
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

pub use apart::NotCompared;
pub use differences::Difference;
pub use era::{Era, is_same_worker, of_era};
pub use line::{ConfigComparison, Line, OfSide, ratio_texts};
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
    /// The text that the user typed, or a value of an axis such as `env=gpu`.
    pub name: String,
    /// The rows of the side.
    pub rows: Vec<&'r Row<'a>>,
}

/// Two sides, compared.
#[derive(Clone, Debug)]
pub struct Versus {
    /// The names of the sides: the baseline, and the side that is compared with it.
    pub names: [String; 2],
    /// The differences between the sides other than the throughput.
    pub differences: Vec<Difference>,
    /// Every config of either side: first the compared ones, in the order of the first side.
    pub lines: Vec<Line>,
    /// The unit of the samples.
    pub unit: SampleUnit,
    /// The comparison of the compared configs, in the order of `lines`.
    pub comparison: Comparison,
    /// The keys of the compared configs on the first side.
    pub keys: Vec<Key>,
}

/// Why two sides must not be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Each side has one network, and the two differ.
    #[error("the sides train different networks: {from} and {to}")]
    Networks {
        /// The network of the first side.
        from: String,
        /// The network of the second side.
        to: String,
    },
    /// A run is on both sides.
    #[error("both sides have the same runs, such as {label}")]
    SameRuns {
        /// The label of such a run.
        label: String,
    },
}

/// Compares the side `to` with the baseline `from`. Reasons call them the first and the second side.
///
/// # Errors
/// The sides train different networks throughout, or have runs in common.
pub fn versus(from: &Side<'_, '_>, to: &Side<'_, '_>, settings: Settings) -> Result<Versus, Refused> {
    compared(from, to, settings, NotCompared::text_by_position)
}

/// [`versus`] for sides that no user typed: reasons call them by their names.
///
/// # Errors
/// See [`versus`].
pub(super) fn versus_by_name(
    from: &Side<'_, '_>,
    to: &Side<'_, '_>,
    settings: Settings,
) -> Result<Versus, Refused> {
    let names = [from.name.clone(), to.name.clone()];
    compared(from, to, settings, |why| why.text_by_name(&names))
}

/// Compares two sides. `reason` formats why a config is not compared.
fn compared(
    from: &Side<'_, '_>,
    to: &Side<'_, '_>,
    settings: Settings,
    reason: impl Fn(&NotCompared) -> String,
) -> Result<Versus, Refused> {
    refuse_same_runs(from, to)?;
    let terms = Terms::of(&from.rows, &to.rows);
    if let Some((_, from, to)) = terms.differing.iter().find(|(name, ..)| name == terms::MODEL) {
        return Err(Refused::Networks { from: from.clone(), to: to.clone() });
    }
    let (pairs, unpaired) = meet::pair_rows(&terms, &from.rows, &to.rows);
    let rows: Vec<[&Row<'_>; 2]> = pairs.iter().map(|pair| [pair.from, pair.to]).collect();
    let comparison = compare(&rates(&rows), settings);
    let paired = pairs.iter().enumerate().map(|(index, pair)| Line::compared(pair, &comparison, index));
    let not_compared =
        |(config, why): (String, NotCompared)| Line::not_compared(config, why.is_unknown(), reason(&why));
    let lines = paired.chain(unpaired.into_iter().map(not_compared)).collect();
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

/// The throughputs of each pair of rows, in samples per second, with their blocks. Blocks are formed over all rows.
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
