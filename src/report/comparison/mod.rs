//! The files of a comparison: `comparison.csv`, `comparison.md` and a forest plot. The verb `compare` calls it.

pub(super) mod forest;
mod page;
mod words;

use super::figure::Drawing;
use super::{File, RenderError, figure_files};
use crate::analysis::table::comparison_table;
use crate::analysis::versus::Versus;

pub use words::{differences_text, geometric_mean_text, legend, outcome_text, table_cells, table_header};

/// The name of the forest plot's files.
const FOREST: &str = "forest";

/// The files. There is no figure if no config has a ratio.
///
/// # Errors
/// The figure cannot be drawn.
pub fn comparison_files(versus: &Versus) -> Result<Vec<File>, RenderError> {
    let table = comparison_table(versus);
    let mut files = vec![File::text("comparison.csv", table.csv())];
    let forest = forest::draw(versus);
    files.push(File::text("comparison.md", page::page(versus, forest.is_some())));
    if let Some(svg) = forest {
        let drawing = Drawing { of: String::new(), title: String::new(), svg, numbers: table };
        // Its numbers are those of `comparison.csv`.
        let figure = figure_files(FOREST, &drawing)?;
        files.extend(figure.into_iter().filter(|file| !file.path.ends_with(".csv")));
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
