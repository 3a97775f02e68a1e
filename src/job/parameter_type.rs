//! The types of the parameters' values, and the defaults that are such values.

use super::{DataSource, Finite, ParamValue};

/// The type of a parameter's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterType {
    /// `true` or `false`.
    Bool,
    /// A whole number within `min ..= max`.
    Int {
        /// The smallest valid value.
        min: i64,
        /// The largest valid value.
        max: i64,
    },
    /// A number within `min ..= max`, with or without a fraction.
    Number {
        /// The smallest valid value.
        min: f64,
        /// The largest valid value.
        max: f64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A [`DataSource`].
    Data,
}

/// The default of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterDefault {
    /// A switch's default.
    Bool(bool),
    /// A whole number's default.
    Int(i64),
    /// A number's default.
    Number(f64),
    /// A word's default.
    Word(&'static str),
    /// Synthetic data.
    Synthetic,
    /// The worker chooses, and reports its choice.
    WorkerChooses,
}

impl ParameterType {
    /// The valid values, to complete "expected …".
    pub fn expected(self) -> String {
        match self {
            ParameterType::Bool => "`true` or `false`".to_owned(),
            ParameterType::Int { min, max: i64::MAX } => format!("a whole number of at least {min}"),
            ParameterType::Int { min, max } => format!("a whole number from {min} to {max}"),
            ParameterType::Number { min, max } => format!("a number from {min} to {max}"),
            ParameterType::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                words.join(" or ")
            }
            ParameterType::Data => "`{ synthetic: true }` or `{ folder: <path> }`".to_owned(),
        }
    }

    /// Whether the values are numbers, which conditions can compare with `<` and similar operators.
    pub fn is_number(self) -> bool {
        match self {
            ParameterType::Int { .. } | ParameterType::Number { .. } => true,
            ParameterType::Bool | ParameterType::Word(_) | ParameterType::Data => false,
        }
    }

    /// Whether `default` is one of the valid values. A switch must have a default, because its flag sets the opposite.
    pub(super) const fn has(self, default: ParameterDefault) -> bool {
        match (self, default) {
            (ParameterType::Bool, ParameterDefault::Bool(_)) => true,
            (ParameterType::Int { min, max }, ParameterDefault::Int(value)) => min <= value && value <= max,
            (ParameterType::Number { min, max }, ParameterDefault::Number(value)) => {
                min <= value && value <= max
            }
            // The table takes the default from the words.
            (ParameterType::Word(_), ParameterDefault::Word(_)) => true,
            (ParameterType::Data, ParameterDefault::Synthetic) => true,
            (
                ParameterType::Int { .. } | ParameterType::Number { .. } | ParameterType::Word(_),
                ParameterDefault::WorkerChooses,
            ) => true,
            (
                ParameterType::Bool
                | ParameterType::Int { .. }
                | ParameterType::Number { .. }
                | ParameterType::Word(_)
                | ParameterType::Data,
                ParameterDefault::Bool(_)
                | ParameterDefault::Int(_)
                | ParameterDefault::Number(_)
                | ParameterDefault::Word(_)
                | ParameterDefault::Synthetic
                | ParameterDefault::WorkerChooses,
            ) => false,
        }
    }

    /// `value` in the form for keys, or `value` itself if it is invalid.
    pub(super) fn accept(self, value: ParamValue) -> Result<ParamValue, ParamValue> {
        let fits = match self {
            ParameterType::Bool => matches!(value, ParamValue::Bool(_)),
            ParameterType::Int { min, max } => {
                matches!(value, ParamValue::Int(value) if (min..=max).contains(&value))
            }
            ParameterType::Number { min, max } => {
                let number = value.number().filter(|number| (min..=max).contains(number));
                return number.and_then(float).ok_or(value);
            }
            ParameterType::Word(words) => {
                matches!(&value, ParamValue::Text(word) if words.contains(&word.as_str()))
            }
            ParameterType::Data => matches!(value, ParamValue::Data(_)),
        };
        if fits { Ok(value) } else { Err(value) }
    }
}

impl ParameterDefault {
    /// The default as a value; `None` if the worker chooses.
    pub(super) fn value(self) -> Option<ParamValue> {
        match self {
            ParameterDefault::Bool(value) => Some(ParamValue::Bool(value)),
            ParameterDefault::Int(value) => Some(ParamValue::Int(value)),
            ParameterDefault::Number(value) => float(value),
            ParameterDefault::Word(word) => Some(ParamValue::Text(word.to_owned())),
            ParameterDefault::Synthetic => Some(ParamValue::Data(DataSource::Synthetic)),
            ParameterDefault::WorkerChooses => None,
        }
    }
}

/// `number` as a float. Adding zero turns -0 into 0, which is the same decay, rate or share.
fn float(number: f64) -> Option<ParamValue> {
    Finite::new(number + 0.0).map(ParamValue::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: ParameterType = ParameterType::Number { min: 0.0, max: 1.0 };

    fn fraction(number: f64) -> ParamValue {
        ParamValue::Float(Finite::new(number).unwrap())
    }

    /// The table's own defaults are checked when it is compiled.
    #[test]
    fn a_default_is_one_of_the_values() {
        let count = ParameterType::Int { min: 1, max: 3 };
        let counts = [0, 1, 3, 4].map(|value| count.has(ParameterDefault::Int(value)));
        assert_eq!(counts, [false, true, true, false]);
        let shares = [-0.1, 0.0, 1.0, 1.1].map(|value| SHARE.has(ParameterDefault::Number(value)));
        assert_eq!(shares, [false, true, true, false]);
        assert!(!ParameterType::Bool.has(ParameterDefault::WorkerChooses));
    }

    /// `0` and `0.0` in a matrix are the same value, so the same job.
    #[test]
    fn a_fraction_may_be_written_as_a_whole_number() {
        for (value, number) in [
            (ParamValue::Int(0), 0.0),
            (fraction(-0.0), 0.0),
            (ParamValue::Int(1), 1.0),
            (fraction(1e-4), 1e-4),
        ] {
            let accepted = SHARE.accept(value.clone());
            let Ok(ParamValue::Float(float)) = accepted else { panic!("{value:?}: {accepted:?}") };
            assert_eq!(float.get().to_bits(), f64::to_bits(number), "{value:?}");
        }
        for wrong in [
            ParamValue::Int(2),
            fraction(-1e-9),
            ParamValue::Bool(true),
            ParamValue::Text("0".into()),
            ParamValue::Data(DataSource::Synthetic),
        ] {
            assert!(SHARE.accept(wrong.clone()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn numbers_can_be_compared() {
        let types = [
            (ParameterType::Int { min: 0, max: 1 }, true),
            (SHARE, true),
            (ParameterType::Bool, false),
            (ParameterType::Word(&["a"]), false),
            (ParameterType::Data, false),
        ];
        for (kind, is_number) in types {
            assert_eq!(kind.is_number(), is_number, "{kind:?}");
        }
    }
}
