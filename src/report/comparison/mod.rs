//! The files of a comparison: `comparison.csv`, `comparison.md` and a forest plot. The verb `compare` calls it.

pub(super) mod forest;
mod page;
mod words;

use super::{File, RenderError, pictures};
use crate::analysis::table::comparison_table;
use crate::analysis::versus::Versus;

pub use words::{
    apart_text, differences_text, geometric_mean_text, legend, outcome_text, table_header, table_rows,
};

/// The name of the forest plot's files.
const FOREST: &str = "forest";

/// The files. There is no figure if no config has a ratio.
///
/// # Errors
/// The figure cannot be drawn.
pub fn comparison_files(versus: &Versus) -> Result<Vec<File>, RenderError> {
    let mut files = vec![File::text("comparison.csv", comparison_table(versus).csv)];
    // Their numbers are those of `comparison.csv`.
    let svgs = forest::draw(versus);
    let name = |part: usize| if part == 1 { FOREST.to_owned() } else { format!("{FOREST}_{part}") };
    let plots: Vec<(String, &str)> = (1..).map(name).zip(svgs.iter().map(String::as_str)).collect();
    let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
    files.push(File::text("comparison.md", page::page(versus, &names)));
    let pictures = pictures(plots.iter().cloned())?;
    for ((name, svg), picture) in plots.into_iter().zip(pictures) {
        files.extend([File::text(format!("figures/{name}.svg"), svg.to_owned()), picture]);
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
