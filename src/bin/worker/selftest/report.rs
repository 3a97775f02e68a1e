//! The output of `worker selftest`: one JSON object. Its verdict and counts are computed from the checks here only.

use std::collections::BTreeMap;

use orchestrate::job::Device;
use serde::Serialize;

use super::comparison::Comparison;

/// The version of this form. A field can be added without a new one.
pub(super) const SCHEMA: u32 = 1;

/// The output of `worker selftest`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SelfTest {
    /// [`SCHEMA`].
    pub(super) schema: u32,
    /// The worker, its device, and what they run on.
    #[serde(flatten)]
    pub(super) machine: Machine,
    /// The time limit, in seconds. Checks that did not begin within it are listed as not run.
    pub(super) limit_s: u32,
    /// Seconds from the start of `main` to the last check's end.
    pub(super) elapsed_s: f64,
    /// The verdict of all checks.
    pub(super) verdict: Verdict,
    /// The number of checks per outcome.
    pub(super) counts: Counts,
    /// Every check, in the order in which they ran.
    pub(super) checks: Vec<Check>,
}

/// The worker, its device, and what they run on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Machine {
    /// The worker's version.
    pub(super) worker: String,
    /// The operating system and the processor's architecture: `linux aarch64`.
    pub(super) system: String,
    /// The major version of macOS; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) macos: Option<u32>,
    /// The device that was tested.
    pub(super) device: Device,
    /// Its model.
    pub(super) device_name: String,
    /// Its UUID, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device_uuid: Option<String>,
    /// Its compute capability, if it is a CUDA device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compute_capability: Option<String>,
    /// Bytes of its memory that were free at the start, if it is an accelerator that reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) free_memory_bytes: Option<u64>,
    /// Compute threads of the processor.
    pub(super) threads: u32,
    /// Versions of libraries by name. `nvidia_driver` is the driver.
    pub(super) versions: BTreeMap<String, String>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Check {
    /// Its name, which never changes.
    pub(super) name: String,
    /// What it shows if it passes.
    pub(super) shows: &'static str,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// Why it is unsupported, was not run, or failed without comparisons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The comparisons. The check passes if all of them do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) compared: Vec<Comparison>,
    /// How long it took, in seconds.
    pub(super) elapsed_s: f64,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It was run, and all comparisons passed.
    Passed,
    /// It was run, and a comparison failed, or it did not end as it should.
    Failed,
    /// This device does not have what the check tests.
    Unsupported,
    /// The time limit was reached, or it could not have shown anything.
    NotRun,
}

impl Outcome {
    /// Its word, as in the JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Unsupported => "unsupported",
            Outcome::NotRun => "not_run",
        }
    }
}

/// The result of all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Every check that this device supports was run and passed.
    Passed,
    /// A check failed.
    Failed,
    /// None failed, but some were not run.
    Incomplete,
}

impl Verdict {
    /// The exit code. Neither a worker's failures nor orchestrate's verbs use the last two for anything else.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Verdict::Passed => 0,
            Verdict::Failed => 70,
            Verdict::Incomplete => 75,
        }
    }
}

/// The number of checks per outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Checks that passed.
    pub(super) passed: usize,
    /// Checks that failed.
    pub(super) failed: usize,
    /// Checks of what this device does not have.
    pub(super) unsupported: usize,
    /// Checks that were not run.
    pub(super) not_run: usize,
}

impl Counts {
    /// Counts `checks`.
    pub(super) fn of(checks: &[Check]) -> Self {
        let count = |outcome| checks.iter().filter(|check| check.outcome == outcome).count();
        Counts {
            passed: count(Outcome::Passed),
            failed: count(Outcome::Failed),
            unsupported: count(Outcome::Unsupported),
            not_run: count(Outcome::NotRun),
        }
    }

    /// Their verdict. If no check passed, it is not [`Verdict::Passed`].
    pub(super) fn verdict(self) -> Verdict {
        match self {
            Counts { failed: 1.., .. } => Verdict::Failed,
            Counts { not_run: 1.., .. } | Counts { passed: 0, .. } => Verdict::Incomplete,
            _ => Verdict::Passed,
        }
    }
}

impl SelfTest {
    /// The report of `checks`, `elapsed_s` seconds after the start.
    pub(super) fn of(machine: Machine, limit_s: u32, elapsed_s: f64, checks: Vec<Check>) -> Self {
        let counts = Counts::of(&checks);
        SelfTest { schema: SCHEMA, machine, limit_s, elapsed_s, verdict: counts.verdict(), counts, checks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outcome: Outcome) -> Check {
        let (name, shows) = ("name".to_owned(), "it works");
        Check { name, shows, outcome, reason: None, compared: Vec::new(), elapsed_s: 0.5 }
    }

    #[test]
    fn the_verdict_follows_from_the_checks() {
        use Outcome::{Failed, NotRun, Passed, Unsupported};
        for (outcomes, verdict, code) in [
            (&[Passed, Unsupported][..], Verdict::Passed, 0),
            (&[Passed, NotRun], Verdict::Incomplete, 75),
            (&[Passed, NotRun, Failed], Verdict::Failed, 70),
            (&[Failed], Verdict::Failed, 70),
            (&[Unsupported], Verdict::Incomplete, 75),
            (&[], Verdict::Incomplete, 75),
        ] {
            let checks: Vec<Check> = outcomes.iter().copied().map(check).collect();
            let counts = Counts::of(&checks);
            assert_eq!((counts.verdict(), counts.verdict().exit_code()), (verdict, code), "{outcomes:?}");
            let Counts { passed, failed, unsupported, not_run } = counts;
            assert_eq!(passed + failed + unsupported + not_run, outcomes.len());
        }
    }

    #[test]
    fn an_outcome_is_called_the_same_everywhere() {
        for outcome in [Outcome::Passed, Outcome::Failed, Outcome::Unsupported, Outcome::NotRun] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }

    #[test]
    fn absent_values_are_left_out() {
        let json = serde_json::to_value(check(Outcome::Passed)).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["elapsed_s", "name", "outcome", "shows"]);
    }
}
