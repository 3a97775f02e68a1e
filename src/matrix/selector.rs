//! Matches jobs against a [`Selector`], both for `exclude` in a matrix and for `--only` on the command line.

use super::{Comparison, Condition, Selector, SelectorField};
use crate::job::{Key, ParamValue};

impl Selector {
    /// Whether `key` meets all parts of the selector.
    pub fn matches(&self, key: &Key) -> bool {
        self.parts.iter().all(|(field, condition)| condition.is_met_by(field.value(key).as_ref()))
    }
}

impl SelectorField {
    /// The value of this field in `key`; `None` for a parameter that the worker chooses or that `key` does not have.
    pub fn value(&self, key: &Key) -> Option<ParamValue> {
        match self {
            SelectorField::Env => Some(ParamValue::Text(key.env.to_string())),
            SelectorField::Model => Some(ParamValue::Text(key.model.to_string())),
            SelectorField::Batch => Some(ParamValue::Int(key.batch.into())),
            SelectorField::Precision => Some(ParamValue::Text(key.precision.to_string())),
            SelectorField::Repeat => Some(ParamValue::Int(key.repeat.into())),
            SelectorField::Param(name) => key.param(name),
        }
    }
}

impl Condition {
    /// Whether a value meets the condition. A missing value meets only [`Condition::NoneOf`].
    fn is_met_by(&self, value: Option<&ParamValue>) -> bool {
        let is_one_of =
            |wanted: &[ParamValue]| value.is_some_and(|value| wanted.iter().any(|w| same(w, value)));
        match self {
            Condition::AnyOf(wanted) => is_one_of(wanted),
            Condition::NoneOf(unwanted) => !is_one_of(unwanted),
            Condition::Number(comparison, bound) => {
                value.and_then(ParamValue::number).is_some_and(|value| comparison.is_met_by(value, *bound))
            }
        }
    }
}

impl Comparison {
    /// Whether `value` has this relation to `bound`.
    fn is_met_by(self, value: f64, bound: f64) -> bool {
        match self {
            Comparison::Less => value < bound,
            Comparison::AtMost => value <= bound,
            Comparison::Greater => value > bound,
            Comparison::AtLeast => value >= bound,
        }
    }
}

/// Whether both are equal as numbers, otherwise as texts in a table: `data=synthetic` on a command line means `{
/// synthetic: true }`.
fn same(a: &ParamValue, b: &ParamValue) -> bool {
    // A float cannot represent every whole number.
    if let (ParamValue::Int(a), ParamValue::Int(b)) = (a, b) {
        return a == b;
    }
    match (a.number(), b.number()) {
        (Some(a), Some(b)) => a == b,
        _ => a.to_string() == b.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Finite;

    #[test]
    fn whole_numbers_are_compared_as_such() {
        let is_same = |a, b| same(&a, &b);
        let int = ParamValue::Int;
        assert!(is_same(int(9007199254740993), int(9007199254740993)));
        assert!(!is_same(int(9007199254740993), int(9007199254740992)), "as floats they are the same");
        assert!(is_same(int(1000), ParamValue::Float(Finite::new(1e3).unwrap())));
    }
}
