//! The further runs that configs need according to the marks of their runs. Neither `plan` nor `run` may judge marks.

use std::collections::BTreeMap;

use super::marked::{sentence, study};
use crate::analysis::judge;
use crate::analysis::marks::Mark;
use crate::job::JobId;
use crate::plan::{Inventory, Judge, Needs, Plan, Worth};

/// The further needs of the configs of `plan`, given the results in `inventory`.
pub(super) fn needs(plan: &Plan, inventory: &Inventory) -> Needs {
    Needs::judged(plan, inventory, &ByMarks)
}

/// Judges runs by their marks and circumstances.
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
