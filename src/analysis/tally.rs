//! The numbers of jobs with a result and without one, by state.

use super::Run;
use crate::record::Outcome;

/// The numbers of jobs of a study by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Jobs with a result.
    pub done: usize,
    failed: usize,
    interrupted: usize,
    not_run: usize,
    /// Jobs with a file that was changed after the record was written.
    altered: usize,
}

impl Tally {
    /// Counts `runs`.
    pub fn of(runs: &[Run<'_>]) -> Tally {
        let mut tally = Tally { done: 0, failed: 0, interrupted: 0, not_run: 0, altered: 0 };
        for Run { cell, .. } in runs {
            let counted = match cell.record().map(|record| &record.outcome) {
                None if cell.record.as_ref().is_err_and(|none| none.is_altered) => &mut tally.altered,
                None => &mut tally.not_run,
                Some(_) if cell.success().is_some() => &mut tally.done,
                Some(Outcome::Interrupted { .. }) => &mut tally.interrupted,
                Some(_) => &mut tally.failed,
            };
            *counted += 1;
        }
        tally
    }

    /// The states of jobs without a result: `1 failed`, `2 were not run`.
    pub fn undone(self) -> Vec<String> {
        let were = |number: usize| if number == 1 { "was" } else { "were" };
        [
            (self.failed, "failed".to_owned()),
            (self.interrupted, format!("{} interrupted", were(self.interrupted))),
            (self.not_run, format!("{} not run", were(self.not_run))),
            (self.altered, format!("{} a changed file", if self.altered == 1 { "has" } else { "have" })),
        ]
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect()
    }
}
