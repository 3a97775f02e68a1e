//! A [`Comparison`] of a value that was found with the expected one. Its constructors decide whether it passes.

use std::fmt;

use serde::Serialize;

/// A value that was found, the expected one, and whether they agree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Comparison {
    /// The name of the value, with its unit if it has one.
    pub(super) what: String,
    /// The value that was found. A number that is infinite or not a number is `null`.
    pub(super) found: Value,
    /// What it should be.
    #[serde(flatten)]
    pub(super) should: Should,
    /// Whether `found` is as it should be.
    pub(super) holds: bool,
}

/// A number, a word, or yes or no.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
    /// Yes or no.
    Switch(bool),
}

/// What something should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Should {
    /// This, exactly.
    Be {
        /// What it should be.
        expected: Value,
    },
    /// This, or at most so far from it.
    BeNear {
        /// The number that it should be.
        expected: f64,
        /// The allowed distance from it, in the same unit.
        within: f64,
    },
    /// This or more.
    ReachAtLeast {
        /// The lower bound, in the same unit.
        at_least: f64,
    },
    /// This or less.
    StayAtMost {
        /// The upper bound, in the same unit.
        at_most: f64,
    },
}

impl Comparison {
    /// `found` should be `expected`.
    pub(super) fn equal(what: &str, found: impl Into<Value>, expected: impl Into<Value>) -> Self {
        Comparison::new(what, found.into(), Should::Be { expected: expected.into() })
    }

    /// `found` should be `expected`, or at most `within` from it.
    pub(super) fn near(what: &str, found: f64, expected: f64, within: f64) -> Self {
        Comparison::new(what, Value::Number(found), Should::BeNear { expected, within })
    }

    /// `found` should be `at_least` or more.
    pub(super) fn at_least(what: &str, found: f64, at_least: f64) -> Self {
        Comparison::new(what, Value::Number(found), Should::ReachAtLeast { at_least })
    }

    /// `found` should be `at_most` or less.
    pub(super) fn at_most(what: &str, found: f64, at_most: f64) -> Self {
        Comparison::new(what, Value::Number(found), Should::StayAtMost { at_most })
    }

    /// A sentence for users: `loss is 2.5, not within 1.0e-2 of 2`.
    pub(super) fn text(&self) -> String {
        let Comparison { what, found, should, .. } = self;
        format!("{what} is {found}, {should}")
    }

    fn new(what: &str, found: Value, should: Should) -> Self {
        let holds = should.is_met_by(&found);
        Comparison { what: what.to_owned(), found, should, holds }
    }
}

impl Should {
    /// Whether `found` satisfies this. NaN never does.
    fn is_met_by(&self, found: &Value) -> bool {
        let number = |of: &dyn Fn(f64) -> bool| matches!(found, Value::Number(found) if of(*found));
        match self {
            Should::Be { expected } => found == expected,
            Should::BeNear { expected, within } => number(&|found| (found - expected).abs() <= *within),
            Should::ReachAtLeast { at_least } => number(&|found| found >= *at_least),
            Should::StayAtMost { at_most } => number(&|found| found <= *at_most),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Word(word) => write!(f, "`{word}`"),
            Value::Switch(switch) => switch.fmt(f),
        }
    }
}

impl fmt::Display for Should {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Should::Be { expected } => write!(f, "not {expected}"),
            Should::BeNear { expected, within } => write!(f, "not within {within:.1e} of {expected}"),
            Should::ReachAtLeast { at_least } => write!(f, "below {at_least}"),
            Should::StayAtMost { at_most } => write!(f, "above {at_most}"),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl From<&str> for Value {
    fn from(word: &str) -> Self {
        Value::Word(word.to_owned())
    }
}

impl From<bool> for Value {
    fn from(switch: bool) -> Self {
        Value::Switch(switch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_passes_up_to_and_including_its_bound() {
        let up = |number: f64| f64::from_bits(number.to_bits() + 1);
        let down = |number: f64| f64::from_bits(number.to_bits() - 1);
        for (comparison, holds) in [
            (Comparison::equal("a", 1.0, 1.0), true),
            (Comparison::equal("a", up(1.0), 1.0), false),
            (Comparison::equal("a", "tf32", "tf32"), true),
            (Comparison::equal("a", "tf32", "fp32"), false),
            (Comparison::equal("a", true, false), false),
            (Comparison::equal("a", "1", 1.0), false),
            (Comparison::near("a", 2.5, 2.0, 0.5), true),
            (Comparison::near("a", 1.5, 2.0, 0.5), true),
            (Comparison::near("a", up(2.5), 2.0, 0.5), false),
            (Comparison::near("a", down(1.5), 2.0, 0.5), false),
            (Comparison::at_least("a", 2.0, 2.0), true),
            (Comparison::at_least("a", down(2.0), 2.0), false),
            (Comparison::at_most("a", 2.0, 2.0), true),
            (Comparison::at_most("a", up(2.0), 2.0), false),
        ] {
            assert_eq!(comparison.holds, holds, "{comparison:?}");
        }
    }

    #[test]
    fn failed_comparisons_are_described() {
        for (comparison, text) in [
            (Comparison::near("loss", 2.5, 2.0, 0.01), "loss is 2.5, not within 1.0e-2 of 2"),
            (Comparison::equal("clock", "host", "device_events"), "clock is `host`, not `device_events`"),
            (Comparison::equal("pinned", false, true), "pinned is false, not true"),
            (Comparison::at_least("bytes", 3.0, 4.0), "bytes is 3, below 4"),
            (Comparison::at_most("bytes", 5.0, 4.0), "bytes is 5, above 4"),
        ] {
            assert_eq!(comparison.text(), text);
        }
    }

    #[test]
    fn nan_fails_every_comparison() {
        for comparison in [
            Comparison::near("a", f64::NAN, f64::NAN, f64::INFINITY),
            Comparison::near("a", f64::INFINITY, 1.0, 1e300),
            Comparison::near("a", 1.0, 1.0, f64::NAN),
            Comparison::equal("a", f64::NAN, f64::NAN),
            Comparison::at_least("a", f64::NAN, 0.0),
            Comparison::at_most("a", f64::NAN, 0.0),
        ] {
            assert!(!comparison.holds, "{comparison:?}");
        }
    }

    #[test]
    fn json_has_the_found_and_the_expected_value() {
        let json = |comparison| serde_json::to_value(comparison).unwrap();
        assert_eq!(
            json(Comparison::near("loss", 2.25, 2.0, 0.5)),
            serde_json::json!({ "what": "loss", "found": 2.25, "expected": 2.0, "within": 0.5, "holds": true })
        );
        assert_eq!(
            json(Comparison::equal("clock", "host", "device_events")),
            serde_json::json!({ "what": "clock", "found": "host", "expected": "device_events", "holds": false })
        );
        assert_eq!(json(Comparison::at_least("seconds", f64::NAN, 0.0))["found"], serde_json::Value::Null);
    }
}
