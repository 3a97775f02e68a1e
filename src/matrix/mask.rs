//! Keeps the values of secret variables out of messages about a matrix file: [`Mask`].

use std::collections::BTreeSet;

use crate::record::looks_secret;

/// Replaces hidden text.
pub(super) const HIDDEN: &str = "…";

/// The keys of an env that list names. They look like names of secrets themselves.
pub(super) const LISTS: [&str; 2] = ["secret", "not_secret"];

/// The key of an env that lists inherited variables. Anywhere else, the word would be the name of a secret.
pub(super) const PASS: &str = "pass";

/// The shortest value that is searched for inside a text. Shorter ones occur by chance.
const LEAST_BYTES: usize = 4;

/// The texts to hide: the values of some variables, and any text after the name of a secret.
#[derive(Clone, Debug, Default)]
pub(super) struct Mask {
    /// The secrets that are not recognisable by their names.
    names: BTreeSet<String>,
    /// The values, the longest first, so that replacing a part does not leave the rest.
    values: Vec<String>,
}

impl Mask {
    /// Hides the `values` of variables, and the text after one of `names` or after a name that looks like that of a
    /// secret.
    pub(super) fn new(names: BTreeSet<String>, values: BTreeSet<String>) -> Mask {
        let mut values = Vec::from_iter(values);
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Mask { names, values }
    }

    /// Whether the value of a variable or a key called `name` is secret.
    pub(super) fn is_secret(&self, name: &str) -> bool {
        (looks_secret(name) && !LISTS.contains(&name)) || self.names.contains(name)
    }

    /// Whether `word` is the name of a variable, and not a word of prose.
    fn is_variable(&self, word: &str) -> bool {
        self.names.contains(word) || is_like_a_variable(word)
    }

    /// A word of the file, for a message.
    pub(super) fn word(&self, word: &str) -> String {
        if self.values.iter().any(|value| value == word) {
            return HIDDEN.to_owned();
        }
        let shown = match self.first_value(word) {
            Some(start) => format!("{}{HIDDEN}", &word[..start]),
            None => word.to_owned(),
        };
        self.text(&shown)
    }

    /// A message, which can quote words of the file.
    pub(super) fn text(&self, text: &str) -> String {
        let values = self.values.iter().filter(|value| value.len() >= LEAST_BYTES);
        values.fold(text.to_owned(), |text, value| text.replace(value.as_str(), HIDDEN))
    }

    /// The byte in `line` from which on the line is hidden; `None` if all of it can be shown.
    pub(super) fn cut(&self, line: &str) -> Option<usize> {
        let pieces = self.values.iter().flat_map(|value| value.split(char::is_whitespace));
        let found =
            pieces.filter(|piece| piece.len() >= LEAST_BYTES).filter_map(|piece| line.find(piece)).min();
        found.into_iter().chain(self.first_value(line)).min()
    }

    /// The byte at which the first possible value of a secret begins. It follows the secret's name and `:`, `=` or a
    /// space. The name can be in quotes. A name in a list is followed by a comma or a bracket.
    fn first_value(&self, text: &str) -> Option<usize> {
        let mut at = 0;
        while let Some(start) = text[at..].find(is_part_of_a_name).map(|found| at + found) {
            let end = text[start..]
                .find(|letter| !is_part_of_a_name(letter))
                .map_or(text.len(), |found| start + found);
            if self.is_secret(&text[start..end])
                && !begins_list(&text[start..end], &text[end..])
                && let Some(value) = value_after(self.is_variable(&text[start..end]), &text[end..])
            {
                return Some(end + value);
            }
            at = end;
        }
        None
    }
}

/// Whether `word` is the key [`PASS`] with a list of names after it, at the beginning of `rest` or in the next lines.
pub(super) fn begins_list(word: &str, rest: &str) -> bool {
    let list = rest.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':').map(str::trim_start);
    word == PASS
        && list.is_some_and(|list| list.is_empty() || list.starts_with('[') || list.starts_with("- "))
}

/// Whether a variable's name can contain `letter`.
pub(super) fn is_part_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Whether `word` is spelled like a variable, unlike a word of prose such as "key" in a comment.
pub(super) fn is_like_a_variable(word: &str) -> bool {
    word.contains('_') || !word.contains(|letter: char| letter.is_ascii_lowercase())
}

/// The byte at which the value begins in `rest`, the text after a word. `is_variable`: the word is certainly a variable
/// and not a word of prose.
fn value_after(is_variable: bool, rest: &str) -> Option<usize> {
    let after = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
    let spaced = after.trim_start();
    let value = match spaced.strip_prefix([':', '=']) {
        Some(value) => value.trim_start(),
        // The colon may be missing by mistake.
        None if spaced.len() < after.len() && is_variable && !spaced.starts_with([',', ']', '}']) => spaced,
        None => return None,
    };
    (!value.is_empty()).then(|| rest.len() - value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(names: &[&str], values: &[&str]) -> Mask {
        let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Mask::new(set(names), set(values))
    }

    #[test]
    fn text_after_the_name_of_a_secret_is_hidden() {
        let mask = mask(&["PLAIN"], &[]);
        for (word, shown) in [
            ("HF_TOKEN: hush", "HF_TOKEN: …"),
            ("export PLAIN=hush", "export PLAIN=…"),
            ("\"HF_TOKEN\" : hush", "\"HF_TOKEN\" : …"),
            ("a, HF_TOKEN hush", "a, HF_TOKEN …"),
            ("[HF_TOKEN, PLAIN]", "[HF_TOKEN, PLAIN]"),
            ("secret: [HF_TOKEN]", "secret: [HF_TOKEN]"),
            ("HF_TOKEN …", "HF_TOKEN …"),
            ("HF_TOKEN:", "HF_TOKEN:"),
            ("MAX_TOKENS: 3", "MAX_TOKENS: 3"),
            ("PLAINER: é", "PLAINER: é"),
        ] {
            assert_eq!(mask.word(word), shown);
        }
    }

    #[test]
    fn values_are_hidden_wherever_they_are_quoted() {
        let mask = mask(&[], &["ab", "hush hush", "hush"]);
        assert_eq!(mask.word("ab"), HIDDEN);
        assert_eq!(mask.word("hush hush!"), "…!");
        assert_eq!(mask.text("write `[hush]`, not ab"), "write `[…]`, not ab");
        assert_eq!(mask.cut("é: hush"), Some(4));
        assert_eq!(mask.cut("about ab"), None);
    }
}
