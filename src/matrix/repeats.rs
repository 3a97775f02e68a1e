//! `repeats`: how often a config runs, as a number or as a rule.

use super::RepeatRule;
use super::keys::{self, MAX_REPEATS, REPEATS, REPLACEMENTS, UNTIL};
use super::note::{Notes, Span};
use super::reader::{check_keys, count, get, mismatch};
use super::tree::{Entry, Node, Value};

/// The default repeats of a config: the fewest with which two configs can differ significantly.
const DEFAULT: u32 = 5;

/// The default of `min` with `until`: the fewest with an interval.
const DEFAULT_MIN: u32 = 3;

impl RepeatRule {
    /// A fixed number of repeats, regardless of their results.
    pub fn fixed(repeats: u32) -> Self {
        RepeatRule { min: repeats, max: repeats, until: None, replace_marked: 0 }
    }

    /// Whether the rule is only a number of repeats.
    pub fn is_fixed(&self) -> bool {
        self.until.is_none() && self.replace_marked == 0
    }
}

impl Default for RepeatRule {
    fn default() -> Self {
        RepeatRule::fixed(DEFAULT)
    }
}

/// Reads `repeats`.
pub(super) fn read_repeats(node: &Node, notes: &mut Notes) -> Option<RepeatRule> {
    match &node.value {
        Value::Int(_) => Some(RepeatRule::fixed(count(node, REPEATS, notes)?.value)),
        Value::Map(map) if !map.is_empty() => read_rule(node, map, notes),
        _ => {
            let (least, most) = (REPEATS.start(), REPEATS.end());
            let expected =
                format!("a whole number from {least} to {most}, or `{{ min: 3, max: 20, until: 2% }}`");
            mismatch(node, &expected, notes);
            None
        }
    }
}

fn read_rule(node: &Node, map: &[Entry], notes: &mut Notes) -> Option<RepeatRule> {
    let before = notes.count();
    check_keys(map, &[keys::REPEAT_RULE], "`repeats`", notes);
    let (until, max) = (get(map, "until"), get(map, "max"));
    for (is_missing, message) in [
        (until.is_some() && max.is_none(), "`max` is missing: `until` needs an end, such as `max: 20`"),
        (
            max.is_some() && until.is_none(),
            "`until` is missing: without it, no more than `min` repeats are run",
        ),
    ] {
        if is_missing {
            notes.add(Span { length: 1, ..node.span }, "repeats", message);
        }
    }
    let replace_marked = get(map, "replace_marked").and_then(|node| count(node, REPLACEMENTS, notes));
    let min = get(map, "min").and_then(|node| count(node, REPEATS, notes)).map(|min| min.value);
    let (until, most) = match until {
        Some(until) => (share(until, notes), max.and_then(|max| count(max, MAX_REPEATS, notes))),
        None => (None, None),
    };
    let min = min.unwrap_or(if until.is_some() { DEFAULT_MIN } else { DEFAULT });
    if let Some(most) = most.as_ref().filter(|most| most.value < min) {
        notes.add(most.span, &most.value.to_string(), format!("is less than `min`, which is {min}"));
    }
    let replace_marked = replace_marked.map_or(0, |number| number.value);
    let rule = RepeatRule { min, max: most.map_or(min, |most| most.value), until, replace_marked };
    (notes.count() == before).then_some(rule)
}

/// A share in percent, such as `2%`.
fn share(node: &Node, notes: &mut Notes) -> Option<f64> {
    let percent = match &node.value {
        Value::Text(text) => text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok()),
        _ => None,
    };
    let share = percent.filter(|percent| UNTIL.contains(percent)).map(|percent| percent / 100.0);
    if share.is_none() {
        let (least, most) = (UNTIL.start(), UNTIL.end());
        let hint = match node.value {
            Value::Int(number @ 1..=50) => Some(format!("did you mean `{number}%`?")),
            _ => None,
        };
        let message = format!("expected a share from {least}% to {most}%, such as `2%`");
        notes.add_with_hint(node.span, &node.value.word(), message, hint);
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Matrix, Note, check};

    fn matrix(repeats: &str, env: &str) -> Result<Matrix, Vec<Note>> {
        check(&format!(
            "name: t\nmodels: [resnet18]\nbatches: [4]\nrepeats: {repeats}\nenvs: {{ cpu: {{ device: cpu{env} }} }}\n\
             include: [{{ model: vgg16, batch: 4 }}, {{ model: vgg16, batch: 8, repeats: 2 }}]\n"
        ))
    }

    fn rules(repeats: &str, env: &str) -> Vec<RepeatRule> {
        matrix(repeats, env).unwrap().configs().map(|config| config.repeats).collect()
    }

    #[test]
    fn a_number_and_a_rule_are_read() {
        assert_eq!(rules("4", ""), [4, 4, 2].map(RepeatRule::fixed));
        let rule = RepeatRule { min: 3, max: 20, until: Some(0.02), replace_marked: 2 };
        let replacing = rules("{ min: 3, max: 20, until: 2%, replace_marked: 2 }", "");
        assert_eq!(replacing, [rule, rule, RepeatRule::fixed(2)]);
        let narrow = rules("{ max: 9, until: 0.5 % }", "")[0];
        assert_eq!(narrow, RepeatRule { min: 3, max: 9, until: Some(0.005), replace_marked: 0 });
        assert_eq!(rules("{ replace_marked: 1 }", "")[0].min, 5);
        assert_eq!(rules("{ min: 7 }", "")[0], RepeatRule::fixed(7));
    }

    #[test]
    fn an_env_replaces_the_whole_rule() {
        let rules = rules("{ min: 3, max: 20, until: 2% }", ", repeats: { min: 4, replace_marked: 1 }");
        assert_eq!(rules[0], RepeatRule { replace_marked: 1, ..RepeatRule::fixed(4) });
    }

    #[test]
    fn each_mistake_is_reported_once() {
        for (mistake, expected) in [
            ("{}", "a whole number from 1 to 1000, or"),
            ("[3]", "a whole number from 1 to 1000, or"),
            ("{ until: 2% }", "`max` is missing"),
            ("{ max: 20 }", "`until` is missing"),
            ("{ max: 7, until: 2% }", "from 8 to 1000"),
            ("{ min: 30, max: 20, until: 2% }", "is less than `min`, which is 30"),
            ("{ max: 20, until: 2 }", "did you mean `2%`?"),
            ("{ max: 20, until: 0.02 }", "a share from 0.1% to 50%"),
            ("{ max: 20, until: 60% }", "a share from 0.1% to 50%"),
            ("{ replace_marked: 11 }", "from 0 to 10"),
            ("{ mim: 3 }", "did you mean `min`?"),
        ] {
            let notes = matrix(mistake, "").unwrap_err();
            assert_eq!(notes.len(), 1, "{mistake}: {notes:?}");
            let note = format!("{:?}", notes[0]);
            assert!(note.contains(expected), "{mistake}: {note}");
        }
    }
}
