//! What configs still need, by the marks of their runs: what `plan` cannot know and `run` must not.

use std::collections::BTreeMap;

use super::marked::{sentence, study};
use crate::analysis::judge;
use crate::analysis::marks::Mark;
use crate::job::JobId;
use crate::plan::{Inventory, Judge, Needs, Plan, Worth};

/// What the configs of `plan` still need, by what `inventory` holds.
pub(super) fn needs(plan: &Plan, inventory: &Inventory) -> Needs {
    Needs::judged(plan, inventory, &ByMarks)
}

/// Tells by the marks and the circumstances of runs what they are worth.
#[derive(Debug)]
pub(super) struct ByMarks;

impl Judge for ByMarks {
    fn judge(&self, plan: &Plan, inventory: &Inventory) -> BTreeMap<JobId, Worth> {
        let study = study(plan, inventory, plan.jobs.iter());
        let judged = judge(&study);
        let runs = judged.rows.iter().enumerate().flat_map(|(row, found)| {
            found.runs.iter().map(move |run| {
                let marks: Vec<Mark> = run.left_out_by().cloned().collect();
                let left_out = (!marks.is_empty()).then(|| sentence(&marks));
                (run.cell.job.id(), Worth { row, per_s: run.samples_per_s(), left_out })
            })
        });
        runs.collect()
    }
}
