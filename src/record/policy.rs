//! One table of all outcomes: their names, meanings, and consequences.

use super::Outcome;
use crate::job::State;

/// The meaning of an outcome, and its consequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its name in `record.json` and in the CSV files.
    pub name: &'static str,
    /// Its meaning, as a sentence.
    pub meaning: &'static str,
    /// What a user can do about it, in a few words.
    pub advice: &'static str,
    /// The state of the job after it, unless an earlier success still counts.
    pub leaves: State,
    /// Whether another attempt in the same run is worthwhile. Too little memory, a missing device or a setting that the
    /// worker ignores would only fail again.
    pub retry: bool,
    /// Whether it supersedes an earlier success of the job. An attempt that was interrupted, did not start, is
    /// unsupported here or was not profiled is no evidence about the job itself.
    pub verdict: bool,
    /// Whether larger batches of the same config, and its other repeats, are skipped on this host.
    pub prunes: bool,
    /// Whether the worker was started.
    pub started: bool,
    /// Whether the environment can cause it, so that every job would fail in this way. The run ends if several configs
    /// in a row fail with the same message, numbers aside. Timeouts and lack of memory depend on the job instead.
    pub may_concern_all: bool,
    /// Whether a profiler that refuses to work can cause it.
    pub by_profiler: bool,
}

/// Assigns a policy to every outcome and lists them all. A missing outcome does not compile.
macro_rules! policies {
    ($($outcome:ident => $policy:expr;)+) => {
        impl Outcome {
            /// The policies of all outcomes.
            pub const POLICIES: &[Policy] = &[$($policy),+];

            /// Its policy.
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
        meaning: "The worker exited with 0 and left a valid measurement of what was requested.",
        advice: "–",
        leaves: State::Done, retry: false, verdict: true, prunes: false, started: true,
        may_concern_all: false, by_profiler: false,
    };
    Exited => Policy {
        name: "exited",
        meaning: "The worker exited with a code other than 0.",
        advice: "`orchestrate logs JOB` prints its output.",
        leaves: State::Failed, retry: true, verdict: true, prunes: false, started: true,
        may_concern_all: true, by_profiler: true,
    };
    Signalled => Policy {
        name: "signalled",
        meaning: "A signal that `orchestrate` did not send killed the worker.",
        advice: "`orchestrate logs JOB`; for SIGKILL, `dmesg`.",
        leaves: State::Failed, retry: true, verdict: true, prunes: false, started: true,
        may_concern_all: true, by_profiler: false,
    };
    TimedOut => Policy {
        name: "timed_out",
        meaning: "The worker was stopped at its time limit.",
        advice: "Raise `limits.timeout`, or lower `iters`.",
        leaves: State::Failed, retry: true, verdict: true, prunes: false, started: true,
        may_concern_all: false, by_profiler: false,
    };
    OutOfMemory => Policy {
        name: "out_of_memory",
        meaning: "The device or the host ran out of memory.",
        advice: "Use smaller batches, or `exclude` the larger ones.",
        leaves: State::Failed, retry: false, verdict: true, prunes: true, started: true,
        may_concern_all: false, by_profiler: false,
    };
    FailedToSpawn => Policy {
        name: "failed_to_spawn",
        meaning: "The worker could not be started.",
        advice: "Check the first word of the command.",
        leaves: State::Failed, retry: false, verdict: false, prunes: false, started: false,
        may_concern_all: true, by_profiler: true,
    };
    BadOutput => Policy {
        name: "bad_output",
        meaning: "The worker exited with 0, but its measurement is missing or unusable.",
        advice: "Write it to the path in `ORCHESTRATE_MEASUREMENT`, as [the contract](your-own-worker.md#the-contract) says.",
        leaves: State::Failed, retry: true, verdict: true, prunes: false, started: true,
        may_concern_all: true, by_profiler: true,
    };
    SettingMismatch => Policy {
        name: "setting_mismatch",
        meaning: "The worker ran with settings other than the requested ones.",
        advice: "Make the worker do what is declared, or declare what it does.",
        leaves: State::Failed, retry: false, verdict: true, prunes: false, started: true,
        may_concern_all: true, by_profiler: false,
    };
    Interrupted => Policy {
        name: "interrupted",
        meaning: "The user or the system stopped it.",
        advice: "`orchestrate resume`",
        leaves: State::Waiting, retry: false, verdict: false, prunes: false, started: true,
        may_concern_all: false, by_profiler: false,
    };
    Unsupported => Policy {
        name: "unsupported",
        meaning: "The device, precision or network does not exist here.",
        advice: "Run it on another machine.",
        leaves: State::NotHere, retry: false, verdict: false, prunes: false, started: true,
        may_concern_all: false, by_profiler: false,
    };
    NotProfiled => Policy {
        name: "not_profiled",
        meaning: "The profiler of a profiled job did not work, regardless of the worker.",
        advice: "Its reason names a remedy.",
        leaves: State::Failed, retry: false, verdict: false, prunes: false, started: true,
        may_concern_all: true, by_profiler: false,
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

    /// Records on disk rely on these names. Names can be added, but never changed.
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
    fn outcomes_have_the_promised_names_and_policies() {
        assert_eq!(names_where(|_| true), PROMISED);
        assert_eq!(PROMISED.iter().collect::<BTreeSet<_>>().len(), PROMISED.len(), "a name occurs twice");
        assert_eq!(names_where(|policy| policy.leaves == State::Done), ["succeeded"]);
        assert_eq!(names_where(|policy| policy.leaves == State::Waiting), ["interrupted"]);
        assert_eq!(names_where(|policy| policy.leaves == State::NotHere), ["unsupported"]);
        assert_eq!(names_where(|policy| policy.retry), ["exited", "signalled", "timed_out", "bad_output"]);
        let silent = ["failed_to_spawn", "interrupted", "unsupported", "not_profiled"];
        assert_eq!(names_where(|policy| !policy.verdict), silent);
        assert_eq!(names_where(|policy| policy.prunes), ["out_of_memory"]);
        assert_eq!(names_where(|policy| !policy.started), ["failed_to_spawn"]);
        let own = ["succeeded", "timed_out", "out_of_memory", "interrupted", "unsupported"];
        assert_eq!(names_where(|policy| !policy.may_concern_all), own);
        assert_eq!(names_where(|policy| policy.by_profiler), ["exited", "failed_to_spawn", "bad_output"]);
    }

    #[test]
    fn policies_are_consistent() {
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
