//! Counts the jobs of a run by state, when it begins and when it is over.

use std::fmt;

use crate::job::{State, Tally};
use crate::plan::{Decided, Decision};

/// The jobs of a run by state, when it begins or when it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Jobs that were done before the run, or that another `orchestrate` finished meanwhile.
    pub done_before: usize,
    /// All other jobs.
    pub tally: Tally,
    /// The signal that stopped the run, if one did.
    pub stopped_by: Option<String>,
    /// Jobs that were stopped individually, while the run continued.
    pub stopped_alone: usize,
}

impl Summary {
    /// The state of the jobs when a run of `decided` begins.
    pub fn of(decided: &[Decided]) -> Summary {
        let mut summary = Summary::default();
        for Decided { decision, .. } in decided.iter().filter(|decided| decided.is_listed()) {
            summary.add(decision.state(), *decision == Decision::Skip);
        }
        summary
    }

    /// Counts one more job in `state`. If `done_before`, this run did not do it.
    pub fn add(&mut self, state: State, done_before: bool) {
        if done_before {
            self.done_before += 1;
        } else {
            self.tally.add(state);
        }
    }

    /// The number of jobs that are still waiting or running, or that might still be needed.
    pub fn left(&self) -> usize {
        [State::Waiting, State::IfNeeded, State::Running].map(|state| self.tally.of(state)).iter().sum()
    }

    /// Whether jobs of this host have no result. Jobs of other hosts do not count.
    pub fn is_short(&self) -> bool {
        let short = State::ALL.iter().filter(|state| match state {
            State::Failed
            | State::Running
            | State::Waiting
            | State::IfNeeded
            | State::Pruned
            | State::Blocked => true,
            State::Done | State::Stale | State::NotNeeded | State::NotHere => false,
        });
        short.map(|state| self.tally.of(*state)).sum::<usize>() > 0
    }

    /// Whether every job is done, stale ones among them, or not needed.
    pub fn is_complete(&self) -> bool {
        let undone =
            State::ALL.iter().filter(|state| !matches!(state, State::Done | State::Stale | State::NotNeeded));
        undone.map(|state| self.tally.of(*state)).sum::<usize>() == 0
    }

    /// The total number of jobs.
    pub fn jobs(&self) -> usize {
        self.done_before + self.tally.jobs()
    }
}

impl fmt::Display for Summary {
    /// `2 done before, 3 done, 1 failed`; counts of 0 are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = (self.done_before > 0).then(|| format!("{} done before", self.done_before));
        let tally = (self.tally.jobs() > 0).then(|| self.tally.to_string());
        let parts: Vec<String> = before.into_iter().chain(tally).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_counted_and_named() {
        let mut summary = Summary::default();
        assert_eq!((summary.to_string().as_str(), summary.is_complete()), ("", true));
        summary.add(State::Done, true);
        summary.add(State::Stale, false);
        assert_eq!((summary.to_string().as_str(), summary.is_complete()), ("1 done before, 1 stale", true));
        assert!(!summary.is_short());
        for state in State::ALL {
            let mut own = Summary::default();
            own.add(*state, false);
            let is_done = matches!(state, State::Done | State::Stale | State::NotNeeded);
            assert_eq!(own.is_short(), !is_done && *state != State::NotHere, "{state:?}");
            summary.add(*state, false);
        }
        assert_eq!(
            summary.to_string(),
            "1 done before, 1 done, 2 stale, 1 failed, 1 running, 1 waiting, 1 if needed, 1 not needed, \
             1 not here, 1 pruned, 1 blocked"
        );
        assert_eq!((summary.jobs(), summary.left(), summary.is_complete()), (12, 3, false));
    }
}
