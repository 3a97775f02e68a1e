//! Means over rows with numbers in blocks.

use std::collections::BTreeMap;

use super::centre::mean;
use super::estimate::Estimate;
use super::{MEAN_INTERVAL_NEEDS, TooFew};

/// The mean of the means of `rows`, each number with its block. The blocks are assumed to be independent, the numbers
/// of one block are not: a disturbance of all rows of a block widens the interval. The variance is Liang and Zeger's
/// (1986), times B ÷ (B − 1), with B − 1 degrees of freedom for B blocks. If every row has one number in each block,
/// this is Student's interval of the means of the blocks.
///
/// # Errors
/// There are fewer than [`MEAN_INTERVAL_NEEDS`] blocks, or a row without a number.
pub fn mean_over_blocks<B: Ord + Copy>(rows: &[Vec<(B, f64)>]) -> Result<Estimate, TooFew> {
    let mut blocks: BTreeMap<B, f64> = BTreeMap::new();
    let mut means = Vec::with_capacity(rows.len());
    for row in rows {
        let centre = mean(&row.iter().map(|(_, value)| *value).collect::<Vec<_>>())?;
        means.push(centre);
        for (block, value) in row {
            *blocks.entry(*block).or_default() += (value - centre) / (row.len() * rows.len()) as f64;
        }
    }
    let n = blocks.len();
    if n < MEAN_INTERVAL_NEEDS {
        return Err(TooFew { n, needs: MEAN_INTERVAL_NEEDS });
    }
    let freedom = (n - 1) as f64;
    let variance = n as f64 / freedom * blocks.values().map(|sum| sum.powi(2)).sum::<f64>();
    Ok(Estimate { value: mean(&means)?, standard_error: variance.sqrt(), freedom })
}
