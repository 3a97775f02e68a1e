//! `thresholds`: values of the thresholds of marks and findings that differ from the defaults.

use super::note::Notes;
use super::reader::{entries, mismatch, unknown_key};
use super::tree::{Node, Value};
use crate::threshold::{Threshold, Thresholds};

/// Reads the thresholds that a matrix changes.
pub(super) fn read_thresholds(node: &Node, notes: &mut Notes) -> Thresholds {
    let mut thresholds = Thresholds::default();
    for (key, node) in entries(node, "thresholds such as `{ high_variation: 0.1 }`", notes) {
        let Some(threshold) = Threshold::named(&key.value) else {
            let known = Threshold::all().map(Threshold::name);
            unknown_key(key.span, &key.value, "a threshold", known, notes);
            continue;
        };
        if let Some(value) = value(threshold, node, notes) {
            thresholds = thresholds.with(threshold, value);
        }
    }
    thresholds
}

/// A number within the range of the threshold's unit.
fn value(threshold: Threshold, node: &Node, notes: &mut Notes) -> Option<f64> {
    let range = threshold.facts().unit.range();
    let number = match node.value {
        Value::Float(number) => Some(number.get()),
        // Whole numbers that a float cannot represent are outside every range as well.
        Value::Int(number) => Some(number as f64),
        Value::Null | Value::Bool(_) | Value::Unkept(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
            None
        }
    };
    let number = number.filter(|number| range.contains(number));
    if number.is_none() {
        let (low, high) = (threshold.text(*range.start()), threshold.text(*range.end()));
        let expected = format!("a number from {} to {} ({low} to {high})", range.start(), range.end());
        mismatch(node, &expected, notes);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Matrix, Note, check};

    fn matrix(thresholds: &str) -> Result<Matrix, Vec<Note>> {
        check(&format!(
            "name: t\nmodels: [resnet18]\nbatches: [4]\nthresholds: {thresholds}\nenvs: {{ cpu: {{ device: cpu }} }}\n"
        ))
    }

    fn mistake(thresholds: &str) -> String {
        let notes = matrix(thresholds).unwrap_err();
        assert_eq!(notes.len(), 1, "{notes:?}");
        format!("{:?}", notes[0])
    }

    #[test]
    fn a_matrix_changes_the_thresholds_that_it_names() {
        let read = |thresholds| matrix(thresholds).unwrap().thresholds;
        assert_eq!(read("{}"), Thresholds::default());
        assert_eq!(read(""), Thresholds::default());
        let expected =
            Thresholds::default().with(Threshold::HighVariation, 0.1).with(Threshold::SwappedMib, 64.0);
        assert_eq!(read("{ high_variation: 0.10, swapped_mib: 64 }"), expected);
    }

    #[test]
    fn every_threshold_can_be_changed_within_the_range_of_its_unit() {
        for threshold in Threshold::all() {
            let range = threshold.facts().unit.range();
            for (value, is_right) in [
                (*range.start(), true),
                (*range.end(), true),
                (range.start() - 0.1, false),
                (range.end() + 0.1, false),
            ] {
                let name = threshold.name();
                let read = matrix(&format!("{{ {name}: {value} }}"));
                assert_eq!(read.is_ok(), is_right, "{name}: {value}");
                assert!(read.is_err() || read.unwrap().thresholds.of(threshold) == value, "{name}: {value}");
            }
        }
    }

    #[test]
    fn mistakes_suggest_corrections() {
        assert!(mistake("{ high-variation: 0.1 }").contains("did you mean `high_variation`"));
        assert!(mistake("{ high_variation: 10 }").contains("a number from 0 to 1 (0 % to 100 %)"));
        assert!(mistake("{ high_variation: 10 % }").contains("a number from 0 to 1"));
        assert!(mistake("5").contains("thresholds such as"));
    }
}
