//! What follows from each outcome, as one table: its name, what it means, and what `orchestrate` does about it.

use super::Outcome;
use crate::job::State;

/// What follows from an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its name in `record.json` and in the CSV files.
    pub name: &'static str,
    /// What it means, as a sentence.
    pub meaning: &'static str,
    /// What a user can do about it, in a few words.
    pub advice: &'static str,
    /// How the job stands after it, unless an earlier success still counts.
    pub leaves: State,
    /// Whether another attempt in the same run is worth it. What follows from the job itself and the host (too little
    /// memory, a device that does not exist, settings that the worker does not honour) would only be seen again.
    pub retry: bool,
    /// Whether it counts against an earlier success of the job: then a re-run that ends so replaces that success.
    /// An attempt that was interrupted, did not start, is unsupported here or was not profiled says nothing of the job.
    pub verdict: bool,
    /// Whether larger batches of the same config need not be tried on this host.
    pub prunes: bool,
    /// Whether the worker was started. If not one job of a run can be started, the run ends.
    pub started: bool,
    /// Whether a profiler that refuses its work can make a worker seem to end like this.
    pub by_profiler: bool,
}

/// Gives every outcome its policy, and lists them all: an outcome that is missing here does not compile.
macro_rules! policies {
    ($($outcome:ident => $policy:expr;)+) => {
        impl Outcome {
            /// The policies of all outcomes.
            pub const POLICIES: &[Policy] = &[$($policy),+];

            /// What follows from it.
            pub fn policy(&self) -> &'static Policy {
                match self {
                    $(Outcome::$outcome { .. } => &$policy,)+
                }
            }
        }
    };
}

policies! {
    Succeeded => Policy {
        name: "succeeded",
        meaning: "The worker exited with 0 and left a sound measurement of what was asked for.",
        advice: "–",
        leaves: State::Done, retry: false, verdict: true, prunes: false, started: true, by_profiler: false,
    };
    Exited => Policy {
        name: "exited",
        meaning: "The worker exited with a code other than 0.",
        advice: "`orchestrate logs JOB` prints its words.",
        leaves: State::Failed, retry: true, verdict: true, prunes: false, started: true, by_profiler: true,
    };
    Signalled => Policy {
        name: "signalled",
        meaning: "A signal that `orchestrate` did not send killed the worker.",
        advice: "`orchestrate logs JOB`; for SIGKILL, `dmesg`.",
        leaves: State::Failed, retry: true, verdict: true, prunes: false, started: true, by_profiler: false,
    };
    TimedOut => Policy {
        name: "timed_out",
        meaning: "The worker ran past its time limit and was stopped.",
        advice: "Raise `limits.timeout`, or lower `iters`.",
        leaves: State::Failed, retry: true, verdict: true, prunes: false, started: true, by_profiler: false,
    };
    OutOfMemory => Policy {
        name: "out_of_memory",
        meaning: "The device or the host had too little memory.",
        advice: "Use smaller batches, or `exclude` the larger ones.",
        leaves: State::Failed, retry: false, verdict: true, prunes: true, started: true, by_profiler: false,
    };
    FailedToSpawn => Policy {
        name: "failed_to_spawn",
        meaning: "The worker could not be started.",
        advice: "Check the first word of the command.",
        leaves: State::Failed, retry: false, verdict: false, prunes: false, started: false, by_profiler: true,
    };
    BadOutput => Policy {
        name: "bad_output",
        meaning: "The worker exited with 0, but its measurement is missing or unusable.",
        advice: "Compare its `measurement.json` with the manual.",
        leaves: State::Failed, retry: true, verdict: true, prunes: false, started: true, by_profiler: true,
    };
    SettingMismatch => Policy {
        name: "setting_mismatch",
        meaning: "The worker ran with settings other than those asked for.",
        advice: "`orchestrate show JOB` prints both sides.",
        leaves: State::Failed, retry: false, verdict: true, prunes: false, started: true, by_profiler: false,
    };
    Interrupted => Policy {
        name: "interrupted",
        meaning: "The user or the system stopped it.",
        advice: "`orchestrate resume`",
        leaves: State::Waiting, retry: false, verdict: false, prunes: false, started: true, by_profiler: false,
    };
    Unsupported => Policy {
        name: "unsupported",
        meaning: "The device, precision or network does not exist here.",
        advice: "Run it on another machine.",
        leaves: State::NotHere, retry: false, verdict: false, prunes: false, started: true, by_profiler: false,
    };
    NotProfiled => Policy {
        name: "not_profiled",
        meaning: "The profiler of a profiled job did not work, whatever the worker did.",
        advice: "Its reason names a remedy.",
        leaves: State::Failed, retry: false, verdict: false, prunes: false, started: true, by_profiler: false,
    };
}

