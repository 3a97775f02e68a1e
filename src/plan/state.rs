//! The states of jobs and their reasons, from the store and the decisions, for every verb.

use super::{Decided, Decision, NotDone, Standing, changes_text};
use crate::job::{Job, Kind, State};

impl Decision {
    /// The state that follows from the decision alone. A job that will run is waiting.
    pub fn state(&self) -> State {
        match self {
            Decision::Run(_) | Decision::Rerun { .. } | Decision::Replace { .. } => State::Waiting,
            Decision::IfNeeded { .. } => State::IfNeeded,
            Decision::NotNeeded { .. } => State::NotNeeded,
            Decision::Skip => State::Done,
            Decision::Stale { .. } => State::Stale,
            Decision::Pruned { .. } => State::Pruned,
            Decision::Blocked { .. } => State::Blocked,
            Decision::NotHere { .. } => State::NotHere,
        }
    }

    /// Its name in JSON: `run`, or the state of a job that does not run.
    pub fn name(&self) -> &'static str {
        if self.runs() { "run" } else { self.state().name() }
    }

    /// Its name in tables.
    pub fn text(&self) -> &'static str {
        if self.runs() { "run" } else { self.state().text() }
    }

    /// The reason, as a sentence or phrase; for a stale job, what changed; `None` if it is done.
    pub fn why(&self) -> Option<String> {
        match self {
            Decision::Run(not_done) => Some(not_done.to_string()),
            Decision::Skip => None,
            Decision::Stale { changes } => Some(changes_text(changes)),
            Decision::Rerun { why }
            | Decision::Replace { why }
            | Decision::IfNeeded { why }
            | Decision::NotNeeded { why }
            | Decision::Pruned { why }
            | Decision::Blocked { why }
            | Decision::NotHere { why } => Some(why.clone()),
        }
    }
}

/// Whether verbs list and count `job` in this `state`. Jobs that profile operators are hidden if their worker does not
/// report that it can do so.
pub fn is_listed(job: &Job, state: State) -> bool {
    job.key().kind != Kind::Ops || state != State::NotNeeded
}

impl Decided {
    /// Whether verbs list and count its job: [`is_listed`].
    pub fn is_listed(&self) -> bool {
        is_listed(&self.job, self.decision.state())
    }
}

/// The state of a job with this `standing` in the store (`None` if it has no directory) and this `decision`.
///
/// A failed job counts as failed, regardless of the decision. The outcome's policy has two exceptions: an interrupted
/// job has not failed, and an unsupported one is not here.
pub fn state(standing: Option<&Standing>, decision: &Decision) -> State {
    match (standing, decision) {
        (_, Decision::Run(NotDone::Running)) | (Some(Standing::NotDone(NotDone::Running)), _) => {
            State::Running
        }
        (Some(Standing::NotDone(NotDone::Failed(record))), _) => match record.outcome.policy().leaves {
            leaves @ (State::Failed | State::NotHere) => leaves,
            State::Waiting
            | State::IfNeeded
            | State::NotNeeded
            | State::Done
            | State::Stale
            | State::Running
            | State::Pruned
            | State::Blocked => decision.state(),
        },
        (Some(Standing::Done(_)), Decision::Stale { .. }) => State::Stale,
        (Some(Standing::Done(_)), _) => State::Done,
        (Some(Standing::NotDone(_)) | None, _) => decision.state(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::record::{Outcome, testing::record};

    fn decisions() -> Vec<Decision> {
        let why = || "why".to_owned();
        vec![
            Decision::Run(NotDone::NeverRan),
            Decision::Rerun { why: why() },
            Decision::Skip,
            Decision::Stale { changes: Vec::new() },
            Decision::Pruned { why: why() },
            Decision::Blocked { why: why() },
            Decision::NotHere { why: why() },
            Decision::Replace { why: why() },
            Decision::IfNeeded { why: why() },
            Decision::NotNeeded { why: why() },
        ]
    }

    fn failed(outcome: Outcome) -> Standing {
        Standing::NotDone(NotDone::Failed(Arc::new(record(1, outcome))))
    }

    #[test]
    fn a_decision_is_named_by_the_state_of_the_job_or_run() {
        let names: Vec<&str> = decisions().iter().map(Decision::name).collect();
        assert_eq!(
            names,
            [
                "run",
                "run",
                "done",
                "stale",
                "pruned",
                "blocked",
                "not_here",
                "run",
                "if_needed",
                "not_needed"
            ]
        );
        assert_eq!(decisions()[6].text(), "not here");
        let without_why: Vec<bool> = decisions().iter().map(|decision| decision.why().is_none()).collect();
        assert_eq!(without_why.iter().filter(|lacks| **lacks).count(), 1);
        assert!(without_why[2], "a done job needs no reason");
    }

    /// The expected states, in the order of [`decisions`], by the outcome of the last attempt.
    #[test]
    fn failures_stay_failed_unless_interrupted_or_unsupported_here() {
        let states = |outcome: Outcome| -> BTreeSet<State> {
            let standing = failed(outcome);
            decisions().iter().map(|decision| state(Some(&standing), decision)).collect()
        };
        let message = || "why".to_owned();
        assert_eq!(states(Outcome::Signalled { signal: 11 }), BTreeSet::from([State::Failed]));
        assert_eq!(states(Outcome::Unsupported { message: message() }), BTreeSet::from([State::NotHere]));
        let own: BTreeSet<State> = decisions().iter().map(Decision::state).collect();
        assert_eq!(states(Outcome::Interrupted { message: message() }), own);
    }

    #[test]
    fn locked_jobs_are_running_and_successful_ones_done() {
        let running = Standing::NotDone(NotDone::Running);
        let done = Standing::Done(Arc::new(record(1, Outcome::Succeeded)));
        for decision in decisions() {
            assert_eq!(state(Some(&running), &decision), State::Running, "{decision:?}");
            assert_eq!(state(None, &decision), decision.state());
            let expected =
                if matches!(decision, Decision::Stale { .. }) { State::Stale } else { State::Done };
            assert_eq!(state(Some(&done), &decision), expected, "{decision:?}");
        }
        assert_eq!(state(Some(&done), &Decision::Run(NotDone::Running)), State::Running, "a re-run");
    }
}
