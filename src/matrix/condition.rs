//! The spelling of conditions: `64`, `[16, 32]`, `">= 64"`, `"!= vgg16"` in a matrix, `batch>=32` on a command line.

use super::{Comparison, Condition, SelectorField};
use crate::job::{Finite, ParamValue};

/// The operator between a field and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=` or `==`: any of the values.
    Equal,
    /// `!=`: none of the values.
    NotEqual,
    /// `<`, `<=`, `>` or `>=`: a number in this relation to the only value.
    Compare(Comparison),
}

/// The spellings of the operators. Longer ones precede their prefixes.
const OPERATORS: [(&str, Operator); 7] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::Compare(Comparison::AtMost)),
    (">=", Operator::Compare(Comparison::AtLeast)),
    ("=", Operator::Equal),
    ("<", Operator::Compare(Comparison::Less)),
    (">", Operator::Compare(Comparison::Greater)),
];

impl Operator {
    /// The operator at the beginning of `text`, and the rest.
    pub fn strip(text: &str) -> Option<(Operator, &str)> {
        let text = text.trim_start();
        OPERATORS.iter().find_map(|(sign, operator)| Some((*operator, text.strip_prefix(sign)?.trim())))
    }

    /// The text before the first operator in `text`, the operator, and the text after it.
    pub fn split(text: &str) -> Option<(&str, Operator, &str)> {
        let at = text.find(['=', '!', '<', '>'])?;
        let (operator, rest) = Operator::strip(&text[at..])?;
        Some((text[..at].trim(), operator, rest))
    }
}

impl Condition {
    /// The condition with `operator` and `values`; `None` without a value, or if a comparison lacks its single number.
    pub fn new(operator: Operator, values: Vec<ParamValue>) -> Option<Condition> {
        match (operator, values.as_slice()) {
            (_, []) => None,
            (Operator::Equal, _) => Some(Condition::AnyOf(values)),
            (Operator::NotEqual, _) => Some(Condition::NoneOf(values)),
            // Bounds are small numbers, so the conversion is exact.
            (Operator::Compare(comparison), [ParamValue::Int(bound)]) => {
                Some(Condition::Number(comparison, *bound as f64))
            }
            (Operator::Compare(comparison), [ParamValue::Float(bound)]) => {
                Some(Condition::Number(comparison, bound.get()))
            }
            (Operator::Compare(_), _) => None,
        }
    }

    /// The values of the condition; none for a comparison.
    pub fn values(&self) -> &[ParamValue] {
        match self {
            Condition::AnyOf(values) | Condition::NoneOf(values) => values,
            Condition::Number(..) => &[],
        }
    }
}

/// The values of a comma-separated list, each read as in YAML. Empty ones are left out.
pub fn comma_separated(text: &str) -> Vec<ParamValue> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(scalar).collect()
}

fn scalar(word: &str) -> ParamValue {
    match word {
        "true" => return ParamValue::Bool(true),
        "false" => return ParamValue::Bool(false),
        _ => {}
    }
    if let Ok(number) = word.parse() {
        return ParamValue::Int(number);
    }
    let number = word.parse().ok().and_then(Finite::new);
    number.map_or_else(|| ParamValue::Text(word.to_owned()), ParamValue::Float)
}

impl SelectorField {
    /// The fields that are not parameters.
    pub const NAMES: [&str; 5] = ["env", "model", "batch", "precision", "repeat"];

    /// The field called `name`; a parameter if it is not in [`SelectorField::NAMES`].
    pub fn named(name: &str) -> SelectorField {
        match name {
            "env" => SelectorField::Env,
            "model" => SelectorField::Model,
            "batch" => SelectorField::Batch,
            "precision" => SelectorField::Precision,
            "repeat" => SelectorField::Repeat,
            _ => SelectorField::Param(name.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators() {
        let at_least = Operator::Compare(Comparison::AtLeast);
        assert_eq!(Operator::split("batch>=32"), Some(("batch", at_least, "32")));
        assert_eq!(Operator::split(" batch >= 32 "), Some(("batch", at_least, "32")));
        assert_eq!(Operator::split("model=a"), Some(("model", Operator::Equal, "a")));
        assert_eq!(Operator::split("model==a"), Some(("model", Operator::Equal, "a")));
        assert_eq!(Operator::split("model!=a,b"), Some(("model", Operator::NotEqual, "a,b")));
        assert_eq!(Operator::split("batch<8"), Some(("batch", Operator::Compare(Comparison::Less), "8")));
        assert_eq!(Operator::split("batch!8"), None);
        assert_eq!(Operator::split("batch 8"), None);
        assert_eq!(Operator::strip("é>= 3"), None);
        assert_eq!(Operator::strip("<= 3"), Some((Operator::Compare(Comparison::AtMost), "3")));
    }

    #[test]
    fn values() {
        assert_eq!(
            comma_separated("true, 4,2.5, x y,,nan"),
            [
                ParamValue::Bool(true),
                ParamValue::Int(4),
                ParamValue::Float(Finite::new(2.5).unwrap()),
                ParamValue::Text("x y".into()),
                ParamValue::Text("nan".into()),
            ]
        );
        let at_least = Operator::Compare(Comparison::AtLeast);
        assert_eq!(
            Condition::new(at_least, comma_separated("32")),
            Some(Condition::Number(Comparison::AtLeast, 32.0))
        );
        for wrong in ["", "x", "1,2", "true"] {
            assert_eq!(Condition::new(at_least, comma_separated(wrong)), None, "{wrong}");
        }
    }
}
