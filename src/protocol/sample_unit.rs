//! The name of a worker's samples, which is the unit of its throughput.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::Key;

/// The most characters of a unit: more would not fit above a column.
pub(super) const LONGEST_UNIT: usize = 24;

/// The name of the samples: `images`, `sequences`, `tokens`. It is the unit of the throughput: `images/s`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SampleUnit(Cow<'static, str>);

/// A word is not a unit.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is not a unit: expected a word of 1 to {LONGEST_UNIT} ASCII letters, digits, `_` and `-`, such as `tokens`"
)]
pub struct BadUnit(String);

impl SampleUnit {
    /// The samples of the shipped worker.
    pub const IMAGES: SampleUnit = SampleUnit(Cow::Borrowed("images"));
    /// Samples without a declared name.
    pub const SAMPLES: SampleUnit = SampleUnit(Cow::Borrowed("samples"));

    /// The unit of a job whose worker does not report one: `images` if it is the shipped worker.
    pub fn default_for(key: &Key) -> SampleUnit {
        if key.worker.is_shipped() { SampleUnit::IMAGES } else { SampleUnit::SAMPLES }
    }

    /// The unit of all of `units`; [`SampleUnit::SAMPLES`] if they differ or there are none.
    pub fn common(units: impl IntoIterator<Item = SampleUnit>) -> SampleUnit {
        let mut units = units.into_iter();
        let Some(first) = units.next() else { return SampleUnit::SAMPLES };
        if units.all(|unit| unit == first) { first } else { SampleUnit::SAMPLES }
    }
}

impl fmt::Display for SampleUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SampleUnit> for String {
    fn from(unit: SampleUnit) -> String {
        unit.0.into_owned()
    }
}

impl TryFrom<String> for SampleUnit {
    type Error = BadUnit;

    fn try_from(word: String) -> Result<Self, BadUnit> {
        let fits = (1..=LONGEST_UNIT).contains(&word.chars().count());
        if fits && word.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-')) {
            Ok(SampleUnit(Cow::Owned(word)))
        } else {
            Err(BadUnit(word))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(word: &str) -> SampleUnit {
        SampleUnit::try_from(word.to_owned()).expect("a unit")
    }

    #[test]
    fn a_unit_is_one_short_word() {
        for word in ["tokens", "micro-batches", "Steps_2", &"x".repeat(LONGEST_UNIT)] {
            assert_eq!(unit(word).to_string(), word);
        }
        for word in ["", "tokens/s", "two words", "=1", "a|b", "µs", &"x".repeat(LONGEST_UNIT + 1)] {
            let error = SampleUnit::try_from(word.to_owned()).expect_err(word).to_string();
            assert!(
                error.starts_with(&format!("`{word}` is not a unit: expected a word of 1 to 24 ")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_common_unit_of_different_units_is_samples() {
        assert_eq!(SampleUnit::common([unit("tokens"), unit("tokens")]), unit("tokens"));
        assert_eq!(SampleUnit::common([unit("tokens"), SampleUnit::IMAGES]), SampleUnit::SAMPLES);
        assert_eq!(SampleUnit::common([]), SampleUnit::SAMPLES);
    }
}
