//! Unusable directories of the store, for `status` and `plan`.

use serde::Serialize;

use crate::plan::Inventory;

/// An unusable directory of the store.
#[derive(Debug, Serialize)]
pub(super) struct ProblemView {
    pub(super) path: String,
    pub(super) message: String,
    /// The remedy, if known.
    pub(super) remedy: Option<String>,
}

impl ProblemView {
    /// All problems of the inventory.
    pub(super) fn all(inventory: &Inventory) -> Vec<ProblemView> {
        let view = |problem: &crate::plan::Problem| ProblemView {
            path: problem.path.display().to_string(),
            message: problem.message.clone(),
            remedy: problem.remedy.clone(),
        };
        inventory.problems.iter().map(view).collect()
    }

    /// A line with the problem, and below it the remedy.
    pub(super) fn text(&self) -> String {
        let remedy = self.remedy.iter().map(|remedy| format!("  {remedy}\n")).collect::<String>();
        format!("unreadable: {}: {}\n{remedy}", self.path, self.message)
    }
}
