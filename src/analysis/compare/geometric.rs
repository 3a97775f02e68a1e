//! The geometric mean of the ratios of all configs.

use super::pairing::{differences, is_paired};
use super::{Comparison, Rate, Sides};
use crate::stats::{Estimate, TooFew, mean_over_blocks};

/// The log of the geometric mean for these configs; its error is that of the measurement. Paired if all configs are;
/// the interval then includes disturbances of a block in every config. Otherwise both sides are estimated separately,
/// each with its blocks.
///
/// # Errors
/// There are too few blocks.
pub(super) fn geometric_mean(table: &[&Sides]) -> Result<Estimate, TooFew> {
    if !table.is_empty() && table.iter().all(|sides| is_paired(sides)) {
        return mean_over_blocks(&table.iter().map(|sides| differences(sides)).collect::<Vec<_>>());
    }
    let side = |rates: fn(&Sides) -> &Vec<Rate>| {
        let rows: Vec<_> =
            table.iter().enumerate().map(|(config, sides)| keyed(config, rates(sides))).collect();
        mean_over_blocks(&rows)
    };
    Ok(side(|sides| &sides.to)?.less(side(|sides| &sides.from)?))
}

impl Comparison {
    /// The log of the geometric mean of the ratios of the `configs` at these places, each of which has one.
    ///
    /// # Errors
    /// They share too few blocks.
    pub fn mean_of(&self, configs: &[usize]) -> Result<Estimate, TooFew> {
        geometric_mean(&configs.iter().map(|place| &self.table[*place]).collect::<Vec<_>>())
    }
}

/// The unit that is assumed to be independent of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Block {
    /// A block, by its number.
    Shared(usize),
    /// A run without a block, by its config and its place there.
    Alone(usize, usize),
}

/// The logs with their blocks.
fn keyed(config: usize, rates: &[Rate]) -> Vec<(Block, f64)> {
    let key = |index: usize, rate: &Rate| rate.block.map_or(Block::Alone(config, index), Block::Shared);
    rates.iter().enumerate().map(|(index, rate)| (key(index, rate), rate.per_s.ln())).collect()
}
