//! How the jobs of a run stand, before anything has run and when it is over.

use std::fmt;

use crate::job::{State, Tally};
use crate::plan::{Decided, Decision};

/// How a run ended, or what it finds when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Jobs that were done before, or were finished by another `orchestrate` meanwhile.
    pub done_before: usize,
    /// All other jobs.
    pub tally: Tally,
    /// By what the run was stopped, if it was.
    pub stopped_by: Option<String>,
}

impl Summary {
    /// What a run of `decided` finds when it begins.
    pub fn of(decided: &[Decided]) -> Summary {
        let mut summary = Summary::default();
        for Decided { decision, .. } in decided {
            summary.add(decision.state(), *decision == Decision::Skip);
        }
        summary
    }

    /// Counts one more job in `state`; `done_before`: not by this run.
    pub fn add(&mut self, state: State, done_before: bool) {
        if done_before {
            self.done_before += 1;
        } else {
            self.tally.add(state);
        }
    }

    /// How many jobs are still to be run.
    pub fn left(&self) -> usize {
        self.tally.of(State::Waiting) + self.tally.of(State::Running)
    }

    /// Whether jobs of this host have no result. What does not belong here is another host's.
    pub fn is_short(&self) -> bool {
        let short = State::ALL.iter().filter(|state| match state {
            State::Failed | State::Running | State::Waiting | State::Pruned | State::Blocked => true,
            State::Done | State::Stale | State::NotHere => false,
        });
        short.map(|state| self.tally.of(*state)).sum::<usize>() > 0
    }

    /// Whether every job is done, stale ones among them.
    pub fn is_complete(&self) -> bool {
        let undone = State::ALL.iter().filter(|state| !matches!(state, State::Done | State::Stale));
        undone.map(|state| self.tally.of(*state)).sum::<usize>() == 0
    }

    /// How many jobs there are.
    pub fn jobs(&self) -> usize {
        self.done_before + self.tally.jobs()
    }
}

impl fmt::Display for Summary {
    /// `3 done, 1 failed, 2 done before`: what there is none of is left out.
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
    fn every_state_of_a_run_is_told() {
        let mut summary = Summary::default();
        assert_eq!((summary.to_string().as_str(), summary.is_complete()), ("", true));
        summary.add(State::Done, true);
        summary.add(State::Stale, false);
        assert_eq!((summary.to_string().as_str(), summary.is_complete()), ("1 done before, 1 stale", true));
        assert!(!summary.is_short());
        for state in State::ALL {
            let mut own = Summary::default();
            own.add(*state, false);
            let is_done = matches!(state, State::Done | State::Stale);
            assert_eq!(own.is_short(), !is_done && *state != State::NotHere, "{state:?}");
            summary.add(*state, false);
        }
        assert_eq!(
            summary.to_string(),
            "1 done before, 1 done, 2 stale, 1 failed, 1 running, 1 waiting, 1 not here, 1 pruned, 1 blocked"
        );
        assert_eq!((summary.jobs(), summary.left(), summary.is_complete()), (10, 2, false));
    }
}
