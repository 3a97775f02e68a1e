//! Directories of the store that say nothing usable, as `status` and `plan` show them.

use serde::Serialize;

use crate::plan::Inventory;

/// A directory of the store that says nothing usable.
#[derive(Debug, Serialize)]
pub(super) struct ProblemView {
    pub(super) path: String,
    pub(super) message: String,
    /// What to do about it, if there is one thing to do.
    pub(super) remedy: Option<String>,
}

impl ProblemView {
    /// All that there are.
    pub(super) fn all(inventory: &Inventory) -> Vec<ProblemView> {
        let view = |problem: &crate::plan::Problem| ProblemView {
            path: problem.path.display().to_string(),
            message: problem.message.clone(),
            remedy: problem.remedy.clone(),
        };
        inventory.problems.iter().map(view).collect()
    }

    /// The problem in a line, and what to do about it below.
    pub(super) fn text(&self) -> String {
        let remedy = self.remedy.iter().map(|remedy| format!("  {remedy}\n")).collect::<String>();
        format!("unreadable: {}: {}\n{remedy}", self.path, self.message)
    }
}
