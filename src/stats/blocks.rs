//! Effects of blocks: runs that were made together share temporary slowdowns.

use super::estimate::Estimate;

/// A number with its row and its block, each counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The row.
    pub row: usize,
    /// The block.
    pub block: usize,
    /// The number.
    pub value: f64,
}

/// The reason why block effects cannot be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEffects {
    /// Some blocks are not connected by common rows, directly or through others.
    #[error("the blocks cannot be compared: they are not connected by common rows")]
    Apart,
    /// There are no degrees of freedom to separate scatter from effects.
    #[error("too few runs: as many rows and blocks as numbers")]
    NoScatter,
}

/// The distance of each block from the mean of the blocks, by least squares on value = row + block + scatter. Rows need
/// not have a number in each block. On logs, an effect of −0.04 is "4 % slower throughout".
///
/// # Errors
/// The blocks are not connected, or no degrees of freedom are left.
pub fn block_effects(cells: &[Cell]) -> Result<Vec<Estimate>, NoEffects> {
    let rows = by_row(cells);
    let blocks = cells.iter().map(|cell| cell.block + 1).max().unwrap_or(0);
    let used = rows.iter().filter(|row| !row.is_empty()).count();
    if cells.is_empty() || cells.len() < used + blocks {
        return Err(NoEffects::NoScatter);
    }
    let freedom = (cells.len() + 1 - used - blocks) as f64;
    let (matrix, right) = normal_equations(&rows, blocks);
    let inverse = inverse(matrix).ok_or(NoEffects::Apart)?;
    let effects: Vec<f64> = inverse.iter().map(|row| dot(row, &right)).collect();
    let residuals = rows.iter().map(|row| {
        let left: Vec<f64> = row.iter().map(|cell| cell.value - effects[cell.block]).collect();
        let centre = left.iter().sum::<f64>() / left.len().max(1) as f64;
        left.iter().map(|value| (value - centre).powi(2)).sum::<f64>()
    });
    let variance = residuals.sum::<f64>() / freedom;
    let estimates = effects.iter().enumerate().map(|(block, &value)| {
        let scale = (inverse[block][block] - 1.0 / blocks as f64).max(0.0);
        Estimate { value, standard_error: (variance * scale).sqrt(), freedom }
    });
    Ok(estimates.collect())
}

fn by_row(cells: &[Cell]) -> Vec<Vec<Cell>> {
    let mut rows = vec![Vec::new(); cells.iter().map(|cell| cell.row + 1).max().unwrap_or(0)];
    for cell in cells {
        rows[cell.row].push(*cell);
    }
    rows
}

/// The equations of the effects after the rows are eliminated. 1 ÷ blocks in every place makes the effects sum to 0.
fn normal_equations(rows: &[Vec<Cell>], blocks: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut matrix = vec![vec![1.0 / blocks as f64; blocks]; blocks];
    let mut right = vec![0.0; blocks];
    for row in rows {
        let n = row.len() as f64;
        let centre = row.iter().map(|cell| cell.value).sum::<f64>() / n;
        for cell in row {
            right[cell.block] += cell.value - centre;
            matrix[cell.block][cell.block] += 1.0;
            for other in row {
                matrix[cell.block][other.block] -= 1.0 / n;
            }
        }
    }
    (matrix, right)
}

/// The inverse, by Gauss and Jordan with the largest pivot of a column; `None` if there is none.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    for (index, row) in matrix.iter_mut().enumerate() {
        row.extend((0..n).map(|column| f64::from(u8::from(column == index))));
    }
    for column in 0..n {
        let pivot =
            (column..n).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        matrix.swap(column, pivot);
        let head = matrix[column][column];
        if head.abs() < 1e-9 {
            return None;
        }
        matrix[column].iter_mut().for_each(|value| *value /= head);
        let top = matrix[column].clone();
        for (_, row) in matrix.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            let factor = row[column];
            row.iter_mut().zip(&top).for_each(|(value, top)| *value -= factor * top);
        }
    }
    Some(matrix.into_iter().map(|row| row[n..].to_vec()).collect())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
