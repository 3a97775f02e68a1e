//! The constants of an optimizer, parsed from the phrase that a worker reports.

use std::collections::BTreeMap;

/// The names of constants in a phrase.
const NAMES: [&str; 5] = ["learning rate", "momentum", "weight decay", "betas", "epsilon"];

/// The constants in `phrase` by name, in one notation. `fused SGD, learning rate 0.01, momentum 0.9` has `fused
/// optimizer` yes, `learning rate` 0.01 and `momentum` 0.9. A constant without a name in it is unknown.
pub(super) fn constants(phrase: &str) -> impl Iterator<Item = (String, String)> {
    let is_fused = match phrase {
        _ if phrase.split(", ").any(|part| part == "not fused") => Some("no"),
        _ if phrase.split([' ', ',']).any(|word| word == "fused") => Some("yes"),
        _ => None,
    };
    let constant = |part: &str| {
        let name = NAMES.into_iter().find(|name| part.starts_with(name))?;
        let value = part[name.len()..].strip_prefix(' ')?;
        Some((name.to_owned(), value.split(' ').map(notation).collect::<Vec<_>>().join(" ")))
    };
    let found: BTreeMap<String, String> = phrase.split(", ").filter_map(constant).collect();
    // The rest is a name or a sentence, which does not declare fusion.
    let fused =
        is_fused.filter(|_| !found.is_empty()).map(|word| ("fused optimizer".to_owned(), word.to_owned()));
    found.into_iter().chain(fused)
}

/// A number in our notation: `0.0001` for `1e-04`. Other words stay.
fn notation(word: &str) -> String {
    word.parse::<f64>().map_or_else(|_| word.to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(phrase: &str) -> Vec<(String, String)> {
        constants(phrase).collect()
    }

    #[test]
    fn phrases_of_a_script_and_of_the_shipped_worker_have_equal_constants() {
        let shipped =
            "fused AdamW, learning rate 0.001, betas 0.9 and 0.999, epsilon 1e-8, weight decay 0.01";
        let python =
            "AdamW, learning rate 1e-03, weight decay 0.01, betas 0.9 and 0.999, epsilon 1e-08, fused";
        assert_eq!(of(shipped), of(python));
        assert_eq!(of(shipped).len(), 5);
    }

    #[test]
    fn unnamed_constants_are_unknown() {
        let rate = ("learning rate".to_owned(), "0.1".to_owned());
        assert_eq!(of("SGD, learning rate 0.1"), std::slice::from_ref(&rate));
        assert_eq!(of("SGD, learning rate 0.1, not fused"), [rate, ("fused optimizer".into(), "no".into())]);
        assert_eq!(of("my own optimizer, which is fused with the loss"), []);
        assert_eq!(of(""), []);
    }
}