impl Outcome {
    /// Its name in `record.json` and in the CSV files.
    pub fn kind(&self) -> &'static str {
        self.policy().name
    }

    /// Whether the job is done.
    pub fn is_success(&self) -> bool {
        self.policy().leaves == State::Done
    }

    /// The manual's table: one row per outcome.
    pub fn markdown() -> String {
        let retried = |retry| if retry { "yes" } else { "no" };
        let row = |policy: &Policy| {
            let Policy { name, meaning, advice, leaves, retry, .. } = policy;
            format!("| `{name}` | {meaning} | {} | {} | {advice} |\n", leaves.text(), retried(*retry))
        };
        let header = "| outcome | meaning | the job is | retried | what to do |\n|---|---|---|---|---|\n";
        format!("{header}{}", Outcome::POLICIES.iter().map(row).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What records on disk rely on. A name may be added, but never changed.
    const PROMISED: &[&str] = &[
        "succeeded",
        "exited",
        "signalled",
        "timed_out",
        "out_of_memory",
        "failed_to_spawn",
        "bad_output",
        "setting_mismatch",
        "interrupted",
        "unsupported",
        "not_profiled",
    ];

    fn names_where(holds: fn(&Policy) -> bool) -> Vec<&'static str> {
        Outcome::POLICIES.iter().filter(|policy| holds(policy)).map(|policy| policy.name).collect()
    }

    #[test]
    fn every_outcome_has_the_name_and_the_policy_that_was_promised() {
        assert_eq!(names_where(|_| true), PROMISED);
        assert_eq!(PROMISED.iter().collect::<BTreeSet<_>>().len(), PROMISED.len(), "a name stands twice");
        assert_eq!(names_where(|policy| policy.leaves == State::Done), ["succeeded"]);
        assert_eq!(names_where(|policy| policy.leaves == State::Waiting), ["interrupted"]);
        assert_eq!(names_where(|policy| policy.leaves == State::NotHere), ["unsupported"]);
        assert_eq!(names_where(|policy| policy.retry), ["exited", "signalled", "timed_out", "bad_output"]);
        let silent = ["failed_to_spawn", "interrupted", "unsupported", "not_profiled"];
        assert_eq!(names_where(|policy| !policy.verdict), silent);
        assert_eq!(names_where(|policy| policy.prunes), ["out_of_memory"]);
        assert_eq!(names_where(|policy| !policy.started), ["failed_to_spawn"]);
        assert_eq!(names_where(|policy| policy.by_profiler), ["exited", "failed_to_spawn", "bad_output"]);
    }

    #[test]
    fn what_is_retried_is_a_failure_and_what_is_done_is_a_verdict() {
        for policy in Outcome::POLICIES {
            assert!(!policy.retry || (policy.leaves == State::Failed && policy.verdict), "{policy:?}");
            assert!(policy.leaves != State::Done || policy.verdict, "{policy:?}");
            assert!(!policy.prunes || !policy.retry, "{policy:?}");
            assert!(policy.meaning.ends_with('.') && policy.meaning.len() > 20, "{policy:?}");
            assert!(!policy.advice.is_empty(), "{policy:?}");
        }
    }

    #[test]
    fn the_manual_has_a_row_for_every_outcome() {
        let manual = Outcome::markdown();
        assert_eq!(manual.lines().count(), 2 + Outcome::POLICIES.len());
        for policy in Outcome::POLICIES {
            let start = format!("| `{}` | {} |", policy.name, policy.meaning);
            assert!(manual.lines().any(|line| line.starts_with(&start)), "{start}\n{manual}");
        }
    }
}
